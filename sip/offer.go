package sip

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// maxGlare bounds the tries after 491, and the times that a request of ours waits
// for one of the peer's.
const maxGlare = 5

// ask sends a request in the dialog and waits for the final response. method,
// fields and body of r are used.
func (d *Dialog) ask(ctx context.Context, r request) (*message, error) {
	return d.askCounted(ctx, r, d.nextCSeq)
}

// askCounted is ask for those who need to know the numbers of the requests.
func (d *Dialog) askCounted(ctx context.Context, r request, next func() uint32) (*message, error) {
	hop, err := d.prepare(ctx, &r)
	if err != nil {
		return nil, err
	}
	return d.s.ask(ctx, r, hop.flow, hop.to, d.login(hop), next, 0)
}

// prepare fills in what requests in the dialog have in common.
func (d *Dialog) prepare(ctx context.Context, r *request) (hop, error) {
	// A context that has ended must not keep a BYE from going out.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
	defer cancel()
	h, err := d.nextHop(ctx)
	r.uri, r.routes, r.from, r.to, r.callID = h.uri, h.routes, d.from, d.to, d.key.callID
	return h, err
}

// login answers challenges for a request that goes to the trunk itself. What goes
// to a Contact straight away reaches the other party, and that could be anybody who
// would like a digest to guess our password from.
func (d *Dialog) login(h hop) *login {
	if d.link == nil || h.to.Addr() != d.trunk {
		return nil
	}
	return d.link.keys.begin(false)
}

func (d *Dialog) nextCSeq() uint32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.localCSeq++
	return d.localCSeq
}

// Offer changes the session: it sends a re-INVITE with our offer (RFC 3261 section
// 14.1), or an UPDATE while the call is not answered (RFC 3311), and returns the
// peer's answer. An offer of the peer's that is under way is
// waited for, and so is the time that the RFC sets when both made one (491), or that
// the peer asks for (500). With a *RejectError, which the peer gave, the session goes
// on as it was; other errors are ErrGone, when the call is over, ErrEarly, those of
// Context, and that of ctx.
func (d *Dialog) Offer(ctx context.Context, sdp []byte) (answer []byte, err error) {
	m, err := d.negotiate(ctx, sdp)
	if err != nil {
		return nil, err
	}
	return m.sdp, nil
}

// negotiate is Offer with the whole response.
func (d *Dialog) negotiate(ctx context.Context, sdp []byte) (*message, error) {
	for range maxGlare {
		once := d.offerOnce
		if d.early() {
			once = d.updateOnce
		}
		m, err := once(ctx, sdp)
		wait := d.glareDelay()
		switch {
		case errors.Is(err, errGlare):
		case err != nil:
			return nil, err
		case m.code == 500 && m.get("retry-after") != "": // an offer of its own is not answered
			wait = min(retryAfter(m), 10*time.Second)
		case m.code != 491:
			return m, d.judge(m)
		}
		if err := d.pause(ctx, wait); err != nil {
			return nil, err
		}
	}
	return nil, &RejectError{Code: 491, Rule: "glare", Text: "Offers kept crossing"}
}

// judge makes an error of a refusal, and an end of one that says that there is no
// call (RFC 3261 section 12.2.1.2).
func (d *Dialog) judge(m *message) error {
	switch {
	case m.code/100 == 2:
		return nil
	case (m.code == 481 || m.code == 408) && !d.early():
		d.hangUp(ErrGone, Reason{Protocol: "SIP", Cause: m.code, Text: "The call is not known any more"})
		return ErrGone
	}
	e := dialError(m, nil)
	return &RejectError{Code: e.Code, Reason: e.Phrase, Text: e.Text, RetryAfter: e.RetryAfter, Rule: "peer"}
}

// errGlare: an offer is open already.
var errGlare = errors.New("sip: another offer is open")

// glareDelay is how long to wait after 491: longer for the owner of the Call-ID,
// so that both do not try again together (RFC 3261 section 14.1).
func (d *Dialog) glareDelay() time.Duration {
	unit := 10 * time.Millisecond
	if d.caller {
		return 2100*time.Millisecond + time.Duration(rand.IntN(191))*unit
	}
	return time.Duration(rand.IntN(201)) * unit
}

// pause waits, unless the call or ctx ends.
func (d *Dialog) pause(ctx context.Context, t time.Duration) error {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-d.ctx.Done():
		return context.Cause(d.ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// claim opens an offer of ours.
func (d *Dialog) claim() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.state == dialogOver:
		return context.Cause(d.ctx)
	case d.state == dialogEarly && !(d.agreed && d.updates):
		return ErrEarly
	case d.offerOpen || d.busy || d.state == dialogUp && !d.acked:
		return errGlare
	}
	d.offerOpen = true
	return nil
}

// unclaim closes it.
func (d *Dialog) unclaim() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.offerOpen = false
	d.release()
}

// offerOnce sends one re-INVITE, more for challenges, and acknowledges the answer.
func (d *Dialog) offerOnce(ctx context.Context, sdp []byte) (*message, error) {
	if err := d.claim(); err != nil {
		return nil, err
	}
	defer d.unclaim()
	var l *login
	offer := d.timerOffer()
	for {
		m, err := d.reinviteWith(ctx, sdp, &l, offer)
		switch {
		case errors.Is(err, ErrTimeout):
			d.hangUp(ErrGone, Reason{Protocol: "SIP", Cause: 408, Text: "No answer to a re-INVITE"})
			return nil, ErrGone
		case err != nil:
			return nil, err
		case m.code == 401 || m.code == 407:
			if l.challenged(m) != nil {
				return m, nil
			}
		case m.code == 422 && offer.raise(m):
		case m.code/100 == 2:
			d.mu.Lock()
			defer d.mu.Unlock()
			d.refreshTarget(m)
			d.local = sdp
			d.startTimer(offer.accepted(m))
			return m, nil
		default:
			return m, nil
		}
	}
}

// reinviteWith runs one re-INVITE. When ctx or the call ends before the answer it
// is cancelled; what the peer answers to that counts. login is kept from one to
// the next.
func (d *Dialog) reinviteWith(ctx context.Context, sdp []byte, login **login, offer sessionOffer) (*message, error) {
	r := request{method: "INVITE", body: sdp}
	hop, err := d.prepare(ctx, &r)
	if err != nil {
		return nil, err
	}
	if *login == nil {
		*login = d.login(hop)
	}
	l := *login
	creds, err := l.fields("INVITE", r.uri)
	if err != nil {
		return nil, err
	}
	r.cseq = d.nextCSeq()
	r.fields = append([]field{{"Contact", d.contact}, {"Allow", methods}}, append(offer.fields(), creds...)...)
	// Copies of the 2xx come on the goroutine of the socket, possibly before the
	// ACK was written.
	again := make(chan func(), 1)
	tx := d.s.inviteTx(&r, hop.flow, hop.to, func(m *message) {
		select {
		case f := <-again:
			f()
			again <- f
		default:
		}
	})
	d.s.transact(tx)
	select {
	case <-tx.done:
	case <-ctx.Done():
	case <-d.ctx.Done():
	case <-d.s.done:
		return nil, ErrShutdown
	case <-time.After(64 * d.s.cfg.T1):
	}
	tx.cancel(Reason{})
	m, err := tx.wait(context.Background(), 0)
	if err == nil && m.code/100 == 2 {
		again <- d.acknowledge(m, creds)
	}
	return m, err
}

// refreshTarget takes over the Contact of a response (RFC 3261 section 12.2.1.2).
// d.mu is held.
func (d *Dialog) refreshTarget(m *message) {
	if a, err := ParseAddress(m.get("contact")); err == nil {
		d.target, d.reachable = a, true
	}
}
