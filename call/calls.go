package call

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"parley/agent"
	"parley/identity"
)

const (
	// maxEnded is how many calls that are over are still shown, and showEnded for how
	// long.
	maxEnded  = 64
	showEnded = time.Minute
	// maxSaid bounds what the agent is made to say.
	maxSaid = 2000
)

// endedCall is a call that is over and still shown.
type endedCall struct {
	status Status
	events *history
}

// keep shows a call for some time after its end.
func (s *Server) keep(c *Call, r Record) {
	st := c.status()
	st.State, st.Ended, st.Cause, st.Stats, st.Codec = StateEnded, &r.Ended, r.Cause, r.Stats, r.Codec
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(r.Ended)
	if len(s.ended) >= maxEnded {
		s.ended = slices.Delete(s.ended, 0, 1)
	}
	s.ended = append(s.ended, endedCall{st, c.events})
}

// forget drops calls that were shown long enough. s.mu is held.
func (s *Server) forget(now time.Time) {
	s.ended = slices.DeleteFunc(s.ended, func(e endedCall) bool { return now.Sub(*e.status.Ended) > showEnded })
}

// status is what the call is now.
func (c *Call) status() Status {
	c.mu.Lock()
	st := c.view
	c.mu.Unlock()
	if c.side.Load() == nil { // its parts are not all there yet
		return st
	}
	if st.State == StateAnswered && c.held.Load() {
		st.State = StateHeld
	}
	sent := c.rtp.Stats()
	st.Stats = Stats{
		PacketsIn: sent.Received, PacketsOut: sent.Sent, Early: c.early.Load(),
		Strange: sent.Strange, Malformed: sent.Malformed, Jitter: sent.Jitter, SkippedSlots: sent.SkippedSlots,
		RTT: sent.Reports.RTT, PeerLost: sent.Reports.PeerLost, PeerLossRate: sent.Reports.PeerLossRate, PeerJitter: sent.Reports.PeerJitter,
		RTCPIn: sent.Reports.Received, RTCPOut: sent.Reports.Sent, MOS: sent.Reports.MOS, PeerMOS: sent.Reports.PeerMOS,
		Speech: c.mouth.spoken(), Digits: c.digits.Load(), BargeIns: c.bargeIns.Load(), Turns: c.turns.Load(),
	}
	if st.Answered != nil {
		st.Stats.Setup = max(0, st.Answered.Sub(st.Began))
	}
	return st
}

// Calls are all calls that are up or being set up, the oldest first.
func (s *Server) Calls() []Status {
	s.mu.Lock()
	calls := make([]*Call, 0, len(s.calls))
	for _, c := range s.calls {
		calls = append(calls, c)
	}
	s.mu.Unlock()
	out := make([]Status, 0, len(calls))
	for _, c := range calls {
		out = append(out, c.status())
	}
	slices.SortFunc(out, func(a, b Status) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// Call is one call, also for a minute after its end; false when there is none.
func (s *Server) Call(id string) (Status, bool) {
	if c := s.call(id); c != nil {
		return c.status(), true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(time.Now())
	for _, e := range s.ended {
		if e.status.ID == id {
			return e.status, true
		}
	}
	return Status{}, false
}

// call finds one that is not over.
func (s *Server) call(id string) *Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[id]
}

// do does something to a call.
func (s *Server) do(id string, act func(*Call) error) error {
	c := s.call(id)
	if c == nil {
		return ErrNoCall
	}
	return act(c)
}

// HangUp ends a call, or takes one back that is not answered. cause is for the record.
func (s *Server) HangUp(id, cause string) error {
	return s.do(id, func(c *Call) error {
		c.end(&hungUp{identity.CleanText(cause, 200)})
		return nil
	})
}

// Transfer hands the other party of a call to somebody else, by the guardrails for
// operators; see agent.Control.
func (s *Server) Transfer(ctx context.Context, id string, t agent.Transfer) error {
	return s.do(id, func(c *Call) error { return c.transfer(ctx, t, byOperator) })
}

// SendDigits presses keys in a call; see agent.Control.
func (s *Server) SendDigits(ctx context.Context, id, digits string) error {
	return s.do(id, func(c *Call) error { return c.SendDigits(ctx, digits) })
}

// Hold puts the other party of a call on hold; see agent.Control.
func (s *Server) Hold(ctx context.Context, id string) error {
	return s.do(id, func(c *Call) error { return c.hold(ctx, true) })
}

// Resume ends Hold.
func (s *Server) Resume(ctx context.Context, id string) error {
	return s.do(id, func(c *Call) error { return c.hold(ctx, false) })
}

// Say makes the agent of a call say a text of at most 2000 bytes, and returns when it
// was heard. ErrNotSupported: the agent is no agent.Announcer.
func (s *Server) Say(ctx context.Context, id, text string) error {
	return s.do(id, func(c *Call) error {
		if _, err := c.ready(); err != nil {
			return err
		}
		a, ok := c.session.(agent.Announcer)
		if !ok {
			return ErrNotSupported
		}
		if text == "" || len(text) > maxSaid {
			return fmt.Errorf("call: a text of 1 to %d bytes can be said", maxSaid)
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(c.ctx, func() { cancel(agent.ErrClosed) })()
		return a.Announce(ctx, text)
	})
}

// Record begins or ends the recording of a call.
func (s *Server) Record(id string, on bool) error {
	return s.do(id, func(c *Call) error { return c.recordAsked(on) })
}

// Events gives what has happened in a call, the last 256 events at most, and a stream
// of what happens from now on. The stream is closed when the call is over, and after
// EventLagged when its reader is more than 128 events behind; a call waits for
// nobody. stop must be called when the reader is done. Also for a minute after the end
// of a call the past can be asked for. ErrLimit: a call has 16 readers already.
func (s *Server) Events(id string) (past []agent.Event, live <-chan agent.Event, stop func(), err error) {
	if c := s.call(id); c != nil {
		return c.events.follow()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(time.Now())
	for _, e := range s.ended {
		if e.status.ID == id {
			return e.events.follow()
		}
	}
	return nil, nil, nil, ErrNoCall
}
