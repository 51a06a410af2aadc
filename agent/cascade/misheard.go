package cascade

import (
	"parley/agent"
	"parley/agent/llm"
	"parley/agent/turn"
)

// mishears answers a turn that was hard to understand: say it again, these are your
// choices, here is somebody who understands. It says whether words of ours did; else the
// model is told.
func (s *session) mishears(d turn.Decision) bool {
	s.misheard = d.Misheard
	if d.Misheard == turn.Clear {
		s.hopeless = 0
		return false
	}
	if s.hopeless++; s.hopeless > int(turn.Person)+s.cfg.Turn.Reprompts && s.cfg.Turn.Idle > 0 {
		s.goodbye(turn.ByGarbled) // a song, or somebody who speaks to others
		return true
	}
	// Music does not pause, and wants nobody.
	if len(s.cfg.Misheard) == 0 || d.Reason == turn.ByMaxTurn {
		return false
	}
	if d.Misheard == turn.Person && s.callForPerson() {
		return true
	}
	s.sayOwn(s.cfg.Misheard[min(int(d.Misheard), len(s.cfg.Misheard))-1])
	return true
}

// callForPerson hands over a caller who is not understood, if there is somebody.
func (s *session) callForPerson() bool {
	if s.cfg.MisheardTo == "" {
		return false
	}
	s.sayOwn(s.cfg.MisheardPerson, &llm.Action{Kind: llm.Transfer, To: s.cfg.MisheardTo})
	return true
}

// turnStopped is the report of a turn that d closes.
func (s *session) turnStopped(d turn.Decision) agent.Event {
	e := agent.Event{Type: agent.EventUserStopped, Text: d.Text, Confidence: d.Confidence, Strategy: d.Reason}
	switch {
	case d.Digits:
		e.Reason = "digits"
		if s.cfg.SecretDigits {
			s.secrets.keep(d.Text)
			e.Text = ""
		}
	case d.Garbled:
		e.Reason = "garbled"
	case d.Misheard != turn.Clear:
		e.Reason = "misheard"
	case d.Unfinished:
		e.Reason = "unfinished"
	}
	return e
}
