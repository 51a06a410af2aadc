package chat

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// botTurn is the agent's turn, and what was generated and heard of it.
type botTurn struct {
	open     bool
	speaking bool // its sound is on the wire
	untold   bool // results of tools that no run has seen
	at       time.Time
	segments []segment
	heard    string // so far
	cut      string // what was heard of the turn before, if that was cut off
	last     uint64 // the message that it ends with
	lastText string
	thought  strings.Builder
	thoughts time.Time // when the thought began
}

// segment is what a model generated in one run: words, and maybe tool calls after them.
type segment struct {
	text  string
	calls uint64 // the message that makes the calls; 0: none
}

// Assistant is the agent's half of a Pair: it gathers what a model generates, and
// writes what of it the caller heard.
type Assistant struct{ p *Pair }

// Uttered is what became of the words of an agent's turn.
type Uttered struct {
	// Sent is what was to be spoken, as it was given to the voice; "": what was
	// gathered, without Markdown.
	Sent string
	// Heard is what the caller heard of it: a beginning of Sent.
	Heard string
	// Interrupted says that the caller cut the turn off after that.
	Interrupted bool
}

// Start opens a turn of the agent: the model begins to answer, or something is spoken
// that is no answer. A turn that is still open ends as it is: messages are never glued
// together.
func (a Assistant) Start() {
	defer a.p.lock()()
	a.p.startBot()
}

func (p *Pair) startBot() {
	if p.bot.open {
		p.stopBot(Uttered{Heard: p.bot.heard, Interrupted: true})
	}
	if p.cfg.Realtime {
		p.writeUser()
	}
	p.bot.open, p.bot.at = true, p.cfg.Now()
	p.bot.segments, p.bot.heard = []segment{{}}, ""
	tell(&p.out, p.cfg.Events.AssistantTurnStarted, AssistantTurnStarted{p.bot.at})
}

// Speak opens a turn for words that no model generated for it: a greeting, a notice.
func (a Assistant) Speak(text string) {
	defer a.p.lock()()
	a.p.startBot()
	a.p.bot.segments[0].text = text
}

// Write takes the next bit of what the model generates. It opens a turn if none is open.
func (a Assistant) Write(text string) {
	defer a.p.lock()()
	a.p.endThought()
	if text == "" {
		return
	}
	if !a.p.bot.open {
		a.p.startBot()
	}
	a.p.bot.segments[len(a.p.bot.segments)-1].text += text
}

// maxThought bounds one thought, in bytes: a model may think for as long as it likes.
const maxThought = 64 << 10

// Think takes the next bit of the model's reasoning, which is not spoken. A thought
// ends with the next word, call, or End. What is thought beyond 64 KiB is dropped.
func (a Assistant) Think(text string) {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	if text == "" || a.p.bot.thought.Len()+len(text) > maxThought {
		return
	}
	if a.p.bot.thought.Len() == 0 {
		a.p.bot.thoughts = a.p.cfg.Now()
	}
	a.p.bot.thought.WriteString(text)
}

func (p *Pair) endThought() {
	if p.bot.thought.Len() > 0 {
		tell(&p.out, p.cfg.Events.AssistantThought, AssistantThought{p.bot.thought.String(), p.bot.thoughts})
		p.bot.thought.Reset()
	}
}

// Generated is what was gathered in the open turn so far.
func (a Assistant) Generated() string {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	return a.p.bot.generated()
}

func (b *botTurn) generated() string {
	var text strings.Builder
	for _, s := range b.segments {
		text.WriteString(s.text)
	}
	return text.String()
}

// Calls writes the tool calls of a run, each with a placeholder for its answer, in one
// step, and returns them as they stand: with ids that are nobody else's. It opens a
// turn if none is open.
func (a Assistant) Calls(calls []ToolCall) []ToolCall {
	defer a.p.lock()()
	p := a.p
	p.endThought()
	if len(calls) == 0 {
		return nil
	}
	if !p.bot.open {
		p.startBot()
	}
	id, as := p.ctx.AppendCalls(Message{At: p.bot.at}, calls)
	p.bot.segments[len(p.bot.segments)-1].calls = id
	p.bot.segments = append(p.bot.segments, segment{})
	return as
}

// Result puts the answer of a tool call in its place; "" counts as Completed. It is
// false for a call that is not in progress: then nothing has changed.
func (a Assistant) Result(id, content string) bool {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	done := a.p.ctx.Answer(id, content)
	a.p.bot.untold = a.p.bot.untold || done
	return done
}

// Cancel gives a tool call up. It is false for a call that is not in progress.
func (a Assistant) Cancel(id string) bool { return a.p.ctx.Answer(id, Cancelled) }

// HasFunctionCallsInProgress says whether a tool call has yet to be answered: who acts
// on a result reads it to know whether that was the last one.
func (a Assistant) HasFunctionCallsInProgress() bool { return len(a.p.ctx.CallsInProgress()) > 0 }

// Speaking says whether sound of the agent is on its way to the caller.
func (a Assistant) Speaking(on bool) {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	a.p.bot.speaking = on
}

// End says that the model has generated all of its answer, or, when completed is false,
// was stopped. The turn stays open until it was heard.
func (a Assistant) End(completed bool) {
	defer a.p.lock()()
	a.p.endThought()
	tell(&a.p.out, a.p.cfg.Events.Completion, Completion{a.p.bot.generated(), completed})
}

// Heard says what the caller has heard of the open turn so far. It counts if nothing
// else is known when the turn ends.
func (a Assistant) Heard(text string) {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	if a.p.bot.open {
		a.p.bot.heard = text
	}
}

// Stop ends the turn and writes what was heard of it. Of a turn that was cut off before
// any word of it was heard nothing is written; the event has empty content. Without an
// open turn it does nothing.
func (a Assistant) Stop(u Uttered) {
	defer a.p.lock()()
	a.p.stopBot(u)
}

// Resume says that the turn before, which had been cut off, has gone on to its end or
// to another cut: u is all of it. What was written of it is changed in place. It is
// false when no turn was cut off after some words, or u does not go on from there.
func (a Assistant) Resume(u Uttered) bool {
	defer a.p.lock()()
	p := a.p
	heard := clip(u.Heard, u.Sent)
	rest, goesOn := strings.CutPrefix(heard, p.bot.cut)
	if p.bot.open || p.bot.cut == "" || !goesOn {
		return false
	}
	switch text := p.bot.lastText + rest; {
	case p.ctx.isLast(p.bot.last):
		p.ctx.Revise(p.bot.last, text, u.Interrupted)
		p.bot.lastText = text
	case strings.TrimSpace(rest) != "":
		p.ctx.Revise(p.bot.last, p.bot.lastText, false)
		p.bot.lastText = strings.TrimSpace(rest)
		p.bot.last = p.append(Message{Role: RoleAssistant, Content: p.bot.lastText, Interrupted: u.Interrupted, At: p.bot.at})
	}
	if p.bot.cut = heard; !u.Interrupted {
		p.bot.cut = ""
	}
	tell(&p.out, p.cfg.Events.AssistantTurnStopped, AssistantTurnStopped{heard, u.Interrupted, p.bot.at})
	return true
}

func (p *Pair) stopBot(u Uttered) {
	if !p.bot.open {
		return
	}
	p.bot.open = false
	p.endThought()
	if u.Sent == "" {
		u.Sent = strings.TrimSpace(Plain(p.bot.generated()))
	}
	heard := clip(u.Heard, u.Sent)
	if p.bot.cut = ""; u.Interrupted {
		p.bot.cut = heard
	}
	parts := p.bot.divide(heard, u.Sent)
	last := len(parts) - 1
	for last > 0 && parts[last].text == "" {
		last--
	}
	for i, part := range parts[:last+1] {
		cut := u.Interrupted && i == last
		id := part.calls
		if part.text != "" && (id == 0 || !p.ctx.Revise(id, part.text, cut)) {
			id = p.append(Message{Role: RoleAssistant, Content: part.text, Interrupted: cut, At: p.bot.at})
		}
		p.bot.last, p.bot.lastText = id, part.text
	}
	p.bot.segments = nil
	tell(&p.out, p.cfg.Events.AssistantTurnStopped, AssistantTurnStopped{heard, u.Interrupted, p.bot.at})
}

// part is what was heard of one segment.
type part struct {
	text  string
	calls uint64
}

// divide says what of heard belongs to which segment, so that words before a tool call
// stand before it. The voice gets words without Markdown; where its words cannot be
// told from what was generated, all of them stand at the end.
func (b *botTurn) divide(heard, sent string) []part {
	var plain Markdown
	lengths, total := make([]int, len(b.segments)), 0
	for i, s := range b.segments {
		lengths[i] = letters(plain.Plain(s.text))
		total += lengths[i]
	}
	if len(b.segments) == 1 || total != letters(sent) {
		return []part{{text: heard}}
	}
	parts, rest := make([]part, len(b.segments)), heard
	for i, s := range b.segments {
		to := len(rest)
		if i < len(b.segments)-1 {
			to = after(rest, lengths[i])
		}
		parts[i] = part{text: strings.TrimSpace(rest[:to]), calls: s.calls}
		rest = rest[to:]
	}
	return parts
}

// letters counts the characters of text that are no white space.
func letters(text string) int {
	n := 0
	for _, r := range text {
		if !unicode.IsSpace(r) {
			n++
		}
	}
	return n
}

// after is where in text so many characters that are no white space have ended.
func after(text string, n int) int {
	for i, r := range text {
		if n == 0 {
			return i
		}
		if !unicode.IsSpace(r) {
			n--
		}
	}
	return len(text)
}

// clip returns heard as far as it is a beginning of sent, white space aside, and ends
// with a whole word of it: nobody hears what was not sent.
func clip(heard, sent string) string {
	heard = strings.TrimSpace(heard)
	good, j := 0, 0
	for i, r := range heard {
		if unicode.IsSpace(r) {
			continue
		}
		_, size := utf8.DecodeRuneInString(heard[i:])
		j += len(sent[j:]) - len(strings.TrimLeftFunc(sent[j:], unicode.IsSpace))
		if !strings.HasPrefix(sent[j:], heard[i:i+size]) {
			break
		}
		if j += size; wordEndsAt(heard, i+size) && wordEndsAt(sent, j) {
			good = i + size
		}
	}
	return heard[:good]
}
