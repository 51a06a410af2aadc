package sip

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// updated is the description of an UPDATE.
const updatedSDP = "v=0\r\no=- 1 9 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 4002 RTP/AVP 0\r\n"

// early makes an INVITE with a confirmed answer in a 183.
func (b *bench) early(t *testing.T, h *held, dh DialogHandler) (p *phone, c *call, i *Invite, d *Dialog) {
	t.Helper()
	p = b.phone("udp")
	inv := newInvite()
	inv.extra = []string{"Supported: 100rel", "Allow: INVITE, UPDATE"}
	p.send(inv)
	i = wait(t, h.got, "the INVITE")
	d = i.Early(dh)
	if _, err := d.Offer(t.Context(), []byte(updatedSDP)); !errors.Is(err, ErrEarly) {
		t.Errorf("an offer before there is an answer: %v", err)
	}
	if err := i.Progress([]byte(answerSDP)); err != nil {
		t.Fatal(err)
	}
	m := p.until(183)
	c = &call{p: p, inv: inv, ok: m, n: 1}
	// Before the PRACK the answer is not known to have come.
	p.send(c.next("UPDATE", updatedSDP))
	if m := p.expect("UPDATE", 500); m.get("Retry-After") == "" {
		t.Errorf("500:\n%s", m.raw)
	}
	c.n++
	p.send(prackOf(inv, m, c.n, m.get("RSeq")+" 1 INVITE"))
	p.expect("PRACK", 200)
	return p, c, i, d
}

// RFC 3311: both change the session of a call that came in, before it is answered.
func TestUpdateBeforeAnswering(t *testing.T) {
	t.Parallel()
	h := holding()
	b := start(t, h.handle)
	defer close(h.release)
	inside, release := make(chan struct{}, 1), make(chan struct{})
	dh := &script{offer: func([]byte) ([]byte, *RejectError) {
		inside <- struct{}{}
		<-release
		return []byte(updatedSDP), nil
	}}
	p, c, i, d := b.early(t, h, dh)

	// Theirs; a second one meanwhile, and an answer of ours that has to wait for it.
	up := c.next("UPDATE", offerSDP)
	up.contact = "<sip:moved@" + p.addr + ">"
	p.send(up)
	<-inside
	p.send(c.next("UPDATE", offerSDP))
	p.expect("UPDATE", 500)
	p.send(c.next("INVITE", offerSDP))
	p.expect("INVITE", 500)
	ours := offer(t.Context(), d)
	answered := make(chan error, 1)
	go func() {
		_, err := i.Answer([]byte(answerSDP), dh)
		answered <- err
	}()
	select {
	case <-answered:
		t.Fatal("answered while an offer is open")
	case <-time.After(2 * testT1):
	}
	release <- struct{}{}
	if m := p.expect("UPDATE", 200); m.body != updatedSDP || m.get("Contact") == "" || m.get("Session-Expires") != "" {
		t.Errorf("UPDATE answered:\n%s", m.raw)
	}
	// What was agreed upon is not said again.
	ok := p.expect("INVITE", 200)
	if ok.body != "" || ok.get("Content-Type") != "" {
		t.Errorf("200:\n%s", ok.raw)
	}
	if err := wait(t, answered, "Answer"); err != nil {
		t.Error(err)
	}
	c.ack(1, "")
	wait(t, d.Confirmed(), "the ACK")
	// Ours, which crossed theirs, comes when its delay is over, at the new target.
	re := p.fresh("INVITE")
	if re.start != "INVITE sip:moved@"+p.addr+" SIP/2.0" {
		t.Errorf("re-INVITE:\n%s", re.raw)
	}
	p.respond(re, 488, "", "")
	p.request("ACK")
	if r := wait(t, ours, "the offer"); r.err == nil {
		t.Error("no refusal")
	}
}

// Our UPDATE in a call that came in: crossing, put off, refused, taken, and left
// alone when the call ends.
func TestUpdateOfOursBeforeAnswering(t *testing.T) {
	t.Parallel()
	h := holding()
	b := start(t, h.handle)
	defer close(h.release)
	p, c, i, d := b.early(t, h, &script{})
	out := offer(t.Context(), d)
	up := p.fresh("UPDATE")
	if up.body != holdSDP || up.get("Contact") == "" || up.get("CSeq") != "1 UPDATE" || up.get("Session-Expires") != "" {
		t.Errorf("UPDATE:\n%s", up.raw)
	}
	p.send(c.next("UPDATE", offerSDP)) // crosses it
	p.expect("UPDATE", 491)
	p.respond(up, 500, "", "", "Retry-After: 0")
	up = p.fresh("UPDATE")
	p.respond(up, 491, "", "")
	up = p.fresh("UPDATE")
	p.respond(up, 200, "", answerSDP, "Contact: <sip:moved@"+p.addr+">")
	if r := wait(t, out, "the answer"); r.err != nil || r.sdp != answerSDP {
		t.Errorf("%+v", r)
	}
	out = offer(t.Context(), d)
	up = p.fresh("UPDATE")
	if up.start != "UPDATE sip:moved@"+p.addr+" SIP/2.0" || up.get("CSeq") != "4 UPDATE" {
		t.Errorf("UPDATE:\n%s", up.raw)
	}
	p.respond(up, 481, "", "") // says nothing of the INVITE
	var rej *RejectError
	if r := wait(t, out, "the refusal"); !errors.As(r.err, &rej) || rej.Code != 481 || i.Context().Err() != nil {
		t.Errorf("%+v", r)
	}
	out = offer(t.Context(), d)
	p.fresh("UPDATE")
	p.send(cancelOf(c.inv))
	if r := wait(t, out, "the end"); !errors.Is(r.err, ErrCancelled) {
		t.Errorf("%+v", r)
	}
	if i.Early(nil) != d {
		t.Error("another dialog")
	}
}

// Without a handler there is nobody to answer an offer yet.
func TestUpdateWithoutHandler(t *testing.T) {
	t.Parallel()
	h := holding()
	b := start(t, h.handle)
	defer close(h.release)
	p, c, _, _ := b.early(t, h, nil)
	p.send(c.next("UPDATE", offerSDP))
	p.expect("UPDATE", 500)
	p.send(c.next("UPDATE", ""))
	p.expect("UPDATE", 200)
	p.send(c.refer("<sip:a@b>"))
	p.expect("REFER", 500)
}

// The same in a call of ours.
func TestUpdateBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	b := start(t, quiet)
	p := listenPhone(t)
	heard := make(chan Progress, 8)
	h := &script{info: true}
	result := dial(t.Context(), b, trunkTo(p.addr), Outgoing{Progress: func(p Progress) { heard <- p }}, h)
	inv := p.fresh("INVITE")
	contact := "Contact: <sip:early@" + p.addr + ">"
	p.respond(inv, 180, "t1", "", contact)
	d := wait(t, heard, "the progress").Dialog
	early := &msg{head: map[string][]string{"to": {inv.get("To") + ";tag=t1"}}}
	// No answer yet: ours is the open offer.
	p.send(inDialog(inv, early, "UPDATE", 1, updatedSDP))
	p.expect("UPDATE", 491)
	p.send(inDialog(inv, early, "INVITE", 2, updatedSDP))
	refused := p.final("INVITE")
	if refused.code != 491 {
		t.Errorf("INVITE: %s", refused.start)
	}
	p.send(inDialog(inv, early, "BYE", 3, "")) // not before the answer
	p.expect("BYE", 481)
	p.send(inDialog(inv, early, "OPTIONS", 4, ""))
	p.expect("OPTIONS", 200)
	if _, err := d.Offer(t.Context(), []byte(holdSDP)); !errors.Is(err, ErrEarly) {
		t.Errorf("an offer before there is an answer: %v", err)
	}
	if err := d.Bye(t.Context(), Reason{}); !errors.Is(err, ErrEarly) {
		t.Errorf("a BYE: %v", err)
	}
	if err := d.Refer(t.Context(), Refer{To: "1"}); !errors.Is(err, ErrEarly) {
		t.Errorf("a transfer: %v", err)
	}
	p.respond(inv, 183, "t1", answerSDP, "Require: 100rel", "RSeq: 1", contact, "Allow: UPDATE, PRACK")
	p.reply(p.fresh("PRACK"), 200)
	wait(t, heard, "the progress")
	// Now it may be changed: by them, which the handler hears of after the answer,
	up := inDialog(inv, early, "UPDATE", 5, updatedSDP)
	up.contact = "<sip:moved@" + p.addr + ">"
	p.send(up)
	if m := p.expect("UPDATE", 200); m.body != offerSDP || h.heard() != "answer offer" {
		t.Errorf("handler heard %q:\n%s", h.heard(), m.raw)
	}
	// and by us.
	out := offer(t.Context(), d)
	ours := p.fresh("UPDATE")
	if ours.start != "UPDATE sip:moved@"+p.addr+" SIP/2.0" || ours.get("CSeq") != "3 UPDATE" || ours.get("From") != inv.get("From") {
		t.Errorf("UPDATE:\n%s", ours.raw)
	}
	// The answer comes meanwhile, and waits.
	p.respond(inv, 200, "t1", "", contact)
	p.request("ACK")
	p.respond(ours, 200, "", answerSDP)
	if r := wait(t, out, "the answer"); r.err != nil || r.sdp != answerSDP {
		t.Errorf("%+v", r)
	}
	r := wait(t, result, "Dial")
	if r.err != nil || r.d != d || h.heard() != "answer offer" {
		t.Errorf("%v, handler heard %q", r.err, h.heard())
	}
	p.send(inDialog(inv, early, "UPDATE", 6, updatedSDP))
	p.expect("UPDATE", 200)
	go d.Bye(context.Background(), Reason{})
	p.reply(p.fresh("BYE"), 200)
}

// Early dialogs end with their INVITE; nobody answers offers in one that was given up,
// or whose answer was not understood.
func TestEarlyDialogsEnd(t *testing.T) {
	t.Parallel()
	b := start(t, quiet)
	p := listenPhone(t)
	early := &msg{head: map[string][]string{}}
	begin := func(h *script) (chan dialled, *msg, context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		heard := make(chan Progress, 8)
		result := dial(ctx, b, trunkTo(p.addr), Outgoing{Progress: func(p Progress) { heard <- p }}, h)
		inv := p.fresh("INVITE")
		early.head["to"] = []string{inv.get("To") + ";tag=t1"}
		p.respond(inv, 183, "t1", answerSDP, "Require: 100rel", "RSeq: 1", "Contact: <sip:early@"+p.addr+">")
		p.reply(p.fresh("PRACK"), 200)
		wait(t, heard, "the progress")
		return result, inv, cancel
	}
	result, inv, cancel := begin(&script{})
	p.respond(inv, 486, "t1", "")
	p.request("ACK")
	failed(t, result, nil)
	p.send(inDialog(inv, early, "UPDATE", 1, ""))
	p.expect("UPDATE", 481)
	cancel()

	result, inv, cancel = begin(&script{})
	cancel()
	failed(t, result, context.Canceled)
	c := p.fresh("CANCEL")
	p.reply(c, 200)
	p.send(inDialog(inv, early, "UPDATE", 1, updatedSDP))
	p.expect("UPDATE", 491)
	p.respond(inv, 487, "t1", "")
	p.request("ACK")

	result, inv, cancel = begin(&script{answer: errors.New("no codec")})
	defer cancel()
	p.send(inDialog(inv, early, "UPDATE", 1, updatedSDP))
	if m := p.expect("UPDATE", 488); !strings.Contains(m.get("Warning"), "no codec") {
		t.Errorf("488:\n%s", m.raw)
	}
	p.respond(inv, 200, "t1", "", "Contact: <sip:early@"+p.addr+">")
	p.request("ACK")
	p.reply(p.fresh("BYE"), 200)
	failed(t, result, ErrNoAnswer)

	// Two telephones ring, one answers: the dialog of the other is gone in the end.
	result, inv, cancel = begin(&script{})
	defer cancel()
	p.respond(inv, 180, "t2", "")
	p.respond(inv, 200, "t1", answerSDP, "Contact: <sip:early@"+p.addr+">")
	ack := p.request("ACK")
	d := wait(t, result, "Dial").d
	eventually(t, "the end of the early dialog", func() bool {
		other := &message{callID: inv.get("Call-ID"), to: Address{Tag: d.key.local}, from: Address{Tag: "t2"}}
		return b.dialogs.find(other) == nil
	})
	p.send(inDialog(inv, ack, "BYE", 1, ""))
	p.expect("BYE", 200)
	ended(t, d, ErrPeerBye)
}
