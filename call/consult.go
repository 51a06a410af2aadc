package call

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"parley/rtp"
	"parley/sip"
)

// consultation is a call to the target of an attended transfer, before the other
// party takes it over. Nobody talks in it: the target is sent silence, so that
// neither it nor a carrier takes the line for dead (BR-108).
type consultation struct {
	call *Call
	side *side
	rtp  *rtp.Session
	done func() // gives its place back

	pending atomic.Pointer[change]
	line    *line // the wheel's
}

// consult calls the target and returns when it has answered.
func (c *Call) consult(ctx context.Context, t *trunk, to transferTo) (*consultation, error) {
	if c.server.dialer == nil {
		return nil, ErrNotSupported
	}
	from, err := t.shown("")
	if err != nil {
		return nil, err
	}
	k := &consultation{call: c}
	if k.done, err = c.server.leg(t); err != nil {
		return nil, err
	}
	if k.rtp, err = c.server.parts.Wheel.Listen(); err != nil {
		k.done()
		return nil, err
	}
	k.side = &side{call: c, nego: c.negotiation(t, k.rtp, c.server.localFor(ctx, t)), takes: k.pending.Store}
	if err = k.dial(ctx, t, sip.Outgoing{To: to.target.to, From: from, Headers: to.headers, RingTimeout: defaultRing}); err != nil {
		k.rtp.Close()
		k.done()
		return nil, err
	}
	return k, nil
}

// dial calls the target.
func (k *consultation) dial(ctx context.Context, t *trunk, o sip.Outgoing) error {
	offer, first, err := k.side.describe(nil)
	if err != nil {
		return err
	}
	k.line = first.line
	k.pending.Store(first)
	k.rtp.Join(k)
	o.Offer = offer
	k.side.dialog, err = k.call.server.dialer.Dial(ctx, t.cfg.SIP, o, k.side)
	return err
}

// close ends the call to the target, unless the other party has taken it over.
func (k *consultation) close() {
	k.rtp.Close()
	ctx, cancel := context.WithTimeout(context.Background(), k.call.server.cfg.EndTimeout)
	defer cancel()
	if err := k.side.dialog.Bye(ctx, byeReason(errTransferred)); err != nil {
		k.call.log.Warn("BYE to the target of a transfer not answered", zap.Error(err))
	}
	k.done()
}

// Packet implements rtp.Handler: nobody listens.
func (k *consultation) Packet(*rtp.Packet) {}

// Turn implements rtp.Handler.
func (k *consultation) Turn(time.Duration) {
	if k.pending.Load() != nil {
		c := k.pending.Swap(nil)
		k.line = c.line
		k.rtp.SetFlow(c.flow)
	}
}

// Slot implements rtp.Handler.
func (k *consultation) Slot(time.Duration, int) ([]byte, bool) { return k.line.idle, false }
