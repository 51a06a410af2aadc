package sip

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Outgoing is a call to make.
type Outgoing struct {
	// To is who is called: a number or user, which is put at the trunk's domain
	// and escaped, or a whole sip:, sips: or tel: URI.
	To string
	// From is the user part of our address, as the number to show. Empty: the
	// trunk's User. Name is the display name.
	From, Name string
	// Replaces makes the new call take the place of one that the callee has (RFC 3891):
	// the value of the header, as Referral.Replaces has it. A callee that does not know
	// of it refuses with 420.
	Replaces string
	// ReferredBy is the URI of who wanted this call, or a whole Referred-By value, as
	// Referral.ReferredBy has it (RFC 3892).
	ReferredBy string
	// Headers are added to the INVITE. Those that SIP itself needs are refused.
	Headers []Header
	// Offer is our session description.
	Offer []byte
	// RingTimeout is how long to wait for the answer. 0 is three minutes.
	RingTimeout time.Duration
	// Redirects is how many 3xx answers are followed. The call still goes through
	// the trunk; only who is called changes. 0 follows none.
	Redirects int
	// Progress, when set, is told of every provisional response but 100. It is
	// called by Dial, in order.
	Progress func(Progress)
}

// Header is one header of a request.
type Header struct{ Name, Value string }

// Progress is a provisional response.
type Progress struct {
	// Code is 101 to 199, Reason its phrase.
	Code   int
	Reason string
	// SDP is the answer to our offer that early media follow; nil without.
	SDP []byte
	// Dialog is the early dialog; nil when the response makes none. With several
	// telephones ringing there are several. Offer works on it once an answer in SDP was
	// confirmed, which needs 100rel of the callee, and until Dial returns; there is
	// nothing to hang up yet, that is what the context of Dial is for.
	Dialog *Dialog
}

const defaultRing = 3 * time.Minute

// ErrElsewhere says that another call of the same DialFirst, or another telephone, was
// faster.
var ErrElsewhere = errors.New("sip: answered elsewhere")

// ErrRingTimeout says that nobody answered within Outgoing.RingTimeout.
var ErrRingTimeout = errors.New("sip: not answered in time")

// dialling is one call being made, over all of its attempts.
type dialling struct {
	s      *Server
	link   *link
	o      Outgoing
	dh     DialogHandler
	uri    string
	from   string
	to     string
	tag    string
	callID string
	cseq   uint32
	login  *login
	timer  sessionOffer
	extra  []field     // Replaces, Referred-By
	moved  int         // redirections followed
	claim  func() bool // nil, or says whether the answer is still wanted
}

// Dial calls somebody through a trunk: with the offer, answering the trunk's
// challenges, and by its other hosts when one does not answer. It returns when the
// call was answered, the ACK was sent and dh.Answer has taken the answer; an error
// of that ends the call. Otherwise the error is a *DialError. When ctx ends before
// the answer the call is cancelled, as soon as the peer allows (RFC 3261 section
// 9.1); an answer that comes all the same is acknowledged and ended. ctx has no
// influence on an answered call.
func (s *Server) Dial(ctx context.Context, t Trunk, o Outgoing, dh DialogHandler) (*Dialog, error) {
	return s.dial(ctx, t, o, dh, nil)
}

// dial is Dial with a claim: when that says no, the answer is acknowledged and ended.
func (s *Server) dial(ctx context.Context, t Trunk, o Outgoing, dh DialogHandler, claim func() bool) (*Dialog, error) {
	if dh == nil {
		dh = deaf{}
	}
	c := &dialling{s: s, o: o, dh: dh, tag: newID(), callID: newID() + newID(), timer: s.cfg.Timer.offer(), claim: claim}
	if err := c.prepare(t); err != nil {
		return nil, err
	}
	ring := o.RingTimeout
	if ring <= 0 {
		ring = defaultRing
	}
	ctx, stop := context.WithTimeoutCause(ctx, ring, ErrRingTimeout)
	defer stop()
	return c.anywhere(ctx)
}

// prepare checks what the call is made of.
func (c *dialling) prepare(t Trunk) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if c.s.draining.Load() {
		return &DialError{Err: errors.New("sip: the server is draining")}
	}
	c.link = c.s.linkOf(t)
	c.login = c.link.keys.begin(false)
	var err error
	if c.uri, err = callee(t, c.o.To); err != nil {
		return err
	}
	user := c.o.From
	if user == "" {
		user = t.User
	}
	c.from = "<" + t.aor(user) + ">;tag=" + c.tag
	if c.o.Name != "" {
		c.from = quote(c.o.Name) + " " + c.from
	}
	c.to = "<" + c.uri + ">"
	for _, h := range c.o.Headers {
		if !isToken(h.Name) || strings.ContainsAny(h.Value, "\r\n\x00") || len(h.Value) > maxValue || ownHeader(h.Name) {
			return fmt.Errorf("sip: header %q cannot be set", clean(h.Name, 64))
		}
	}
	return c.prepareTransfer()
}

// prepareTransfer writes the headers of a call that a REFER asked for.
func (c *dialling) prepareTransfer() error {
	if v := c.o.Replaces; v != "" {
		if _, err := parseReplaces(v); err != nil || hasControls(v) {
			return fmt.Errorf("%w: %q", errReplaces, clean(v, 64))
		}
		c.extra = append(c.extra, field{"Replaces", v}, field{"Require", "replaces"})
	}
	if v := c.o.ReferredBy; v != "" {
		if _, err := oneURI(v); err == nil {
			v = "<" + v + ">"
		}
		if _, err := ParseAddress(v); err != nil || len(v) > maxValue || hasControls(v) {
			return fmt.Errorf("sip: bad Referred-By %q", clean(v, 64))
		}
		c.extra = append(c.extra, field{"Referred-By", v})
	}
	return nil
}

// callee makes the Request-URI.
func callee(t Trunk, to string) (string, error) {
	scheme, _, whole := strings.Cut(to, ":")
	if !whole {
		if to == "" {
			return "", errors.New("sip: nobody to call")
		}
		return t.aor(to), nil
	}
	u, err := ParseURI(to)
	switch {
	case err != nil:
		return "", fmt.Errorf("sip: cannot call %q: %w", clean(to, 64), err)
	case u.Scheme == "tel":
		// RFC 3261 section 19.1.6. Visual separators mean nothing.
		return t.aor(strings.NewReplacer("-", "", ".", "", "(", "", ")", "").Replace(u.User)) + ";user=phone", nil
	case u.Scheme != "sip" && u.Scheme != "sips" || strings.ContainsAny(to, "?\x00"):
		return "", fmt.Errorf("sip: cannot call %q: %s addresses cannot be called", clean(to, 64), clean(scheme, 16))
	}
	return to, nil
}

// ownHeader says that a header belongs to this package.
func ownHeader(name string) bool {
	return slices.Contains([]string{"via", "from", "to", "call-id", "cseq", "contact", "max-forwards", "route", "record-route",
		"content-length", "content-type", "content-encoding", "authorization", "proxy-authorization", "require", "proxy-require",
		"supported", "allow", "session-expires", "min-se", "rack", "rseq", "user-agent", "replaces", "referred-by", "refer-to"}, longName(name))
}

// anywhere tries the trunk's hosts, first the one where we are registered.
func (c *dialling) anywhere(ctx context.Context) (*Dialog, error) {
	all, err := c.s.targets(ctx, c.link.t) // also a name that cannot be resolved now may have worked
	if last, ok := c.link.settled(); ok {
		all = append([]target{last}, slices.DeleteFunc(all, func(t target) bool { return t.addr == last.addr })...)
	} else if err != nil {
		return nil, &DialError{Err: errors.Join(ErrTransport, err)}
	}
	for i, to := range all {
		limit := time.Duration(0)
		if i+1 < len(all) {
			limit = 16 * c.s.cfg.T1 // for the first sign of life
		}
		var f *flow
		if f, err = c.link.reach(ctx, to); err != nil {
			err = &DialError{Err: err}
			continue
		}
		var d *Dialog
		if d, err = c.here(ctx, f, limit); err == nil {
			c.link.settle(to, false)
			return d, nil
		}
		if ctx.Err() != nil || !elsewhere(err) {
			break
		}
	}
	return nil, err
}

// elsewhere says whether another host may do better (RFC 3263 section 4.3).
func elsewhere(err error) bool {
	var e *DialError
	if !errors.As(err, &e) {
		return false
	}
	return e.Code == 503 || e.Code == 0 && (errors.Is(err, ErrTimeout) || errors.Is(err, ErrTransport))
}

// here makes the call over one flow, with as many INVITEs as it takes.
func (c *dialling) here(ctx context.Context, f *flow, limit time.Duration) (*Dialog, error) {
	for {
		l, err := c.send(ctx, f)
		if err != nil {
			return nil, &DialError{Err: err}
		}
		m, err := c.follow(ctx, l, limit)
		switch {
		case err != nil:
			return nil, &DialError{Err: err}
		case m.code < 300:
			return c.answered(l, m)
		}
		again, err := c.refused(m)
		if !again {
			return nil, dialError(m, err)
		}
	}
}

// refused decides about a refusal: whether the INVITE is worth another try.
func (c *dialling) refused(m *message) (again bool, err error) {
	switch {
	case m.code == 401 || m.code == 407:
		err = c.login.challenged(m)
		return err == nil, err
	case m.code == 422:
		return c.timer.raise(m), nil
	case m.code/100 == 3 && c.moved < c.o.Redirects:
		for _, a := range ParseAddresses(m.all("contact")) {
			uri := strings.ReplaceAll(a.RawURI, "?", "")
			if a.URI.Scheme == "tel" || uri == a.RawURI {
				if next, err := callee(c.link.t, uri); err == nil && next != c.uri {
					c.uri = next
					c.moved++
					return true, nil
				}
			}
		}
	}
	return false, nil
}

// follow passes on what is heard until there is a final response. With a limit the
// first response must come before it.
func (c *dialling) follow(ctx context.Context, l *leg, limit time.Duration) (*message, error) {
	c.s.mu.Lock()
	c.s.legs[l] = struct{}{}
	c.s.mu.Unlock()
	defer func() {
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		delete(c.s.legs, l)
	}()
	var late <-chan time.Time
	if limit > 0 {
		t := time.NewTimer(limit)
		defer t.Stop()
		late = t.C
	}
	for {
		select {
		case <-l.wake:
			for _, m := range l.take() {
				switch {
				case m == nil:
					return nil, l.tx.err
				case m.code >= 200:
					return m, nil
				case m.code > 100 && c.o.Progress != nil:
					c.o.Progress(Progress{Code: m.code, Reason: clean(m.phrase, 64), SDP: m.sdp, Dialog: l.accepted(m)})
				}
				late = nil
			}
		case <-late:
			l.drop(Reason{})
			return nil, ErrTimeout
		case <-ctx.Done():
			l.drop(cancelReason(context.Cause(ctx)))
			return nil, context.Cause(ctx)
		case <-c.s.done:
			l.drop(Reason{})
			return nil, ErrShutdown
		}
	}
}

// answered acknowledges the 2xx and gives its answer to the handler.
func (c *dialling) answered(l *leg, m *message) (*Dialog, error) {
	d := l.accepted(m)
	l.acknowledge(d, m)
	if c.claim != nil && !c.claim() {
		d.hangUp(ErrLocalBye, elsewhereReason)
		return nil, &DialError{Code: m.code, Phrase: clean(m.phrase, 64), Err: ErrElsewhere}
	}
	sdp, early := m.sdp, l.early(m.to.Tag)
	d.quiet() // an UPDATE may be under way
	given := d.given
	if early != nil && (d.agreed || sdp == nil) {
		sdp = early // of a reliable provisional, or meant as one
	}
	d.offerOpen = d.offerOpen || !given // the handler does one thing at a time
	d.mu.Unlock()
	if given {
		d.settle(c.o.Offer)
		return d, nil
	}
	err := errors.New("sip: the 200 brought no answer to our offer")
	if sdp != nil {
		err = c.dh.Answer(sdp)
	}
	if err != nil {
		d.hangUp(ErrNoAnswer, Reason{Protocol: "SIP", Cause: 488, Text: clean(err.Error(), 200)})
		return nil, &DialError{Code: m.code, Phrase: clean(m.phrase, 64), Err: errors.Join(ErrNoAnswer, err)}
	}
	d.settle(c.o.Offer)
	return d, nil
}
