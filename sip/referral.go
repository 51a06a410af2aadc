package sip

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// ReferHandler may be implemented by a DialogHandler that takes transfers. Without
// it a REFER is answered 403.
type ReferHandler interface {
	// Refer is asked to call somebody else (RFC 3515). It is called like the methods of
	// DialogHandler and should be as quick. nil accepts: the peer is answered 202, and
	// told by Referral.Notify and Done how it goes on.
	Refer(r *Referral) *RejectError
}

// referralLife is how long a peer is told of a transfer: longer than anybody lets a
// telephone ring.
const referralLife = 4 * time.Minute

// maxReferrals bounds the transfers of one call that are under way.
const maxReferrals = 4

// Referral is a transfer that the peer asks for. Its methods may be called from any
// goroutine.
type Referral struct {
	// To is who is to be called: a sip:, sips: or tel: URI with all of its parameters.
	// Headers in it are left out of RawURI; no control characters are in it, escaped or
	// not.
	To Address
	// ReferredBy is the Referred-By header (RFC 3892), cut and cleaned; the peer's
	// claim and no more.
	ReferredBy string
	// Replaces is for Outgoing.Replaces: the call of the target's that the new one takes
	// the place of. "" without.
	Replaces string

	d     *Dialog
	id    string // of the events; empty of the first
	cseq  uint32 // of the REFER
	quiet bool   // the peer wants no reports (RFC 4488)

	mu      sync.Mutex
	open    bool    // the 202 was sent
	over    bool    // the last report was made
	sending bool    // by a goroutine
	state   report  // the last
	next    *report // to be sent
	until   time.Time
	clock   *time.Timer // of the end of the subscription
	// reported is closed when there will be no more reports.
	reported chan struct{}
}

// report is one NOTIFY.
type report struct {
	code   int
	reason string
	end    string // reason of the end; empty: more will come
}

// Notify reports a provisional status of the new call, 100 to 199. Of those that
// come faster than the peer takes them only the last is sent.
func (r *Referral) Notify(code int, reason string) {
	if code < 100 || code > 199 {
		code, reason = 100, ""
	}
	r.tell(report{code: code, reason: reason})
}

// Done reports the final status of the new call, 200 to 699, once; more calls do
// nothing. It is the end of the subscription.
func (r *Referral) Done(code int, reason string) {
	if code < 200 || code > 699 {
		code, reason = 500, ""
	}
	r.tell(report{code: code, reason: reason, end: "noresource"})
}

func (r *Referral) tell(next report) {
	if next.reason == "" {
		next.reason = phrase(next.code)
	}
	next.reason = clean(next.reason, 128)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.push(next)
}

// push has a report sent. r.mu is held.
func (r *Referral) push(next report) {
	if r.over {
		return
	}
	r.state, r.next, r.over = next, &next, next.end != ""
	r.start()
}

// start begins sending, once there is a subscription. r.mu is held.
func (r *Referral) start() {
	if r.open && !r.sending && r.next != nil {
		r.sending = r.d.s.spawn(r.send)
	}
}

// send sends reports one after the other: the next one waits for the answer, so that
// they cannot change places.
func (r *Referral) send() {
	for {
		r.mu.Lock()
		next := r.next
		r.next = nil
		if next == nil {
			r.sending = false
			r.mu.Unlock()
			return
		}
		until := r.until
		r.mu.Unlock()
		m, err := r.d.ask(context.Background(), r.notify(*next, until))
		if err != nil {
			r.d.s.noise.warn("notify", "sip: NOTIFY not answered", append(r.d.logFields(), zap.Error(err))...)
		}
		if next.end != "" || err != nil || m.code/100 != 2 { // it is not wanted any more (RFC 6665 section 4.2.2)
			r.end()
		}
	}
}

// notify writes a report.
func (r *Referral) notify(p report, until time.Time) request {
	event, state := "refer", "active;expires="+seconds(max(time.Until(until), 0))
	if r.id != "" {
		event += ";id=" + r.id
	}
	if p.end != "" {
		state = "terminated;reason=" + p.end
	}
	return request{method: "NOTIFY", fields: []field{{"Contact", r.d.contact}, {"Event", event}, {"Subscription-State", state},
		{"Content-Type", "message/sipfrag;version=2.0"}},
		body: []byte("SIP/2.0 " + strconv.Itoa(p.code) + " " + oneLine(p.reason) + "\r\n")}
}

// Reported is closed when the peer has answered the last report, or will never be
// told: whoever means to hang up does it then, because some peers listen to nothing
// more after a BYE.
func (r *Referral) Reported() <-chan struct{} { return r.reported }

// closeReported closes what Reported gives, once. r.mu is held.
func (r *Referral) closeReported() {
	select {
	case <-r.reported:
	default:
		close(r.reported)
	}
}

// end forgets the subscription.
func (r *Referral) end() {
	r.mu.Lock()
	r.over, r.next = true, nil
	if r.clock != nil {
		r.clock.Stop()
	}
	r.closeReported()
	r.mu.Unlock()
	d := r.d
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, other := range d.referrals {
		if other == r {
			d.referrals = append(d.referrals[:i:i], d.referrals[i+1:]...)
			return
		}
	}
}

// accept begins the subscription: the first report is owed at once (RFC 3515 section
// 2.4.4).
func (r *Referral) accept() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = true
	r.extend(referralLife)
	if r.next == nil {
		r.push(report{code: 100, reason: phrase(100)})
	}
	r.start()
}

// extend sets the end of the subscription. r.mu is held.
func (r *Referral) extend(life time.Duration) {
	if r.clock != nil {
		r.clock.Stop()
	}
	r.until = time.Now().Add(life)
	r.clock = time.AfterFunc(life, r.expire)
}

// expire ends a subscription that nobody has brought to an end, or that the peer does
// not want any more. The report says how things stand.
func (r *Referral) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.state
	last.end = "timeout"
	r.push(last)
}

// receiveRefer queues a REFER for the handler. d.mu is held.
func (d *Dialog) receiveRefer(m *message, tx *serverTx) {
	h, takes := d.handler.(ReferHandler)
	switch {
	case d.state == dialogEarly, len(d.referrals) >= maxReferrals:
		d.finish(m, tx, 500, retrySoon(), nil)
		return
	case !takes:
		d.refuse(m, tx, &RejectError{Code: 403, Rule: "refer_not_taken", Text: "Transfers are not taken in this call"})
		return
	}
	r, rej := readReferral(m)
	if rej != nil {
		d.refuse(m, tx, rej)
		return
	}
	r.d, r.cseq = d, m.cseq
	d.refresh(m)
	if d.referTaken {
		r.id = strconv.FormatUint(uint64(m.cseq), 10)
	}
	d.referTaken = true
	d.enqueue(m, tx, false, func() { d.refer(m, tx, h, r) })
}

// refer asks the handler, on the dialog's goroutine.
func (d *Dialog) refer(m *message, tx *serverTx, h ReferHandler, r *Referral) {
	if d.ended(m, tx) {
		return
	}
	if rej := h.Refer(r); rej != nil {
		d.refuse(m, tx, rej)
		return
	}
	fields := []field{{"Contact", contact(m)}, {"Allow", methods}}
	if r.quiet {
		d.finish(m, tx, 202, append(fields, field{"Refer-Sub", "false"}), nil)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.closeReported()
		return
	}
	d.mu.Lock()
	d.referrals = append(d.referrals, r)
	d.mu.Unlock()
	d.finish(m, tx, 202, fields, nil)
	r.accept()
}

// readReferral reads a REFER.
func readReferral(m *message) (*Referral, *RejectError) {
	bad := func(text string) (*Referral, *RejectError) {
		return nil, &RejectError{Code: 400, Rule: "refer_to", Text: text}
	}
	values := m.all("refer-to")
	if len(values) != 1 || len(splitComma(values[0])) != 1 {
		return bad("Refer-To must be one address") // RFC 3515 section 2.4.2
	}
	a, err := ParseAddress(values[0])
	if err != nil || hasControls(values[0]) {
		return bad("Bad Refer-To")
	}
	uri, headers, _ := strings.Cut(a.RawURI, "?")
	if _, err := oneURI(uri); err != nil {
		return bad("Only sip, sips and tel addresses can be called")
	}
	a.RawURI = uri
	r := &Referral{reported: make(chan struct{}), To: a, ReferredBy: clean(m.get("referred-by"), 1024), quiet: strings.EqualFold(m.get("refer-sub"), "false")}
	for part := range strings.SplitSeq(headers, "&") {
		name, value, _ := strings.Cut(part, "=")
		if !strings.EqualFold(unescape(name), "Replaces") {
			continue // a peer has no business writing our headers (RFC 3261 section 19.1.5)
		}
		if r.Replaces != "" {
			return bad("More than one Replaces")
		}
		r.Replaces = unescape(value)
		if _, err := parseReplaces(r.Replaces); err != nil {
			return bad("Bad Replaces in Refer-To")
		}
	}
	return r, nil
}

// receiveSubscribe prolongs or ends a subscription that a REFER of the peer's made
// (RFC 3515 section 2.4.4). d.mu is held.
func (d *Dialog) receiveSubscribe(m *message, tx *serverTx) {
	event, id := readEvent(m)
	if event != "refer" {
		d.refuseWith(m, tx, badEvent())
		return
	}
	var found *Referral
	for _, r := range d.referrals {
		if r.id == id || id == strconv.FormatUint(uint64(r.cseq), 10) {
			found = r
			break
		}
	}
	if found == nil {
		d.refuse(m, tx, &RejectError{Code: 481, Rule: "subscribe", Text: "No such subscription"})
		return
	}
	life := referralLife
	if v := m.get("expires"); v != "" {
		life = min(headerSeconds(v), referralLife)
	}
	d.finish(m, tx, 200, []field{{"Contact", contact(m)}, {"Expires", seconds(life)}}, nil)
	if life == 0 {
		found.expire()
		return
	}
	found.mu.Lock()
	defer found.mu.Unlock()
	if !found.over {
		found.extend(life)
		found.push(found.state)
	}
}
