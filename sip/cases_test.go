package sip

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// Cases that concern a whole call. The names are those of the catalogue of failures
// that people have reported; most are with the verb that they belong to.

// BR-061: whatever we send in a call has the same From and To, and the next number.
func TestOneSequenceInACall(t *testing.T) {
	t.Parallel()
	b := start(t, quiet, shortTimer)
	p := listenPhone(t)
	d, inv, ack := answerCall(t, p, dial(t.Context(), b, trunkTo(p.addr), Outgoing{From: "+15550123", Name: "Gate"}, &script{}),
		"Allow: INVITE, UPDATE", "Session-Expires: 3;refresher=uac", "Require: timer")
	last := 1
	next := func(method string) *msg {
		t.Helper()
		m := p.fresh(method)
		last++
		if want := fmt.Sprintf("%d %s", last, method); m.get("CSeq") != want || m.get("From") != inv.get("From") ||
			m.get("To") != ack.get("To") || m.get("Call-ID") != inv.get("Call-ID") {
			t.Errorf("want CSeq %s:\n%s", want, m.raw)
		}
		return m
	}
	if !strings.HasPrefix(inv.get("From"), `"Gate" <sip:+15550123@example.com>;tag=`) {
		t.Errorf("From %s", inv.get("From"))
	}
	hold := offer(t.Context(), d)
	p.respond(next("INVITE"), 200, "", answerSDP, "Session-Expires: 3;refresher=uac")
	p.request("ACK")
	wait(t, hold, "the hold")
	info := make(chan error, 1)
	go func() { info <- d.Digit(t.Context(), '5', 160*time.Millisecond) }()
	m := next("INFO")
	if m.get("Content-Type") != "application/dtmf-relay" || m.body != "Signal=5\r\nDuration=160\r\n" || len(m.head["content-type"]) != 1 {
		t.Errorf("INFO:\n%s", m.raw)
	}
	p.reply(m, 200)
	if err := wait(t, info, "Digit"); err != nil {
		t.Error(err)
	}
	p.respond(next("UPDATE"), 200, "", "", "Session-Expires: 30;refresher=uac") // the refresh
	result := refer(t.Context(), d, Refer{To: "1"})
	p.respond(next("REFER"), 407, "", "", `Proxy-Authenticate: Digest realm="example.com",nonce="1"`)
	p.respond(next("REFER"), 603, "", "")
	wait(t, result, "the refusal")
	hold = offer(t.Context(), d)
	p.respond(next("INVITE"), 488, "", "")
	p.request("ACK")
	wait(t, hold, "the resume")
	go d.Bye(context.Background(), Reason{})
	p.reply(next("BYE"), 200)
	ended(t, d, ErrLocalBye)
}

// What may become of an INFO of ours.
func TestInfoOfOurs(t *testing.T) {
	_, p, _, d := incoming(t, &script{})
	info := func(kind string) chan error {
		result := make(chan error, 1)
		go func() { result <- d.Info(t.Context(), kind, []byte("x")) }()
		return result
	}
	result := info("application/dtmf")
	p.reply(p.fresh("INFO"), 415)
	var rej *RejectError
	if err := wait(t, result, "Info"); !errors.As(err, &rej) || rej.Code != 415 {
		t.Error(err)
	}
	for _, kind := range []string{"", "text", "text/plain\r\nX-Evil: 1"} {
		if err := d.Info(t.Context(), kind, nil); err == nil {
			t.Errorf("%q is taken", kind)
		}
	}
	if err := d.Digit(t.Context(), 'x', time.Second); err == nil {
		t.Error("x is taken for a digit")
	}
	result = info("application/dtmf")
	p.reply(p.fresh("INFO"), 481)
	p.reply(p.fresh("BYE"), 200)
	if err := wait(t, result, "Info"); err != ErrGone {
		t.Error(err)
	}
	if err := d.Info(t.Context(), "application/dtmf", nil); err != ErrGone {
		t.Error(err)
	}
}

// BR-036: each response that makes or refreshes a dialog has a Contact that can be
// reached, also of sockets that are bound to every address.
func TestContacts(t *testing.T) {
	for _, network := range networks {
		h := holding()
		b := start(t, h.handle, func(c *Config) {
			c.Listen = []Listener{{Network: "udp", Addr: "0.0.0.0:0"}, {Network: "tcp", Addr: "0.0.0.0:0"}}
		})
		to := b.udp
		if network == "tcp" {
			to = b.tcp
		}
		here := fmt.Sprintf("127.0.0.1:%d", to.Port())
		p := dialPhone(t, network, netip.MustParseAddrPort(here))
		want := fmt.Sprintf("<sip:bot@%s;transport=%s>", here, network)
		inv := newInvite()
		p.send(inv)
		i := wait(t, h.got, "the INVITE")
		i.Ring()
		i.Progress([]byte(answerSDP))
		for _, code := range []int{180, 183} {
			if m := p.until(code); m.get("Contact") != want || m.toTag() == "" {
				t.Errorf("%d:\n%s", code, m.raw)
			}
		}
		i.Answer([]byte(answerSDP), &script{})
		c := &call{p: p, inv: inv, ok: p.expect("INVITE", 200), n: 1}
		c.ack(1, "")
		p.send(c.next("INVITE", offerSDP))
		re := p.answer("2 INVITE")
		c.ack(2, "")
		p.send(c.next("UPDATE", ""))
		up := p.expect("UPDATE", 200)
		for _, m := range []*msg{c.ok, re, up} {
			// Requests in the call have another user in the Request-URI, and that is theirs.
			if m.code != 200 || !strings.Contains(m.get("Contact"), "@"+here+";transport="+network+">") {
				t.Errorf("%s: Contact %q", m.start, m.get("Contact"))
			}
		}
		p.send(c.next("BYE", ""))
		p.expect("BYE", 200)
		close(h.release)
	}
}

// BR-039: ringing has no description, so that the caller's own ringback goes on; one
// is only sent by whoever has sound to send.
func TestRingingHasNoDescription(t *testing.T) {
	h := holding()
	b := start(t, h.handle)
	defer close(h.release)
	p := b.phone("udp")
	p.send(newInvite())
	i := wait(t, h.got, "the INVITE")
	i.Ring()
	if m := p.until(180); m.body != "" || m.get("Content-Type") != "" {
		t.Errorf("180:\n%s", m.raw)
	}
	p.silent(2*testT1, "no 183 without sound")
	i.Progress([]byte(answerSDP))
	if m := p.until(183); m.body != answerSDP {
		t.Errorf("183:\n%s", m.raw)
	}
	i.Answer([]byte(answerSDP), nil)
	p.expect("INVITE", 200)
}

// BR-049: requests in a call belong to it by their tags, whatever is called in them.
func TestRequestURIOfTheProxy(t *testing.T) {
	h := answering(&script{info: true})
	b := start(t, h.handle)
	p := b.phone("udp")
	inv := newInvite()
	inv.uri = "sip:+15550100@gw.example.com"
	c := p.dial(inv)
	d := wait(t, h.calls, "the call")
	ack := newCall(req{method: "ACK", uri: inv.uri, callID: inv.callID, from: inv.from, to: c.ok.get("To"), cseq: 1})
	p.send(ack)
	wait(t, d.Confirmed(), "the ACK")
	for _, method := range []string{"INVITE", "INFO", "BYE"} {
		r := c.next(method, offerSDP)
		r.uri = inv.uri
		p.send(r)
		p.expect(method, 200)
		if method == "INVITE" {
			c.ack(r.cseq, "")
		}
	}
	ended(t, d, ErrPeerBye)
}

// BR-055: refusals have the code that says who is to blame, and the text and Warning
// that say why.
func TestRefusalsAreTold(t *testing.T) {
	for _, tt := range []struct {
		rej     RejectError
		warning string
	}{
		{RejectError{Code: 488, Warning: 305, Text: "No codec in common"}, `305 127.0.0.1:%d "No codec in common"`},
		{RejectError{Code: 488, Warning: 304, Text: "No audio"}, `304 127.0.0.1:%d "No audio"`},
		{RejectError{Code: 404, Text: "No route"}, `399 127.0.0.1:%d "No route"`},
		{RejectError{Code: 403, Text: "Not allowed"}, `399 127.0.0.1:%d "Not allowed"`},
		{RejectError{Code: 401, Challenges: []string{"Bearer realm=\"a\",\r\nX: error=\"invalid_token\""}}, ""},
		{RejectError{Code: 486}, ""},
		{RejectError{Code: 503, RetryAfter: time.Second}, ""},
	} {
		b := start(t, func(_ context.Context, inv *Invite) { inv.Reject(&tt.rej) })
		p := b.phone("udp")
		inv := newInvite()
		p.send(inv)
		m := p.expect("INVITE", tt.rej.Code)
		if tt.warning != "" {
			tt.warning = fmt.Sprintf(tt.warning, b.udp.Port())
		}
		if m.get("Warning") != tt.warning || (m.get("Retry-After") == "1") != (tt.rej.Code == 503) {
			t.Errorf("%d:\n%s", tt.rej.Code, m.raw)
		}
		if tt.rej.Code == 401 && m.get("WWW-Authenticate") != `Bearer realm="a",  X: error="invalid_token"` {
			t.Errorf("401:\n%s", m.raw)
		}
		p.send(ackOf(inv, m))
		b.stop()
	}
}

// BR-057: what keeps the way to us open: line ends on the flow that is registered,
// often enough, and a Contact that is the one advertised.
func TestWayKeptOpen(t *testing.T) {
	if k := DefaultTrunk().KeepAlive; k < 20*time.Second || k > 30*time.Second {
		t.Errorf("kept alive every %v", k)
	}
	b := start(t, quiet, func(c *Config) { c.Listen[0].Advertise = "gw.example.com:5099" })
	p := listenPhone(t)
	trunk := trunkTo(p.addr)
	trunk.KeepAlive = testT1
	r := register(t, b, trunk)
	m := p.fresh("REGISTER")
	if !strings.HasPrefix(m.get("Contact"), "<sip:gw1@gw.example.com:5099;") || !strings.Contains(m.get("Via"), " gw.example.com:5099;rport;") {
		t.Errorf("REGISTER:\n%s", m.raw)
	}
	p.respond(m, 200, "r", "")
	eventually(t, "registered", func() bool { return r.State().Registered })
	buf := make([]byte, 2000)
	for pings := 0; pings < 3; {
		p.conn.SetReadDeadline(time.Now().Add(patience))
		n, err := p.conn.Read(buf)
		switch {
		case err == nil && string(buf[:n]) == "\r\n\r\n":
			pings++
		case err != nil || !strings.HasPrefix(string(buf[:n]), "REGISTER "): // copies, on a busy machine
			t.Fatalf("%q %v", buf[:n], err)
		}
	}
	d, inv, _ := answerCall(t, p, dial(t.Context(), b, trunk, Outgoing{}, nil))
	if !strings.HasPrefix(inv.get("Contact"), "<sip:gw1@gw.example.com:5099;") {
		t.Errorf("INVITE:\n%s", inv.raw)
	}
	go d.Bye(context.Background(), Reason{})
	p.reply(p.fresh("BYE"), 200)
	ended(t, d, ErrLocalBye)
	left := leave(t, r)
	p.respond(p.fresh("REGISTER"), 200, "r", "")
	wait(t, left, "Close")
}

// What we send first goes by the outbound proxies, as loose routes, and to the first of
// them; in a call the recorded route counts.
func TestOutboundProxy(t *testing.T) {
	b := start(t, quiet)
	p := listenPhone(t)
	trunk := trunkTo("registrar.example.com") // which nobody resolves
	trunk.Proxy = []string{p.addr, "sip:second.example.com;transport=tcp", "[2001:db8::1]:5062"}
	routes := "<sip:" + p.addr + ";lr>|<sip:second.example.com;transport=tcp;lr>|<sip:[2001:db8::1]:5062;lr>"
	r := register(t, b, trunk)
	m := p.fresh("REGISTER")
	if m.start != "REGISTER sip:example.com SIP/2.0" || strings.Join(m.head["route"], "|") != routes {
		t.Errorf("REGISTER:\n%s", m.raw)
	}
	// The last proxy names itself in Service-Route, and another behind it.
	p.respond(m, 200, "r", "", "Service-Route: <sip:[2001:db8::1]:5062;lr>, <sip:scscf.example.com;lr>")
	eventually(t, "registered", func() bool { return r.State().Registered })
	result := dial(t.Context(), b, trunk, Outgoing{}, nil)
	inv := p.fresh("INVITE")
	if inv.start != "INVITE sip:+15550100@example.com SIP/2.0" || strings.Join(inv.head["route"], "|") != routes+"|<sip:scscf.example.com;lr>" {
		t.Errorf("INVITE:\n%s", inv.raw)
	}
	p.respond(inv, 180, "t1", "")
	p.respond(inv, 200, "t1", answerSDP, "Contact: <sip:c@192.0.2.1>", "Record-Route: <sip:"+p.addr+";lr>")
	ack := p.request("ACK")
	if ack.start != "ACK sip:c@192.0.2.1 SIP/2.0" || strings.Join(ack.head["route"], "|") != "<sip:"+p.addr+";lr>" {
		t.Errorf("ACK:\n%s", ack.raw)
	}
	d := wait(t, result, "Dial").d
	go d.Bye(context.Background(), Reason{})
	bye := p.fresh("BYE")
	if strings.Join(bye.head["route"], "|") != "<sip:"+p.addr+";lr>" {
		t.Errorf("BYE:\n%s", bye.raw)
	}
	p.reply(bye, 200)
	// A CANCEL takes the way of its INVITE (RFC 3261 section 9.1).
	ctx, cancel := context.WithCancel(t.Context())
	result = dial(ctx, b, trunk, Outgoing{}, nil)
	inv = p.fresh("INVITE")
	p.respond(inv, 100, "", "")
	cancel()
	if c := p.fresh("CANCEL"); strings.Join(c.head["route"], "|") != strings.Join(inv.head["route"], "|") {
		t.Errorf("CANCEL:\n%s", c.raw)
	}
	failed(t, result, context.Canceled)
	left := leave(t, r)
	m = p.fresh("REGISTER")
	p.respond(m, 200, "r", "")
	wait(t, left, "Close")

	trunk.Proxy = []string{"sip:user@host", "a b", "sip:x?y=z", "tel:+1", ""}
	err := trunk.Validate()
	for i := range trunk.Proxy {
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("trunk.proxy[%d]", i)) {
			t.Errorf("%q: %v", trunk.Proxy[i], err)
		}
	}
	for proxy, want := range map[string]string{"[::1]": "[::1]", "sip:[::1]:5070": "[::1]:5070", "sips:p.example.com": "p.example.com"} {
		if got := (Trunk{Proxy: []string{proxy}}).entry(); got[0] != want {
			t.Errorf("%s: %s", proxy, got)
		}
	}
}
