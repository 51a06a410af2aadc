package cascade

import (
	"strings"
	"time"

	"parley/agent"
	"parley/agent/turn"
)

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
	s.noteQuestion(r, at)
	f := fateOf(r, heard, true, at)
	s.cut = cut{reply: r, heard: heard, complete: complete, before: s.owed}
	s.tellLater(f)
	s.reply = nil
	switch {
	case r.turn.Woken && !r.wasAsked():
		s.woken.wanted = true
		s.owed = owed{r.turn.WasInterrupted, r.turn.Interrupted}
	default:
		s.owed = owed{interrupted: true, heard: strings.TrimSpace(heard)}
		if r.purpose == answer && r.ask && !r.wasAsked() {
			s.unasked = &r.turn
		}
	}
	if r.started && !d.Since.IsZero() { // zero: it was not the caller
		reason := "voice"
		if d.Reason == turn.ByDigit {
			reason = "digit"
		}
		s.emit(agent.Event{Type: agent.EventBargeIn, Reason: reason, Latency: d.Silent.Sub(d.Since), Position: at})
	}
	s.agentStopped(f, r.started, at)
}

// goOn takes up the reply that was cut off for nothing. When all of it is known the
// rest is spoken, else the model is asked again.
func (s *session) goOn() {
	c := s.cut
	s.cut = cut{}
	old := c.reply
	if old == nil {
		s.ended(time.Now())
		return
	}
	s.emit(agent.Event{Type: agent.EventFalseBargeIn})
	s.owed, s.unasked = c.before, nil
	if c.complete || old.purpose != answer && c.heard != "" {
		s.sayRest(old, c.heard)
		return
	}
	r := newReply(s.life, old.purpose, s.cfg.Language, "")
	r.ask, r.turn, r.since = true, old.turn, old.since
	if c.heard != "" {
		r.turn.Interrupted, r.turn.WasInterrupted = strings.TrimSpace(c.heard), true
	}
	s.withdraw(old)
	s.woken.wanted = s.woken.wanted && !old.turn.Woken
	s.emit(agent.Event{Type: agent.EventInference, Reason: agent.InferenceAgain})
	s.start(r)
}

// sayRest says what is left of a reply of which heard was heard.
func (s *session) sayRest(old *reply, heard string) {
	r := newReply(s.life, old.purpose, s.cfg.Language, heard)
	r.items, r.closed = old.rest(heard), true
	r.turn, r.failed = old.turn, old.failed
	r.known = old.known || old.wasAsked()
	r.before = s.takeUp(old)
	if heard == "" {
		r.since = old.since
	}
	s.start(r)
}
