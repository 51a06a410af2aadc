package sip

import (
	"context"
	"errors"
)

// An offer is open from when it is made until it is answered, and there is one at a
// time in a dialog (RFC 3264 section 4). In this package it is Dialog.offerOpen when
// it is ours and Dialog.busy when it is the peer's; before a call is answered that of
// the INVITE counts until Dialog.agreed.
//
//	INVITE with an offer ──> 183 with the answer, reliable ──> PRACK
//	                                                             │ agreed
//	        UPDATE with an offer  <──── either side ────>        v
//	                                          200 without a description ──> ACK

// ErrEarly says that the call is not answered yet. Its session can be changed before only when
// the peer has confirmed an answer (RFC 3311 section 5.1) and knows UPDATE; it is not
// ended by BYE, and the peer is not asked to transfer it.
var ErrEarly = errors.New("sip: the call is not answered yet")

// Early returns the dialog of a call that is not answered yet, on which Offer works
// once the caller has confirmed the description of Progress. dh hears of what the
// caller asks for until Answer; offers come only then, too. Without it they are put
// off until the answer.
func (i *Invite) Early(dh DialogHandler) *Dialog {
	i.d.mu.Lock()
	defer i.d.mu.Unlock()
	if i.d.state == dialogEarly {
		i.d.handler = dh
	}
	return i.d
}

// early says that the call is not answered yet.
func (d *Dialog) early() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state == dialogEarly
}

// updateOnce makes an offer before the call is answered.
func (d *Dialog) updateOnce(ctx context.Context, sdp []byte) (*message, error) {
	if err := d.claim(); err != nil {
		return nil, err
	}
	defer d.unclaim()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(d.ctx, func() { stop(context.Cause(d.ctx)) })()
	m, err := d.ask(ctx, request{method: "UPDATE", fields: []field{{"Contact", d.contact}, {"Allow", methods}}, body: sdp})
	if m == nil || m.code/100 != 2 {
		return m, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refreshTarget(m)
	d.local, d.changed = sdp, true
	return m, nil
}

// receiveUpdate queues an UPDATE, or answers at once why it cannot be taken now (RFC
// 3311 section 5.2). d.mu is held.
func (d *Dialog) receiveUpdate(m *message, tx *serverTx) {
	early := d.state == dialogEarly
	if m.sdp == nil && early {
		d.refresh(m)
		d.finish(m, tx, 200, []field{{"Contact", contact(m)}, {"Allow", methods}}, nil)
		return
	}
	// There is no session yet whose timer could run (RFC 4028 section 7).
	if !early && d.tooShort(m, tx) || d.putOff(m, tx, m.sdp != nil) {
		return
	}
	d.enqueue(m, tx, m.sdp != nil, func() { d.update(m, tx) })
}

// update answers an UPDATE. One without an offer refreshes the target and the
// session, and changes nothing else.
func (d *Dialog) update(m *message, tx *serverTx) {
	if d.ended(m, tx) { // nothing more will be offered
		d.idle()
		return
	}
	var body []byte
	if m.sdp != nil {
		rej := d.first()
		if rej == nil {
			body, rej = d.handler.Offer(m.sdp)
		}
		if rej != nil {
			d.idle()
			d.refuse(m, tx, rej)
			return
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy = m.sdp == nil && d.busy // before the answer: the peer's next offer may follow at once
	d.refresh(m)
	var timer session
	var granted []field
	early := d.state == dialogEarly
	if !early {
		timer, granted, _ = d.s.cfg.Timer.grant(m)
	}
	if body != nil {
		d.local, d.changed = body, d.changed || early
	}
	if d.finish(m, tx, 200, append([]field{{"Contact", contact(m)}, {"Allow", methods}}, granted...), body) && !early {
		d.startTimer(timer)
	}
	d.release()
}

// first gives the handler the answer to the offer of our INVITE, which a provisional
// response brought, before it hears of the next offer.
func (d *Dialog) first() *RejectError {
	d.mu.Lock()
	l := d.leg
	given := d.given || d.state != dialogEarly || l == nil
	d.mu.Unlock()
	if given {
		return nil
	}
	if err := d.handler.Answer(l.early(d.key.remote)); err != nil {
		return &RejectError{Code: 488, Rule: "answer", Text: clean(err.Error(), 200)}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.given = true
	return nil
}

// idle lets the next offer in. It is called before the answer to the one before
// goes out: the peer's next may follow at once.
func (d *Dialog) idle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy = false
	d.release()
}

// release wakes who waits until no offer is open. d.mu is held.
func (d *Dialog) release() {
	if d.free != nil {
		close(d.free)
		d.free = nil
	}
}

// quiet waits until no offer is open but that of the INVITE, as it must be when a call
// is answered, or until the call is over. It returns with d.mu held.
func (d *Dialog) quiet() {
	d.mu.Lock()
	for d.state != dialogOver && (d.busy || d.offerOpen && (d.agreed || !d.caller)) {
		if d.free == nil {
			d.free = make(chan struct{})
		}
		free := d.free
		d.mu.Unlock()
		<-free
		d.mu.Lock()
	}
}
