package call

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"runtime/debug"
	"strings"
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

// placing is an outbound call that the guardrails have let pass.
type placing struct {
	to      target
	from    string
	name    string
	headers []sip.Header
	ring    time.Duration
	nego    *negotiation
}

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
		s.log.Info("call not placed", zap.String("trunk", o.Trunk), zap.String("to", identity.Mask(identity.CleanText(o.To, 64))), zap.Error(err))
		return "", err
	}
	if err := s.reserve(c); err != nil {
		return "", err
	}
	if p.nego, err = c.listen(s.localFor(ctx, c.trunk)); err != nil {
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
	t, err := s.trunkFor(o.Trunk)
	if err != nil {
		return nil, nil, err
	}
	p := &placing{name: o.Name, ring: o.RingTimeout}
	if p.to, err = t.guard(o.To, byOperator); err != nil {
		return nil, nil, err
	}
	if p.from, err = t.shown(o.From); err != nil {
		return nil, nil, err
	}
	if p.headers, err = passed(o.Headers); err != nil {
		return nil, nil, err
	}
	if len(o.Name) > maxDisplayName || strings.ContainsFunc(o.Name, control) {
		return nil, nil, &GuardError{Rule: "name", Text: fmt.Sprintf("a display name is one line of at most %d bytes", maxDisplayName)}
	}
	switch {
	case p.ring == 0:
		p.ring = defaultRing
	case p.ring < 0 || p.ring > maxRing:
		return nil, nil, fmt.Errorf("call: the ring timeout must be between 0 and %v", maxRing)
	}
	c := newCall(s, newID()[:16], outbound)
	c.trunk, c.called, c.from, c.view.State = t, p.to.to, p.from, StateDialling
	c.caller = identity.Caller{Number: p.to.e164, ResourceID: p.to.e164}
	if o.ResourceID != "" {
		var ok bool
		if c.caller.ResourceID, ok = identity.SafeID(o.ResourceID); !ok {
			return nil, nil, errors.New("call: the resource id may have 128 letters, digits and +-._:@|=~")
		}
	}
	if c.context, err = boundedContext(o.Context); err != nil {
		return nil, nil, err
	}
	if len(t.cfg.SIP.Hosts) > 0 {
		c.peer = t.cfg.SIP.Hosts[0]
	}
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

// reserve gives an outbound call its place.
func (s *Server) reserve(c *Call) error {
	if err := s.enter(c); err != nil {
		return err
	}
	s.mu.Lock()
	ok, _ := c.trunk.bucket.take(time.Now())
	s.mu.Unlock()
	if !ok {
		s.release(c)
		return errTrunkRate
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
				c.unanswered(fmt.Errorf("call: panic: %v", v))
				s.release(c)
			}
		}
	}()
	if err := c.dial(p); err != nil {
		c.unanswered(err)
		s.release(c)
		return
	}
	up = true
	c.start()
}

// dial makes the agent ready, calls, and returns when the call was answered.
func (c *Call) dial(p *placing) error {
	d := &side{call: c, nego: p.nego}
	offer, first, err := d.describe(nil)
	if err != nil {
		return err
	}
	if err := c.mint(); err != nil {
		return err
	}
	if err := c.connect(first, c.routed.Opener.Format()); err != nil {
		return err
	}
	if err := c.open(); err != nil {
		return err
	}
	// The callee may send as soon as it has the offer (RFC 3264 section 5.1).
	c.deaf.Store(true)
	c.pending.Store(first)
	c.rtp.Join((*turned)(c))
	c.tell(agent.Event{Type: agent.EventConnection, Reason: agent.ConnectionDialling, Text: c.called})
	d.dialog, err = c.server.dialer.Dial(c.ctx, c.trunk.cfg.SIP, sip.Outgoing{
		To: p.to.to, From: p.from, Name: p.name, Headers: p.headers, Offer: offer, RingTimeout: p.ring,
		Progress: func(pr sip.Progress) { c.progress(d, pr) },
	}, d)
	if err != nil {
		return err
	}
	c.answered = time.Now()
	c.show(func(s *Status) { s.SIPCallID = identity.CleanText(d.dialog.CallID(), 128) })
	c.up(d)
	c.deaf.Store(false)
	return nil
}

// progress takes a provisional response: that it rings, and what early media need.
func (c *Call) progress(d *side, p sip.Progress) {
	rang := false
	c.show(func(s *Status) { rang, s.State = s.State == StateRinging, StateRinging })
	if p.SDP != nil {
		d.mu.Lock()
		early, err := d.nego.early(p.SDP)
		d.mu.Unlock()
		if err != nil {
			c.log.Info("early media not taken", zap.Int("code", p.Code), zap.Error(err))
		} else {
			c.pending.Store(early)
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

// unanswered writes the record of a call that was not answered.
func (c *Call) unanswered(err error) {
	if cause := context.Cause(c.ctx); cause != nil {
		err = cause // taken back; what Dial says is only the consequence
	}
	c.end(err)
	c.enter(StateEnding)
	c.rtp.Close() // the wheel's figures are ours to read then
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
