package cascade

import (
	"strings"

	"parley/agent"
	"parley/agent/llm"
	"parley/agent/turn"
)

// decide tells the turn taking what happened and does what it says.
func (s *session) decide(in turn.Input) {
	if s.over || s.closing {
		return
	}
	// Doing one thing may make another happen: the decisions are copied, because
	// the next Step reuses their place.
	var room [4]turn.Decision
	for _, d := range append(room[:0], s.turns.Step(in)...) {
		s.do(d)
	}
}

func (s *session) do(d turn.Decision) {
	switch d.Kind {
	case turn.Begin:
		if s.stream != nil {
			s.stream.Begin()
		}
	case turn.Finalize:
		if s.stream != nil {
			s.stream.Finalize()
		}
	case turn.Pause:
		s.call.Speaker.Pause()
	case turn.Resume:
		s.call.Speaker.Resume()
		if s.reply != nil && s.reply.started {
			s.emit(agent.Event{Type: agent.EventFalseBargeIn})
		}
	case turn.Open:
		s.emit(agent.Event{Type: agent.EventUserStarted, Reason: d.Reason})
	case turn.Stop:
		s.interrupt(d)
	case turn.Close:
		s.turnClosed(d)
	case turn.GoOn:
		s.emit(agent.Event{Type: agent.EventUserStopped, Reason: "noise"})
		s.goOn()
	case turn.Discard:
		s.emit(agent.Event{Type: agent.EventUserStopped, Reason: "noise"})
	case turn.Idle:
		s.prompt(d.Attempt)
	case turn.Goodbye:
		s.leave()
	}
}

func (s *session) turnClosed(d turn.Decision) {
	e := agent.Event{Type: agent.EventUserStopped, Text: d.Text, Confidence: d.Confidence}
	switch {
	case d.Garbled:
		e.Reason = "garbled"
	case d.Digits:
		e.Reason = "digits"
		if s.cfg.SecretDigits {
			e.Text = ""
		}
	}
	s.emit(e)
	s.cut = cut{}
	s.answer(llm.Turn{
		Text: strings.TrimSpace(d.Text), Digits: d.Digits, Confidence: d.Confidence,
		Nothing: d.Garbled, Garbled: d.Garbled,
	}, d.LastSound)
}
