package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/agent/llm"
	"parley/agent/stt"
	"parley/agent/tts"
	"parley/agent/turn"
)

// validate asks every room what it thinks of its section.
func (l *loader) validate() {
	c := l.config
	if c.Server.DrainTimeout < 0 {
		l.wrong("server.drain_timeout", fmt.Sprintf("%v, must not be negative", c.Server.DrainTimeout))
	}
	signalling, err := c.SIPConfig()
	l.room("sip", err)
	if err == nil {
		l.room("sip", signalling.Validate())
	}
	l.validateAuth()
	l.validateTrunks()
	l.validateTransfer()
	media, err := c.RTPConfig()
	l.room("rtp", err)
	if err == nil {
		l.room("rtp", media.Validate())
		if pairs := (int(media.PortMax) - int(media.PortMin) + 1) / 2; media.PortMax != 0 && pairs < c.Call.MaxCalls {
			l.warn("rtp.ports", fmt.Sprintf("%q hold %d calls, call.max_calls is %d: calls beyond are refused", c.RTP.Ports, pairs, c.Call.MaxCalls))
		}
	}
	l.room("call", c.Call.Validate())
	l.room("opus", c.Opus.Validate())
	l.room("identity", c.Identity.Validate())
	l.room("identity.token", c.TokenConfig().Validate())
	if c.SignerConfig().Enabled() {
		l.room("identity.sign", c.SignerConfig().Validate())
	}
	l.room("vad", c.VAD.Validate())
	l.room("recording", c.Recording.Validate())
	l.validateAPI()
	l.validateSessions()
	l.validateServers()
	l.codecs("call.codecs", c.Call.Codecs, Codecs)
	l.choice("vad.kind", c.VAD.Kind, Detectors)
	l.choice("log.format", c.Log.Format, Formats)
	l.choice("log.level", c.Log.Level, Levels)
	if c.Call.InitialMediaTimeout > 0 && c.Call.MaxDuration > 0 && c.Call.MaxDuration < c.Call.InitialMediaTimeout {
		l.wrong("call.max_duration", "is shorter than initial_media_timeout, which then never ends a call")
	}
	l.validateAgent("", &c.Assistant)
	for _, name := range c.AgentNames()[1:] {
		l.validateAgent("agents."+name+".", c.Agents[name])
	}
	l.validateRoutes()
}

// validateAgent asks the rooms about the sections of one agent.
func (l *loader) validateAgent(prefix string, a *Assistant) {
	l.room(prefix+"turn", a.Turn.Validate())
	l.validateSpeech(prefix, a)
	l.room(prefix+"echo", a.Echo.Validate())
	l.validateTools(prefix, a)
	l.validateModel(prefix, a)
	l.validateRetrieval(prefix, a)
	if a.LLM.Provider == "agent" {
		l.room(prefix+"agent", a.AgentConfig().Validate())
	} else if a.Agent.FirstTokenTimeoutMS < 1 { // it bounds the others too
		l.wrong(prefix+"agent.first_token_timeout_ms", fmt.Sprintf("%d, must be at least 1", a.Agent.FirstTokenTimeoutMS))
	}
	l.choice(prefix+"llm.provider", a.LLM.Provider, Models)
	l.room(prefix+"conversation", a.checkConversation())
	if end, last := l.config.Call.EndTimeout, a.Conversation.CloseTimeout; last >= end && end > 0 {
		l.warn(prefix+"conversation.close_timeout", fmt.Sprintf("%v, and call.end_timeout is %v: what a model does at the end of a call is cut short", last, end))
	}
	if last, all := a.Runtime.MemorySummaryTime, a.Conversation.CloseTimeout; a.thinks() && a.Runtime.MemorySummary && last > all {
		l.warn(prefix+"runtime.memory_summary_time", fmt.Sprintf("%v, and conversation.close_timeout is %v: the summary is cut short", last, all))
	}
}

// codecs checks names of codecs against those there are.
func (l *loader) codecs(path string, names, known []string) {
	for i, name := range names {
		l.choice(path, name, known)
		if slices.Index(names, name) < i {
			l.wrong(path, fmt.Sprintf("%q is named twice", name))
		}
	}
}

// warn notes what is allowed and probably not meant.
func (l *loader) warn(path, text string) {
	m := Mistake{Path: path, Text: text}
	if env := l.set[path]; env != "" {
		m.Env = env
	} else {
		m.File = l.file
		for above := path; m.Line == 0 && above != ""; above = above[:max(strings.LastIndexByte(above, '.'), 0)] {
			m.Line = l.lines[above]
		}
	}
	l.config.Warnings = append(l.config.Warnings, m.Error())
}

// checkConversation asks the room, which wants its parts to be there and checks
// the keys of other sections too.
func (a *Assistant) checkConversation() error {
	out := a.Conversation.Config
	out.STT, out.TTS, out.LLM = struct{ stt.Recognizer }{}, struct{ tts.Voice }{}, struct{ llm.Provider }{}
	out.Turn = turn.DefaultConfig()
	out.FirstToken = time.Second
	return out.Validate()
}

// choice checks a name against those there are.
func (l *loader) choice(path, name string, known []string) {
	if slices.Contains(known, name) {
		return
	}
	l.wrong(path, fmt.Sprintf("%q, must be one of %s%s", name, strings.Join(known, ", "), didYouMean(name, known)))
}

// room notes the mistakes that a room found in its section, each at the key that
// its text names.
func (l *loader) room(section string, err error) {
	for _, one := range leaves(err) {
		text := one.Error()
		if head, rest, ok := strings.Cut(text, ": "); ok && strings.IndexFunc(head, notWord) < 0 && !slices.Contains(l.names(section), head) {
			text = rest // the room's own name
		}
		section := section
		if head, rest, ok := strings.Cut(text, ": "); ok && len(l.names(agentOf(section)+head)) > 0 {
			section, text = agentOf(section)+head, rest // a part of the room that has a section of its own
		}
		if head, rest, ok := strings.Cut(text, ": "); ok && len(l.names(section+"."+head)) > 0 {
			section, text = section+"."+head, rest // one of a list, or a section within this one
		}
		text = strings.ReplaceAll(text, "\n", "; ")
		name := l.mentioned(section, text)
		if name == "" {
			l.wrong(section, text)
			continue
		}
		l.wrong(section+"."+name, withoutName(text, name))
	}
}

// withoutName takes the key off the beginning of text, where its path will stand,
// when its value follows.
func withoutName(text, name string) string {
	for _, form := range []string{name, strings.ReplaceAll(name, "_", " ")} {
		if rest, ok := strings.CutPrefix(text, form+": "); ok {
			return rest
		}
		if rest, ok := strings.CutPrefix(text, form+" "); ok && strings.IndexAny(rest, `"-0123456789`) == 0 {
			return rest
		}
	}
	return text
}

// mentioned is the key of section that text names first, written as in the file
// or in words.
func (l *loader) mentioned(section, text string) string {
	best, at, length := "", len(text), 0
	for _, name := range l.names(section) {
		for _, form := range []string{name, strings.ReplaceAll(name, "_", " ")} {
			if i := wordIndex(text, form); i >= 0 && (i < at || i == at && len(form) > length) {
				best, at, length = name, i, len(form)
			}
		}
	}
	return best
}

// wordIndex is where word stands in text as a whole word, or -1.
func wordIndex(text, word string) int {
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return -1
		}
		i += from
		end := i + len(word)
		if (i == 0 || notWord(rune(text[i-1]))) && (end == len(text) || notWord(rune(text[end]))) {
			return i
		}
		from = i + 1
	}
}

// notWord says that r is no part of a key.
func notWord(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '/'
}

// leaves lists the errors that err joins.
func leaves(err error) []error {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, leaves(e)...)
	}
	return out
}
