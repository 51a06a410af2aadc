package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"parley/agent"
)

// ask has something done to the call. Its peer is waited for, which a goroutine does;
// the conversation goes on meanwhile.
func (s *session) ask(ctx context.Context, c actCommand) error {
	if !s.cfg.Actions {
		return s.post(ctx, refusal(c, "actions are switched off"))
	}
	select {
	case s.acts <- c:
	default:
		return s.post(ctx, refusal(c, "too much waits to be done"))
	}
	if !s.acting {
		s.acting = true
		s.workers.Go(s.act)
	}
	return nil
}

// act does what the agent asked for, one after the other.
func (s *session) act() {
	for {
		select {
		case c := <-s.acts:
			if s.post(s.life, s.do(c)) != nil {
				return
			}
		case <-s.life.Done():
			return
		}
	}
}

// do does one thing, and says how it went.
func (s *session) do(c actCommand) (r result) {
	defer func() {
		if p := recover(); p != nil {
			r = refusal(c, "it failed")
			s.complain("panic in the call's control: %v", p)
		}
	}()
	e, control := agent.Event{Type: agent.EventAction, Reason: c.action}, s.call.Control
	switch {
	case c.action == "transfer":
		e.Text = c.transfer.To
	case c.action == "dtmf" && !s.cfg.SecretDigits:
		e.Text = c.digits
	case c.action == "hold" && !c.hold:
		e.Reason = "resume"
	}
	s.call.Emit(e)
	var err error
	switch {
	case c.action == "transfer":
		err = control.Transfer(s.life, c.transfer)
	case c.action == "dtmf":
		err = control.SendDigits(s.life, strings.ToUpper(c.digits))
	case c.hold:
		err = control.Hold(s.life)
	default:
		err = control.Resume(s.life)
	}
	if err == nil {
		return result{Type: "result", Action: c.action, ID: c.id, OK: true}
	}
	if !errors.Is(err, agent.ErrClosed) {
		s.complain("%s: %v", e.Reason, err)
	}
	return failure(c, err)
}

// failure says to the agent why something was not done.
func failure(c actCommand, err error) result {
	r := refusal(c, "it failed")
	var failed *agent.TransferError
	switch {
	case errors.Is(err, agent.ErrForbidden):
		r.Reason = "it is not allowed here"
	case errors.Is(err, agent.ErrNotSupported):
		r.Reason = "it is not possible in this call"
	case errors.Is(err, agent.ErrClosed):
		r.Reason = "the call is over"
	case errors.As(err, &failed):
		r.Code, r.Reason = failed.Code, clip(failed.Reason, 200)
		if r.Reason == "" {
			r.Reason = fmt.Sprintf("it failed with %d", failed.Code)
		}
	}
	return r
}

// refusal says that something was not done.
func refusal(c actCommand, reason string) result {
	return result{Type: "result", Action: c.action, ID: c.id, Reason: reason}
}
