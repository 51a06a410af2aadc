package sip

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"
)

// held is a handler that leaves what is done to the test.
type held struct {
	got     chan *Invite
	release chan struct{}
}

func holding() *held { return &held{make(chan *Invite, 1), make(chan struct{})} }

func (h *held) handle(_ context.Context, inv *Invite) {
	h.got <- inv
	<-h.release
}

// until reads responses to the INVITE until one has the code, and is not a copy of
// before.
func (p *phone) until(code int, before ...*msg) *msg {
	p.t.Helper()
next:
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		m := p.read(time.Until(deadline))
		if m == nil || m.code != code {
			continue
		}
		for _, b := range before {
			if m.raw == b.raw {
				continue next
			}
		}
		return m
	}
	p.t.Fatalf("no %d", code)
	return nil
}

func prackOf(inv req, m *msg, cseq int, rack string) req {
	r := newCall(req{method: "PRACK", uri: "sip:bot@gw", callID: inv.callID, from: inv.from, to: m.get("To"), cseq: cseq})
	r.extra = []string{"RAck: " + rack}
	return r
}

func TestPRACK(t *testing.T) {
	h := holding()
	b := start(t, h.handle)
	p := b.phone("udp")
	inv := newInvite()
	inv.extra = []string{"Require: 100rel"}
	p.send(inv)
	i := wait(t, h.got, "the INVITE")
	if err := i.Ring(); err != nil {
		t.Error(err)
	}
	if err := i.Progress([]byte(answerSDP)); err != nil { // waits for its turn
		t.Error(err)
	}
	ringing := p.until(180)
	rseq, err := strconv.Atoi(ringing.get("RSeq"))
	if err != nil || rseq < 1 || ringing.get("Require") != "100rel" || ringing.get("Contact") == "" {
		t.Errorf("180:\n%s", ringing.raw)
	}
	if again := p.until(180); again.raw != ringing.raw {
		t.Errorf("copy:\n%s", again.raw)
	}
	for _, rack := range []string{"", "x 1 INVITE", strconv.Itoa(rseq+1) + " 1 INVITE", strconv.Itoa(rseq) + " 2 INVITE", strconv.Itoa(rseq) + " 1 UPDATE"} {
		inv.cseq++
		p.send(prackOf(inv, ringing, inv.cseq, rack))
		p.expect("PRACK", 481)
	}
	rack := strconv.Itoa(rseq) + " 1 INVITE"
	for range 2 { // again is fine
		inv.cseq++
		p.send(prackOf(inv, ringing, inv.cseq, rack))
		p.expect("PRACK", 200)
	}
	early := p.until(183)
	if early.get("RSeq") != strconv.Itoa(rseq+1) || early.body != answerSDP {
		t.Errorf("183:\n%s", early.raw)
	}
	// The 200 waits for the confirmation of the description.
	done := make(chan *Dialog, 1)
	go func() {
		d, err := i.Answer([]byte(answerSDP), nil)
		if err != nil {
			t.Error(err)
		}
		done <- d
	}()
	for m := p.read(3 * testT1); m != nil; m = p.read(3 * testT1) {
		if m.code == 200 {
			t.Fatal("200 before the PRACK")
		}
		if m.raw != early.raw {
			t.Errorf("not a copy:\n%s", m.raw)
		}
		if wait := b.Stats().Retransmitted; wait > 4 {
			break
		}
	}
	inv.cseq++
	prack := prackOf(inv, early, inv.cseq, strconv.Itoa(rseq+1)+" 1 INVITE")
	p.send(prack)
	p.expect("PRACK", 200)
	p.expect("INVITE", 200)
	d := wait(t, done, "Answer")
	close(h.release)
	c := &call{p: p, inv: inv, ok: early, n: inv.cseq}
	c.ack(1, "")
	wait(t, d.Confirmed(), "the ACK")
	p.send(c.next("BYE", ""))
	p.expect("BYE", 200)
}

func TestPRACKVariants(t *testing.T) {
	for _, tt := range []struct {
		name    string
		extra   string
		offer   bool
		rings   string // RSeq of 180 and of 183: "no", "yes", or "none" when nothing is sent
		early   string
		confirm bool
	}{
		{"not known", "", true, "no", "no", false},
		{"supported", "Supported: 100rel", true, "no", "yes", true},
		{"required without an offer", "Require: 100rel", false, "none", "none", false},
		{"without an offer", "", false, "no", "none", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := holding()
			b := start(t, h.handle)
			p := b.phone("tcp")
			inv := newInvite()
			if tt.extra != "" {
				inv.extra = []string{tt.extra}
			}
			if !tt.offer {
				inv.body = ""
			}
			p.send(inv)
			i := wait(t, h.got, "the INVITE")
			p.until(100)
			see := func(what string, err error, code int) *msg {
				if err != nil {
					t.Error(err)
				}
				if what == "none" {
					return nil
				}
				m := p.until(code)
				if (m.get("RSeq") != "") != (what == "yes") {
					t.Errorf("%d:\n%s", code, m.raw)
				}
				return m
			}
			see(tt.rings, i.Ring(), 180)
			m := see(tt.early, i.Progress([]byte(answerSDP)), 183)
			if tt.confirm {
				p.send(prackOf(inv, m, 2, m.get("RSeq")+" 1 INVITE"))
				p.expect("PRACK", 200)
			}
			if _, err := i.Answer([]byte(answerSDP), nil); err != nil {
				t.Error(err)
			}
			close(h.release)
			p.expect("INVITE", 200)
			if err := i.Progress([]byte(answerSDP)); tt.offer && err != ErrAnswered {
				t.Errorf("Progress after the answer: %v", err)
			}
		})
	}
}

// No PRACK comes: the call is refused. A final response ends the copies.
func TestPRACKMissing(t *testing.T) {
	t.Parallel()
	h := holding()
	b := start(t, h.handle)
	p := b.phone("udp")
	inv := newInvite()
	inv.extra = []string{"Require: 100rel"}
	p.send(inv)
	i := wait(t, h.got, "the INVITE")
	i.Ring()
	m := p.expect("INVITE", 504)
	p.send(ackOf(inv, m))
	wait(t, i.Context().Done(), "the end")
	if cause := context.Cause(i.Context()); cause != ErrNoPRACK {
		t.Errorf("cause %v", cause)
	}
	close(h.release)

	h2 := holding()
	b = start(t, h2.handle)
	p = b.phone("udp")
	inv = newInvite()
	inv.extra = []string{"Require: 100rel"}
	p.send(inv)
	i = wait(t, h2.got, "the INVITE")
	i.Ring()
	ringing := p.until(180)
	i.Reject(&RejectError{Code: 486})
	close(h2.release)
	m = p.expect("INVITE", 486)
	p.send(ackOf(inv, m))
	for m := p.read(4 * testT1); m != nil; m = p.read(4 * testT1) {
		if m.raw == ringing.raw {
			t.Error("180 after the refusal")
		}
	}
	// An offer in a PRACK is none that could be taken now.
	h3 := holding()
	b = start(t, h3.handle)
	p = b.phone("tcp")
	inv = newInvite()
	inv.extra = []string{"Require: 100rel"}
	p.send(inv)
	i = wait(t, h3.got, "the INVITE")
	i.Ring()
	ringing = p.until(180)
	r := prackOf(inv, ringing, 2, ringing.get("RSeq")+" 1 INVITE")
	r.body, r.kind = offerSDP, "application/sdp"
	p.send(r)
	p.expect("PRACK", 488)
	close(h3.release)
	if m := p.final("INVITE"); m.code != 500 || strings.Contains(m.raw, "RSeq") {
		t.Errorf("final:\n%s", m.raw)
	}
}

// RFC 3262 section 5: an offer in the PRACK of an answer is answered in its 200, and the
// 200 of the INVITE waits for that; a refused one changes nothing.
func TestPRACKWithOffer(t *testing.T) {
	h := holding()
	b := start(t, h.handle)
	defer close(h.release)
	inside, release := make(chan struct{}, 1), make(chan struct{})
	rej := &RejectError{Code: 488, Rule: "codec", Text: "No codec in common"}
	dh := &script{offer: func([]byte) ([]byte, *RejectError) {
		inside <- struct{}{}
		<-release
		if rej != nil {
			return nil, rej
		}
		return []byte(updatedSDP), nil
	}}
	p := b.phone("udp")
	inv := newInvite()
	inv.extra = []string{"Supported: 100rel"}
	p.send(inv)
	i := wait(t, h.got, "the INVITE")
	d := i.Early(dh)
	if err := i.Progress([]byte(answerSDP)); err != nil {
		t.Fatal(err)
	}
	m := p.until(183)
	prack := func(cseq int) {
		r := prackOf(inv, m, cseq, m.get("RSeq")+" 1 INVITE")
		r.body, r.kind = offerSDP, "application/sdp"
		p.send(r)
		wait(t, inside, "the offer")
	}
	prack(2)
	answered := make(chan error, 1)
	go func() {
		_, err := i.Answer([]byte(answerSDP), dh)
		answered <- err
	}()
	release <- struct{}{}
	if m := p.expect("PRACK", 488); !strings.Contains(m.get("Warning"), "No codec in common") {
		t.Errorf("488:\n%s", m.raw)
	}
	if m := p.expect("INVITE", 200); m.body != answerSDP { // what was agreed upon
		t.Errorf("200:\n%s", m.raw)
	}
	if err := wait(t, answered, "Answer"); err != nil {
		t.Error(err)
	}
	rej = nil
	prack(3) // the other one comes with the same number, and before the ACK
	release <- struct{}{}
	if m := p.expect("PRACK", 200); m.body != updatedSDP || m.get("Session-Expires") != "" {
		t.Errorf("200:\n%s", m.raw)
	}
	c := &call{p: p, inv: inv, ok: m, n: 3}
	c.ack(1, "")
	wait(t, d.Confirmed(), "the ACK")

	// Before the answer.
	p = b.phone("udp")
	inv = newInvite()
	inv.extra = []string{"Supported: 100rel"}
	p.send(inv)
	i = wait(t, h.got, "the INVITE")
	i.Early(dh)
	if err := i.Progress([]byte(answerSDP)); err != nil {
		t.Fatal(err)
	}
	m = p.until(183)
	prack(2)
	go func() {
		_, err := i.Answer([]byte(answerSDP), dh)
		answered <- err
	}()
	for early := p.read(3 * testT1); early != nil; early = p.read(3 * testT1) {
		if early.code == 200 {
			t.Fatalf("before the offer was answered:\n%s", early.raw)
		}
	}
	release <- struct{}{}
	if m := p.expect("PRACK", 200); m.body != updatedSDP {
		t.Errorf("200:\n%s", m.raw)
	}
	if m := p.expect("INVITE", 200); m.body != "" {
		t.Errorf("200:\n%s", m.raw)
	}
	if err := wait(t, answered, "Answer"); err != nil {
		t.Error(err)
	}
}

// The other role: what we call wants its provisional responses confirmed.
func TestDialPRACK(t *testing.T) {
	b := start(t, quiet)
	p := listenPhone(t)
	heard := make(chan Progress, 8)
	result := dial(t.Context(), b, trunkTo(p.addr), Outgoing{Progress: func(p Progress) { heard <- p }}, nil)
	inv := p.fresh("INVITE")
	if !strings.Contains(inv.raw, "Supported: 100rel, replaces, timer\r\n") {
		t.Errorf("INVITE:\n%s", inv.raw)
	}
	contact, route := "Contact: <sip:early@"+p.addr+">", "Record-Route: <sip:"+p.addr+";lr>"
	p.respond(inv, 180, "t1", "", "Require: 100rel", "RSeq: 7", contact, route)
	first := p.fresh("PRACK")
	if first.get("RAck") != "7 1 INVITE" || first.get("CSeq") != "2 PRACK" || first.start != "PRACK sip:early@"+p.addr+" SIP/2.0" ||
		first.get("Route") != "<sip:"+p.addr+";lr>" || !strings.HasSuffix(first.get("To"), ";tag=t1") {
		t.Errorf("PRACK:\n%s", first.raw)
	}
	p.reply(first, 200)
	p.respond(inv, 180, "t1", "", "Require: 100rel", "RSeq: 7", contact, route)            // a copy
	p.respond(inv, 183, "t1", answerSDP, "Require: 100rel", "RSeq: 9", contact, route)     // 8 is missing
	p.respond(inv, 183, "t1", answerSDP, "Require: 100rel", "RSeq: seven", contact, route) // nonsense
	p.respond(inv, 183, "t1", answerSDP, "Require: 100rel", "RSeq: 8", contact, route)
	second := p.fresh("PRACK")
	if second.get("RAck") != "8 1 INVITE" || second.get("CSeq") != "3 PRACK" {
		t.Errorf("second PRACK:\n%s", second.raw)
	}
	p.reply(second, 200)
	for _, code := range []int{180, 183} {
		if got := wait(t, heard, "the progress"); got.Code != code {
			t.Errorf("progress %d, want %d", got.Code, code)
		}
	}
	// The description was in the provisional, so the 200 need not have one; it goes
	// another way.
	p.respond(inv, 200, "t1", "", "Contact: <sip:late@"+p.addr+">")
	ack := p.request("ACK")
	if ack.start != "ACK sip:late@"+p.addr+" SIP/2.0" || ack.get("Route") != "" || ack.get("CSeq") != "1 ACK" {
		t.Errorf("ACK:\n%s", ack.raw)
	}
	r := wait(t, result, "Dial")
	if r.err != nil {
		t.Fatal(r.err)
	}
	go r.d.Bye(context.Background(), Reason{})
	bye := p.fresh("BYE")
	if bye.get("CSeq") != "4 BYE" {
		t.Errorf("BYE:\n%s", bye.raw)
	}
	p.reply(bye, 200)
	if len(heard) > 0 {
		t.Errorf("more progress: %+v", <-heard)
	}
}
