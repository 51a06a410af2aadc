package sip

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// ringing is a handler that rings and waits for the end of the INVITE.
func ringing(causes chan<- error) Handler {
	return func(ctx context.Context, inv *Invite) {
		inv.Ring()
		<-ctx.Done()
		if err := inv.Ring(); err != nil {
			causes <- errors.New("Ring once more: " + err.Error())
			return
		}
		if _, err := inv.Answer([]byte(offerSDP), nil); !errors.Is(err, context.Cause(ctx)) {
			causes <- errors.New("Answer: no reason")
			return
		}
		if err := inv.Reject(&RejectError{Code: 486}); !errors.Is(err, context.Cause(ctx)) {
			causes <- errors.New("Reject: no reason")
			return
		}
		causes <- context.Cause(ctx)
	}
}

// cancelOf is the CANCEL of an INVITE.
func cancelOf(inv req) req {
	c := inv
	c.method, c.body = "CANCEL", ""
	return c
}

// ackOf is the ACK of a non-2xx response: in the transaction of the INVITE.
func ackOf(inv req, m *msg) req {
	a := inv
	a.method, a.body, a.to = "ACK", "", m.get("To")
	return a
}

// BR-043: both CANCELs get 200, with the tag of the 180 and of the one 487.
func TestCancel(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			causes := make(chan error, 8)
			b := start(t, ringing(causes))
			p := b.phone(network)
			inv := newInvite()
			p.send(inv)
			p.read(patience)
			ring := p.read(patience)
			if ring == nil || ring.code != 180 {
				t.Fatalf("not 180: %+v", ring)
			}
			p.send(cancelOf(inv))
			ok := p.read(patience) // before the 487
			if ok == nil || ok.code != 200 || ok.get("CSeq") != "1 CANCEL" || ok.toTag() != ring.toTag() {
				t.Fatalf("CANCEL: %+v, want tag %s", ok, ring.toTag())
			}
			end := p.expect("INVITE", 487)
			if end.toTag() != ring.toTag() {
				t.Errorf("487 with tag %q", end.toTag())
			}
			p.send(ackOf(inv, end))
			p.send(cancelOf(inv))
			if network == "udp" { // over TCP nothing is sent again, and the transaction is gone at once
				if again := p.expect("CANCEL", 200); again.raw != ok.raw {
					t.Errorf("copy:\n%s", again.raw)
				}
				p.silent(4*testT1, "one 487, acknowledged")
			}
			if err := wait(t, causes, "the end"); err != ErrCancelled {
				t.Errorf("cause %v", err)
			}
			// BR-058: the server still hears.
			for range 5 {
				again := newInvite()
				p.send(again)
				p.send(cancelOf(again))
				p.expect("INVITE", 487)
			}
		})
	}
}

// BR-030: a CANCEL that crosses the 200 changes nothing.
func TestCancelAfterAnswer(t *testing.T) {
	for _, acknowledged := range []bool{true, false} {
		h := answering(&script{})
		b := start(t, h.handle)
		p := b.phone("udp")
		c := p.dial(newInvite())
		p.send(cancelOf(c.inv))
		if m := p.expect("CANCEL", 200); m.toTag() != c.ok.toTag() {
			t.Errorf("tag %q", m.toTag())
		}
		p.expect("INVITE", 200) // sent again as before
		d := wait(t, h.calls, "the call")
		if d.Context().Err() != nil {
			t.Error("the call is over")
		}
		if acknowledged {
			c.ack(1, "")
			wait(t, d.Confirmed(), "the ACK")
		}
		p.send(c.next("BYE", ""))
		p.expect("BYE", 200)
		ended(t, d, ErrPeerBye)
		p.silent(8*testT1, "no more copies of the 200")
		b.stop()
	}
}

// RFC 3261 section 15: the caller may end an early dialog with BYE.
func TestByeBeforeAnswer(t *testing.T) {
	causes := make(chan error, 1)
	b := start(t, ringing(causes))
	p := b.phone("tcp")
	inv := newInvite()
	p.send(inv)
	p.read(patience)
	c := &call{p: p, inv: inv, ok: p.read(patience), n: 1}
	for _, tt := range []struct {
		method, body string
		code         int
	}{{"UPDATE", "", 200}, {"UPDATE", offerSDP, 500}, {"INVITE", offerSDP, 500}, {"INFO", "x", 500}, {"OPTIONS", "", 200}} {
		p.send(c.next(tt.method, tt.body))
		if m := p.final(tt.method); m.code != tt.code {
			t.Errorf("early %s: %s", tt.method, m.start)
		}
	}
	p.send(c.next("BYE", ""))
	p.expect("BYE", 200)
	p.expect("INVITE", 487)
	if err := wait(t, causes, "the end"); err != ErrPeerBye {
		t.Errorf("cause %v", err)
	}
	p.send(c.next("BYE", ""))
	p.expect("BYE", 481)
}

// BR-040: copies are absorbed and get the last response again.
func TestInviteRetransmitted(t *testing.T) {
	go1 := make(chan struct{})
	h := answering(&script{})
	b := start(t, func(ctx context.Context, inv *Invite) {
		<-go1
		h.handle(ctx, inv)
	})
	p := b.phone("udp")
	inv := newInvite()
	for range 5 {
		p.send(inv)
	}
	for range 5 {
		if m := p.read(patience); m == nil || m.code != 100 {
			t.Fatalf("got %+v", m)
		}
	}
	close(go1)
	c := &call{p: p, inv: inv, ok: p.expect("INVITE", 200), n: 1}
	p.send(inv)
	p.expect("INVITE", 200)
	d := wait(t, h.calls, "the call")
	c.ack(1, "")
	wait(t, d.Confirmed(), "the ACK")
	for p.read(2*testT1) != nil { // copies that were under way
	}
	p.send(inv)
	p.silent(4*testT1, "a copy behind the ACK is absorbed")
	if n := len(h.calls); n != 0 {
		t.Errorf("%d more calls", n)
	}
}

// BR-046.
func TestRejectRetransmitted(t *testing.T) {
	b := start(t, func(_ context.Context, inv *Invite) {
		inv.Reject(&RejectError{Code: 503, Reason: "No\r\nroom", Text: `say "no"`, Rule: "limit", RetryAfter: 1500 * time.Millisecond})
		if err := inv.Reject(&RejectError{Code: 486}); err != ErrRejected {
			t.Errorf("second Reject: %v", err)
		}
	})
	p := b.phone("udp")
	inv := newInvite()
	p.send(inv)
	first := p.expect("INVITE", 503)
	if first.start != "SIP/2.0 503 No  room" || first.get("Retry-After") != "2" ||
		!strings.HasSuffix(first.get("Warning"), `"say \"no\""`) || !strings.HasPrefix(first.get("Warning"), "399 127.0.0.1:") {
		t.Errorf("answer:\n%s", first.raw)
	}
	for range 4 {
		if m := p.expect("INVITE", 503); m.raw != first.raw {
			t.Errorf("copy:\n%s", m.raw)
		}
	}
	p.send(ackOf(inv, first))
	for p.read(2*testT1) != nil {
	}
	p.silent(8*testT1, "acknowledged")
	if n := b.logs.FilterMessage("sip: call refused").FilterField(zapRule("limit")).Len(); n != 1 {
		t.Errorf("%d log lines", n)
	}
}

func TestRejectUntilTimerH(t *testing.T) {
	b := start(t, quiet)
	p := b.phone("udp")
	begin := time.Now()
	p.send(newInvite())
	p.expect("INVITE", 486)
	var at []time.Duration
	for p.read(20*testT1) != nil {
		at = append(at, time.Since(begin))
	}
	schedule(t, at)
	eventually(t, "the end of the transaction", func() bool { return b.Stats().Transactions == 0 })
}

func TestRejectWithNonsense(t *testing.T) {
	b := start(t, func(_ context.Context, inv *Invite) { inv.Reject(&RejectError{Code: 200}) })
	p := b.phone("tcp")
	p.send(newInvite())
	p.expect("INVITE", 500)
}

// BR-048.
func TestMerged(t *testing.T) {
	h := answering(&script{})
	b := start(t, h.handle)
	p := b.phone("udp")
	c := p.dial(newInvite())
	c.ack(1, "")
	other := c.inv
	other.branch += "other"
	p.send(other)
	p.answerBranch(other.branch, 482)
	if len(h.calls) != 1 {
		t.Errorf("%d calls", len(h.calls))
	}
	// Some time later, and while it still rings.
	time.Sleep(6 * testT1) // as 3 s with the usual T1
	other.branch += "again"
	p.send(other)
	p.answerBranch(other.branch, 482)
	ring := holding()
	b = start(t, ring.handle)
	defer close(ring.release)
	p = b.phone("udp")
	inv := newInvite()
	p.send(inv)
	i := wait(t, ring.got, "the INVITE")
	inv.branch += "other"
	p.send(inv)
	p.answerBranch(inv.branch, 482)
	if i.Context().Err() != nil {
		t.Error("the first is over")
	}
}

// answerBranch reads until the response to a branch comes.
func (p *phone) answerBranch(branch string, code int) *msg {
	p.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if m := p.read(time.Until(deadline)); m != nil && m.code >= 200 && strings.Contains(m.get("Via"), branch+";") {
			if m.code != code {
				p.t.Fatalf("got %s, want %d", m.start, code)
			}
			return m
		}
	}
	p.t.Fatalf("no answer to %s", branch)
	return nil
}

func TestInviteFields(t *testing.T) {
	got := make(chan *Invite, 1)
	b := start(t, func(_ context.Context, inv *Invite) {
		got <- inv
		inv.Reject(&RejectError{Code: 404})
	})
	p := b.phone("udp")
	inv := newInvite()
	inv.uri = "sip:%2B15550100;npdi;rn=+15550111@GW.example.com:5070;user=phone"
	inv.from = `"John \"Duke\" <x>, Jr; a" <sip:+15550100@example.com>;tag=1`
	inv.extra = []string{"k: 100rel", "Supported: timer, replaces", "X-Tenant: a,\r\n b"}
	p.send(inv)
	i := wait(t, got, "the INVITE")
	if i.From().Name != `John "Duke" <x>, Jr; a` || i.From().URI.User != "+15550100" || i.From().Tag != "1" || i.To().URI.Host != "example.com" {
		t.Errorf("From %+v, To %+v", i.From(), i.To())
	}
	u := i.RequestURI()
	if u.User != "+15550100" || u.UserParams["rn"] != "+15550111" || u.Params["user"] != "phone" || u.Port != 5070 {
		t.Errorf("R-URI %+v", u)
	}
	if got := strings.Join(i.Header("SUPPORTED"), "|"); got != "100rel|timer, replaces" {
		t.Errorf("Supported %q", got)
	}
	if got := i.Header("x-tenant"); len(got) != 1 || got[0] != "a, b" {
		t.Errorf("folded: %q", got)
	}
	if i.Source().String() != p.addr || i.Transport() != "udp" || i.Local() != b.udp || string(i.Offer()) != offerSDP {
		t.Errorf("source %v, transport %s, local %v", i.Source(), i.Transport(), i.Local())
	}
	if len(i.ID()) != 16 || i.CallID() != inv.callID {
		t.Errorf("ids %q %q", i.ID(), i.CallID())
	}
	if m := p.expect("INVITE", 404); m.get("From") != inv.from {
		t.Errorf("From came back as %q", m.get("From"))
	}
}

func TestDrain(t *testing.T) {
	h := answering(&script{})
	b := start(t, h.handle)
	p := b.phone("tcp")
	c := p.dial(newInvite())
	c.ack(1, "")
	b.Drain(true)
	p.send(newInvite())
	if m := p.expect("INVITE", 503); m.get("Retry-After") != "5" {
		t.Errorf("Retry-After %q", m.get("Retry-After"))
	}
	p.send(newCall(req{method: "OPTIONS"}))
	p.expect("OPTIONS", 503)
	p.send(c.next("OPTIONS", ""))
	p.expect("OPTIONS", 200)
	p.send(c.next("INVITE", offerSDP))
	p.expect("INVITE", 200)
	b.Drain(false)
	p.send(newCall(req{method: "OPTIONS"}))
	if m := p.expect("OPTIONS", 200); m.get("Allow") != methods || m.get("Accept") != "application/sdp" {
		t.Errorf("OPTIONS:\n%s", m.raw)
	}
}

func TestOverload(t *testing.T) {
	release := make(chan struct{})
	b := start(t, func(_ context.Context, inv *Invite) {
		<-release
		inv.Answer([]byte(offerSDP), nil)
	}, func(c *Config) { c.MaxTransactions = 3 })
	p := b.phone("tcp")
	var calls []req
	for range 3 {
		calls = append(calls, newInvite())
		p.send(calls[len(calls)-1])
	}
	p.send(newInvite())
	if m := p.expect("INVITE", 503); m.get("Retry-After") != "5" {
		t.Errorf("Retry-After %q", m.get("Retry-After"))
	}
	if b.Stats().Overloads != 1 {
		t.Errorf("%+v", b.Stats())
	}
	close(release)
	c := &call{p: p, inv: calls[0], ok: p.expect("INVITE", 200), n: 1}
	for _, inv := range calls {
		if inv.callID == c.ok.get("Call-ID") {
			c.inv = inv
		}
	}
	p.send(c.next("BYE", "")) // a call can be ended all the same
	p.expect("BYE", 200)
}

// Serve answers calls that wait, ends calls that stand, and leaves nothing.
func TestStop(t *testing.T) {
	causes := make(chan error, 1)
	b := start(t, ringing(causes))
	p := b.phone("udp")
	p.send(newInvite())
	p.read(patience)
	p.read(patience)
	b.stop()
	p.expect("INVITE", 503)
	if err := wait(t, causes, "the end"); err != ErrShutdown {
		t.Errorf("cause %v", err)
	}
	if err := b.Serve(t.Context(), quiet); err == nil {
		t.Error("Serve runs twice")
	}

	h := answering(&script{})
	b = start(t, h.handle)
	p = b.phone("tcp")
	p.dial(newInvite())
	d := wait(t, h.calls, "the call")
	b.stop()
	ended(t, d, ErrShutdown)
	if err := d.Bye(t.Context(), Reason{}); err != ErrShutdown {
		t.Errorf("Bye: %v", err)
	}
}

func TestUDPBehindUnspecifiedAddress(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", "[::]:0"} {
		h := answering(&script{})
		b := start(t, h.handle, func(c *Config) { c.Listen = []Listener{{Network: "udp", Addr: addr}, {Network: "tcp", Addr: addr}} })
		to := strings.Replace(strings.Replace(b.udp.String(), "[::]", "127.0.0.2", 1), "0.0.0.0", "127.0.0.2", 1)
		p := dialPhone(t, "udp", mustAddrPort(to)) // connected: hears nobody else
		c := p.dial(newInvite())
		if !strings.Contains(c.ok.get("Contact"), "@"+to+";") {
			t.Errorf("%s: Contact %q, want %s", addr, c.ok.get("Contact"), to)
		}
		if inv := wait(t, h.invites, "the INVITE"); inv.Local().String() != to {
			t.Errorf("%s: local %v", addr, inv.Local())
		}
		c.ack(1, "")
		d := wait(t, h.calls, "the call")
		go d.Bye(context.Background(), Reason{})
		bye := p.request("BYE")
		if !strings.Contains(bye.get("Via"), " "+to+";") {
			t.Errorf("Via %q", bye.get("Via"))
		}
		p.reply(bye, 200)
		ended(t, d, ErrLocalBye)
		b.stop()
	}
}

func TestAdvertised(t *testing.T) {
	b := start(t, quiet, func(c *Config) { c.Listen[0].Advertise = "gw.example.com:5099"; c.Listen[1].Advertise = "2001:db8::1" })
	p := b.phone("udp")
	p.send(newCall(req{method: "OPTIONS", uri: "sip:gw.example.com"}))
	if m := p.expect("OPTIONS", 200); m.get("Contact") != "<sip:gw.example.com:5099;transport=udp>" {
		t.Errorf("Contact %q", m.get("Contact"))
	}
	p = b.phone("tcp")
	p.send(newCall(req{method: "OPTIONS"}))
	if m := p.expect("OPTIONS", 200); !strings.HasPrefix(m.get("Contact"), "<sip:bot@[2001:db8::1]:") {
		t.Errorf("Contact %q", m.get("Contact"))
	}
}
