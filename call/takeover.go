package call

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"parley/agent"
	"parley/identity"
	"parley/sip"
)

// Another dialog takes a call over in two ways; the agent's session, the ear, the
// mouth and the port stay.
//
//	REFER      peer ── REFER C ──> us ── INVITE ──> C     (Trunk.AcceptRefer)
//	Replaces   C ── INVITE, Replaces: peer's dialog ──> us
//
//	side ────> dialog with the peer    BYE
//	   └─ becomes ─> dialog with C

// Refer implements sip.ReferHandler: the peer sends us elsewhere. It costs us a call
// to wherever the peer says, so it is off unless the operator wants it, and bound by
// what agents may call (RFC 3515 section 5.2, BR-159).
func (d *side) Refer(r *sip.Referral) *sip.RejectError {
	c := d.call
	forbid := func(rule, text string) *sip.RejectError { return &sip.RejectError{Code: 403, Rule: rule, Text: text} }
	switch now := c.side.Load(); {
	case d.takes != nil || now == nil:
		return forbid("refer_not_allowed", "nobody talks in this call yet")
	case now != d:
		return &sip.RejectError{Code: 481, Rule: "dialog", Text: "another dialog has this call"}
	case c.trunk == nil || !c.trunk.cfg.AcceptRefer || c.server.dialer == nil:
		return forbid("refer_not_allowed", "transfers by the peer are not taken")
	}
	done, err := c.move()
	if err != nil {
		return &sip.RejectError{Code: 503, Rule: "transfer_under_way", Text: "a transfer is under way", RetryAfter: retryAfter}
	}
	to, err := c.trunk.guard(r.To.RawURI, byPeer)
	if err == nil {
		err = c.charge(c.trunk)
	}
	var free func()
	if err == nil {
		free, err = c.server.leg(c.trunk)
	}
	if err != nil {
		done()
		var guard *GuardError
		if errors.As(err, &guard) {
			return forbid("refer_"+guard.Rule, guard.Text)
		}
		return reject(err)
	}
	c.log.Info("the peer transfers us", zap.String("to", identity.Mask(to.to)), zap.String("by", maskedURI(r.ReferredBy)), zap.Bool("replaces", r.Replaces != ""))
	go func() {
		defer free()
		defer done()
		c.follow(d, r, to)
	}()
	return nil
}

// follow calls where the peer sends us, and moves the call there.
func (c *Call) follow(old *side, r *sip.Referral, to target) {
	defer func() {
		if v := recover(); v != nil {
			c.log.Error("transfer by the peer panicked", zap.Any("panic", v), zap.ByteString("stack", debug.Stack()))
			r.Done(500, "")
		}
	}()
	c.tell(agent.Event{Type: agent.EventConnection, Reason: agent.ConnectionTransferring, Text: to.to})
	next, err := c.dialNext(old, r, to)
	if err == nil && !c.takeOver(next) {
		c.bye(next, errTransferred)
		err = agent.ErrClosed
	}
	if err != nil {
		failed := transferError(err)
		code := failed.Code
		if code < 300 {
			code = 503
		}
		r.Done(code, failed.Reason)
		c.log.Info("the peer's transfer failed, the call goes on", zap.Int("code", code), zap.Error(err))
		c.tell(agent.Event{Type: agent.EventConnection, Reason: agent.ConnectionTransferFailed, Text: to.to, Code: failed.Code})
		return
	}
	r.Done(200, "OK")
	last := time.NewTimer(c.server.cfg.EndTimeout)
	defer last.Stop()
	select {
	case <-r.Reported():
	case <-last.C:
	case <-old.dialog.Context().Done(): // the peer did not wait for it
	}
	c.bye(old, errTransferred)
}

// dialNext makes the dialog with the party that the peer sends us to.
func (c *Call) dialNext(old *side, r *sip.Referral, to target) (*side, error) {
	ctx, cancel := context.WithTimeout(c.ctx, defaultRing)
	defer cancel()
	from, err := c.trunk.shown("")
	if err != nil {
		return nil, err
	}
	next := &side{call: c, nego: c.succession(old, c.trunk)}
	next.mu.Lock()
	offer := next.nego.propose()
	next.mu.Unlock()
	next.dialog, err = c.server.dialer.Dial(ctx, c.trunk.cfg.SIP, sip.Outgoing{
		To: to.to, From: from, Offer: offer, RingTimeout: defaultRing, Replaces: r.Replaces, ReferredBy: r.ReferredBy,
		Progress: func(p sip.Progress) { r.Notify(p.Code, p.Reason) },
	}, next)
	return next, err
}

// succession begins a negotiation with another party on the call's own port. What is
// queued to be said, and the coders, go on.
func (c *Call) succession(old *side, t *trunk) *negotiation {
	old.mu.Lock()
	defer old.mu.Unlock()
	n := c.negotiation(t, c.rtp, old.nego.local.Addr)
	n.now = old.nego.now
	return n
}

// takeOver puts a dialog in the place of the one in force. False: the call is over.
func (c *Call) takeOver(next *side) bool {
	c.acts.mu.Lock()
	defer c.acts.mu.Unlock()
	if c.acts.over || c.ctx.Err() != nil {
		return false
	}
	c.up(next)
	c.tell(agent.Event{Type: agent.EventConnection, Reason: agent.ConnectionMoved})
	return true
}

// bye ends a dialog that is not, or no more, the call's.
func (c *Call) bye(d *side, why error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.server.cfg.EndTimeout)
	defer cancel()
	if err := d.dialog.Bye(ctx, byeReason(why)); err != nil {
		c.log.Warn("BYE not answered", zap.Error(err))
	}
}

// replace takes an INVITE that takes the place of a dialog of ours (RFC 3891). It must
// come the way that the call came.
func (s *Server) replace(inv *sip.Invite, old *sip.Dialog, t *trunk) error {
	c, was := s.callOf(old)
	if c == nil {
		if c, l := s.ringingOf(old); c != nil {
			return s.pickUp(inv, c, l, t)
		}
		return &sip.RejectError{Code: 481, Rule: "replaces", Text: "no call has this dialog"}
	}
	if c.trunk != t {
		return &sip.RejectError{Code: 403, Rule: "replaces_trunk", Text: "the call to be replaced came another way"}
	}
	done, err := c.move()
	if err != nil {
		return &sip.RejectError{Code: 503, Rule: "transfer_under_way", Text: "a transfer is under way", RetryAfter: retryAfter}
	}
	defer done()
	next := &side{call: c, nego: c.succession(was, t)}
	description, first, err := next.describe(inv.Offer())
	if err != nil {
		return err
	}
	next.first = first
	if next.dialog, err = inv.Answer(description, next); err != nil {
		return err
	}
	if !c.takeOver(next) {
		c.bye(next, errTransferred)
		return nil
	}
	c.mu.Lock()
	c.peer = inv.Source().String()
	c.mu.Unlock()
	c.log.Info("another dialog took the call over", zap.String("peer", inv.Source().String()), zap.String("sip_call_id", inv.CallID()))
	c.bye(was, errTransferred)
	return nil
}

// callOf finds the call whose dialog in force is d.
func (s *Server) callOf(d *sip.Dialog) (*Call, *side) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if side := c.side.Load(); side != nil && side.dialog == d {
			return c, side
		}
	}
	return nil, nil
}
