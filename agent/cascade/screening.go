package cascade

import (
	"time"

	"parley/agent"
	"parley/agent/machine"
	"parley/agent/turn"
)

// screening finds out who took an outbound call. Until that is known nothing is said,
// and what is heard is no turn.
type screening struct {
	*machine.Detector
	holds bool // nothing is said yet
	since time.Time
}

// screens says whether the agent waits until it knows who took the call, or for a
// machine's tone.
func (s *session) screens() bool { return s.screen != nil && s.screen.holds }

// begin begins the conversation: with the question who took the call, or the greeting.
func (s *session) begin(now time.Time) {
	s.turns = turn.NewController(s.cfg.turns(), now)
	if s.cfg.DetectMachine && s.call.Direction == "outbound" {
		s.screen = &screening{machine.New(s.cfg.machines(), s.cfg.STT.Rate(), now), true, now}
		return
	}
	s.greet()
}

// screened takes what the detector knows by now.
func (s *session) screened(now time.Time) {
	for s.screen != nil && !s.over {
		e, ok := s.screen.Next(now)
		if !ok {
			if s.screen.Done(now) && !s.screen.holds {
				s.screen = nil
			}
			return
		}
		s.answeredBy(e, now)
	}
}

func (s *session) answeredBy(e machine.Event, now time.Time) {
	if e != machine.NoBeep {
		s.emit(agent.Event{Type: agent.EventAnsweredBy, Reason: e.String(), Latency: now.Sub(s.screen.since)})
	}
	switch e {
	case machine.Human, machine.Unknown:
		s.screen.holds = false
		s.turns = turn.NewController(s.cfg.turns(), now)
		s.greet()
	case machine.Machine:
		s.machineAnswers()
	case machine.Beep, machine.NoBeep:
		s.leaveMessage()
	}
}

// screenHears tells the detector where voices begin and end.
func (s *session) screenHears(k agent.NoticeKind, at time.Time) {
	if s.screen == nil {
		return
	}
	switch k {
	case agent.VoiceOn, agent.VoiceOff:
		s.screen.Voice(k == agent.VoiceOn, at)
	case agent.Digit: // machines press no keys
		if s.screen.holds {
			s.answeredBy(machine.Human, time.Now())
		}
	default:
	}
}

// machineAnswers ends the call, or waits for the tone. What was being said to somebody
// who proved a machine is said again.
func (s *session) machineAnswers() {
	if s.cfg.MachineHangUp {
		s.hangUp()
		return
	}
	s.drop()
	if s.turns.Open() {
		s.emit(agent.Event{Type: agent.EventUserStopped, Reason: "noise"})
	}
	s.interrupt(turn.Decision{})
	s.owed, s.unasked = owed{}, nil
	s.screen.holds = true
}

// leaveMessage says what is for machines, to its end, and hangs up.
func (s *session) leaveMessage() {
	s.screen = nil
	s.closing = true
	s.call.Speaker.Resume() // nothing else will
	if s.cfg.MachineMessage == "" {
		s.greet()
	} else {
		s.sayOwn(s.cfg.MachineMessage)
	}
	s.reply.leaves = true
}
