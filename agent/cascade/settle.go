package cascade

import (
	"errors"
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

// watchModel bounds how long the model may be silent.
func (s *session) watchModel(r *reply, now time.Time) {
	since, limit, thinks := r.silentSince(s.cfg.FirstToken, s.cfg.ToolTime)
	if !thinks {
		return
	}
	silent := now.Sub(since)
	if silent >= limit {
		// Closed before it is given up: the model's worker must not be first with an error
		// that only says that it was cancelled.
		if r.close(errNoWord, s.fallback(r)) {
			s.complain(errNoWord)
		}
		r.giveUp(errNoWord)
		return
	}
	if r.lastPause != since && silent >= pauseAfter {
		r.lastPause = since
		r.pause()
	}
}

// speechStarted takes the notice that the first packet is on the wire.
func (s *session) speechStarted(n agent.Notice) {
	r := s.reply
	if r == nil || r.started {
		return
	}
	if from, sounds := r.sounded(); sounds && n.Position >= from {
		s.agentStarted(r, n.At.Add(-n.Lag), from)
	}
}

// agentStarted tells of the first packet of r, at a time and a position.
func (s *session) agentStarted(r *reply, at time.Time, from time.Duration) {
	r.started = true
	e := agent.Event{Type: agent.EventAgentStarted, Position: from}
	if !r.since.IsZero() {
		e.Latency = at.Sub(r.since)
	}
	s.emit(e)
	s.decide(turn.Input{Kind: turn.ReplyHeard, At: time.Now()})
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
		// The notice was lost, or is on its way, or there was sound before.
		s.agentStarted(r, now.Add(-max(0, played-from-frameTime)), from)
	}
	for len(r.marks) > 0 && played >= r.marks[0].at-slack {
		a := r.marks[0]
		r.marks = r.marks[1:]
		if a.Kind == llm.Hangup {
			s.replyEnded(r, max(played, a.at))
			s.hangUp()
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
	if sounds && !r.started { // of speech that follows a Stop at once no notice comes
		p.next = now.Add(frameTime)
	}
	waits := r.said || r.saysNow() || len(r.marks) > 0
	if !waits || p.since.IsZero() || played != p.at || s.turns.Still() {
		p.at, p.since = played, now
	} else if now.Sub(p.since) >= stuckAfter {
		s.complain(errStuck)
		r.abandon(errStuck)
		s.replyEnded(r, s.call.Speaker.Stop())
	}
}

// hangUp ends the call: whatever was to be heard was.
func (s *session) hangUp() {
	s.emit(agent.Event{Type: agent.EventAction, Reason: string(llm.Hangup)})
	s.finish(nil)
}

// replyEnded ends the reply under way.
func (s *session) replyEnded(r *reply, played time.Duration) {
	s.reply = nil
	s.noteQuestion(r, played)
	f := fateOf(r, r.spoken.Heard(played), false, played)
	s.agentStopped(f, r.started, played)
	s.tellNow()
	s.tell(f)
	r.cancel(nil)
	r.tell(nil)
	if r.failed != nil {
		s.finish(r.failed)
	} else if r.leaves {
		s.hangUp()
	}
	now := time.Now()
	s.leave.from = now // its last words were heard
	s.ended(now)
}
