package call

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"parley/agent"
	"parley/identity"
	"parley/rtp"
	"parley/sip"
)

const (
	// defaultRing and maxRing are how long a telephone rings.
	defaultRing = time.Minute
	maxRing     = 3 * time.Minute
	// maxContext and maxContextValue bound what an agent is given to know.
	maxContext      = 64
	maxContextValue = 4096
	maxDisplayName  = 64
)

// Use gives the server the means to place calls: call it before Serve. Without it
// Dial and transfers that need a call of ours are not supported.
func (s *Server) Use(d Dialer) { s.dialer = d }

// Dial places a call and returns its id when it was let pass and has a place and a
// port: how it goes is told by Events, Call and the record. The agent is made ready
// first, so that it can speak when the call is answered. The error is a *GuardError,
// ErrDraining, ErrLimit, ErrNotSupported without a Dialer, or says what is wrong with
// o. ctx is for asking the way to the trunk only; HangUp takes the call back.
func (s *Server) Dial(ctx context.Context, o Outgoing) (id string, err error) {
	c, p, err := s.prepare(o)
	if err != nil {
		to := o.To
		if len(o.Targets) > 0 {
			to = o.Targets[0].To
		}
		s.log.Info("call not placed", zap.String("trunk", o.Trunk), zap.String("to", identity.Mask(identity.CleanText(to, 64))), zap.Error(err))
		return "", err
	}
	if err := s.enter(c); err != nil {
		return "", err
	}
	if err := p.seat(ctx, c); err != nil {
		p.close()
		s.release(c)
		if errors.Is(err, rtp.ErrNoPort) {
			err = errors.Join(ErrLimit, err)
		}
		return "", err
	}
	go s.place(c, p)
	return c.id, nil
}

// localFor is the address of ours by which a trunk is reached; the zero value when
// nobody knows.
func (s *Server) localFor(ctx context.Context, t *trunk) netip.Addr {
	if d, ok := s.dialer.(interface {
		LocalAddr(context.Context, sip.Trunk) (netip.Addr, error)
	}); ok {
		if a, err := d.LocalAddr(ctx, t.cfg.SIP); err == nil {
			return a
		}
	}
	return netip.Addr{}
}

// prepare checks an order.
func (s *Server) prepare(o Outgoing) (*Call, *placing, error) {
	if s.dialer == nil {
		return nil, nil, ErrNotSupported
	}
	c := newCall(s, newID()[:16], outbound)
	p, err := c.placing(o)
	if err != nil {
		return nil, nil, err
	}
	first := p.legs[0]
	c.trunk, c.called, c.from, c.view.State = first.trunk, first.to.to, first.from, StateDialling
	c.caller = identity.Caller{Number: first.to.e164, ResourceID: first.to.e164}
	if o.ResourceID != "" {
		var ok bool
		if c.caller.ResourceID, ok = identity.SafeID(o.ResourceID); !ok {
			return nil, nil, errors.New("call: the resource id may have 128 letters, digits and +-._:@|=~")
		}
	}
	if c.context, err = boundedContext(o.Context); err != nil {
		return nil, nil, err
	}
	c.peer = c.trunk.host()
	if err := s.assign(c, o.Agent); err != nil {
		return nil, nil, err
	}
	c.known()
	return c, p, nil
}

// boundedContext is a copy of what an agent is given to know.
func boundedContext(given map[string]string) (map[string]string, error) {
	if len(given) > maxContext {
		return nil, fmt.Errorf("call: the context may hold %d values", maxContext)
	}
	for k, v := range given {
		if len(k) > maxHeaderName || len(v) > maxContextValue {
			return nil, fmt.Errorf("call: a name of the context may have %d bytes and a value %d", maxHeaderName, maxContextValue)
		}
	}
	return maps.Clone(given), nil
}

// trunkFor finds a trunk; without a name the only one.
func (s *Server) trunkFor(name string) (*trunk, error) {
	if t := s.trunks[name]; t != nil && name != "" {
		return t, nil
	}
	if name == "" && len(s.trunks) == 1 {
		for _, t := range s.trunks {
			return t, nil
		}
	}
	return nil, &GuardError{Rule: "no_trunk", Text: "name one of the trunks to go through"}
}

// assign chooses the agent of an outbound call.
func (s *Server) assign(c *Call, name string) error {
	if name != "" {
		if s.parts.Agent != nil {
			c.routed = Routed{Agent: name, Opener: s.parts.Agent(name)}
		}
		if c.routed.Opener == nil {
			return fmt.Errorf("call: there is no agent %q", identity.CleanText(name, 64))
		}
		return nil
	}
	var ok bool
	c.routed, ok = s.parts.Route(Request{
		Called: c.called, URI: c.trunk.uri(target{to: c.called}), Trunk: c.trunk.cfg.Name, Caller: c.caller, Direction: outbound,
	})
	if !ok || c.routed.Opener == nil {
		return errNoRoute
	}
	return nil
}

// place brings an outbound call up, or its failure into the record.
func (s *Server) place(c *Call, p *placing) {
	up := false
	defer func() {
		if v := recover(); v != nil { // an agent's Open, say: other calls live on
			c.log.Error("placing the call panicked", zap.Any("panic", v), zap.ByteString("stack", debug.Stack()))
			if !up {
				c.unanswered(p, fmt.Errorf("call: panic: %v", v))
			}
		}
	}()
	if err := c.dial(p); err != nil {
		c.unanswered(p, err)
		return
	}
	up = true
	c.start()
}

// dial makes the agent ready, calls, and returns when the call was answered.
func (c *Call) dial(p *placing) (err error) {
	if p.first, err = p.legs[0].describe(nil); err != nil {
		return err
	}
	if err := c.mint(); err != nil {
		return err
	}
	if err := c.connect(p.first, c.routed.Opener.Format()); err != nil {
		return err
	}
	if err := c.open(); err != nil {
		return err
	}
	c.tell(agent.Event{Type: agent.EventConnection, Reason: agent.ConnectionDialling, Text: c.called})
	ctx, stop := context.WithCancelCause(c.ctx)
	defer stop(nil)
	c.picks.begin(stop)
	dialog, n, err := c.server.dialer.DialFirst(ctx, p.attempts(c), p.parallel)
	switch l, by := c.picks.end(); {
	case err == nil:
		if by != nil { // the answer was faster
			go c.bye(by, errTransferred)
		}
		for i, other := range p.legs { // a claim may have held one
			if i != n {
				other.close()
			}
		}
		c.reached(p.legs[n], dialog)
	case by == nil:
		return err
	default:
		l.side = by
		c.reached(l, by.dialog)
	}
	return nil
}

// progress takes a provisional response: that it rings, and what early media need.
func (c *Call) progress(l *leg, p sip.Progress) {
	rang := false
	c.picks.rings(p.Dialog, l)
	c.show(func(s *Status) { rang, s.State = s.State == StateRinging, StateRinging })
	if p.SDP != nil {
		d := l.side
		d.mu.Lock()
		early, err := d.nego.early(p.SDP)
		if err == nil {
			d.first = early // all there is when the 200 brings no other
		}
		d.mu.Unlock()
		if err != nil {
			c.log.Info("early media not taken", zap.Int("code", p.Code), zap.Error(err))
		} else {
			l.pending.Store(early)
			c.tell(agent.Event{Type: agent.EventConnection, Reason: agent.ConnectionEarlyMedia, Code: p.Code, Text: p.Reason})
			return
		}
	}
	if !rang || p.Code == 180 {
		c.tell(agent.Event{Type: agent.EventConnection, Reason: agent.ConnectionRinging, Code: p.Code, Text: p.Reason})
	}
}

// early is what an answer before the answer settled: the offer stays open for the
// one in the 200, which may be another (forking).
func (n *negotiation) early(text []byte) (*change, error) {
	offer := n.offer
	c, err := n.accepted(text)
	n.offer = offer
	return c, err
}

// unanswered ends a call that was not answered, and writes its record.
func (c *Call) unanswered(p *placing, err error) {
	defer c.server.release(c)
	if cause := context.Cause(c.ctx); cause != nil {
		err = cause // taken back; what Dial says is only the consequence
	}
	c.end(err)
	c.enter(StateEnding)
	p.close() // the wheel's figures are ours to read then
	code, q850, reason := failureOf(err)
	c.show(func(s *Status) { s.Code, s.Q850, s.Reason = code, q850, reason })
	c.tell(agent.Event{Type: agent.EventConnection, Reason: agent.ConnectionFailed, Code: code, Q850: q850, Text: reason})
	c.finish()
}

// failureOf is what was told about why a call was not answered.
func failureOf(err error) (code, q850 int, reason string) {
	var dial *sip.DialError
	if !errors.As(err, &dial) {
		return 0, 0, identity.CleanText(err.Error(), 200)
	}
	code, reason = dial.Code, dial.Phrase
	if dial.Reason.Protocol == "Q.850" {
		q850 = dial.Reason.Cause
	}
	switch {
	case dial.Reason.Text != "":
		reason = dial.Reason.Text
	case dial.Text != "":
		reason = dial.Text
	case dial.Code == 0 && dial.Err != nil:
		reason = dial.Err.Error()
	}
	return code, q850, identity.CleanText(reason, 200)
}
