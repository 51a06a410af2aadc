package sip

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// refer begins a transfer.
func refer(ctx context.Context, d *Dialog, r Refer) chan error {
	result := make(chan error, 1)
	go func() { result <- d.Refer(ctx, r) }()
	return result
}

// notify is a NOTIFY of the phone's.
func (c *call) notify(state, body string, extra ...string) req {
	r := c.next("NOTIFY", body)
	r.kind = "message/sipfrag;version=2.0"
	r.extra = append([]string{"Event: refer", "Subscription-State: " + state}, extra...)
	return r
}

// incoming is a call that came in and was answered.
func incoming(t *testing.T, dh DialogHandler) (*bench, *phone, *call, *Dialog) {
	t.Helper()
	calls := make(chan *Dialog, 8)
	b := start(t, func(_ context.Context, inv *Invite) {
		if d, err := inv.Answer([]byte(offerSDP), dh); err == nil {
			calls <- d
		}
	})
	p := b.phone("udp")
	c := p.dial(newInvite())
	c.ack(1, "")
	d := wait(t, calls, "the call")
	wait(t, d.Confirmed(), "the ACK")
	return b, p, c, d
}

// BR-076, BR-077: every way in which a peer may say what became of a transfer, or not
// say it. A failure leaves the call as it was.
func TestReferOutcomes(t *testing.T) {
	t.Parallel()
	const active, over = "active;expires=60", "terminated;reason=noresource"
	type said struct{ state, body string }
	for _, tt := range []struct {
		name     string
		answer   int
		extra    []string
		notes    []said
		code     int // of the error; -1 without one
		reason   string
		cause    error
		progress string
	}{
		{"answered", 202, nil, []said{{active, "SIP/2.0 100 Trying\r\n"}, {active, "SIP/2.0 180 Ringing\r\n"}, {over, "SIP/2.0 200 OK\r\n"}}, -1, "", nil, "100 Trying,180 Ringing"},
		{"refused at once", 405, nil, nil, 405, "Test", nil, ""},
		{"forbidden", 603, nil, nil, 603, "Test", nil, ""},
		{"call not known", 481, nil, nil, 481, "Test", nil, ""},
		{"ended without a body", 202, nil, []said{{over, ""}}, 0, "noresource", ErrReferUnknown, ""},
		{"ended while trying", 202, nil, []said{{"terminated;reason=giveup", "SIP/2.0 100 Trying\r\n"}}, 0, "giveup", ErrReferUnknown, ""},
		{"busy", 202, nil, []said{{over, "SIP/2.0 486 Busy\r\n"}}, 486, "Busy", nil, ""},
		{"final but not over", 202, nil, []said{{active, "SIP/2.0 404 Not Found"}}, 404, "Not Found", nil, ""},
		{"no line end", 202, nil, []said{{over, "SIP/2.0 200 OK"}}, -1, "", nil, ""},
		{"more headers", 202, nil, []said{{over, "SIP/2.0 200 OK\r\nTo: x\r\n"}}, -1, "", nil, ""},
		{"only line feeds", 202, nil, []said{{over, "\nsip/2.0  200  OK\nTo: x\n"}}, -1, "", nil, ""},
		{"no phrase", 202, nil, []said{{over, "SIP/2.0 503"}}, 503, "", nil, ""},
		{"a body that says nothing", 202, nil, []said{{over, "SIP/2.0 20x OK"}}, 0, "noresource", ErrReferUnknown, ""},
		{"another body", 202, nil, []said{{over, "hello"}}, 0, "noresource", ErrReferUnknown, ""},
		{"silence", 202, nil, nil, 0, "", ErrReferSilent, ""},
		{"silence after a word", 202, nil, []said{{"active;expires=0", "SIP/2.0 100 Trying"}}, 0, "", ErrReferSilent, "100 Trying"},
		{"200 in place of 202", 200, nil, []said{{over, "SIP/2.0 200 OK"}}, -1, "", nil, ""},
		{"no reports", 202, []string{"Refer-Sub: false"}, nil, -1, "", nil, ""}, // RFC 4488
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, p, c, d := incoming(t, &script{info: true})
			var progress []string
			result := refer(t.Context(), d, Refer{To: "+15550123", Progress: func(code int, reason string) {
				progress = append(progress, fmt.Sprint(code, " ", reason))
			}})
			q := p.fresh("REFER")
			if q.get("Refer-To") != "<sip:+15550123@example.com>" || q.get("Referred-By") != "<sip:bot@example.com>" || q.get("Contact") == "" {
				t.Errorf("REFER:\n%s", q.raw)
			}
			p.respond(q, tt.answer, "", "", tt.extra...)
			for _, n := range tt.notes {
				p.send(c.notify(n.state, n.body))
				p.expect("NOTIFY", 200)
			}
			err := wait(t, result, "the outcome")
			var e *ReferError
			switch {
			case tt.code < 0:
				if err != nil {
					t.Errorf("%v", err)
				}
			case !errors.As(err, &e) || e.Code != tt.code || e.Reason != tt.reason || !errors.Is(err, tt.cause) && tt.cause != nil:
				t.Errorf("%v, want %d %q %v", err, tt.code, tt.reason, tt.cause)
			case !strings.HasPrefix(err.Error(), "sip: transfer failed"):
				t.Error(err)
			}
			if got := strings.Join(progress, ","); got != tt.progress {
				t.Errorf("progress %q", got)
			}
			if d.Context().Err() != nil {
				t.Error("the call is over")
			}
			// What comes later is answered all the same, and the call goes on.
			p.send(c.notify(over, "SIP/2.0 200 OK"))
			p.expect("NOTIFY", 200)
			p.send(c.next("INFO", "x"))
			p.expect("INFO", 200)
		})
	}
}

// Headers of a transfer are escaped into the address, and are none that count.
func TestHeadersOfRefer(t *testing.T) {
	for _, tt := range []struct {
		to, name, value, want string
	}{
		{"sip:x@example.net", "X-A", "b c?&<>\"", "<sip:x@example.net?X-A=b%20c%3F%26%3C%3E%22>"},
		{"sip:x@example.net;transport=tcp", "x-a", "é", "<sip:x@example.net;transport=tcp?x-a=%C3%A9>"},
		{"tel:+15550123", "X-A", "b", ""},
		{"sip:x@example.net", "Route", "<sip:evil>", ""},
		{"sip:x@example.net", "X-A:B", "b", ""},
		{"sip:x@example.net", "X-A", "b\r\nRoute: c", ""},
		{"sip:x@example.net", "X-A", "b%0d%0ac", ""},
		{"sip:x@example.net", "X-A", strings.Repeat("b", maxValue), ""},
	} {
		fields, err := (&Dialog{from: "<sip:us@127.0.0.1>"}).referFields(Refer{To: tt.to, Headers: []Header{{tt.name, tt.value}}})
		got := ""
		for _, f := range fields {
			if f.name == "Refer-To" {
				got = f.value
			}
		}
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: %.40s: %q %v", tt.to, tt.name, got, err)
		}
	}
}

// A NOTIFY that needs no REFER of ours.
func TestNotifyRefused(t *testing.T) {
	b, p, c, d := incoming(t, &script{})
	p.send(c.notify("active", "SIP/2.0 100 Trying"))
	p.expect("NOTIFY", 481)
	r := c.notify("active", "")
	r.extra[0] = "Event: presence"
	p.send(r)
	if m := p.expect("NOTIFY", 489); m.get("Allow-Events") != "refer" {
		t.Errorf("489:\n%s", m.raw)
	}
	sub := c.next("SUBSCRIBE", "")
	sub.extra = []string{"Event: presence"}
	p.send(sub)
	p.expect("SUBSCRIBE", 489)
	sub = c.next("SUBSCRIBE", "")
	sub.extra = []string{"Event: refer"}
	p.send(sub)
	p.expect("SUBSCRIBE", 481)
	if d.Context().Err() != nil {
		t.Error("the call is over")
	}
	// Outside of a call.
	for method, code := range map[string]int{"REFER": 403, "NOTIFY": 481, "SUBSCRIBE": 489} {
		r := newCall(req{method: method})
		r.extra = []string{"Refer-To: <sip:x@example.net>", "Event: refer"}
		p.send(r)
		p.expect(method, code)
	}
	if n := b.logs.FilterMessage("sip: request refused").FilterField(zapRule("refer_outside_call")).Len(); n != 1 {
		t.Errorf("%d lines name the rule of the REFER", n)
	}
}

// A NOTIFY may overtake the 202 (RFC 3515 section 2.4.4), and an answer that never
// comes does not matter when the outcome does.
func TestNotifyBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	_, p, c, d := incoming(t, &script{})
	result := refer(t.Context(), d, Refer{To: "sip:x@example.net"})
	q := p.fresh("REFER")
	p.send(c.notify("terminated", "SIP/2.0 200 OK"))
	p.expect("NOTIFY", 200)
	p.respond(q, 202, "", "")
	if err := wait(t, result, "the outcome"); err != nil {
		t.Error(err)
	}
	result = refer(t.Context(), d, Refer{To: "sip:x@example.net"})
	p.fresh("REFER")
	p.send(c.notify("terminated", "SIP/2.0 200 OK"))
	p.expect("NOTIFY", 200)
	if err := wait(t, result, "the outcome"); err != nil {
		t.Error(err)
	}
	result = refer(t.Context(), d, Refer{To: "sip:x@example.net"})
	if err := wait(t, result, "the outcome"); !errors.Is(err, ErrTimeout) {
		t.Error(err)
	}
	if d.Context().Err() != nil {
		t.Error("the call is over") // only the REFER has failed (RFC 5057 section 5.1)
	}
}

// BR-077: the peer hangs up before the target answers; the subscription lives on, for
// longer than a dialog is kept for its last copies.
func TestReferOutlivesTheCall(t *testing.T) {
	t.Parallel()
	b, p, c, d := incoming(t, &script{})
	result := refer(t.Context(), d, Refer{To: "sip:x@example.net"})
	p.respond(p.fresh("REFER"), 202, "", "")
	p.send(c.notify("active;expires=60", "SIP/2.0 100 Trying"))
	p.expect("NOTIFY", 200)
	p.send(c.next("BYE", ""))
	p.expect("BYE", 200)
	ended(t, d, ErrPeerBye)
	p.send(c.next("INFO", "x"))
	p.expect("INFO", 481)
	if m := p.read(70 * testT1); m != nil {
		t.Fatalf("unexpected:\n%s", m.raw)
	}
	p.send(c.notify("terminated;reason=noresource", "SIP/2.0 200 OK"))
	p.expect("NOTIFY", 200)
	if err := wait(t, result, "the outcome"); err != nil {
		t.Error(err)
	}
	eventually(t, "the end of the dialog", func() bool { return len(b.dialogs.all()) == 0 })
	p.send(c.notify("terminated", "SIP/2.0 200 OK"))
	p.expect("NOTIFY", 481)
	if err := d.Refer(t.Context(), Refer{To: "1"}); !errors.Is(err, ErrPeerBye) {
		t.Errorf("after the end: %v", err)
	}
}

// BR-079: after the success we hang up, and soon.
func TestReferThenBye(t *testing.T) {
	_, p, c, d := incoming(t, &script{})
	done := make(chan error, 1)
	go func() {
		err := d.Refer(context.Background(), Refer{To: "sip:x@example.net"})
		done <- errors.Join(err, d.Bye(context.Background(), Reason{}))
	}()
	p.respond(p.fresh("REFER"), 202, "", "")
	p.send(c.notify("active;expires=180", "SIP/2.0 100 Trying"))
	p.expect("NOTIFY", 200)
	p.send(c.notify("terminated;reason=noresource", "SIP/2.0 200 OK"))
	p.expect("NOTIFY", 200)
	began := time.Now()
	p.reply(p.fresh("BYE"), 200)
	if took := time.Since(began); took > 200*time.Millisecond {
		t.Errorf("BYE after %v", took)
	}
	if err := wait(t, done, "the end"); err != nil {
		t.Error(err)
	}
	// The last words of the subscription.
	p.send(c.notify("terminated;reason=noresource", "SIP/2.0 200 OK"))
	p.expect("NOTIFY", 200)
}

// Several REFERs in one call (RFC 3515 section 2.4.6): the id is the number of the
// REFER; without one it is about the first.
func TestReferTwice(t *testing.T) {
	_, p, c, d := incoming(t, &script{})
	first := refer(t.Context(), d, Refer{To: "sip:a@example.net"})
	q1 := p.fresh("REFER")
	p.respond(q1, 202, "", "")
	second := refer(t.Context(), d, Refer{To: "sip:b@example.net"})
	q2 := p.fresh("REFER")
	p.respond(q2, 202, "", "")
	id, _, _ := strings.Cut(q2.get("CSeq"), " ")
	r := c.notify("terminated", "SIP/2.0 486 Busy")
	r.extra[0] = "Event: refer;id=" + id
	p.send(r)
	p.expect("NOTIFY", 200)
	var e *ReferError
	if err := wait(t, second, "the second"); !errors.As(err, &e) || e.Code != 486 {
		t.Error(err)
	}
	r = c.notify("terminated", "SIP/2.0 200 OK")
	r.extra[0] = "Event: refer;id=4711"
	p.send(r)
	p.expect("NOTIFY", 200)
	p.send(c.notify("active", "SIP/2.0 404 Not Found"))
	p.expect("NOTIFY", 200)
	if err := wait(t, first, "the first"); !errors.As(err, &e) || e.Code != 404 {
		t.Error(err)
	}
	// The first has not been ended by the peer: what comes without an id is of it, and
	// no success of a third.
	third := refer(t.Context(), d, Refer{To: "sip:c@example.net"})
	q3 := p.fresh("REFER")
	p.respond(q3, 202, "", "")
	p.send(c.notify("terminated", "SIP/2.0 200 OK"))
	p.expect("NOTIFY", 200)
	select {
	case err := <-third:
		t.Errorf("the third ended: %v", err)
	case <-time.After(2 * testT1):
	}
	p.send(c.notify("terminated", "SIP/2.0 200 OK"))
	p.expect("NOTIFY", 200)
	if err := wait(t, third, "the third"); err != nil {
		t.Error(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.subs) != 0 {
		t.Errorf("%d subscriptions are left", len(d.subs))
	}
}

// A transfer through a trunk is challenged, and the id is the number of the REFER
// that was taken; a stranger's challenge is not answered (BR-167).
func TestReferChallenged(t *testing.T) {
	b := start(t, quiet)
	p := listenPhone(t)
	d, inv, ack := answerCall(t, p, dial(t.Context(), b, trunkTo(p.addr), Outgoing{}, nil))
	result := refer(t.Context(), d, Refer{To: "*72#", ReferredBy: "sip:boss@example.com"})
	q := p.fresh("REFER")
	if q.get("Refer-To") != "<sip:*72%23@example.com>" || q.get("Referred-By") != "<sip:boss@example.com>" {
		t.Errorf("REFER:\n%s", q.raw)
	}
	p.respond(q, 407, "", "", `Proxy-Authenticate: Digest realm="example.com",nonce="1"`)
	q = p.fresh("REFER")
	proves(t, q, "Proxy-Authorization", "example.com", "gw1", "secret")
	p.respond(q, 202, "", "")
	n := inDialog(inv, ack, "NOTIFY", 1, "SIP/2.0 200 OK")
	id, _, _ := strings.Cut(q.get("CSeq"), " ")
	n.extra = []string{"Event: refer;id=" + id, "Subscription-State: terminated"}
	p.send(n)
	p.expect("NOTIFY", 200)
	if err := wait(t, result, "the outcome"); err != nil {
		t.Error(err)
	}
	result = refer(t.Context(), d, Refer{To: "1"})
	p.respond(p.fresh("REFER"), 401, "", "", `WWW-Authenticate: Digest realm="evil",nonce="1"`)
	var e *ReferError
	if err := wait(t, result, "the outcome"); !errors.As(err, &e) || e.Code != 401 || !errors.Is(err, ErrUnauthorized) {
		t.Error(err)
	}

	_, p2, _, d2 := incoming(t, &script{})
	result = refer(t.Context(), d2, Refer{To: "1"})
	p2.respond(p2.fresh("REFER"), 407, "", "", `Proxy-Authenticate: Digest realm="example.com",nonce="1"`)
	if err := wait(t, result, "the outcome"); !errors.As(err, &e) || e.Code != 407 || !errors.Is(err, ErrUnauthorized) {
		t.Error(err)
	}
}

// BR-080: whom to call is written so that nothing of it is lost, and nothing of it
// becomes more than an address.
func TestReferTo(t *testing.T) {
	b := start(t, quiet)
	p := listenPhone(t)
	d, _, _ := answerCall(t, p, dial(t.Context(), b, trunkTo(p.addr), Outgoing{}, nil))
	_, _, _, in := incoming(t, &script{})
	target := &Dialog{key: dialogKey{callID: "a;b@c&d=e%", local: "ours", remote: ""}, target: Address{RawURI: "sip:c@10.0.0.1;x=1"}}
	for _, tt := range []struct {
		d    *Dialog
		r    Refer
		want string // empty: an error
	}{
		{d, Refer{To: "+15550123"}, "<sip:+15550123@example.com>"},
		{in, Refer{To: "1;2@x"}, "<sip:1%3B2%40x@example.com>"},
		{d, Refer{To: "tel:+1-555;phone-context=x"}, "<tel:+1-555;phone-context=x>"},
		{d, Refer{To: "sip:sip.example.com:5061;transport=tls;x-m=8:orgid:4"}, "<sip:sip.example.com:5061;transport=tls;x-m=8:orgid:4>"},
		{d, Refer{Replaces: target}, "<sip:c@10.0.0.1;x=1?Replaces=a%3Bb%40c%26d%3De%25%3Bto-tag%3D0%3Bfrom-tag%3Dours>"},
		{d, Refer{To: "7", Replaces: target}, "<sip:7@example.com?Replaces=a%3Bb%40c%26d%3De%25%3Bto-tag%3D0%3Bfrom-tag%3Dours>"},
		{d, Refer{}, ""},
		{d, Refer{To: "sip:x@y\r\nX-Evil: 1"}, ""},
		{d, Refer{To: "sip:x%0d%0aEvil@y"}, ""},
		{d, Refer{To: "sip:x@y>;a=<b"}, ""},
		{d, Refer{To: "sip:x@y?Route=z"}, ""},
		{d, Refer{To: "mailto:x@y"}, ""},
		{d, Refer{To: "1", ReferredBy: "x"}, ""},
	} {
		fields, err := tt.d.referFields(tt.r)
		switch {
		case tt.want == "" && err == nil:
			t.Errorf("%+v: %v", tt.r, fields)
		case tt.want != "" && (err != nil || fields[1] != field{"Refer-To", tt.want}):
			t.Errorf("%+v: %v %v", tt.r, fields, err)
		}
	}
	var e *ReferError
	if err := d.Refer(t.Context(), Refer{}); !errors.As(err, &e) || !strings.Contains(err.Error(), "nobody") {
		t.Error(err)
	}
	anonymous := &Dialog{to: "<sip:anonymous@anonymous.invalid>", flow: &flow{remote: p.udpAddr()}}
	if uri, err := anonymous.referTarget(Refer{To: "7"}); err != nil || uri != "sip:7@127.0.0.1" {
		t.Error(uri, err)
	}
}

// The wait ends with its context and with the server.
func TestReferGivenUp(t *testing.T) {
	b, p, c, d := incoming(t, &script{})
	ctx, cancel := context.WithCancelCause(t.Context())
	result := refer(ctx, d, Refer{To: "1"})
	p.respond(p.fresh("REFER"), 202, "", "")
	p.send(c.notify("active", "SIP/2.0 100 Trying"))
	p.expect("NOTIFY", 200)
	stop := errors.New("enough")
	cancel(stop)
	if err := wait(t, result, "the end"); !errors.Is(err, stop) {
		t.Error(err)
	}
	p.send(c.notify("terminated", "SIP/2.0 200 OK"))
	p.expect("NOTIFY", 200)
	result = refer(t.Context(), d, Refer{To: "1"})
	p.respond(p.fresh("REFER"), 202, "", "")
	p.send(c.notify("active", "SIP/2.0 100 Trying"))
	p.expect("NOTIFY", 200)
	b.stop()
	if err := wait(t, result, "the end"); !errors.Is(err, ErrShutdown) {
		t.Error(err)
	}
}

// Attended: the gateway has a call with the target too, and the two find each other
// by it.
func TestReferAttended(t *testing.T) {
	b := start(t, quiet)
	p, target := listenPhone(t), listenPhone(t)
	d, _, _ := answerCall(t, p, dial(t.Context(), b, trunkTo(p.addr), Outgoing{}, nil))
	other := trunkTo(target.addr)
	other.Name = "other"
	consult, _, ack := answerCall(t, target, dial(t.Context(), b, other, Outgoing{}, nil))
	result := refer(t.Context(), d, Refer{Replaces: consult})
	q := p.fresh("REFER")
	_, value, _ := strings.Cut(strings.TrimSuffix(q.get("Refer-To"), ">"), "?Replaces=")
	local, remote := consult.Tags()
	// As the target sees it: its own tag is the one in To of what we send there.
	if got, err := parseReplaces(unescape(value)); err != nil || got.callID != consult.CallID() || got.to != remote || got.from != local ||
		!strings.HasSuffix(ack.get("To"), ";tag="+got.to) {
		t.Errorf("%s: %+v %v", value, got, err)
	}
	if !strings.HasPrefix(q.get("Refer-To"), "<sip:callee@"+target.addr) {
		t.Errorf("Refer-To %s", q.get("Refer-To"))
	}
	p.respond(q, 503, "", "")
	var e *ReferError
	if err := wait(t, result, "the outcome"); !errors.As(err, &e) || e.Code != 503 {
		t.Error(err)
	}
}

func FuzzSipfrag(f *testing.F) {
	for _, s := range []string{"SIP/2.0 200 OK", "SIP/2.0 200 OK\r\nTo: x\r\n", "", "SIP/2.0", "\r\n\r\nSIP/2.0 700", "SIP/2.0 99999999999 x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		code, reason := readSipfrag(body)
		if code != 0 && (code < 100 || code > 699) || len(reason) > 64*4 || strings.ContainsAny(reason, "\r\n\x00") {
			t.Errorf("%d %q", code, reason)
		}
	})
}
