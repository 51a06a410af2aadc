package call

import (
	"context"
	"net/textproto"
	"strings"
	"time"

	"parley/identity"
	"parley/sip"
)

// setUp brings a call that came in from the INVITE to the 200. On an error everything
// it took is given back by free.
func (c *Call) setUp(inv *sip.Invite) error {
	if err := c.identify(inv); err != nil {
		return err
	}
	var ok bool
	if c.routed, ok = c.server.parts.Route(Request{
		Called: c.called, URI: requestURI(inv), Trunk: c.trunk.name(), Caller: c.caller, Direction: inbound,
	}); !ok || c.routed.Opener == nil {
		return errNoRoute
	}
	c.known()
	// The INVITE's own context ends when the caller cancels; a call's context does
	// not end with its INVITE transaction.
	stop := context.AfterFunc(inv.Context(), func() { c.end(context.Cause(inv.Context())) })
	defer stop()

	if err := c.mint(); err != nil {
		return err
	}
	d := &side{call: c}
	description, first, err := c.answerTo(inv, d)
	if err != nil {
		return err
	}
	if err := c.connect(first, c.routed.Opener.Format()); err != nil {
		return err
	}
	if err := inv.Ring(); err != nil {
		return err
	}
	if err := c.open(); err != nil {
		return err
	}
	// The wheel must turn before the 200 is out: the caller may send at once.
	c.held.Store(first.held)
	c.pending.Store(first)
	c.rtp.Join((*turned)(c))
	if d.dialog, err = inv.Answer(description, d); err != nil {
		return err
	}
	c.up(d)
	c.answered = time.Now()
	return nil
}

// answerTo takes a port and makes the session description for the 200.
func (c *Call) answerTo(inv *sip.Invite, d *side) (description []byte, first *change, err error) {
	if d.nego, err = c.listen(inv.Local().Addr()); err != nil {
		return nil, nil, err
	}
	d.nego.guard.signalling = inv.Transport()
	return d.describe(inv.Offer())
}

// describe answers an offer, or makes ours when there is none: then the 200 carries
// it and the ACK the answer (RFC 3264 section 4), and until then the call is made for
// our preferred codec.
func (d *side) describe(offer []byte) (description []byte, first *change, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if offer == nil {
		description = d.nego.propose()
		first, err = d.nego.provisional()
		return description, first, err
	}
	description, first, refusal := d.nego.answer(offer)
	if refusal != nil {
		return nil, nil, refusal
	}
	return description, first, nil
}

// requestURI is who is called, as a URI, for patterns of routes.
func requestURI(inv *sip.Invite) string {
	u := inv.RequestURI()
	s := u.Scheme + ":" + u.User
	if u.Host != "" {
		s += "@" + u.Host
	}
	return identity.CleanText(s, 256)
}

// What is kept of the X- headers of one call.
const (
	maxHeaders     = 32
	maxHeaderName  = 64
	maxHeaderValue = 256
)

// extensionHeaders are the X- headers of an INVITE. What a name has several of is
// joined by commas (RFC 3261 section 7.3.1).
func extensionHeaders(inv *sip.Invite) map[string]string {
	var out map[string]string
	for _, name := range inv.HeaderNames() {
		key := textproto.CanonicalMIMEHeaderKey(name)
		if !strings.HasPrefix(key, "X-") || len(key) > maxHeaderName || len(out) >= maxHeaders {
			continue
		}
		if out == nil {
			out = make(map[string]string)
		}
		out[key] = identity.CleanText(strings.Join(inv.Header(name), ", "), maxHeaderValue)
	}
	return out
}

// Handle takes one INVITE and returns when its call is up or refused. It is a
// sip.Handler.
func (s *Server) Handle(ctx context.Context, inv *sip.Invite) {
	trunk, err := s.admitted(inv)
	if err != nil {
		s.refuse(inv, err)
		return
	}
	switch old, rej := inv.Replaces(); {
	case rej != nil:
		s.refuse(inv, rej)
		return
	case old != nil:
		if err := s.replace(inv, old, trunk); err != nil {
			s.refuse(inv, err)
		}
		return
	}
	c := newCall(s, inv.ID(), inbound)
	c.trunk, c.peer, c.view.SIPCallID = trunk, inv.Source().String(), inv.CallID()
	if err := s.enter(c); err != nil {
		s.refuse(inv, err)
		return
	}
	up := false
	defer func() { // also when an agent's Open panics, which sip recovers from
		if !up {
			s.release(c)
		}
	}()
	if err := c.setUp(inv); err != nil {
		s.refuse(inv, err)
		return
	}
	up = true
	c.start()
}

// admitted says by which trunk the caller comes, if it may come in.
func (s *Server) admitted(inv *sip.Invite) (*trunk, error) {
	if s.parts.Admit == nil {
		return nil, nil
	}
	a, refusal := s.parts.Admit(inv)
	if refusal != nil {
		return nil, refusal
	}
	return s.trunks[a.Trunk], nil
}
