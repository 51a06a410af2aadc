package cascade

import (
	"context"
	"strings"

	"parley/agent"
	"parley/agent/llm"
	"parley/agent/turn"
)

// decide tells the turn taking what happened and does what it says.
func (s *session) decide(in turn.Input) {
	if s.over || s.closing || s.screens() && in.Kind != turn.Hold && in.Kind != turn.Unhold {
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
		s.unfinished = true
		if s.stream != nil {
			s.stream.Finalize()
		}
	case turn.Pause:
		s.call.Speaker.Pause()
	case turn.Resume:
		s.call.Speaker.Resume()
		if s.reply != nil && s.reply.started {
			s.emit(agent.Event{Type: agent.EventFalseBargeIn, Reason: d.Reason})
		}
	case turn.Open:
		s.turnOpened(d)
	case turn.Stop:
		s.interrupt(d)
	case turn.Infer:
		s.infer(d)
	case turn.Drop:
		s.drop()
	case turn.Judge:
		s.judge(d)
	case turn.Close:
		s.turnClosed(d)
	case turn.GoOn:
		s.turnWasNone(d)
		s.goOn()
		s.callOn()
	case turn.Discard:
		s.turnWasNone(d)
		s.callOn()
	case turn.Idle:
		s.prompt(d.Attempt)
	case turn.Goodbye:
		s.goodbye(d.Reason)
	case turn.Muted:
		s.emit(agent.Event{Type: agent.EventMuted, Reason: "on"})
	case turn.Unmuted:
		s.emit(agent.Event{Type: agent.EventMuted, Reason: "off"})
	}
}

func (s *session) turnOpened(d turn.Decision) {
	s.words, s.unfinished = wordsSoFar{}, false
	s.emit(agent.Event{Type: agent.EventUserStarted, Reason: d.Reason})
	s.callOff()
	if h, ok := s.model.(llm.Hearer); ok {
		h.CallerSpeaks()
	}
}

// turnWasNone reports a turn that held nothing to reply to.
func (s *session) turnWasNone(d turn.Decision) {
	reason := "noise"
	if d.Reason == turn.ByBackchannel || d.Reason == turn.ByMute {
		reason = d.Reason
	}
	s.emit(agent.Event{Type: agent.EventUserStopped, Reason: reason, Text: d.Text, Strategy: d.Reason})
}

func (s *session) turnClosed(d turn.Decision) {
	if d.Reason == turn.ByWatchdog || s.unfinished && !d.Digits {
		s.emit(agent.Event{Type: agent.EventStopTimeout})
	}
	s.cut, s.leave = cut{}, leaving{}
	s.emit(s.turnStopped(d))
	if s.mishears(d) {
		s.drop()
		return
	}
	t := llm.Turn{Text: strings.TrimSpace(d.Text), Digits: d.Digits, Confidence: d.Confidence}
	if d.Misheard != turn.Clear { // words that nobody trusts are told to nobody
		t = llm.Turn{Nothing: true, Garbled: true}
	}
	if d.Inferred && s.adopt(t, d.LastSound) {
		return
	}
	s.drop()
	if d.Unfinished && s.cfg.GoOn != "" && s.unasked == nil {
		t = s.withOwed(t)
		s.owed, s.unasked = owed{}, &t
		s.sayOwn(s.cfg.GoOn)
		return
	}
	s.ask(t, answer, d.LastSound, agent.InferenceTurn)
}

// judge asks the turn detector, beside the conversation.
func (s *session) judge(d turn.Decision) {
	if s.cfg.Detector == nil {
		return
	}
	u := turn.Utterance{
		Text: d.Text, PCM: append([]int16(nil), s.recent...), Rate: s.cfg.STT.Rate(), Language: s.cfg.Language,
	}
	s.workers.Go(func() {
		defer s.rescue()
		ctx, cancel := context.WithTimeout(s.life, judgeTime)
		defer cancel()
		p, err := s.cfg.Detector.Judge(ctx, u)
		s.post(s.life, verdict{d.Question, p, err})
	})
}
