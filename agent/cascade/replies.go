package cascade

import (
	"errors"
	"strings"
	"time"

	"parley/agent"
	"parley/agent/llm"
	"parley/agent/turn"
)

const (
	// pauseAfter is how long a model may say nothing before a sentence that may be
	// complete is taken to be.
	pauseAfter = 300 * time.Millisecond
	// slack is how far the position may stay short of what was said, by rounding.
	slack = 2 * time.Millisecond
	// lookAgain is when to look how far speech has come though no notice came.
	lookAgain = 250 * time.Millisecond
	// stuckAfter is how long speech may not move, unless paused or on hold, before
	// the reply is given up.
	stuckAfter = 5 * time.Second
)

var errStuck = errors.New("cascade: speech does not leave the gateway")

// progress is how the speech of the reply under way moves.
type progress struct {
	next  time.Time     // when to look again
	at    time.Duration // where it was
	since time.Time     // how long it has been there
}

// start makes r the reply under way.
func (s *session) start(r *reply) {
	s.reply = r
	s.progress = progress{}
	if r.ask {
		hand(s.asks, r)
	}
	hand(s.speech, r)
}

// phrase makes r say text of the gateway's own, as the agent's words.
func (r *reply) phrase(text string) {
	if text != "" {
		r.items = append(r.items, item{text: text})
	}
}

// greet opens the conversation. Whatever comes of it, the greeting is a reply, so
// that what waits for its end (Config.Turn.MuteGreeting) does not wait for ever.
func (s *session) greet() {
	r := newReply(s.life, greeting, s.cfg.Language, "")
	if r.ask = s.cfg.Greeting == ""; !r.ask {
		r.add(append(r.pending.Write(s.cfg.Greeting), r.pending.Flush()...))
		r.closed = true
	}
	s.decide(turn.Input{Kind: turn.ReplyBegan, At: time.Now()})
	s.start(r)
}

// answer asks the model for the reply to a turn of the caller.
func (s *session) answer(t llm.Turn, lastSound time.Time) {
	t.Interrupted, t.WasInterrupted = s.owed.heard, s.owed.interrupted
	if s.unasked != nil {
		t = joined(*s.unasked, t)
	}
	s.owed, s.unasked = owed{}, nil
	r := newReply(s.life, answer, s.cfg.Language, "")
	r.ask, r.turn, r.since = true, t, lastSound
	s.start(r)
}

// prompt breaks the silence, for the n-th time from 1.
func (s *session) prompt(n int) {
	r := newReply(s.life, prompt, s.cfg.Language, "")
	if r.ask = len(s.cfg.Reprompts) == 0; r.ask {
		r.turn = llm.Turn{Nothing: true}
	} else {
		r.phrase(s.cfg.Reprompts[(n-1)%len(s.cfg.Reprompts)])
		r.closed = true
	}
	s.start(r)
}

// leave says goodbye, because nobody says anything, and ends the call.
func (s *session) leave() {
	r := newReply(s.life, prompt, s.cfg.Language, "")
	r.phrase(s.cfg.Goodbye)
	r.items = append(r.items, item{action: &llm.Action{Kind: llm.Hangup}})
	r.closed = true
	s.start(r)
}

// fail says the last words, whatever the caller does, and ends the call with err.
func (s *session) fail(err error, words string) {
	if s.reply != nil {
		s.interrupt(turn.Decision{Reason: "fault"})
	}
	s.closing = true
	s.call.Speaker.Resume() // nothing else will
	r := newReply(s.life, farewell, s.cfg.Language, "")
	r.phrase(words)
	r.closed, r.failed = true, err
	s.start(r)
}

// joined is a turn together with the one before, which the model was never asked
// to reply to because this one followed at once. Keys are not lost to words, nor to
// more keys.
func joined(before, t llm.Turn) llm.Turn {
	switch {
	case t.Nothing:
		t.Text, t.Digits, t.Confidence = before.Text, before.Digits, before.Confidence
		t.Nothing, t.Garbled = before.Nothing, before.Garbled
	case before.Digits && t.Digits:
		t.Text = before.Text + t.Text
	case before.Digits:
		t.Text, t.Digits, t.Confidence = before.Text, true, before.Confidence
	case before.Text != "" && !t.Digits:
		t.Text = before.Text + " " + t.Text
	}
	t.Interrupted, t.WasInterrupted = before.Interrupted, before.WasInterrupted
	return t
}

// fallback is what r says when the model fails. A greeting or a prompt that fails is
// no reason to ask the caller to say something again.
func (s *session) fallback(r *reply) string {
	if r.purpose == answer {
		return s.cfg.Fallback
	}
	return ""
}

// interrupt cuts the reply off. The context goes first: when Stop returns, nothing
// that is still being made can be queued any more.
func (s *session) interrupt(d turn.Decision) {
	r := s.reply
	if r == nil {
		return
	}
	complete := r.abandon(errInterrupted)
	r.tell(errInterrupted)
	at := s.call.Speaker.Stop()
	heard := r.spoken.Heard(at)
	s.cut = cut{reply: r, heard: heard, complete: complete, before: s.owed}
	s.owed = owed{interrupted: true, heard: strings.TrimSpace(heard)}
	if r.purpose == answer && r.ask && !r.wasAsked() {
		s.unasked = &r.turn
	}
	s.reply = nil
	if r.started && d.Reason != "fault" {
		reason := "voice"
		if d.Reason == turn.ByDigit {
			reason = "digit"
		}
		s.emit(agent.Event{Type: agent.EventBargeIn, Reason: reason, Latency: time.Since(d.Since), Position: at})
	}
	s.agentStopped(r, heard, true, at)
}

// goOn takes up the reply that was cut off for nothing. When all of it is known the
// rest is spoken, else the model is asked again.
func (s *session) goOn() {
	c := s.cut
	s.cut = cut{}
	old := c.reply
	if old == nil {
		s.decide(turn.Input{Kind: turn.ReplyEnded, At: time.Now()})
		return
	}
	s.emit(agent.Event{Type: agent.EventFalseBargeIn})
	s.owed, s.unasked = c.before, nil
	if c.complete || old.purpose != answer && c.heard != "" {
		r := newReply(s.life, old.purpose, s.cfg.Language, c.heard)
		r.items, r.closed = old.rest(c.heard), true
		r.turn, r.again, r.failed = old.turn, true, old.failed
		if c.heard == "" {
			r.since = old.since
		}
		s.start(r)
		return
	}
	r := newReply(s.life, old.purpose, s.cfg.Language, "")
	r.ask, r.turn, r.since, r.again = true, old.turn, old.since, true
	if c.heard != "" {
		r.turn.Interrupted, r.turn.WasInterrupted = strings.TrimSpace(c.heard), true
	}
	s.start(r)
}

// fills says whether a silent model is filled in for.
func (s *session) fills() bool { return s.cfg.FillerAfter > 0 && s.cfg.Filler != "" }

// watchModel bounds how long the model may be silent.
func (s *session) watchModel(r *reply, now time.Time) {
	since, thinks := r.silentSince()
	if !thinks {
		return
	}
	silent := now.Sub(since)
	if silent >= s.cfg.FirstToken {
		r.giveUp(errNoWord)
		if r.close(errNoWord, s.fallback(r)) {
			s.complain(errNoWord)
		}
		return
	}
	if r.lastPause != since && silent >= pauseAfter {
		r.lastPause = since
		r.pause()
	}
	if s.fills() && silent >= s.cfg.FillerAfter {
		r.filler(s.cfg.Filler)
	}
}

// speechStarted takes the notice that the first packet is on the wire.
func (s *session) speechStarted(n agent.Notice) {
	r := s.reply
	if r == nil || r.started {
		return
	}
	if from, sounds := r.sounded(); sounds && n.Position >= from {
		s.agentStarted(r, n.At.Add(-n.Lag))
	}
}

func (s *session) agentStarted(r *reply, at time.Time) {
	r.started = true
	e := agent.Event{Type: agent.EventAgentStarted}
	if !r.since.IsZero() {
		e.Latency = at.Sub(r.since)
	}
	s.emit(e)
}

// agentStopped reports the end of a reply, unless it had no words and no sound.
func (s *session) agentStopped(r *reply, heard string, interrupted bool, at time.Duration) {
	text := r.text()
	if text == "" && !r.started {
		return
	}
	heard = strings.TrimSpace(heard)
	s.emit(agent.Event{Type: agent.EventAgentStopped, Text: text, Heard: heard, Interrupted: interrupted, Position: at})
}

// settle does what waits for words to have been heard, and ends the reply when all
// of it was.
func (s *session) settle(r *reply, now time.Time) {
	from, sounds := r.sounded()
	if !sounds && !r.said && len(r.marks) == 0 {
		return
	}
	played := s.call.Speaker.Played()
	if sounds && !r.started && played > from {
		s.agentStarted(r, now) // the notice was lost, or is on its way
	}
	for len(r.marks) > 0 && played >= r.marks[0].at-slack {
		a := r.marks[0]
		r.marks = r.marks[1:]
		if a.Kind == llm.Hangup {
			s.replyEnded(r, max(played, a.at))
			s.emit(agent.Event{Type: agent.EventAction, Reason: string(a.Kind)})
			s.finish(nil)
			return
		}
		r.began(a.Action)
		s.act(r, a)
	}
	if r.said && played >= r.end-slack {
		s.replyEnded(r, max(played, r.end))
		return
	}
	p := &s.progress
	p.next = now.Add(lookAgain)
	waits := r.said || r.saysNow() || len(r.marks) > 0
	if !waits || p.since.IsZero() || played != p.at || s.turns.Still() {
		p.at, p.since = played, now
	} else if now.Sub(p.since) >= stuckAfter {
		s.complain(errStuck)
		r.abandon(errStuck)
		s.replyEnded(r, s.call.Speaker.Stop())
	}
}

// replyEnded ends the reply under way.
func (s *session) replyEnded(r *reply, played time.Duration) {
	s.reply = nil
	heard := r.spoken.Heard(played)
	s.agentStopped(r, heard, false, played)
	r.cancel(nil)
	r.tell(nil)
	if r.failed != nil {
		s.finish(r.failed)
	}
	s.decide(turn.Input{Kind: turn.ReplyEnded, At: time.Now()})
}
