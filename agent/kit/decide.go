package kit

import (
	"fmt"
	"strings"
	"time"

	"parley/agent"
	"parley/agent/turn"
)

// decide tells the turn taking what happened and does what it says.
func (s *conversation) decide(in turn.Input) {
	if s.over || s.closing || s.turns == nil {
		return
	}
	// Doing one thing may make another happen: the decisions are copied, because
	// the next Step reuses their place.
	var room [4]turn.Decision
	for _, d := range append(room[:0], s.turns.Step(in)...) {
		s.do(d)
	}
	if s.opening { // once the model knows what was heard of the reply that was cut
		s.opening = false
		s.activity(true)
	}
}

func (s *conversation) do(d turn.Decision) {
	switch d.Kind {
	case turn.Begin:
		if s.local && s.turns.Open() {
			s.activity(true) // the turn goes on though it was said to be over
		}
	case turn.Finalize:
		if s.local && s.turns.Open() {
			s.activity(false)
		}
	case turn.Pause:
		s.call.Speaker.Pause()
	case turn.Resume:
		s.call.Speaker.Resume()
		if len(s.replies) > 0 && s.replies[0].started {
			s.emit(agent.Event{Type: agent.EventFalseBargeIn})
		}
	case turn.Open:
		s.turnOpened(d)
	case turn.Stop:
		s.cut(d)
	case turn.Close:
		s.turnClosed(d)
	case turn.GoOn:
		s.callerWas("noise", d.Reason)
		s.goOn(d)
	case turn.Discard:
		s.callerWas("noise", d.Reason)
		s.stillWanted()
		s.speech.hold(false)
	case turn.Idle:
		s.replying = true
		s.emit(agent.Event{Type: agent.EventIdle, Reason: "prompt"})
		s.instruct(s.cfg.Reprompt, time.Time{})
	case turn.Goodbye:
		s.replying = true
		s.emit(agent.Event{Type: agent.EventIdle, Reason: "goodbye"})
		s.instruct(s.cfg.Goodbye, time.Time{})
		s.farewell.Busy(!s.expected.IsZero())
		s.farewell.Arm()
	case turn.Muted, turn.Unmuted:
		reason := "off"
		if d.Kind == turn.Muted {
			reason = "on"
		}
		s.up.muted.Store(d.Kind == turn.Muted)
		s.emit(agent.Event{Type: agent.EventMuted, Reason: reason})
	}
}

// activity tells the provider that the caller's turn begins or ends.
func (s *conversation) activity(on bool) {
	j := job{do: func() error { return s.session.live.Activity(on) }, turn: -1, after: true}
	if on {
		j.turn, j.after = 1, false
	}
	s.up.put(j)
}

func (s *conversation) turnOpened(d turn.Decision) {
	if s.caller.open || s.caller.text != "" {
		s.userOver("") // of the turn before, whose words did not come
	}
	s.caller = caller{open: true}
	s.evident, s.unwanted = false, time.Time{}
	pending := make(chan struct{})
	s.words.Store(&pending)
	s.emit(agent.Event{Type: agent.EventUserStarted, Reason: d.Reason})
	s.speech.hold(true)
	s.farewell.CallerSpoke()
	s.session.live.CallerSpoke()
	s.session.Interrupt()
	s.opening = s.local && d.Reason != turn.ByDigit
}

// callerWas ends a turn that was none.
func (s *conversation) callerWas(reason, by string) {
	s.caller.reason, s.caller.by = reason, by
	s.userOver(reason)
}

func (s *conversation) turnClosed(d turn.Decision) {
	s.cutOff = cutOff{}
	s.dropSuspects()
	// Who was asked anew has the old question to answer first: replies come one by one.
	s.stale = s.suspects > 0 && s.truncates && (s.local || d.Digits)
	if s.stale {
		s.suspects = 0
	}
	s.dropping = s.dropping && !s.truncates // by now the provider does it itself
	s.speech.hold(false)
	s.replying = true
	c := &s.caller
	c.closed, c.by = true, d.Reason
	switch {
	case d.Digits:
		s.keyed(d)
		return
	case d.Garbled:
		c.reason = "garbled"
		s.userOver(c.reason)
		if s.local && len(s.replies) == 0 { // it was asked to reply
			s.expect(d.LastSound)
		}
		// Else, with neither words nor a reply, it has heard no speech, and says nothing.
		return
	}
	s.emit(agent.Event{Type: agent.EventInference, Reason: agent.InferenceTurn})
	if len(s.replies) == 0 {
		s.expect(d.LastSound)
	} else if r := s.replies[0]; r.since.IsZero() && !r.started {
		r.since = d.LastSound
	}
	if c.text != "" && c.partly == "" {
		s.userOver("")
		return
	}
	c.until = time.Now().Add(wordsTimeout)
}

// keyed gives the model the digits of a turn, as a text of the user's.
func (s *conversation) keyed(d turn.Decision) {
	s.caller.text, s.caller.partly, s.caller.reason = d.Text, "", "digits"
	if s.cfg.SecretDigits {
		s.caller.text = ""
	}
	s.userOver("digits")
	if s.cfg.Keyed == "" {
		return
	}
	text := fmt.Sprintf(s.cfg.Keyed, d.Text)
	if !strings.Contains(s.cfg.Keyed, "%s") {
		text = s.cfg.Keyed + " " + d.Text
	}
	s.emit(agent.Event{Type: agent.EventInference, Reason: agent.InferenceTurn})
	s.up.put(job{do: func() error { return s.session.SendText(text) }, after: true})
	s.expect(d.LastSound)
}

// instruct has the model speak; nothing is expected of no instructions.
func (s *conversation) instruct(text string, since time.Time) {
	if text == "" {
		return
	}
	s.up.put(job{do: func() error { return s.session.Instruct(text) }})
	s.expect(since)
}

// greet opens the conversation.
func (s *conversation) greet() {
	text := s.cfg.Opening
	if s.cfg.Greeting != "" {
		text = "Say to the caller, word for word and nothing else: " + s.cfg.Greeting
	}
	if text == "" {
		return
	}
	s.emit(agent.Event{Type: agent.EventInference, Reason: agent.InferenceGreeting})
	s.instruct(text, time.Time{})
	s.replying = true
	s.decide(turn.Input{Kind: turn.ReplyBegan, At: time.Now()})
}
