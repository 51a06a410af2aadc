package call

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"parley/agent"
	"parley/identity"
	"parley/sip"
)

// acts is what is being done to a call.
type acts struct {
	mu    sync.Mutex
	moves bool // a transfer, or a take-over, is under way
	over  bool // the call is being hung up
	made  int  // calls and transfers that the agent began
	// accepted says that the peer took a REFER and reports on it: when it hangs up
	// then, it has gone where it was sent.
	accepted atomic.Bool
	holding  sync.Mutex // one hold or resume at a time
}

// handle is the agent's means to act on a call.
type handle struct{ c *Call }

var _ agent.Control = handle{}

// Transfer implements agent.Control.
func (k handle) Transfer(ctx context.Context, t agent.Transfer) error {
	return k.c.transfer(ctx, t, byAgent)
}

// SendDigits implements agent.Control.
func (k handle) SendDigits(ctx context.Context, digits string) error {
	return k.c.SendDigits(ctx, digits)
}

// Hold implements agent.Control.
func (k handle) Hold(ctx context.Context) error { return k.c.hold(ctx, true) }

// Resume implements agent.Control.
func (k handle) Resume(ctx context.Context) error { return k.c.hold(ctx, false) }

// Record implements agent.Control.
func (k handle) Record(on bool) error { return k.c.recordAsked(on) }

// ready is the side in force of a call that is answered and not over.
func (c *Call) ready() (*side, error) {
	d := c.side.Load()
	switch {
	case c.ctx.Err() != nil:
		return nil, agent.ErrClosed
	case d == nil:
		return nil, fmt.Errorf("%w: it is not answered yet", ErrState)
	}
	return d, nil
}

// move claims the call for a transfer or a take-over; done gives it back.
func (c *Call) move() (done func(), err error) {
	c.acts.mu.Lock()
	defer c.acts.mu.Unlock()
	switch {
	case c.acts.over:
		return nil, agent.ErrClosed
	case c.acts.moves:
		return nil, fmt.Errorf("%w: a transfer is under way", ErrState)
	}
	c.acts.moves = true
	return func() {
		c.acts.mu.Lock()
		defer c.acts.mu.Unlock()
		c.acts.moves = false
	}, nil
}

// transfer hands the other party to somebody else.
func (c *Call) transfer(ctx context.Context, t agent.Transfer, by who) error {
	d, err := c.ready()
	if err != nil {
		return err
	}
	done, err := c.move()
	if err != nil {
		return err
	}
	defer done()
	trunk, err := c.way(t)
	if err != nil {
		return err
	}
	to, err := c.allowed(trunk, t, by)
	if err != nil {
		c.log.Warn("transfer refused", zap.Error(err), zap.String("trunk", trunk.name()))
		return err
	}
	c.log.Info("transfer", zap.String("to", identity.Mask(to.target.to)), zap.Bool("attended", t.Attended), zap.String("trunk", trunk.name()))
	c.tell(agent.Event{Type: agent.EventConnection, Reason: agent.ConnectionTransferring, Text: to.target.to})
	if t.Attended {
		err = c.attended(ctx, d, trunk, to)
	} else {
		err = c.refer(ctx, d, sip.Refer{To: trunk.uri(to.target), Headers: to.headers}, to.target)
	}
	return c.transferred(err, to.target)
}

// way is the trunk whose guardrails are for a transfer; nil: none.
func (c *Call) way(t agent.Transfer) (*trunk, error) {
	switch {
	case t.Trunk != "":
		if trunk := c.server.trunks[t.Trunk]; trunk != nil {
			return trunk, nil
		}
		return nil, &GuardError{Rule: "no_trunk", Text: "there is no trunk of this name"}
	case c.trunk != nil:
		return c.trunk, nil
	case t.Attended:
		return nil, fmt.Errorf("%w: an attended transfer needs a trunk to call the target through", ErrNotSupported)
	}
	return c.server.inside, nil
}

// transferTo is a transfer that the guardrails let pass.
type transferTo struct {
	target  target
	headers []sip.Header
}

// allowed asks the guardrails about a transfer, and counts it.
func (c *Call) allowed(trunk *trunk, t agent.Transfer, by who) (to transferTo, err error) {
	if to.target, err = trunk.guard(t.To, by); err != nil {
		return to, err
	}
	if to.headers, err = passed(t.Headers); err != nil {
		return to, err
	}
	if !t.Attended {
		if len(to.headers) > 0 && !trunk.cfg.ReferHeaders {
			return to, fmt.Errorf("%w: headers go with attended transfers only, unless refer_headers = true", ErrNotSupported)
		}
		for _, h := range to.headers {
			if !strings.HasPrefix(strings.ToLower(h.Name), "x-") {
				return to, &GuardError{Rule: "header", Text: "only X- headers go with a transfer that is not attended"}
			}
		}
	}
	if by == byOperator {
		return to, nil
	}
	return to, c.charge(trunk)
}

// charge counts a call or transfer that an agent or the peer begins.
func (c *Call) charge(trunk *trunk) error {
	c.acts.mu.Lock()
	made := c.acts.made
	c.acts.made++
	c.acts.mu.Unlock()
	return trunk.charge(made, time.Now())
}

// transferred tells how a transfer went, and ends the call when it went well.
func (c *Call) transferred(err error, to target) error {
	if err == nil {
		c.tell(agent.Event{Type: agent.EventConnection, Reason: agent.ConnectionTransferred, Text: to.to})
		c.end(errTransferred)
		return nil
	}
	if c.ctx.Err() != nil {
		return agent.ErrClosed
	}
	var failed *agent.TransferError
	if !errors.As(err, &failed) {
		failed = &agent.TransferError{Reason: err.Error(), Err: err}
	}
	c.tell(agent.Event{Type: agent.EventConnection, Reason: agent.ConnectionTransferFailed, Text: to.to, Code: failed.Code})
	c.log.Info("transfer failed, the call goes on", zap.Int("code", failed.Code), zap.String("reason", failed.Reason), zap.NamedError("cause", failed.Err))
	return failed
}

// refer sends the peer to somebody else, and waits for how that goes.
func (c *Call) refer(ctx context.Context, d *side, r sip.Refer, to target) error {
	r.Progress = func(code int, reason string) {
		c.acts.accepted.Store(true)
		c.tell(agent.Event{Type: agent.EventConnection, Reason: agent.ConnectionTransferring, Text: to.to, Code: code})
	}
	defer c.acts.accepted.Store(false)
	// sip waits on when the peer hangs up before it has told the outcome.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })()
	err := d.dialog.Refer(ctx, r)
	if err == nil || context.Cause(c.ctx) == errTransferred {
		return nil
	}
	return transferError(err)
}

// transferError says to the agent why a transfer failed.
func transferError(err error) *agent.TransferError {
	var refer *sip.ReferError
	if errors.As(err, &refer) {
		return &agent.TransferError{Code: refer.Code, Reason: refer.Reason, Err: refer.Err}
	}
	var dial *sip.DialError
	if errors.As(err, &dial) {
		reason := dial.Phrase
		if dial.Code == 0 && dial.Err != nil {
			reason = dial.Err.Error()
		}
		return &agent.TransferError{Code: dial.Code, Reason: reason, Err: dial.Err}
	}
	return &agent.TransferError{Reason: err.Error(), Err: err}
}

// attended calls the target, and when it answers has the peer take that call over.
func (c *Call) attended(ctx context.Context, d *side, trunk *trunk, to transferTo) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })()
	other, err := c.consult(ctx, trunk, to)
	if err != nil {
		return transferError(err)
	}
	defer other.bye()
	// The REFER names the party that answered, wherever the number led.
	return c.refer(ctx, d, sip.Refer{Replaces: other.side.dialog}, to.target)
}

// recordAsked turns the call's recording on and off for somebody.
func (c *Call) recordAsked(on bool) error {
	if _, err := c.ready(); err != nil {
		return err
	}
	if err := c.Record(on); err != nil {
		return errors.Join(ErrNotSupported, err)
	}
	return nil
}

// glarePause is how long to wait before an offer of ours while one of the peer's, or
// one that it asked us for, has no answer yet.
const glarePause = 100 * time.Millisecond

// hold puts the other party on hold, or takes it back. One hold does not end
// another: what the peer holds stays so.
func (c *Call) hold(ctx context.Context, on bool) error {
	d, err := c.ready()
	if err != nil {
		return err
	}
	c.acts.holding.Lock()
	defer c.acts.holding.Unlock()
	for range 10 {
		again, err := d.hold(ctx, on)
		if !again {
			return err
		}
		if err := c.wait(ctx, glarePause); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: the peer's offer has no answer", ErrState)
}

// hold sends our offer; again says that this is not the moment.
func (d *side) hold(ctx context.Context, on bool) (again bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.nego.offer != nil:
		return true, nil
	case d.nego.local.Hold == on:
		return false, nil
	}
	d.nego.local.Hold = on
	answer, err := d.dialog.Offer(ctx, d.nego.propose())
	if err == nil {
		var c *change
		if c, err = d.nego.accepted(answer); err == nil {
			d.put(c)
			return false, nil
		}
	}
	d.nego.local.Hold, d.nego.offer = !on, nil
	if d.call.ctx.Err() != nil {
		return false, agent.ErrClosed
	}
	return false, fmt.Errorf("call: hold: %w", err)
}
