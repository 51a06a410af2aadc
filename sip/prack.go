package sip

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
)

// reliable is a provisional response that the caller must confirm with PRACK (RFC
// 3262).
type reliable struct {
	i        *Invite
	rseq     uint32
	code     int
	fields   []field
	sdp      []byte
	response []byte
	interval time.Duration
	again    *time.Timer
	give     *time.Timer
	done     chan struct{} // closed by the PRACK
}

// wantsReliable says whether a provisional response has to be, or had better be,
// confirmed: always when the caller requires it, and where it carries a session
// description also when the caller only can.
func (i *Invite) wantsReliable(sdp []byte) bool {
	for _, tag := range i.m.list("require") {
		if tag == "100rel" {
			return true
		}
	}
	return sdp != nil && i.m.supports("100rel")
}

// provisional sends a provisional response, reliably where that is wanted. Only
// one waits for its PRACK at a time; the others wait their turn (RFC 3262 section
// 3). i.mu is held.
func (i *Invite) provisional(code int, sdp []byte) error {
	fields := i.dialogFields()
	if !i.wantsReliable(sdp) {
		_, err := i.sendProvisional(code, fields, sdp)
		return err
	}
	if i.m.sdp == nil {
		// The first reliable response would have to make the offer (RFC 3261
		// section 13.2.1), which the 200 does better.
		return nil
	}
	if i.rseq == 0 {
		i.rseq = 1 + rand.Uint32N(1<<30)
	}
	i.rseq++
	fields = append(fields, field{"Require", "100rel"}, field{"RSeq", strconv.FormatUint(uint64(i.rseq), 10)})
	r := &reliable{i: i, rseq: i.rseq, code: code, fields: fields, sdp: sdp, interval: i.s.cfg.T1, done: make(chan struct{})}
	i.unconfirmed = append(i.unconfirmed, r)
	if len(i.unconfirmed) > 1 {
		return nil
	}
	return r.send()
}

// sendProvisional sends it once and returns what was sent. i.mu is held.
func (i *Invite) sendProvisional(code int, fields []field, sdp []byte) ([]byte, error) {
	if len(sdp) > 0 {
		fields = append(fields, field{"Content-Type", "application/sdp"})
	}
	b := i.s.response(i.m, code, "", i.d.key.local, fields, sdp)
	sent, err := i.tx.respond(code, b)
	if !sent {
		return nil, i.gone()
	}
	i.s.countResponse(code)
	return b, err
}

// send starts sending r, after T1 again and with doubling intervals. i.mu is held.
func (r *reliable) send() error {
	i := r.i
	var err error
	r.response, err = i.sendProvisional(r.code, r.fields, r.sdp)
	r.again = time.AfterFunc(r.interval, r.resend)
	r.give = time.AfterFunc(64*i.s.cfg.T1, r.missed)
	return err
}

func (r *reliable) resend() {
	r.i.mu.Lock()
	defer r.i.mu.Unlock()
	if len(r.i.unconfirmed) == 0 || r.i.unconfirmed[0] != r || r.i.s.stopped() || !r.i.tx.open() {
		return
	}
	r.i.s.sendAgain(r.i.tx.flow, r.response, r.i.tx.to)
	r.interval *= 2
	r.again.Reset(r.interval)
}

// missed refuses a call whose provisional response was never confirmed.
func (r *reliable) missed() {
	r.i.mu.Lock()
	waits := len(r.i.unconfirmed) > 0 && r.i.unconfirmed[0] == r
	r.i.mu.Unlock()
	if waits {
		r.i.fail(&RejectError{Code: 504, Rule: "prack", Text: "No PRACK"}, ErrNoPRACK)
	}
}

func (r *reliable) stop() {
	if r.again != nil {
		r.again.Stop()
		r.give.Stop()
	}
}

// confirmed waits until no description is left that the caller has not confirmed:
// the 200 must not come before (RFC 3262 section 3).
func (i *Invite) confirmed() {
	i.mu.Lock()
	var last *reliable
	for _, r := range i.unconfirmed {
		if r.sdp != nil {
			last = r
		}
	}
	i.mu.Unlock()
	if last == nil {
		return
	}
	select {
	case <-last.done:
	case <-i.d.ctx.Done():
	}
}

// receivePRACK takes a PRACK (RFC 3262 section 3). One that comes after the final
// response, or again, is fine. An offer in it follows the answer that it confirms, and
// is answered in its 200 (section 5). d.mu is held.
func (d *Dialog) receivePRACK(m *message, tx *serverTx) {
	switch {
	case d.prack == nil || !d.prack(m.get("rack")):
		d.finish(m, tx, 481, nil, nil)
	case m.sdp == nil:
		d.finish(m, tx, 200, nil, nil)
	case !d.agreed || d.handler == nil:
		// The offer of the INVITE has no answer yet, or nobody could take another.
		d.finish(m, tx, 488, nil, nil)
	case !d.putOff(m, tx, true):
		d.enqueue(m, tx, true, func() { d.answerPRACK(m, tx) })
	}
}

// answerPRACK answers an offer in a PRACK, on the dialog's goroutine.
func (d *Dialog) answerPRACK(m *message, tx *serverTx) {
	if d.ended(m, tx) {
		d.idle()
		return
	}
	body, rej := d.handler.Offer(m.sdp)
	if rej != nil {
		d.idle()
		d.refuse(m, tx, rej)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy, d.local, d.changed = false, body, d.changed || d.state == dialogEarly
	d.finish(m, tx, 200, nil, body)
	d.release()
}

// prack matches a RAck. i.d.mu is held. False: it is for nothing that was sent.
func (i *Invite) prack(rack string) bool {
	parts := strings.Fields(rack)
	if len(parts) != 3 || parts[2] != "INVITE" || parts[1] != strconv.FormatUint(uint64(i.m.cseq), 10) {
		return false
	}
	n, err := strconv.ParseUint(parts[0], 10, 32)
	if err != nil {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.unconfirmed) == 0 || uint32(n) != i.unconfirmed[0].rseq {
		return uint32(n) == i.lastRAck
	}
	i.lastRAck = uint32(n)
	if sdp := i.unconfirmed[0].sdp; sdp != nil { // d.mu is held: a PRACK comes through the dialog
		i.d.agreed, i.d.local = true, sdp
	}
	i.unconfirmed[0].stop()
	close(i.unconfirmed[0].done)
	i.unconfirmed = i.unconfirmed[1:]
	if len(i.unconfirmed) > 0 {
		if err := i.unconfirmed[0].send(); err != nil {
			i.s.noise.warn("send", "sip: response lost", append(i.logFields(), zap.Error(err))...)
		}
	}
	return true
}

// Progress sends 183 with a session description: the answer to Offer, so that
// sound can go both ways before the call is answered. Where the caller knows how,
// it confirms it. Answer has to be called with the same description. It does
// nothing for an INVITE without an offer. The error is that of Ring.
func (i *Invite) Progress(sdp []byte) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.m.sdp == nil {
		return nil
	}
	return i.provisional(183, sdp)
}
