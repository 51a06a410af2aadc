package sip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

const answerSDP = "v=0\r\no=- 2 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 5000 RTP/AVP 0\r\n"

// dialled is the outcome of a Dial on its way.
type dialled struct {
	d   *Dialog
	err error
}

func dial(ctx context.Context, b *bench, t Trunk, o Outgoing, dh DialogHandler) chan dialled {
	if o.Offer == nil {
		o.Offer = []byte(offerSDP)
	}
	if o.To == "" {
		o.To = "+15550100"
	}
	result := make(chan dialled, 1)
	go func() {
		d, err := b.Dial(ctx, t, o, dh)
		result <- dialled{d, err}
	}()
	return result
}

// failed waits for a Dial that fails.
func failed(t *testing.T, result chan dialled, cause error) *DialError {
	t.Helper()
	r := wait(t, result, "Dial")
	var e *DialError
	if !errors.As(r.err, &e) || r.d != nil {
		t.Fatalf("dialog %v, error %v", r.d, r.err)
	}
	if cause != nil && !errors.Is(r.err, cause) {
		t.Errorf("cause %v, want %v", r.err, cause)
	}
	return e
}

// answered makes a call up to the ACK, as seen from the phone that is called.
func answerCall(t *testing.T, p *phone, result chan dialled, extra ...string) (d *Dialog, inv, ack *msg) {
	t.Helper()
	inv = p.fresh("INVITE")
	p.respond(inv, 200, "t1", answerSDP, append([]string{"Contact: <sip:callee@" + p.addr + ">"}, extra...)...)
	ack = p.request("ACK")
	r := wait(t, result, "Dial")
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.d, inv, ack
}

// request in a dialog that the gateway began, from the callee.
func inDialog(inv, ack *msg, method string, cseq int, body string) req {
	r := newCall(req{method: method, uri: "sip:gw1@gw", callID: inv.get("Call-ID"), from: ack.get("To"), to: inv.get("From"), cseq: cseq, body: body})
	if body != "" {
		r.kind = "application/sdp"
	}
	return r
}

func TestDial(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			b := start(t, quiet)
			var p *phone
			var l net.Listener
			trunk := trunkTo("")
			if trunk.Transport = network; network == "udp" {
				p = listenPhone(t)
				trunk.Hosts = []string{p.addr}
			} else {
				var err error
				if l, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				trunk.Hosts = []string{l.Addr().String()}
			}
			h := &script{info: true}
			var heard []Progress
			result := dial(t.Context(), b, trunk, Outgoing{To: "*72#;x@y", From: "+15550123", Name: `A "B"`, Headers: []Header{{"X-Tenant", "7"}},
				Progress: func(p Progress) { heard = append(heard, p) }}, h)
			if p == nil {
				p = acceptPhone(t, l)
			}
			inv := p.fresh("INVITE")
			if inv.start != "INVITE sip:*72%23%3Bx%40y@example.com SIP/2.0" || inv.get("X-Tenant") != "7" || inv.body != offerSDP ||
				!strings.HasPrefix(inv.get("From"), `"A \"B\"" <sip:+15550123@example.com>;tag=`) || inv.get("To") != "<sip:*72%23%3Bx%40y@example.com>" ||
				!strings.HasPrefix(inv.get("Contact"), "<sip:gw1@127.0.0.1:") || inv.get("Session-Expires") != "1800" {
				t.Errorf("INVITE:\n%s", inv.raw)
			}
			p.respond(inv, 100, "", "")
			p.respond(inv, 180, "t1", "")
			p.respond(inv, 183, "t1", answerSDP)
			routes := []string{"Record-Route: <sip:p1.example.com;lr>, <sip:" + p.addr + ";lr>", "Contact: <sip:callee@192.0.2.7:5070>"}
			p.respond(inv, 200, "t1", answerSDP, routes...)
			ack := p.request("ACK")
			if ack.start != "ACK sip:callee@192.0.2.7:5070 SIP/2.0" || ack.get("CSeq") != "1 ACK" || ack.get("To") != inv.get("To")+";tag=t1" ||
				strings.Join(ack.head["route"], ",") != "<sip:"+p.addr+";lr>,<sip:p1.example.com;lr>" || ack.get("From") != inv.get("From") {
				t.Errorf("ACK:\n%s", ack.raw)
			}
			r := wait(t, result, "Dial")
			if r.err != nil {
				t.Fatal(r.err)
			}
			d := r.d
			wait(t, d.Confirmed(), "the confirmation")
			want := []Progress{{Code: 180, Reason: "Test"}, {Code: 183, Reason: "Test", SDP: []byte(answerSDP)}}
			if !slices.EqualFunc(heard, want, func(a, b Progress) bool {
				return a.Code == b.Code && a.Reason == b.Reason && a.Dialog != nil && bytes.Equal(a.SDP, b.SDP)
			}) {
				t.Errorf("progress %+v", heard)
			}
			if h.heard() != "answer" || b.Stats().Dialogs != 1 {
				t.Errorf("handler heard %q", h.heard())
			}
			// A copy of the 200 gets a copy of the ACK.
			p.copied(ack, func() { p.respond(inv, 200, "t1", answerSDP, routes...) })
			// The peer's requests, from any number on.
			p.send(inDialog(inv, ack, "INFO", 0, "x"))
			p.expect("INFO", 200)
			p.send(inDialog(inv, ack, "INVITE", 7, offerSDP))
			re := p.expect("INVITE", 200)
			p.send(inDialog(inv, ack, "ACK", 7, ""))
			if re.get("To") != inv.get("From") {
				t.Errorf("re-INVITE answered:\n%s", re.raw)
			}
			p.send(inDialog(inv, ack, "INFO", 5, "x"))
			p.expect("INFO", 500)
			if network == "udp" {
				bye := make(chan error, 1)
				go func() { bye <- d.Bye(context.Background(), Reason{}) }()
				m := p.fresh("BYE")
				if m.get("CSeq") != "2 BYE" || m.get("From") != inv.get("From") || m.get("To") != ack.get("To") || len(m.head["route"]) != 2 {
					t.Errorf("BYE:\n%s", m.raw)
				}
				p.reply(m, 200)
				if err := wait(t, bye, "Bye"); err != nil {
					t.Error(err)
				}
				ended(t, d, ErrLocalBye)
				return
			}
			p.send(inDialog(inv, ack, "BYE", 8, ""))
			p.expect("BYE", 200)
			ended(t, d, ErrPeerBye)
		})
	}
}

// BR-060: 407 of a proxy, 401 of the server behind it, then a stale nonce.
func TestDialChallenged(t *testing.T) {
	b := start(t, quiet)
	p := listenPhone(t)
	trunk := trunkTo(p.addr)
	trunk.Realms, trunk.Username = []string{"a", "b"}, "acct"
	result := dial(t.Context(), b, trunk, Outgoing{}, nil)
	first := p.fresh("INVITE")
	p.respond(first, 100, "", "")
	ask := `Proxy-Authenticate: Digest realm="a",nonce="1",qop="auth",algorithm=SHA-256`
	p.respond(first, 407, "x", "", ask)
	ack := p.request("ACK")
	if ack.get("CSeq") != "1 ACK" || ack.get("Via") != first.get("Via") || ack.get("To") != first.get("To")+";tag=x" {
		t.Errorf("ACK:\n%s", ack.raw)
	}
	second := p.fresh("INVITE")
	if second.get("Call-ID") != first.get("Call-ID") || second.get("From") != first.get("From") || second.get("CSeq") != "2 INVITE" || second.get("Via") == first.get("Via") {
		t.Errorf("second:\n%s", second.raw)
	}
	for range 2 { // the refusal again: the ACK again, and nothing else
		p.respond(first, 407, "x", "", ask)
		if again := p.request("ACK"); again.raw != ack.raw {
			t.Errorf("ACK again:\n%s", again.raw)
		}
	}
	proves(t, second, "Proxy-Authorization", "a", "acct", "secret")
	p.respond(second, 401, "y", "", `WWW-Authenticate: Digest realm="b",nonce="2"`)
	third := p.fresh("INVITE")
	if _, n := proves(t, third, "Proxy-Authorization", "a", "acct", "secret"); n != "00000002" {
		t.Errorf("count %s", n)
	}
	proves(t, third, "Authorization", "b", "acct", "secret")
	p.respond(third, 401, "y", "", `WWW-Authenticate: Digest realm="b",nonce="3",stale=true`)
	fourth := p.fresh("INVITE")
	if nonce, _ := proves(t, fourth, "Authorization", "b", "acct", "secret"); nonce != "3" || fourth.get("CSeq") != "4 INVITE" {
		t.Errorf("fourth:\n%s", fourth.raw)
	}
	p.respond(fourth, 200, "z", answerSDP, "Contact: <sip:c@"+p.addr+">")
	for {
		ack = p.request("ACK")
		if ack.get("CSeq") == "4 ACK" {
			break
		}
	}
	if ack.get("Authorization") != fourth.get("Authorization") || ack.get("Proxy-Authorization") != fourth.get("Proxy-Authorization") || ack.get("Authorization") == "" {
		t.Errorf("ACK without credentials:\n%s", ack.raw)
	}
	r := wait(t, result, "Dial")
	if r.err != nil {
		t.Fatal(r.err)
	}
	// A BYE is challenged too: by the trunk, and by a stranger (BR-167).
	bye := make(chan error, 1)
	go func() { bye <- r.d.Bye(context.Background(), Reason{}) }()
	m := p.fresh("BYE")
	p.respond(m, 407, "", "", ask)
	m = p.fresh("BYE")
	proves(t, m, "Proxy-Authorization", "a", "acct", "secret")
	if m.get("CSeq") != "6 BYE" {
		t.Errorf("BYE:\n%s", m.raw)
	}
	p.respond(m, 401, "", "", `WWW-Authenticate: Digest realm="evil",nonce="2"`)
	if err := wait(t, bye, "Bye"); err != nil {
		t.Error(err)
	}
	p.silent(4*testT1, "no answer to a stranger")
}

// BR-167: a call that came in answers no challenge at all.
func TestNoCredentialsInbound(t *testing.T) {
	h := answering(&script{})
	b := start(t, h.handle)
	p := b.phone("udp")
	c := p.dial(newInvite())
	c.ack(1, "")
	d := wait(t, h.calls, "the call")
	go d.Bye(context.Background(), Reason{})
	p.respond(p.fresh("BYE"), 407, "", "", `Proxy-Authenticate: Digest realm="example.com",nonce="1"`)
	for m := p.read(4 * testT1); m != nil; m = p.read(4 * testT1) {
		if m.get("Proxy-Authorization") != "" {
			t.Errorf("answered:\n%s", m.raw)
		}
	}
}

func TestDialRefused(t *testing.T) {
	b := start(t, quiet)
	for _, tt := range []struct {
		name  string
		code  int
		extra []string
		o     Outgoing
		text  string
		cause error
	}{
		{"busy", 486, []string{`Reason: Q.850;cause=17;text="User busy", SIP;cause=486`, `Warning: 399 pbx "on the \"other\" line"`}, Outgoing{},
			`486 Test (on the "other" line), reason Q.850;cause=17;text="User busy"`, nil},
		{"later", 480, []string{"Retry-After: 120"}, Outgoing{}, "480 Test", nil},
		{"moved", 302, []string{"Contact: <sip:x@example.net>"}, Outgoing{}, "302 Test", nil},
		{"too short, for ever", 422, []string{"Min-SE: 90"}, Outgoing{}, "422", nil},
		{"stranger", 401, []string{`WWW-Authenticate: Digest realm="evil",nonce="1"`}, Outgoing{}, `realm "evil" is not among`, ErrUnauthorized},
		{"unnamed", 401, nil, Outgoing{}, "401 Test: sip: not authorized: 401 without", ErrUnauthorized},
	} {
		p := listenPhone(t)
		result := dial(t.Context(), b, trunkTo(p.addr), tt.o, nil)
		p.respond(p.fresh("INVITE"), tt.code, "x", "", tt.extra...)
		p.request("ACK")
		e := failed(t, result, tt.cause)
		if e.Code != tt.code || !strings.Contains(e.Error(), tt.text) {
			t.Errorf("%s: %v", tt.name, e)
		}
		if tt.name == "later" && e.RetryAfter != 2*time.Minute || tt.name == "moved" && (len(e.Contacts) != 1 || e.Contacts[0].URI.User != "x") {
			t.Errorf("%s: %+v", tt.name, e)
		}
	}
}

func TestDialRedirected(t *testing.T) {
	b := start(t, quiet)
	p := listenPhone(t)
	result := dial(t.Context(), b, trunkTo(p.addr), Outgoing{Redirects: 1}, nil)
	p.respond(p.fresh("INVITE"), 302, "x", "", "Contact: <mailto:x@example.net>, <tel:+1-555-0177>")
	m := p.fresh("INVITE")
	if m.start != "INVITE sip:+15550177@example.com;user=phone SIP/2.0" || m.get("CSeq") != "2 INVITE" {
		t.Errorf("redirected:\n%s", m.raw)
	}
	p.respond(m, 302, "x", "", "Contact: <sip:again@example.net>")
	if e := failed(t, result, nil); e.Code != 302 {
		t.Error(e)
	}
}

// BR-031, BR-054: answers that come when nobody wants them, and from two phones.
func TestDialForked(t *testing.T) {
	b := start(t, quiet)
	p := listenPhone(t)
	result := dial(t.Context(), b, trunkTo(p.addr), Outgoing{}, nil)
	d, inv, ack := answerCall(t, p, result)
	p.respond(inv, 200, "t2", answerSDP, "Contact: <sip:second@"+p.addr+">")
	ack2, bye := p.request("ACK"), p.fresh("BYE")
	if !strings.HasSuffix(ack2.get("To"), ";tag=t2") || !strings.HasSuffix(bye.get("To"), ";tag=t2") || !strings.HasPrefix(bye.start, "BYE sip:second@") ||
		!strings.HasSuffix(ack.get("To"), ";tag=t1") || !strings.Contains(bye.get("Reason"), "elsewhere") {
		t.Errorf("second:\n%s%s", ack2.raw, bye.raw)
	}
	p.reply(bye, 200)
	if d.Context().Err() != nil {
		t.Error("the first is over")
	}
}

func TestDialCancelled(t *testing.T) {
	t.Parallel()
	late := func(t *testing.T, p *phone, inv *msg) {
		p.respond(inv, 200, "t1", answerSDP, "Contact: <sip:c@"+p.addr+">")
		p.request("ACK")
		p.reply(p.fresh("BYE"), 200)
	}
	for _, tt := range []struct {
		name     string
		alive    bool // a provisional comes before the end
		answered bool // 200 crosses the CANCEL
	}{{"ringing", true, false}, {"ringing, answered", true, true}, {"silent", false, false}, {"silent, answered", false, true}} {
		t.Run(tt.name, func(t *testing.T) {
			b := start(t, quiet)
			p := listenPhone(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			rang := make(chan Progress, 1)
			result := dial(ctx, b, trunkTo(p.addr), Outgoing{Progress: func(p Progress) { rang <- p }}, nil)
			inv := p.fresh("INVITE")
			if tt.alive {
				p.respond(inv, 180, "t1", "")
				wait(t, rang, "the ringing")
			}
			why := errors.New("changed my mind")
			cancel(why)
			if e := failed(t, result, why); e.Code != 0 {
				t.Error(e)
			}
			if !tt.alive {
				// Copies of the INVITE may come, no CANCEL.
				for m := p.read(3 * testT1); m != nil; m = p.read(3 * testT1) {
					if m.method != "INVITE" {
						t.Fatalf("too early:\n%s", m.raw)
					}
				}
				if tt.answered {
					late(t, p, inv)
					return
				}
				p.respond(inv, 100, "", "")
			}
			c := p.fresh("CANCEL")
			if c.get("Via") != inv.get("Via") || c.get("CSeq") != "1 CANCEL" || c.get("To") != inv.get("To") || c.get("Reason") != "" || strings.Fields(c.start)[1] != strings.Fields(inv.start)[1] {
				t.Errorf("CANCEL:\n%s", c.raw)
			}
			p.respond(c, 200, "t1", "")
			if tt.answered {
				late(t, p, inv)
				return
			}
			p.respond(inv, 487, "t1", "")
			p.request("ACK")
		})
	}
}

func TestDialTimeouts(t *testing.T) {
	t.Parallel()
	b := start(t, quiet)
	p := listenPhone(t)
	// It rings, and nobody answers; nor does anybody answer the CANCEL.
	result := dial(t.Context(), b, trunkTo(p.addr), Outgoing{RingTimeout: 5 * testT1}, nil)
	inv := p.fresh("INVITE")
	for range 2 * maxHeard { // more than would fit
		p.respond(inv, 180, "t1", "")
	}
	failed(t, result, ErrRingTimeout)
	p.fresh("CANCEL")
	eventually(t, "the end of the transaction", func() bool {
		b.clients.mu.Lock()
		defer b.clients.mu.Unlock()
		return len(b.clients.byKey) == 0
	})
	// Nobody is there.
	failed(t, dial(t.Context(), b, trunkTo(p.addr), Outgoing{}, nil), ErrTimeout)
	trunk := trunkTo("127.0.0.1:1")
	trunk.Transport = "tcp"
	failed(t, dial(t.Context(), b, trunk, Outgoing{}, nil), ErrTransport)
	failed(t, dial(t.Context(), b, trunkTo("nowhere.invalid"), Outgoing{}, nil), ErrTransport)
	// The connection breaks.
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	trunk.Hosts = []string{l.Addr().String()}
	result = dial(t.Context(), b, trunk, Outgoing{}, nil)
	pt := acceptPhone(t, l)
	pt.fresh("INVITE")
	pt.conn.Close()
	failed(t, result, ErrTransport)
	// The server stops.
	rang := make(chan Progress, 1)
	result = dial(t.Context(), b, trunkTo(p.addr), Outgoing{To: "last", Progress: func(p Progress) { rang <- p }}, nil)
	m := p.fresh("INVITE")
	for !strings.HasPrefix(m.start, "INVITE sip:last@") { // of those before
		m = p.fresh("INVITE")
	}
	p.respond(m, 180, "x", "")
	wait(t, rang, "the ringing")
	b.stop()
	failed(t, result, ErrShutdown)
	p.fresh("CANCEL")
}

// The next host is tried when one is dead or overloaded, and only then.
func TestDialFailover(t *testing.T) {
	t.Parallel()
	b := start(t, quiet)
	dead, busy, good := listenPhone(t), listenPhone(t), listenPhone(t)
	result := dial(t.Context(), b, trunkTo(dead.addr, busy.addr, good.addr), Outgoing{}, nil)
	inv := dead.fresh("INVITE")
	busy.respond(busy.fresh("INVITE"), 503, "x", "")
	d, _, _ := answerCall(t, good, result)
	// What wakes up too late is told.
	dead.respond(inv, 200, "t9", answerSDP, "Contact: <sip:c@"+dead.addr+">")
	dead.request("ACK")
	dead.reply(dead.fresh("BYE"), 200)
	if d.Context().Err() != nil {
		t.Error("the call is over")
	}
	result = dial(t.Context(), b, trunkTo(busy.addr, good.addr), Outgoing{}, nil)
	busy.respond(busy.fresh("INVITE"), 486, "x", "")
	if e := failed(t, result, nil); e.Code != 486 {
		t.Error(e)
	}
}

// A call goes where the registration is, by the way the registrar set.
func TestDialRegistered(t *testing.T) {
	b := start(t, quiet)
	p := listenPhone(t)
	trunk := trunkTo("127.0.0.1:1", p.addr)
	trunk.Transport = "udp"
	r := register(t, b, trunk)
	m := p.fresh("REGISTER")
	p.respond(m, 401, "r", "", `WWW-Authenticate: Digest realm="odd realm",nonce="1",qop="auth"`)
	p.respond(p.fresh("REGISTER"), 200, "r", "", "Expires: 600", "Service-Route: <sip:"+p.addr+";lr>")
	eventually(t, "registered", func() bool { return r.State().Registered })
	result := dial(t.Context(), b, trunk, Outgoing{}, nil)
	inv := p.fresh("INVITE")
	if inv.get("Route") != "<sip:"+p.addr+";lr>" || inv.get("Authorization") != "" {
		t.Errorf("INVITE:\n%s", inv.raw)
	}
	// The registrar's realm is known by now.
	p.respond(inv, 401, "x", "", `WWW-Authenticate: Digest realm="odd realm",nonce="2",qop="auth"`)
	p.request("ACK")
	inv = p.fresh("INVITE")
	proves(t, inv, "Authorization", "odd realm", "gw1", "secret")
	p.respond(inv, 486, "x", "")
	failed(t, result, nil)
}

func TestDialWithoutAnswer(t *testing.T) {
	b := start(t, quiet)
	p := listenPhone(t)
	for _, tt := range []struct {
		early, body string
		err         error
		fails       bool
	}{{answerSDP, "", nil, false}, {"", "", nil, true}, {"", answerSDP, errors.New("no codec"), true}} {
		h := &script{answer: tt.err}
		result := dial(t.Context(), b, trunkTo(p.addr), Outgoing{}, h)
		inv := p.fresh("INVITE")
		p.respond(inv, 183, "t1", tt.early)
		p.respond(inv, 200, "t1", tt.body, "Contact: <sip:c@"+p.addr+">")
		p.request("ACK")
		if !tt.fails {
			if r := wait(t, result, "Dial"); r.err != nil {
				t.Error(r.err)
			}
			continue
		}
		failed(t, result, ErrNoAnswer)
		bye := p.fresh("BYE")
		if !strings.Contains(bye.get("Reason"), "cause=488") {
			t.Errorf("BYE:\n%s", bye.raw)
		}
		p.reply(bye, 200)
	}
}

func TestDialLarge(t *testing.T) {
	big := offerSDP + strings.Repeat("a=x-filler:0123456789012345678901234567890123456789\r\n", 30)
	b := start(t, quiet)
	p := listenPhone(t)
	l, err := net.Listen("tcp4", p.addr)
	if err != nil {
		t.Skip(err)
	}
	result := dial(t.Context(), b, trunkTo(p.addr), Outgoing{Offer: []byte(big)}, nil)
	pt := acceptPhone(t, l)
	inv := pt.fresh("INVITE")
	if inv.body != big || !strings.HasPrefix(inv.get("Via"), "SIP/2.0/TCP ") || !strings.Contains(inv.get("Contact"), "transport=udp") {
		t.Errorf("INVITE:\n%.400s", inv.raw)
	}
	pt.respond(inv, 486, "x", "")
	failed(t, result, nil)
	l.Close() // no TCP there: over UDP then
	result = dial(t.Context(), b, trunkTo(p.addr), Outgoing{Offer: []byte(big)}, nil)
	inv = p.fresh("INVITE")
	if inv.body != big {
		t.Errorf("%d bytes of %d", len(inv.body), len(big))
	}
	p.respond(inv, 486, "x", "")
	failed(t, result, nil)
}

func TestDialNonsense(t *testing.T) {
	b := start(t, quiet)
	trunk := trunkTo("127.0.0.1:1")
	for want, o := range map[string]Outgoing{
		"nobody":                        {To: ""},
		`header "Via"`:                  {To: "1", Headers: []Header{{"Via", "x"}}},
		`header "m"`:                    {To: "1", Headers: []Header{{"m", "x"}}},
		`header "X"`:                    {To: "1", Headers: []Header{{"X", "a\r\nY: z"}}},
		`header "X:"`:                   {To: "1", Headers: []Header{{"X:", ""}}},
		"mailto addresses":              {To: "mailto:x@y"},
		"bad URI":                       {To: "sip:a b@c"},
		`"sip:a@b?Subject=x": sip addr`: {To: "sip:a@b?Subject=x"},
	} {
		if _, err := b.Dial(t.Context(), trunk, o, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if _, err := b.Dial(t.Context(), Trunk{}, Outgoing{To: "1"}, nil); err == nil {
		t.Error("an empty trunk")
	}
	b.Drain(true)
	if _, err := b.Dial(t.Context(), trunk, Outgoing{To: "1"}, nil); err == nil || !strings.Contains(err.Error(), "draining") {
		t.Errorf("draining: %v", err)
	}
	for to, want := range map[string]string{
		"+1 (555)":                   "sip:+1%20(555)@example.com",
		"tel:+1-555-0100":            "sip:+15550100@example.com;user=phone",
		"sip:a@b.example.com;x=1":    "sip:a@b.example.com;x=1",
		"sips:a@b.example.com":       "sips:a@b.example.com",
		"alice@elsewhere.example.us": "sip:alice%40elsewhere.example.us@example.com",
	} {
		if got, err := callee(trunk, to); got != want || err != nil {
			t.Errorf("%s: %s %v", to, got, err)
		}
	}
	if e := fmt.Sprint(&DialError{Err: ErrTimeout}); e != "sip: call failed: "+ErrTimeout.Error() {
		t.Error(e)
	}
}
