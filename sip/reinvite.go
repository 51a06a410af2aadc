package sip

// receiveReinvite queues a re-INVITE, or answers at once why it cannot be taken
// now. That the ACK of the one before is missing is no reason: it may be lost or
// late (RFC 5407 section 3.1.4), and silence or 491 for ever would be the end of
// the call. d.mu is held.
func (d *Dialog) receiveReinvite(m *message, tx *serverTx) {
	if d.tooShort(m, tx) || d.putOff(m, tx, true) {
		return
	}
	_, _ = tx.respond(100, d.s.response(m, 100, "", "", nil, nil)) // lost or not, the final response follows
	d.enqueue(m, tx, true, func() { d.reinvite(m, tx) })
}

// tooShort refuses a session timer; the call goes on with the one it has (RFC 4028
// section 9). d.mu is held.
func (d *Dialog) tooShort(m *message, tx *serverTx) bool {
	_, _, rej := d.s.cfg.Timer.grant(m)
	if rej != nil {
		d.finish(m, tx, rej.Code, rej.fields, nil)
	}
	return rej != nil
}

// putOff refuses an offer while another one is open: 500 with a short Retry-After
// while we owe an answer, 491 while the peer owes one to us (RFC 3261 section 14.2,
// RFC 3311 section 5.2). Before a call is answered both are about the offer of its
// INVITE, and a second INVITE is too early in any case. d.mu is held.
func (d *Dialog) putOff(m *message, tx *serverTx, offer bool) bool {
	early := d.state == dialogEarly
	first := early && (m.method == "INVITE" || !d.agreed)
	switch {
	case !offer:
		return false
	case first && d.caller, d.offerOpen:
		d.finish(m, tx, 491, nil, nil)
	case first, early && d.handler == nil, d.busy:
		d.finish(m, tx, 500, retrySoon(), nil)
	default:
		d.busy = true
		return false
	}
	return true
}

// enqueue posts the work on a request. offer says that putOff let an offer in. d.mu
// is held.
func (d *Dialog) enqueue(m *message, tx *serverTx, offer bool, run func()) {
	j := job{run: run, failed: func() {
		if offer {
			d.idle()
		}
		d.finish(m, tx, 500, nil, nil)
	}}
	if d.post(j) {
		return
	}
	if offer {
		d.busy = false
		d.release()
	}
	d.finish(m, tx, 500, retrySoon(), nil)
}

// reinvite answers a re-INVITE, on the dialog's goroutine.
func (d *Dialog) reinvite(m *message, tx *serverTx) {
	// Once the handler has the offer the session changes: a CANCEL that comes then
	// must not make the peer believe that it did not.
	if d.ended(m, tx) || !tx.commit() {
		d.idle()
		return
	}
	var body []byte
	var rej *RejectError
	if m.sdp != nil {
		body, rej = d.handler.Offer(m.sdp)
	} else if body = d.handler.MakeOffer(); body == nil {
		rej = &RejectError{Code: 488, Rule: "offer", Text: "No offer can be made now"}
	}
	if rej != nil {
		d.idle()
		d.refuse(m, tx, rej)
		return
	}
	d.accept(m, tx, body)
}

// accept sends the 200 of a re-INVITE and waits for its ACK as for the first.
func (d *Dialog) accept(m *message, tx *serverTx, body []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy = false
	d.release()
	if d.state != dialogUp {
		d.finish(m, tx, 487, nil, nil) // it ended while the handler thought
		return
	}
	d.refresh(m)
	timer, granted, _ := d.s.cfg.Timer.grant(m)
	fields := append([]field{{"Contact", contact(m)}, {"Allow", methods}}, granted...)
	fields = append(fields, field{"Content-Type", "application/sdp"})
	b := d.s.response(m, 200, "", d.key.local, fields, body)
	sent, _ := tx.respond(200, b) // a lost one is sent again
	if !sent {
		return
	}
	d.s.countResponse(200)
	d.offerOpen = m.sdp == nil
	d.local = body
	d.startTimer(timer)
	d.expectACK(m.cseq, tx, b, d.offerOpen)
}

// ended answers a request that waited in the queue when the call ended (RFC 3261
// section 15.1.2).
func (d *Dialog) ended(m *message, tx *serverTx) bool {
	if d.ctx.Err() == nil {
		return false
	}
	d.finish(m, tx, 487, nil, nil)
	return true
}
