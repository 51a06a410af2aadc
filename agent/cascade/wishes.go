package cascade

import (
	"sync/atomic"
	"time"

	"parley/agent"
	"parley/agent/llm"
	"parley/agent/turn"
)

const (
	// wakePause is the shortest time between two times that a model is asked because it
	// wants to be: one that always wants to does not turn in a circle.
	wakePause = 200 * time.Millisecond
	// leaveQuiet is how long nobody may speak before a call ends that the model wants
	// ended, when no reply is under way.
	leaveQuiet = 500 * time.Millisecond
)

// wishes are what a model wants that is no part of a reply. Many of a kind count as
// one. Its methods may be called from any goroutine and never block.
type wishes struct {
	toWake, toHangUp atomic.Bool
	token            chan struct{} // has room for one
}

func (w *wishes) wake() {
	w.toWake.Store(true)
	w.nudge()
}

func (w *wishes) hangUp() {
	w.toHangUp.Store(true)
	w.nudge()
}

// nudge has the loop look.
func (w *wishes) nudge() { token(w.token) }

// wakening is a wish to be asked.
type wakening struct {
	wanted bool
	last   time.Time // when it was granted last
}

// leaving is the model's wish to end the call.
type leaving struct {
	wanted bool
	off    bool // it was called off by the open turn, which may prove a noise
	from   time.Time
}

// wished takes what the model wants.
func (s *session) wished(now time.Time) {
	if s.wishes.toWake.Swap(false) {
		s.woken.wanted = true
	}
	// Who speaks is not done.
	if s.wishes.toHangUp.Swap(false) && !s.turns.Open() && !s.closing {
		s.leave = leaving{wanted: true, from: now.Add(leaveQuiet)}
	}
}

// quiet says whether nobody speaks or is about to.
func (s *session) quiet() bool {
	return s.reply == nil && !s.turns.Open() && !s.turns.Speaking() && !s.turns.Still() &&
		!s.closing && !s.over && !s.screens()
}

// grant does what the model wants when nobody speaks.
func (s *session) grant(now time.Time) {
	if s.woken.wanted && s.quiet() && now.Sub(s.woken.last) >= wakePause {
		s.woken = wakening{last: now}
		s.began(now)
		s.ask(llm.Turn{Woken: true}, answer, time.Time{}, agent.InferenceWoken)
	}
	if s.leave.wanted && s.quiet() && !s.woken.wanted && !now.Before(s.leave.from) {
		s.hangUp()
	}
}

// wishesDue is when grant has something to do; zero: never, as things are.
func (s *session) wishesDue() time.Time {
	switch {
	case !s.quiet():
		return time.Time{}
	case s.woken.wanted:
		return s.woken.last.Add(wakePause)
	case s.leave.wanted:
		return s.leave.from
	}
	return time.Time{}
}

// callOff keeps the call up because the caller speaks, unless that proves a noise.
func (s *session) callOff() {
	if s.leave.wanted {
		s.leave = leaving{off: true}
	}
}

// callOn takes callOff back.
func (s *session) callOn() {
	if s.leave.off {
		s.leave = leaving{wanted: true, from: time.Now().Add(leaveQuiet)}
	}
}

// began and ended tell the turn taking of a reply that none of its decisions asked for.
func (s *session) began(now time.Time) { s.decide(turn.Input{Kind: turn.ReplyBegan, At: now}) }
func (s *session) ended(now time.Time) { s.decide(turn.Input{Kind: turn.ReplyEnded, At: now}) }
