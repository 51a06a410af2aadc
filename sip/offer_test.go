package sip

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

const holdSDP = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\na=sendonly\r\n"

// offered is the outcome of a Dialog.Offer on its way.
type offered struct {
	sdp string
	err error
}

func offer(ctx context.Context, d *Dialog) chan offered {
	result := make(chan offered, 1)
	go func() {
		sdp, err := d.Offer(ctx, []byte(holdSDP))
		result <- offered{string(sdp), err}
	}()
	return result
}

// A re-INVITE of ours in a call that we began and in one that came in: BR-061.
func TestOffer(t *testing.T) {
	t.Parallel()
	b := start(t, quiet)
	p := listenPhone(t)
	result := dial(t.Context(), b, trunkTo(p.addr), Outgoing{}, nil)
	d, inv, ack := answerCall(t, p, result)

	out := offer(t.Context(), d)
	re := p.fresh("INVITE")
	if re.get("CSeq") != "2 INVITE" || re.get("From") != inv.get("From") || re.get("To") != ack.get("To") || re.body != holdSDP ||
		re.get("Contact") != inv.get("Contact") || re.start != "INVITE sip:callee@"+p.addr+" SIP/2.0" {
		t.Errorf("re-INVITE:\n%s", re.raw)
	}
	// Theirs crosses it.
	theirs := inDialog(inv, ack, "INVITE", 1, offerSDP)
	p.send(theirs)
	if m := p.final("INVITE"); m.code != 491 {
		t.Errorf("crossing offer: %s", m.start)
	} else {
		p.send(ackOf(theirs, m))
	}
	p.respond(re, 100, "", "")
	p.respond(re, 200, "", answerSDP, "Contact: <sip:moved@"+p.addr+">")
	ack2 := p.request("ACK")
	if ack2.get("CSeq") != "2 ACK" || ack2.start != "ACK sip:callee@"+p.addr+" SIP/2.0" {
		t.Errorf("ACK:\n%s", ack2.raw)
	}
	p.copied(ack2, func() { p.respond(re, 200, "", answerSDP) })
	if r := wait(t, out, "the answer"); r.err != nil || r.sdp != answerSDP {
		t.Errorf("%+v", r)
	}

	// A refusal changes nothing.
	out = offer(t.Context(), d)
	re = p.fresh("INVITE")
	if re.get("CSeq") != "3 INVITE" || re.start != "INVITE sip:moved@"+p.addr+" SIP/2.0" {
		t.Errorf("second re-INVITE:\n%s", re.raw)
	}
	p.respond(re, 488, "", "", `Warning: 305 x "no video"`)
	p.request("ACK")
	var rej *RejectError
	if r := wait(t, out, "the refusal"); !errors.As(r.err, &rej) || rej.Code != 488 || rej.Text != "no video" {
		t.Errorf("%+v", r)
	}
	// Challenged by the trunk, and cancelled: what the peer says to that counts.
	ctx, cancel := context.WithCancel(t.Context())
	out = offer(ctx, d)
	re = p.fresh("INVITE")
	p.respond(re, 407, "", "", `Proxy-Authenticate: Digest realm="example.com",nonce="1"`)
	p.request("ACK")
	re = p.fresh("INVITE")
	proves(t, re, "Proxy-Authorization", "example.com", "gw1", "secret")
	p.respond(re, 100, "", "")
	cancel()
	c := p.fresh("CANCEL")
	p.reply(c, 200)
	p.respond(re, 487, "", "")
	p.request("ACK")
	if r := wait(t, out, "the end"); !errors.As(r.err, &rej) || rej.Code != 487 {
		t.Errorf("%+v", r)
	}
	// The peer has lost the call.
	out = offer(t.Context(), d)
	re = p.fresh("INVITE")
	p.respond(re, 481, "", "")
	p.request("ACK")
	p.reply(p.fresh("BYE"), 200)
	if r := wait(t, out, "the end"); r.err != ErrGone {
		t.Errorf("%+v", r)
	}
	ended(t, d, ErrGone)
	if r := wait(t, offer(t.Context(), d), "an offer after the end"); r.err != ErrGone {
		t.Errorf("%+v", r)
	}
}

// RFC 3261 section 14.1: after 491 the owner of the Call-ID waits for 2.1 to 4
// seconds, the other up to 2.
func TestGlare(t *testing.T) {
	t.Parallel()
	h := answering(&script{})
	b := start(t, h.handle)
	p := b.phone("udp")
	c := p.dial(newInvite())
	c.ack(1, "")
	d := wait(t, h.calls, "the call")
	wait(t, d.Confirmed(), "the ACK")
	out := offer(t.Context(), d)
	re := p.fresh("INVITE")
	if re.get("CSeq") != "1 INVITE" || re.get("From") != c.ok.get("To") || re.get("To") != c.inv.from {
		t.Errorf("re-INVITE:\n%s", re.raw)
	}
	p.respond(re, 491, "", "")
	p.request("ACK")
	began := time.Now()
	re = p.fresh("INVITE")
	if took := time.Since(began); took > 2500*time.Millisecond {
		t.Errorf("after %v", took)
	}
	p.respond(re, 200, "", answerSDP)
	p.request("ACK")
	if r := wait(t, out, "the answer"); r.err != nil || r.sdp != answerSDP {
		t.Errorf("%+v", r)
	}
	for range 50 {
		if w := (&Dialog{caller: true}).glareDelay(); w < 2100*time.Millisecond || w > 4*time.Second {
			t.Errorf("owner waits %v", w)
		}
		if w := (&Dialog{}).glareDelay(); w < 0 || w > 2*time.Second {
			t.Errorf("other waits %v", w)
		}
	}
	// Our offer waits while theirs is answered, and ends with its context.
	d.mu.Lock()
	d.busy = true
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), testT1)
	defer cancel()
	if r := wait(t, offer(ctx, d), "the end"); !errors.Is(r.err, context.DeadlineExceeded) && !strings.Contains(r.err.Error(), "crossing") {
		t.Errorf("%+v", r)
	}
}

// Nobody answers a re-INVITE.
func TestOfferWithoutAnswer(t *testing.T) {
	t.Parallel()
	h := answering(&script{})
	b := start(t, h.handle)
	p := b.phone("udp")
	c := p.dial(newInvite())
	c.ack(1, "")
	d := wait(t, h.calls, "the call")
	wait(t, d.Confirmed(), "the ACK")
	out := offer(t.Context(), d)
	ended(t, d, ErrGone)
	if r := wait(t, out, "the end"); r.err != ErrGone {
		t.Errorf("%+v", r)
	}
}
