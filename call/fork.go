package call

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"parley/agent"
	"parley/identity"
	"parley/sip"
)

// placing is an outbound call that the guardrails have let pass: to one, or to several
// of whom the first that answers has it.
type placing struct {
	legs     []*leg // in the order of the Targets
	parallel bool
	name     string
	headers  []sip.Header
	ring     time.Duration
	first    *change // what the call is ready with until the answer
}

// placing asks the guardrails about all who are to be called.
func (c *Call) placing(o Outgoing) (p *placing, err error) {
	p = &placing{parallel: o.Parallel, name: o.Name, ring: o.RingTimeout}
	targets := o.Targets
	switch {
	case len(targets) == 0:
		targets = []Target{{To: o.To, Trunk: o.Trunk}}
	case o.To != "" || o.Trunk != "":
		return nil, errors.New("call: targets stand instead of who is called and of the trunk")
	case len(targets) > maxTargets:
		return nil, fmt.Errorf("call: a call may have %d targets", maxTargets)
	}
	for _, t := range targets {
		if err := p.add(c, t, o.From); err != nil {
			return nil, err
		}
	}
	if p.headers, err = passed(o.Headers); err != nil {
		return nil, err
	}
	if len(o.Name) > maxDisplayName || strings.ContainsFunc(o.Name, control) {
		return nil, &GuardError{Rule: "name", Text: fmt.Sprintf("a display name is one line of at most %d bytes", maxDisplayName)}
	}
	switch {
	case p.ring == 0:
		p.ring = defaultRing
	case p.ring < 0 || p.ring > maxRing:
		return nil, fmt.Errorf("call: the ring timeout must be between 0 and %v", maxRing)
	}
	return p, nil
}

// add asks the guardrails about one of those who are to be called.
func (p *placing) add(c *Call, to Target, from string) error {
	t, err := c.server.trunkFor(to.Trunk)
	if err != nil {
		return err
	}
	l := c.newLeg(t)
	l.early = &c.early
	if l.to, err = t.guard(to.To, byOperator); err != nil {
		return err
	}
	if l.from, err = t.shown(from); err != nil {
		return err
	}
	p.legs = append(p.legs, l)
	return nil
}

// seat takes ports and places for all that are called at once. The place of the first
// is that of the call.
func (p *placing) seat(ctx context.Context, c *Call) error {
	for i, l := range p.legs {
		var err error
		switch {
		case i == 0:
			err = c.server.pace(l.trunk)
		case p.parallel:
			l.done, err = c.server.leg(l.trunk)
		default:
			return nil
		}
		if err == nil {
			err = l.listen(ctx)
		}
		if err != nil {
			return err
		}
		if i == 0 {
			c.rtp = l.rtp
		}
	}
	return nil
}

// close ends all legs. No wheel turns them any more then.
func (p *placing) close() {
	for _, l := range p.legs {
		l.close()
	}
}

// attempts are the legs, as sip calls them.
func (p *placing) attempts(c *Call) []sip.Attempt {
	out := make([]sip.Attempt, 0, len(p.legs))
	for _, l := range p.legs {
		out = append(out, sip.Attempt{
			Trunk: l.trunk.cfg.SIP,
			Outgoing: sip.Outgoing{
				To: l.to.to, From: l.from, Name: p.name, Headers: p.headers, RingTimeout: p.ring,
				Progress: func(pr sip.Progress) { c.progress(l, pr) },
			},
			Handler: l.side,
			Before: func(o *sip.Outgoing) error {
				err := p.ready(c, l)
				o.Offer = l.offer
				return err
			},
			Failed: func(err error) { p.missed(c, l, err) },
		})
	}
	return out
}

// ready gives a leg whose turn has come what it still needs, and lets the wheel turn it:
// whoever is called may send as soon as they have the offer (RFC 3264 section 5.1). One
// that follows upon another through the call's own trunk has the call's place.
func (p *placing) ready(c *Call, l *leg) (err error) {
	if l.rtp == nil {
		if l.trunk == c.trunk {
			err = c.server.pace(l.trunk)
		} else {
			l.done, err = c.server.leg(l.trunk)
		}
		if err == nil {
			err = l.listen(c.ctx)
		}
		if err != nil {
			return err
		}
	}
	if l.offer == nil {
		if _, err := l.describe(p.first); err != nil {
			return err
		}
	}
	l.rtp.Join(l)
	return nil
}

// missed takes note of why one of several did not take the call.
func (p *placing) missed(c *Call, l *leg, err error) {
	if c.picks.holds(l) { // another telephone has it, which is no failure
		return
	}
	l.close()
	if len(p.legs) == 1 {
		return
	}
	a := Attempt{To: l.to.to, Trunk: l.trunk.name()}
	if errors.Is(err, sip.ErrElsewhere) {
		a.Cause = CauseElsewhere
	} else {
		a.Cause, _ = causeOf(err)
		a.Code, a.Q850, a.Reason = failureOf(err)
		c.tell(agent.Event{Type: agent.EventConnection, Reason: agent.ConnectionTargetFailed, Text: a.To, Code: a.Code, Q850: a.Q850})
	}
	c.show(func(s *Status) { s.Attempts = append(s.Attempts, a) })
}

// reached makes the leg that was answered the call's own.
func (c *Call) reached(l *leg, d *sip.Dialog) {
	c.answered = time.Now()
	c.server.reseat(c, l)
	c.rtp, c.called, c.from = l.rtp, l.to.to, l.from
	l.side.mu.Lock()
	l.side.dialog = d
	if first := l.side.first; first != nil {
		c.codec = first.line.codec.Name
	}
	l.side.mu.Unlock()
	c.known()
	c.show(func(s *Status) {
		s.SIPCallID, c.peer = identity.CleanText(d.CallID(), 128), l.trunk.host()
	})
	c.up(l.side)
	l.take()
}
