package sip

import (
	"time"

	"go.uber.org/zap"
)

// Answer sends 200 with a session description: the answer to Offer, or our offer
// when there was none. It does not wait for the ACK; until that comes the 200 is
// sent again, over TCP too (RFC 3261 section 13.3.1.4). After Progress it waits
// until that was confirmed, if it has to be, and until offers by UPDATE are answered;
// after one the description has been agreed upon, and the 200 has none. dh hears of later
// requests, possibly before Answer has returned. The error is ErrAnswered or one
// of Context when there was a final response before. When the response could not
// be sent the dialog is there all the same, and the next copy may do better.
func (i *Invite) Answer(sdp []byte, dh DialogHandler) (*Dialog, error) {
	i.confirmed()
	d := i.d
	d.quiet()
	if d.state != dialogEarly {
		d.mu.Unlock()
		return nil, i.gone()
	}
	if dh == nil {
		dh = deaf{}
	}
	d.state, d.handler, d.invite = dialogUp, dh, nil
	d.s.dialogs.up.Add(1)
	d.hold(d.flow, 1)
	fields := append(i.dialogFields(), i.timerFields...)
	if d.changed {
		sdp = nil
	} else {
		d.local = sdp
		fields = append(fields, field{"Content-Type", "application/sdp"})
	}
	b := i.s.response(i.m, 200, "", d.key.local, fields, sdp)
	d.offerOpen, d.agreed = i.m.sdp == nil, true
	_, err := i.tx.respond(200, b)
	d.expectACK(i.m.cseq, i.tx, b, d.offerOpen)
	d.startTimer(i.timer)
	d.mu.Unlock()

	i.s.countResponse(200)
	i.forget()
	if err != nil {
		i.s.noise.warn("send", "sip: response lost", append(i.logFields(), zap.Int("code", 200), zap.Error(err))...)
	}
	return d, nil
}

// deaf is the handler of calls answered without one.
type deaf struct{}

func (deaf) Offer([]byte) ([]byte, *RejectError) {
	return nil, &RejectError{Code: 488, Rule: "handler", Text: "This session cannot be changed"}
}
func (deaf) MakeOffer() []byte        { return nil }
func (deaf) Answer([]byte) error      { return nil }
func (deaf) Info(string, []byte) bool { return false }

// accepted is a 2xx that waits for its ACK.
type accepted struct {
	d        *Dialog
	cseq     uint32
	tx       *serverTx
	response []byte
	offer    bool // it carries an offer of ours
	interval time.Duration
	again    *time.Timer
	give     *time.Timer
}

// expectACK starts sending a 2xx again: after T1, doubling up to T2, for 64*T1.
// d.mu is held.
func (d *Dialog) expectACK(cseq uint32, tx *serverTx, response []byte, offer bool) {
	a := &accepted{d: d, cseq: cseq, tx: tx, response: response, offer: offer, interval: d.s.cfg.T1}
	d.pending = append(d.pending, a)
	a.again = time.AfterFunc(a.interval, a.resend)
	a.give = time.AfterFunc(64*d.s.cfg.T1, a.missed)
}

// stop ends the copies. d.mu is held.
func (a *accepted) stop() {
	a.again.Stop()
	a.give.Stop()
	a.response = nil
}

func (a *accepted) resend() {
	a.d.mu.Lock()
	defer a.d.mu.Unlock()
	if a.response == nil || a.d.s.stopped() {
		return
	}
	a.d.s.sendAgain(a.tx.flow, a.response, a.tx.to)
	a.interval = min(2*a.interval, a.d.s.cfg.T2)
	a.again.Reset(a.interval)
}

// missed ends a call whose ACK never came.
func (a *accepted) missed() {
	d := a.d
	d.mu.Lock()
	waits := a.response != nil
	f := d.flow
	d.mu.Unlock()
	if !waits || d.s.stopped() {
		return
	}
	d.s.log.Warn("sip: no ACK: check that the peer can reach our Contact, and NAT on the way",
		append(d.logFields(), zap.String("contact", f.sentBy()), zap.String("peer", f.remote.String()))...)
	d.hangUp(ErrNoACK, Reason{Protocol: "SIP", Cause: 408, Text: "No ACK"})
}

// receiveACK takes an ACK for a 2xx of ours. False: none waits for one.
func (d *Dialog) receiveACK(m *message) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found *accepted
	kept := d.pending[:0]
	for _, a := range d.pending {
		switch {
		case a.cseq > m.cseq:
			kept = append(kept, a)
			continue
		case a.cseq == m.cseq:
			found = a
		}
		// One for a later 2xx shows that the peer has the earlier ones.
		a.stop()
		a.tx.acknowledged()
	}
	if found == nil && len(kept) == len(d.pending) {
		return false
	}
	d.pending = kept
	if !d.acked {
		d.acked, d.prack = true, nil
		close(d.confirmed)
	}
	if found != nil && found.offer {
		d.offerOpen = false
		d.post(job{
			run:    func() { d.takeAnswer(m.sdp) },
			failed: func() { d.hangUp(ErrNoAnswer, Reason{Protocol: "SIP", Cause: 500, Text: "Internal fault"}) },
		})
	}
	return true
}

// takeAnswer gives the handler the answer to our offer, or ends the call when
// there is none that fits: offer and answer have failed then (RFC 3261 section
// 13.2.2.4), and there is no response left to say it with.
func (d *Dialog) takeAnswer(sdp []byte) {
	text := "The ACK brought no answer to our offer"
	if sdp != nil {
		err := d.handler.Answer(sdp)
		if err == nil {
			return
		}
		text = err.Error()
	}
	if d.hangUp(ErrNoAnswer, Reason{Protocol: "SIP", Cause: 488, Text: clean(text, 200)}) {
		d.s.log.Warn("sip: offer not answered", append(d.logFields(), zap.String("reason", clean(text, 200)))...)
	}
}
