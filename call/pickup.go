package call

import (
	"context"
	"errors"
	"sync"

	"go.uber.org/zap"

	"parley/identity"
	"parley/sip"
)

// errPickedUp is why what rings is cancelled: another telephone has taken the call.
var errPickedUp = errors.Join(errors.New("call: picked up by another telephone"), sip.ErrElsewhere)

// A call of ours that rings may be picked up by another telephone (RFC 3891 section 3):
//
//	C ── INVITE, Replaces: the dialog that rings at B ──> us ── CANCEL ──> B
//
// What it agrees to is the answer to the leg that rang; the leg's port and silence go on.

// pickup is who rings for a call, and who has picked it up.
type pickup struct {
	mu      sync.Mutex
	ringing map[*sip.Dialog]*leg
	stop    context.CancelCauseFunc // of the ringing; nil: nothing rings
	taken   *leg                    // it has been picked up, or is being
	by      *side
	done    chan struct{} // closed when by has answered, or could not
}

// begin is called before anything rings.
func (p *pickup) begin(stop context.CancelCauseFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ringing, p.stop = make(map[*sip.Dialog]*leg), stop
}

// rings takes note of a dialog of a leg.
func (p *pickup) rings(d *sip.Dialog, l *leg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d != nil && p.ringing != nil {
		p.ringing[d] = l
	}
}

// leg is the one that rings by a dialog.
func (p *pickup) leg(d *sip.Dialog) *leg {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ringing[d]
}

// claim lets one telephone pick the call up. False: another does, or nothing rings.
func (p *pickup) claim(l *leg) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop == nil || p.taken != nil {
		return false
	}
	p.taken, p.done = l, make(chan struct{})
	return true
}

// settle ends a claim: with a side that has answered, or with nil.
func (p *pickup) settle(by *side) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by = by; by == nil {
		p.taken = nil
	} else {
		p.stop(errPickedUp)
	}
	close(p.done)
}

// holds says that a leg is being picked up: what it has is needed on.
func (p *pickup) holds(l *leg) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken == l
}

// end is called when nothing rings any more; it waits for whoever is picking the call
// up, and returns the leg and the side that has it. Nil: nobody.
func (p *pickup) end() (*leg, *side) {
	p.mu.Lock()
	p.ringing = nil
	if p.taken == nil {
		p.stop = nil // nobody may claim it any more
	}
	done := p.done
	p.mu.Unlock()
	if done != nil {
		<-done
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken, p.by
}

// ringingOf finds the call and the leg that ring by a dialog.
func (s *Server) ringingOf(d *sip.Dialog) (*Call, *leg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if l := c.picks.leg(d); l != nil {
			return c, l
		}
	}
	return nil, nil
}

// pickUp takes an INVITE that picks a ringing call of ours up. It must come by the trunk
// that the call goes to.
func (s *Server) pickUp(inv *sip.Invite, c *Call, l *leg, t *trunk) error {
	if l.trunk != t {
		return &sip.RejectError{Code: 403, Rule: "replaces_trunk", Text: "the call to be replaced goes another way"}
	}
	if !c.picks.claim(l) {
		return &sip.RejectError{Code: 481, Rule: "replaces", Text: "the call to be replaced does not ring any more"}
	}
	var by *side
	defer func() { c.picks.settle(by) }()
	l.side.mu.Lock()
	next := &side{call: c, nego: c.negotiation(t, l.rtp, l.side.nego.local.Addr)}
	next.nego.now = l.side.nego.now
	l.side.mu.Unlock()
	next.nego.guard.told = l.protected
	description, first, err := next.describe(inv.Offer())
	if err != nil {
		return err
	}
	next.first = first
	if next.dialog, err = inv.Answer(description, next); err != nil {
		return err
	}
	by = next
	c.log.Info("another telephone picked the call up", zap.String("peer", inv.Source().String()), zap.String("sip_call_id", identity.CleanText(inv.CallID(), 128)))
	return nil
}
