package call

import (
	"context"

	"parley/sip"
)

// consult calls the target of an attended transfer and returns when it has answered. The
// other party of the call takes the leg over then.
func (c *Call) consult(ctx context.Context, t *trunk, to transferTo) (*leg, error) {
	if c.server.dialer == nil {
		return nil, ErrNotSupported
	}
	from, err := t.shown("")
	if err != nil {
		return nil, err
	}
	l := c.newLeg(t)
	l.side.takes = l.pending.Store
	if l.done, err = c.server.leg(t); err != nil {
		return nil, err
	}
	if err := l.consult(ctx, sip.Outgoing{To: to.target.to, From: from, Headers: to.headers, RingTimeout: defaultRing}); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *leg) consult(ctx context.Context, o sip.Outgoing) (err error) {
	if err := l.listen(ctx); err != nil {
		return err
	}
	if _, err := l.describe(nil); err != nil {
		return err
	}
	l.rtp.Join(l)
	o.Offer = l.offer
	l.side.dialog, err = l.call.server.dialer.Dial(ctx, l.trunk.cfg.SIP, o, l.side)
	return err
}
