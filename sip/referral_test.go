package sip

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
)

func (p *phone) udpAddr() netip.AddrPort { return netip.MustParseAddrPort(p.addr) }

// mover is a DialogHandler that takes transfers.
type mover struct {
	*script
	got chan *Referral
	do  atomic.Pointer[func(*Referral) *RejectError]
}

func (m *mover) Refer(r *Referral) *RejectError {
	m.got <- r
	if f := m.do.Load(); f != nil {
		return (*f)(r)
	}
	return nil
}

func (m *mover) does(f func(*Referral) *RejectError) { m.do.Store(&f) }

func newMover() *mover { return &mover{script: &script{}, got: make(chan *Referral, 8)} }

func (c *call) refer(to string, extra ...string) req {
	r := c.next("REFER", "")
	r.extra = append([]string{"Refer-To: " + to, "Contact: <sip:alice@" + c.p.addr + ">"}, extra...)
	return r
}

// notified reads a NOTIFY and answers it.
func (p *phone) notified(code int) *msg {
	p.t.Helper()
	m := p.fresh("NOTIFY")
	p.reply(m, code)
	return m
}

func TestReferral(t *testing.T) {
	h := newMover()
	_, p, c, d := incoming(t, h)
	p.send(c.refer("Bob <sip:bob@example.net:5070;transport=tcp;x=1?Replaces=a%40b%3Bto-tag%3D1%3Bfrom-tag%3D2&X-Evil=1>", "Referred-By: <sip:alice@example.com>"))
	ok := p.expect("REFER", 202)
	if ok.get("Contact") == "" || ok.get("Refer-Sub") != "" {
		t.Errorf("202:\n%s", ok.raw)
	}
	r := wait(t, h.got, "the referral")
	if r.To.RawURI != "sip:bob@example.net:5070;transport=tcp;x=1" || r.To.Name != "Bob" || r.Replaces != "a@b;to-tag=1;from-tag=2" ||
		r.ReferredBy != "<sip:alice@example.com>" {
		t.Errorf("%+v", r)
	}
	n := p.notified(200)
	if n.body != "SIP/2.0 100 Trying\r\n" || n.get("Event") != "refer" || n.get("Subscription-State") != "active;expires=240" ||
		n.get("Content-Type") != "message/sipfrag;version=2.0" || n.get("From") != c.ok.get("To") || n.get("CSeq") != "1 NOTIFY" || n.get("Contact") == "" {
		t.Errorf("NOTIFY:\n%s", n.raw)
	}
	r.Notify(180, "")
	if n = p.notified(200); n.body != "SIP/2.0 180 Ringing\r\n" {
		t.Errorf("NOTIFY:\n%s", n.raw)
	}
	r.Done(486, "Busy\r\nX: y")
	r.Done(200, "too late")
	r.Notify(180, "much too late")
	if n = p.notified(200); n.body != "SIP/2.0 486 Busy..X: y\r\n" || n.get("Subscription-State") != "terminated;reason=noresource" {
		t.Errorf("NOTIFY:\n%s", n.raw)
	}
	p.silent(4*testT1, "nothing follows the end")

	// A second one has the number of its REFER for an id. Its outcome is known before
	// the 202, and it is told of when the call is over, too.
	h.does(func(r *Referral) *RejectError { r.Done(999, ""); return nil })
	again := c.refer("<sip:bob@example.net>")
	p.send(again)
	p.expect("REFER", 202)
	if n = p.notified(200); n.body != "SIP/2.0 500 Server Internal Error\r\n" || n.get("Event") != fmt.Sprintf("refer;id=%d", again.cseq) {
		t.Errorf("NOTIFY:\n%s", n.raw)
	}
	h.do.Store(nil)
	p.send(c.refer("<sip:bob@example.net>"))
	p.expect("REFER", 202)
	p.notified(200)
	<-h.got
	r = wait(t, h.got, "the third")
	p.send(c.next("BYE", ""))
	p.expect("BYE", 200)
	ended(t, d, ErrPeerBye)
	r.Notify(7, "")
	if n = p.notified(200); n.body != "SIP/2.0 100 Trying\r\n" {
		t.Errorf("NOTIFY:\n%s", n.raw)
	}
	r.Done(200, "OK")
	if n = p.notified(481); n.body != "SIP/2.0 200 OK\r\n" {
		t.Errorf("NOTIFY:\n%s", n.raw)
	}
}

// BR-080, and what must not get through.
func TestReferralRefused(t *testing.T) {
	h := newMover()
	_, p, c, d := incoming(t, h)
	for _, tt := range []struct {
		to    string
		extra []string
		code  int
	}{
		{"<sip:sip.example.com:5061;transport=tls;x-m=8:orgid:4>", []string{"Refer-Sub: false"}, 202},
		{"<tel:+15550100;phone-context=x>", []string{"Refer-Sub: false", "Referred-By: <sip:" + strings.Repeat("a", 400) + "@example.com>"}, 202},
		{"<sip:x%0d%0aX-Evil:1@example.com>", nil, 400},
		{"<sip:x@example.com?X=%0d%0aY>", nil, 400},
		{"<sip:x@example.com;a=%00>", nil, 400},
		{"<http://example.com/>", nil, 400},
		{"<mailto:x@example.com>", nil, 400},
		{"<b0119:532@192.0.2.1>", nil, 400},
		{"sip:", nil, 400},
		{"<sip:a@b>, <sip:c@d>", nil, 400},
		{"<sip:a@b>", []string{"Refer-To: <sip:c@d>"}, 400},
		{"<sip:a@b", nil, 400},
		{"<sip:a@b?Replaces=x>", nil, 400},
		{"<sip:a@b?Replaces=x%3Bto-tag%3D1%3Bfrom-tag%3D2&Replaces=x%3Bto-tag%3D1%3Bfrom-tag%3D2>", nil, 400},
		{"<sip:a@b>", []string{"Require: norefersub, replaces", "Refer-Sub: false"}, 202},
	} {
		p.send(c.refer(tt.to, tt.extra...))
		m := p.final("REFER")
		if m.code != tt.code {
			t.Errorf("%s: %s", tt.to, m.start)
		}
		if m.code != 202 {
			continue
		}
		if m.get("Refer-Sub") != "false" {
			t.Errorf("202:\n%s", m.raw)
		}
		r := wait(t, h.got, "the referral")
		if len(tt.extra) == 2 && strings.HasPrefix(tt.extra[1], "Referred-By") && len(r.ReferredBy) < 400 {
			t.Errorf("Referred-By %q", r.ReferredBy)
		}
		r.Done(200, "") // nobody wants to hear it (RFC 4488)
	}
	bare := c.next("REFER", "")
	p.send(bare)
	p.expect("REFER", 400)
	h.does(func(*Referral) *RejectError { return &RejectError{Code: 603, Rule: "policy", Text: "Not today"} })
	p.send(c.refer("<sip:a@b>"))
	p.expect("REFER", 603)
	h.does(func(*Referral) *RejectError { panic("oops") })
	p.send(c.refer("<sip:a@b>"))
	p.expect("REFER", 500)
	p.silent(4*testT1, "no NOTIFY about what was refused")
	if d.Context().Err() != nil {
		t.Error("the call is over")
	}

	b, p, c, _ := incoming(t, &script{}) // takes none
	p.send(c.refer("<sip:a@b>"))
	p.expect("REFER", 403)
	if n := b.logs.FilterMessage("sip: request in a call refused").FilterField(zapRule("refer_not_taken")).Len(); n != 1 {
		t.Errorf("%d lines name the rule", n)
	}
}

// The peer asks again how it stands, and then does not want to know any more.
func TestReferralSubscribed(t *testing.T) {
	h := newMover()
	_, p, c, d := incoming(t, h)
	refer := c.refer("<sip:bob@example.net>")
	p.send(refer)
	p.expect("REFER", 202)
	r := wait(t, h.got, "the referral")
	p.notified(200)
	r.Notify(180, "Ringing")
	p.notified(200)
	sub := c.next("SUBSCRIBE", "")
	sub.extra = []string{"Event: refer", "Expires: 60"}
	p.send(sub)
	if m := p.expect("SUBSCRIBE", 200); m.get("Expires") != "60" {
		t.Errorf("200:\n%s", m.raw)
	}
	if n := p.notified(200); n.body != "SIP/2.0 180 Ringing\r\n" || n.get("Subscription-State") != "active;expires=60" {
		t.Errorf("NOTIFY:\n%s", n.raw)
	}
	sub = c.next("SUBSCRIBE", "")
	sub.extra = []string{fmt.Sprintf("Event: refer;id=%d", refer.cseq), "Expires: 0"}
	p.send(sub)
	p.expect("SUBSCRIBE", 200)
	if n := p.notified(200); n.body != "SIP/2.0 180 Ringing\r\n" || n.get("Subscription-State") != "terminated;reason=timeout" {
		t.Errorf("NOTIFY:\n%s", n.raw)
	}
	r.Done(200, "")
	eventually(t, "the end", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return len(d.referrals) == 0 })
	sub = c.next("SUBSCRIBE", "")
	sub.extra = []string{"Event: refer"}
	p.send(sub)
	p.expect("SUBSCRIBE", 481)

	// One that nobody brings to an end runs out; a peer that does not know it any more
	// is told nothing; and there is a bound.
	p.send(c.refer("<sip:bob@example.net>"))
	p.expect("REFER", 202)
	r = wait(t, h.got, "the referral")
	p.notified(200)
	r.mu.Lock()
	r.extend(testT1)
	r.mu.Unlock()
	if n := p.notified(200); n.body != "SIP/2.0 100 Trying\r\n" || n.get("Subscription-State") != "terminated;reason=timeout" {
		t.Errorf("NOTIFY:\n%s", n.raw)
	}
	p.send(c.refer("<sip:bob@example.net>"))
	p.expect("REFER", 202)
	r = wait(t, h.got, "the referral")
	p.notified(481)
	eventually(t, "the end", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return len(d.referrals) == 0 })
	r.Done(200, "")
	p.silent(2*testT1, "nothing more is told")
	for range maxReferrals {
		p.send(c.refer("<sip:bob@example.net>"))
		p.expect("REFER", 202)
		p.notified(200)
	}
	p.send(c.refer("<sip:bob@example.net>"))
	if m := p.expect("REFER", 500); m.get("Retry-After") == "" {
		t.Errorf("500:\n%s", m.raw)
	}
}

// A peer that answers no NOTIFY ends the subscription and not the call.
func TestReferralUnanswered(t *testing.T) {
	t.Parallel()
	h := newMover()
	_, p, c, d := incoming(t, h)
	p.send(c.refer("<sip:bob@example.net>"))
	p.expect("REFER", 202)
	eventually(t, "the end", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.referTaken && len(d.referrals) == 0
	})
	if d.Context().Err() != nil {
		t.Error("the call is over")
	}
}

// replacing answers a first call and tells what a second one asks for.
type replacing struct {
	calls chan *Dialog
	took  chan *Dialog
}

func (r *replacing) handle(ctx context.Context, inv *Invite) {
	old, rej := inv.Replaces()
	switch {
	case rej != nil:
		inv.Reject(rej)
	case inv.RequestURI().User == "ring":
		inv.Ring()
		<-ctx.Done()
	default:
		d, err := inv.Answer([]byte(offerSDP), nil)
		if err != nil {
			return
		}
		if old != nil {
			r.took <- old
			old.Bye(context.Background(), Reason{})
			return
		}
		r.calls <- d
	}
}

// RFC 3891 section 3: what a Replaces header means for each state of the call that it
// names.
func TestReplaces(t *testing.T) {
	h := &replacing{calls: make(chan *Dialog, 8), took: make(chan *Dialog, 8)}
	b := start(t, h.handle)
	p := b.phone("udp")
	c := p.dial(newInvite())
	c.ack(1, "")
	d := wait(t, h.calls, "the call")
	wait(t, d.Confirmed(), "the ACK")
	ring := newInvite()
	ring.uri = "sip:ring@example.com"
	p.send(ring)
	ringing := p.until(180)
	tags := func(callID, to, from string) string {
		return "Replaces: " + callID + ";to-tag=" + to + ";from-tag=" + from
	}
	_, alice, _ := strings.Cut(c.inv.from, ";tag=")
	_, ringer, _ := strings.Cut(ring.from, ";tag=")
	mine := tags(c.inv.callID, c.ok.toTag(), alice)
	try := func(headers ...string) *msg {
		t.Helper()
		q := b.phone("udp")
		inv := newInvite()
		inv.extra = headers
		q.send(inv)
		m := q.final("INVITE")
		q.send(ackOf(inv, m))
		return m
	}
	for _, tt := range []struct {
		headers []string
		code    int
	}{
		{[]string{"Replaces: x"}, 400},
		{[]string{"Replaces: x;to-tag=1"}, 400},
		{[]string{"Replaces: x;to-tag=1;to-tag=2;from-tag=3"}, 400},
		{[]string{"Replaces: ;to-tag=1;from-tag=3"}, 400},
		{[]string{mine, mine}, 400},
		{[]string{tags("nobody", "1", "2")}, 481},
		{[]string{tags(c.inv.callID, alice, c.ok.toTag())}, 481}, // the wrong way round
		{[]string{tags(c.inv.callID, c.ok.toTag(), "0")}, 481},
		{[]string{tags(ring.callID, ringing.toTag(), ringer)}, 481}, // not ours that rings
		{[]string{mine + ";early-only"}, 486},
	} {
		if m := try(tt.headers...); m.code != tt.code {
			t.Errorf("%v: %s", tt.headers, m.start)
		}
	}
	if m := try("Require: replaces", mine); m.code != 200 {
		t.Errorf("replaced: %s", m.start)
	}
	if old := wait(t, h.took, "the old call"); old != d {
		t.Error("another call")
	}
	p.reply(p.fresh("BYE"), 200)
	ended(t, d, ErrLocalBye)
	if m := try(mine); m.code != 603 {
		t.Errorf("after the end: %s", m.start)
	}
	// One of ours that rings may be picked up, also when only that is meant.
	callee := listenPhone(t)
	heard := make(chan Progress, 8)
	result := dial(t.Context(), b, trunkTo(callee.addr), Outgoing{Progress: func(p Progress) { heard <- p }}, nil)
	out := callee.fresh("INVITE")
	callee.respond(out, 180, "t9", "")
	ours := wait(t, heard, "the ringing").Dialog
	_, tag, _ := strings.Cut(out.get("From"), ";tag=")
	if m := try(tags(out.get("Call-ID"), tag, "t9") + ";early-only"); m.code != 200 {
		t.Errorf("a call of ours that rings: %s", m.start)
	}
	if got := wait(t, h.took, "the call that rings"); got != ours {
		t.Error("another call")
	}
	callee.respond(out, 486, "t9", "")
	failed(t, result, nil)
	if r, err := parseReplaces("a@b;from-tag=2;x=y;to-tag=1;early-only"); err != nil || (r != replaced{"a@b", "1", "2", true}) {
		t.Errorf("%+v %v", r, err)
	}
	old := &Dialog{key: dialogKey{"old", "1", ""}}
	b.dialogs.put(old)
	if b.dialogs.replaced(replaced{callID: "old", to: "1", from: "0"}) != old {
		t.Error("a peer without tags is not found")
	}
	b.dialogs.remove(old)
}

// A call that a REFER asked for says so.
func TestDialReplaces(t *testing.T) {
	b := start(t, quiet)
	p := listenPhone(t)
	o := Outgoing{Replaces: "a@b;to-tag=1;from-tag=2", ReferredBy: "sip:alice@example.com"}
	result := dial(t.Context(), b, trunkTo(p.addr), o, nil)
	inv := p.fresh("INVITE")
	if inv.get("Replaces") != o.Replaces || inv.get("Require") != "replaces" || inv.get("Referred-By") != "<sip:alice@example.com>" {
		t.Errorf("INVITE:\n%s", inv.raw)
	}
	p.respond(inv, 420, "x", "", "Unsupported: replaces")
	p.request("ACK")
	if e := failed(t, result, nil); e.Code != 420 {
		t.Error(e)
	}
	for _, bad := range []Outgoing{
		{Replaces: "x"}, {Replaces: "a\r\nb;to-tag=1;from-tag=2"}, {ReferredBy: "nobody"}, {ReferredBy: "<sip:a@b>\r\nX: y"},
		{Headers: []Header{{"Replaces", "x"}}}, {Headers: []Header{{"b", "x"}}},
	} {
		bad.To, bad.Offer = "1", []byte(offerSDP)
		if _, err := b.Dial(t.Context(), trunkTo(p.addr), bad, nil); err == nil || errors.As(err, new(*DialError)) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	whole := Outgoing{ReferredBy: `"Al" <sip:alice@example.com>;cid="1@x"`}
	result = dial(t.Context(), b, trunkTo(p.addr), whole, nil)
	inv = p.fresh("INVITE")
	if inv.get("Referred-By") != whole.ReferredBy {
		t.Errorf("INVITE:\n%s", inv.raw)
	}
	p.respond(inv, 486, "x", "")
	failed(t, result, nil)
}

func FuzzReplaces(f *testing.F) {
	for _, s := range []string{"a@b;to-tag=1;from-tag=2", "a;from-tag=0;to-tag=x;early-only", ";;;", "a b;to-tag=1;from-tag=2", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseReplaces(s)
		if err != nil {
			return
		}
		d := &Dialog{key: dialogKey{r.callID, r.from, r.to}}
		back, err := parseReplaces(d.replaces())
		back.early = r.early
		if err != nil || back != r {
			t.Errorf("%q: %+v %+v %v", s, r, back, err)
		}
	})
}

func FuzzReferTo(f *testing.F) {
	for _, s := range []string{"<sip:a@b?Replaces=x%3Bto-tag%3D1%3Bfrom-tag%3D2>", "sip:a@b", "<tel:+1;x=y>", "Bob <sip:%0d@x>", "<sip:h:5061;transport=tls;x-m=8:orgid:a>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, rej := readReferral(&message{fields: []field{{"refer-to", s}, {"referred-by", s}}})
		if rej != nil {
			return
		}
		if _, err := oneURI(r.To.RawURI); err != nil || strings.ContainsAny(r.Replaces+r.ReferredBy, "\r\n") {
			t.Errorf("%q: %+v %v", s, r, err)
		}
	})
}
