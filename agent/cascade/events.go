package cascade

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"parley/agent"
	"parley/agent/llm"
	"parley/agent/stt"
	"parley/agent/turn"
)

// event is something the loop is told. Those of a reply that is no longer the one
// under way mean nothing.
type event interface{ happen(s *session) }

type (
	notice     agent.Notice
	transcript struct {
		stream int
		stt.Result
	}
	// reopened: the recogniser was opened anew, or could not be.
	reopened struct {
		stream stt.Stream
		tries  int // that it took, and those for the streams before that did not last
		err    error
	}
	// expectation: a reply says what the caller may say to it.
	expectation struct {
		reply *reply
		llm.Expect
	}
	// thought: the model has said all of a reply, or failed.
	thought struct {
		reply *reply
		err   error
	}
	// sentence: a piece was given to the voice.
	sentence struct {
		reply *reply
		text  string
	}
	// spoke: the voice has spoken a piece, or could not.
	spoke struct {
		reply *reply
		own   bool // words of the gateway's
		err   error
	}
	// marked: the voice has come to an action.
	marked struct {
		reply  *reply
		action markedAction
	}
	// said: the voice has given all the sound of a reply to the call.
	said struct {
		reply *reply
		end   time.Duration
	}
	// fault: a worker is gone.
	fault struct{ err error }
)

func (n notice) happen(s *session) {
	now := time.Now()
	in := turn.Input{At: now, Lag: n.Lag}
	if !n.At.IsZero() && now.After(n.At) {
		in.Lag += now.Sub(n.At)
	}
	s.screenHears(n.Kind, now.Add(-in.Lag))
	switch n.Kind {
	case agent.VoiceOn:
		in.Kind = turn.VoiceOn
	case agent.VoiceConfirmed:
		in.Kind = turn.VoiceConfirmed
	case agent.VoiceOff:
		in.Kind = turn.VoiceOff
	case agent.Digit:
		in.Kind, in.Digit = turn.Digit, n.Digit
		text := string(n.Digit)
		if s.cfg.SecretDigits {
			text = ""
		}
		s.emit(agent.Event{Type: agent.EventDigit, Text: text})
	case agent.Held:
		in.Kind = turn.Hold
	case agent.Resumed:
		in.Kind = turn.Unhold
	case agent.SpeechStarted:
		s.speechStarted(agent.Notice(n))
		return
	default: // SpeechEnded: passTime looks how far the speech has come
		return
	}
	s.decide(in)
}

func (t transcript) happen(s *session) {
	switch {
	case t.stream != s.streamID || s.deaf:
		return
	case errors.Is(t.Err, stt.ErrLost):
		s.lost(t.Err)
		return
	case t.Err != nil:
		s.complain(t.Err)
		return
	case s.turns.Muted(), s.screens():
		return
	}
	text := strings.TrimSpace(t.Text)
	if text != "" {
		s.emit(agent.Event{Type: agent.EventTranscript, Text: text, Final: t.Final, Confidence: t.Confidence})
	}
	in := turn.Input{Kind: turn.Interim, At: time.Now(), Text: text, Confidence: t.Confidence, Asked: s.hasAsked()}
	if t.Final {
		in.Kind = turn.Final
		s.unfinished = false
		s.finalCame()
	}
	s.decide(in)
	if t.Final {
		s.heardWords(text)
	}
}

func (e expectation) happen(s *session) {
	if !s.current(e.reply, e) {
		return
	}
	e.reply.expects = true
	s.expected(e.Expect)
}

func (t thought) happen(s *session) {
	if t.reply == s.inferred { // who has no words does not say that there will be more
		s.current(t.reply, t)
		s.decide(turn.Input{Kind: turn.Complete, At: time.Now()})
		return
	}
	if t.reply != s.reply {
		return
	}
	if t.err != nil {
		s.complain(t.err)
	}
	// What the caller may say was said of the reply before. A prompt, or a question
	// repeated, leaves it be.
	if r := t.reply; t.err == nil && r.purpose == answer && !r.turn.Nothing && !r.expects {
		s.expected(llm.Expect{})
	}
}

func (e sentence) happen(s *session) {
	if e.reply == s.reply {
		s.emit(agent.Event{Type: agent.EventAgentText, Text: e.text})
		s.decide(turn.Input{Kind: turn.ReplyWords, At: time.Now(), Text: e.text})
	}
}

func (e spoke) happen(s *session) {
	if e.reply != s.reply {
		return
	}
	if e.err == nil {
		if e.reply.ask && !e.own { // a phrase may be spoken from memory
			s.mutes = 0
		}
		return
	}
	s.complain(e.err)
	if e.own {
		return
	}
	if s.mutes++; s.mutes == s.cfg.VoiceTries && !s.closing {
		s.fail(fmt.Errorf("cascade: the voice is gone: %w", e.err), s.cfg.Apology)
	}
}

func (e marked) happen(s *session) {
	if e.reply == s.reply {
		e.reply.marks = append(e.reply.marks, e.action)
		s.progress = progress{next: time.Now()}
	}
}

func (e said) happen(s *session) {
	if e.reply == s.reply {
		e.reply.said, e.reply.end = true, e.end
		s.progress = progress{next: time.Now()}
	}
}

func (e fault) happen(s *session) { s.finish(e.err) }
