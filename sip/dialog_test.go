package sip

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

var networks = []string{"udp", "tcp"}

func (b *bench) phone(network string) *phone {
	if network == "tcp" {
		return dialPhone(b.t, "tcp", b.tcp)
	}
	return dialPhone(b.t, "udp", b.udp)
}

func TestCallEndedByPeer(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			h := answering(&script{})
			b := start(t, func(ctx context.Context, inv *Invite) {
				if err := inv.Ring(); err != nil {
					t.Errorf("Ring: %v", err)
				}
				if err := inv.Ring(); err != nil {
					t.Errorf("second Ring: %v", err)
				}
				h.handle(ctx, inv)
			})
			p := b.phone(network)
			inv := newInvite()
			inv.extra = []string{"Record-Route: <sip:p2.example.com;lr>, <sip:p1.example.com;lr>"}
			p.send(inv)
			trying, ringing := p.read(patience), p.read(patience)
			if trying == nil || trying.code != 100 || trying.toTag() != "" {
				t.Fatalf("not 100: %+v", trying)
			}
			if ringing == nil || ringing.code != 180 || ringing.body != "" {
				t.Fatalf("not one 180: %+v", ringing)
			}
			c := &call{p: p, inv: inv, ok: p.expect("INVITE", 200), n: 1}
			if c.ok.toTag() == "" || c.ok.toTag() != ringing.toTag() {
				t.Errorf("tags %q and %q", ringing.toTag(), c.ok.toTag())
			}
			server := b.udp
			if network == "tcp" {
				server = b.tcp
			}
			for _, m := range []*msg{ringing, c.ok} {
				if want := fmt.Sprintf("<sip:bot@%s;transport=%s>", server, network); m.get("Contact") != want {
					t.Errorf("Contact %q, want %q", m.get("Contact"), want)
				}
				if m.get("Record-Route") != "<sip:p2.example.com;lr>, <sip:p1.example.com;lr>" {
					t.Errorf("Record-Route %q", m.get("Record-Route"))
				}
				if m.get("From") != inv.from || m.get("Call-ID") != inv.callID || m.get("CSeq") != "1 INVITE" {
					t.Errorf("not echoed:\n%s", m.raw)
				}
			}
			if c.ok.body != offerSDP || c.ok.get("Content-Type") != "application/sdp" {
				t.Errorf("body:\n%s", c.ok.raw)
			}
			d := wait(t, h.calls, "the call")
			c.ack(1, "")
			wait(t, d.Confirmed(), "the ACK")
			if b.Stats().Dialogs != 1 {
				t.Errorf("dialogs: %d", b.Stats().Dialogs)
			}
			p.send(c.next("BYE", ""))
			if bye := p.expect("BYE", 200); bye.toTag() != c.ok.toTag() {
				t.Errorf("BYE answered with tag %q", bye.toTag())
			}
			ended(t, d, ErrPeerBye)
			if err := d.Bye(t.Context(), Reason{}); err != nil {
				t.Errorf("Bye after the end: %v", err)
			}
			// BR-033: another BYE, as if it had crossed ours, is answered too.
			p.send(c.next("BYE", ""))
			p.expect("BYE", 200)
			p.send(c.next("INFO", "x"))
			p.expect("INFO", 481)
			if st := b.Stats(); st.Dialogs != 0 || st.Requests["INVITE"] != 1 || st.Responses[200] < 3 {
				t.Errorf("stats %+v", st)
			}
		})
	}
}

func TestCallEndedByUs(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			h := answering(&script{})
			b := start(t, h.handle)
			p := b.phone(network)
			c := p.dial(newInvite())
			d := wait(t, h.calls, "the call")
			result := make(chan error, 2)
			for range 2 {
				go func() { result <- d.Bye(context.Background(), Reason{Protocol: "Q.850", Cause: 16, Text: `say "bye"`}) }()
			}
			// RFC 3261 section 15: not before the ACK.
			if m := p.read(3 * testT1); m != nil && m.method == "BYE" {
				t.Fatal("BYE before the ACK")
			}
			c.ack(1, "")
			bye := p.request("BYE")
			if network == "udp" {
				if again := p.request("BYE"); again.raw != bye.raw {
					t.Errorf("the copy differs:\n%s", again.raw)
				}
			}
			if want := "BYE sip:alice@" + p.addr + " SIP/2.0"; bye.start != want {
				t.Errorf("start line %q, want %q", bye.start, want)
			}
			if bye.get("From") != c.ok.get("To") || bye.get("To") != c.inv.from || bye.get("Call-ID") != c.inv.callID ||
				bye.get("Reason") != `Q.850;cause=16;text="say \"bye\""` || !strings.Contains(bye.get("Via"), ";rport;branch=z9hG4bK") {
				t.Errorf("BYE:\n%s", bye.raw)
			}
			p.reply(bye, 200)
			for range 2 {
				if err := wait(t, result, "Bye"); err != nil {
					t.Errorf("Bye: %v", err)
				}
			}
			ended(t, d, ErrLocalBye)
		})
	}
}

func TestByeWithoutAnswer(t *testing.T) {
	h := answering(&script{})
	b := start(t, h.handle)
	p := b.phone("udp")
	c := p.dial(newInvite())
	c.ack(1, "")
	d := wait(t, h.calls, "the call")
	if err := d.Bye(t.Context(), Reason{}); !errors.Is(err, ErrByeTimeout) {
		t.Errorf("Bye: %v", err)
	}
	if bye := p.request("BYE"); bye.get("Reason") != "" {
		t.Errorf("Reason %q", bye.get("Reason"))
	}
}

// A challenge of a BYE is not answered: the call is over all the same.
func TestByeChallenged(t *testing.T) {
	h := answering(&script{})
	b := start(t, h.handle)
	p := b.phone("udp")
	c := p.dial(newInvite())
	c.ack(1, "")
	d := wait(t, h.calls, "the call")
	result := make(chan error, 1)
	go func() { result <- d.Bye(context.Background(), Reason{}) }()
	bye := p.request("BYE")
	p.reply(bye, 100) // slows the copies
	p.reply(bye, 407)
	if err := wait(t, result, "Bye"); err != nil {
		t.Errorf("Bye: %v", err)
	}
	p.silent(4*testT1, "no second BYE")
}

func TestByeGivesUpWithContext(t *testing.T) {
	h := answering(&script{})
	b := start(t, h.handle)
	p := b.phone("udp")
	p.dial(newInvite()) // never acknowledged
	d := wait(t, h.calls, "the call")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Bye(ctx, Reason{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Bye: %v", err)
	}
	p.request("BYE") // went out all the same
}

// BR-034: the 200 is sent again with growing pauses, over TCP too, then BYE.
func TestNoACK(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			h := answering(&script{})
			b := start(t, h.handle)
			p := b.phone(network)
			begin := time.Now()
			c := p.dial(newInvite())
			var at []time.Duration
			for {
				m := p.read(patience)
				if m == nil {
					t.Fatal("no BYE")
				}
				if m.method == "BYE" {
					if !strings.Contains(m.get("Reason"), "cause=408") {
						t.Errorf("Reason %q", m.get("Reason"))
					}
					p.reply(m, 200)
					break
				}
				if m.raw != c.ok.raw {
					t.Fatalf("the copy differs:\n%s", m.raw)
				}
				at = append(at, time.Since(begin))
			}
			if total := time.Since(begin); total < 64*testT1 {
				t.Errorf("BYE after %v, want %v", total, 64*testT1)
			}
			schedule(t, at)
			ended(t, wait(t, h.calls, "the call"), ErrNoACK)
			if logs := b.logs.FilterMessageSnippet("no ACK").All(); len(logs) != 1 || logs[0].ContextMap()["contact"] == "" {
				t.Errorf("log: %v", logs)
			}
		})
	}
}

// schedule checks the times of copies: at 1, 3, 7, 11 ... 63 times T1. A busy
// machine makes timers late, never early.
func schedule(t *testing.T, at []time.Duration) {
	t.Helper()
	if len(at) < 6 || len(at) > 17 {
		t.Errorf("%d copies: %v", len(at), at)
	}
	for i, due := range []time.Duration{1, 3, 7, 11, 15, 19, 23, 27, 31, 35, 39, 43, 47, 51, 55, 59, 63} {
		if i < len(at) && at[i] < due*testT1 {
			t.Errorf("copy %d after %v, want %v", i, at[i], due*testT1)
		}
	}
}

// BR-028, BR-052: a re-INVITE that overtakes the ACK, or comes right behind it.
func TestReinviteRacesACK(t *testing.T) {
	for _, early := range []bool{false, true} {
		h := answering(&script{})
		b := start(t, h.handle)
		p := b.phone("udp")
		c := p.dial(newInvite())
		re := c.next("INVITE", offerSDP)
		if early {
			p.send(re)
			c.ack(1, "")
		} else {
			c.ack(1, "")
			p.send(re)
		}
		if m := p.answer("2 INVITE"); m.code != 200 || m.body == "" || m.get("Contact") == "" {
			t.Errorf("early %v: %s", early, m.raw)
		}
		c.ack(2, "")
		p.send(c.next("OPTIONS", ""))
		p.expect("OPTIONS", 200)
		d := wait(t, h.calls, "the call")
		d.mu.Lock()
		if len(d.pending) != 0 {
			t.Errorf("early %v: %d responses still wait", early, len(d.pending))
		}
		d.mu.Unlock()
		if h.heard() != "offer" {
			t.Errorf("handler heard %q", h.heard())
		}
	}
}

// BR-011, BR-045: an INVITE without an offer.
func TestOfferlessInvite(t *testing.T) {
	t.Run("answered", func(t *testing.T) {
		h := answering(&script{make: []byte(offerSDP)})
		b := start(t, h.handle)
		p := b.phone("udp")
		inv := newInvite()
		inv.body = ""
		c := p.dial(inv)
		// Our offer is open: no other may be made.
		p.send(c.next("INVITE", offerSDP))
		if m := p.answer("2 INVITE"); m.code != 491 {
			t.Fatalf("got %s", m.start)
		}
		p.send(c.next("UPDATE", offerSDP))
		p.expect("UPDATE", 491)
		c.ack(1, offerSDP)
		p.send(c.next("INVITE", ""))
		m := p.answer("4 INVITE")
		if m.code != 200 || m.body != offerSDP {
			t.Fatalf("offerless re-INVITE: %s", m.raw)
		}
		c.ack(4, offerSDP)
		p.send(c.next("INFO", "x"))
		p.expect("INFO", 415)
		if h.heard() != "answer make answer info:x" {
			t.Errorf("handler heard %q", h.heard())
		}
		if inv := wait(t, h.invites, "the INVITE"); inv.Offer() != nil {
			t.Error("an offer out of nothing")
		}
	})
	t.Run("not answered", func(t *testing.T) {
		h := answering(&script{})
		b := start(t, h.handle)
		p := b.phone("tcp")
		inv := newInvite()
		inv.body = ""
		c := p.dial(inv)
		c.ack(1, "")
		if bye := p.request("BYE"); !strings.Contains(bye.get("Reason"), "cause=488") {
			t.Errorf("Reason %q", bye.get("Reason"))
		}
		ended(t, wait(t, h.calls, "the call"), ErrNoAnswer)
	})
	t.Run("answered with what does not fit", func(t *testing.T) {
		h := answering(&script{answer: errors.New("no codec")})
		b := start(t, h.handle)
		p := b.phone("udp")
		inv := newInvite()
		inv.body = ""
		c := p.dial(inv)
		c.ack(1, offerSDP)
		if bye := p.request("BYE"); !strings.Contains(bye.get("Reason"), "no codec") {
			t.Errorf("Reason %q", bye.get("Reason"))
		}
		ended(t, wait(t, h.calls, "the call"), ErrNoAnswer)
	})
}

func TestReinviteRefused(t *testing.T) {
	calls := 0
	h := answering(&script{offer: func([]byte) ([]byte, *RejectError) {
		if calls++; calls == 1 {
			return nil, &RejectError{Code: 488, Warning: 304, Rule: "media", Text: "Fax is not supported"}
		}
		return []byte(offerSDP), nil
	}})
	b := start(t, h.handle)
	p := b.phone("udp")
	c := p.dial(newInvite())
	c.ack(1, "")
	p.send(c.next("INVITE", strings.ReplaceAll(offerSDP, "audio 4000 RTP/AVP 0", "image 6000 udptl t38")))
	m := p.expect("INVITE", 488)
	if !strings.HasPrefix(m.get("Warning"), "304 127.0.0.1:") || !strings.Contains(m.get("Warning"), "Fax is not supported") {
		t.Errorf("Warning %q", m.get("Warning"))
	}
	if again := p.expect("INVITE", 488); again.raw != m.raw { // BR-046 in a call
		t.Errorf("copy:\n%s", again.raw)
	}
	ack := c.next("ACK", "")
	ack.cseq, ack.branch = 2, ""
	ack.via = p.viaOf(m)
	p.send(ack)
	c.n = 2
	p.send(c.next("INVITE", offerSDP))
	re := p.answer("3 INVITE")
	if re.code != 200 {
		t.Fatalf("audio after the fax: %s", re.start)
	}
	// Without an offer to make it is refused as well.
	c.ack(3, "")
	p.send(c.next("INVITE", ""))
	if re = p.answer("4 INVITE"); re.code != 488 {
		t.Errorf("no offer to make: %s", re.start)
	}
	if wait(t, h.calls, "the call").Context().Err() != nil {
		t.Error("the call ended")
	}
}

// viaOf is the Via of the request that a response answers.
func (p *phone) viaOf(m *msg) string {
	v, _, _ := strings.Cut(m.get("Via"), ";received")
	return v + ";rport"
}

func TestUpdateAndTargetRefresh(t *testing.T) {
	h := answering(&script{})
	b := start(t, h.handle)
	p := b.phone("udp")
	c := p.dial(newInvite())
	c.ack(1, "")
	up := c.next("UPDATE", "")
	p.send(up)
	if m := p.expect("UPDATE", 200); m.body != "" || m.get("Contact") == "" {
		t.Errorf("UPDATE without an offer:\n%s", m.raw)
	}
	up = c.next("UPDATE", offerSDP)
	up.contact = "<sip:moved@" + p.addr + ";x=1>"
	p.send(up)
	if m := p.expect("UPDATE", 200); m.body != offerSDP {
		t.Errorf("UPDATE with an offer:\n%s", m.raw)
	}
	d := wait(t, h.calls, "the call")
	go d.Bye(context.Background(), Reason{})
	bye := p.request("BYE")
	if bye.start != "BYE sip:moved@"+p.addr+";x=1 SIP/2.0" {
		t.Errorf("BYE goes to %q", bye.start)
	}
	p.reply(bye, 200)
	ended(t, d, ErrLocalBye)
}

// A second offer while one is being answered; order and bound of the queue; a
// BYE that does not wait for a slow handler.
func TestQueue(t *testing.T) {
	release, inside := make(chan struct{}), make(chan struct{}, 1)
	h := answering(&script{info: true, offer: func([]byte) ([]byte, *RejectError) {
		inside <- struct{}{}
		<-release
		return []byte(offerSDP), nil
	}})
	b := start(t, h.handle)
	p := b.phone("tcp")
	c := p.dial(newInvite())
	c.ack(1, "")
	p.send(c.next("INVITE", offerSDP))
	wait(t, inside, "the offer")
	p.send(c.next("INVITE", offerSDP))
	m := p.expect("INVITE", 500)
	var after int
	if _, err := fmt.Sscan(m.get("Retry-After"), &after); err != nil || after < 0 || after > 10 {
		t.Errorf("Retry-After %q", m.get("Retry-After"))
	}
	for i := range queueLength + 1 {
		r := c.next("INFO", fmt.Sprint(i))
		r.kind = "application/dtmf"
		p.send(r)
	}
	p.expect("INFO", 500) // one too many
	bye := c.next("BYE", "")
	p.send(bye)
	p.expect("BYE", 200)
	ended(t, wait(t, h.calls, "the call"), ErrPeerBye)
	close(release)
	p.expect("INVITE", 487)
	for range queueLength {
		p.expect("INFO", 487)
	}
}

// A CANCEL stops a re-INVITE that waits, and comes too late for one whose offer
// the handler has.
func TestCancelReinvite(t *testing.T) {
	release, inside := make(chan struct{}), make(chan struct{}, 1)
	h := answering(&script{offer: func([]byte) ([]byte, *RejectError) { return []byte(offerSDP), nil }})
	slow := &slowInfo{script: h.script, inside: inside, release: release}
	b := start(t, func(_ context.Context, inv *Invite) { inv.Answer([]byte(offerSDP), slow) })
	p := b.phone("tcp")
	c := p.dial(newInvite())
	c.ack(1, "")
	info := c.next("INFO", "x")
	p.send(info)
	wait(t, inside, "the INFO")
	re := c.next("INVITE", offerSDP)
	p.send(re)
	p.send(cancelOf(re))
	if m := p.expect("CANCEL", 200); m.toTag() != c.ok.toTag() {
		t.Errorf("tag %q", m.toTag())
	}
	m := p.answer("3 INVITE")
	if m.code != 487 {
		t.Fatalf("got %s", m.start)
	}
	p.send(ackOf(re, m))
	close(release)
	p.expect("INFO", 200)
	if h.heard() != "" {
		t.Errorf("the handler heard %q", h.heard())
	}

	// The first is out of the queue only when the handler has let go.
	d := b.dialogs.all()[0]
	eventually(t, "an idle dialog", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return !d.busy && !d.running
	})
	slow.offers = make(chan struct{})
	re = c.next("INVITE", offerSDP)
	p.send(re)
	wait(t, inside, "the offer")
	p.send(cancelOf(re))
	p.expect("CANCEL", 200)
	close(slow.offers)
	if m := p.answer("4 INVITE"); m.code != 200 {
		t.Errorf("got %s", m.start)
	}
}

// slowInfo holds INFO and, when offers is set, offers until told to go on.
type slowInfo struct {
	*script
	inside          chan struct{}
	release, offers chan struct{}
}

func (s *slowInfo) Info(string, []byte) bool {
	s.inside <- struct{}{}
	<-s.release
	return true
}

func (s *slowInfo) Offer(b []byte) ([]byte, *RejectError) {
	if s.offers != nil {
		s.inside <- struct{}{}
		<-s.offers
	}
	return s.script.Offer(b)
}

func TestInfoInOrder(t *testing.T) {
	h := answering(&script{info: true})
	b := start(t, h.handle)
	p := b.phone("tcp")
	c := p.dial(newInvite())
	c.ack(1, "")
	p.send(c.next("INFO", ""))
	p.expect("INFO", 200)
	var all strings.Builder
	want := make([]string, 0, 10)
	for i := range 10 {
		r := c.next("INFO", fmt.Sprint(i))
		r.kind = "application/dtmf"
		all.WriteString(p.text(r))
		want = append(want, fmt.Sprintf("info:%d", i))
	}
	p.write(all.String())
	for range 10 {
		p.expect("INFO", 200)
	}
	if h.heard() != strings.Join(want, " ") {
		t.Errorf("order: %s", h.heard())
	}
}

func TestCSeqInDialog(t *testing.T) {
	h := answering(&script{info: true})
	b := start(t, h.handle)
	p := b.phone("udp")
	inv := newInvite()
	inv.cseq = 10
	c := p.dial(inv)
	c.ack(10, "")
	for _, tt := range []struct{ cseq, code int }{{9, 500}, {10, 482}, {2147483647, 200}} {
		r := c.next("OPTIONS", "")
		r.cseq = tt.cseq
		p.send(r)
		if m := p.final("OPTIONS"); m.code != tt.code {
			t.Errorf("CSeq %d: %s", tt.cseq, m.start)
		}
	}
}

// A retransmission gets the same answer and is not acted on again.
func TestInfoRetransmitted(t *testing.T) {
	h := answering(&script{info: true})
	b := start(t, h.handle)
	p := b.phone("udp")
	c := p.dial(newInvite())
	c.ack(1, "")
	r := c.next("INFO", "5")
	r.kind = "application/dtmf"
	p.send(r)
	first := p.expect("INFO", 200)
	p.send(r)
	if second := p.expect("INFO", 200); second.raw != first.raw {
		t.Errorf("not the same answer:\n%s", second.raw)
	}
	if h.heard() != "info:5" {
		t.Errorf("heard %s", h.heard())
	}
}

func TestPanics(t *testing.T) {
	t.Run("handler", func(t *testing.T) {
		b := start(t, func(context.Context, *Invite) { panic("boom") })
		p := b.phone("udp")
		inv := newInvite()
		p.send(inv)
		p.expect("INVITE", 500)
		if b.Stats().Panics != 1 || b.logs.FilterMessage("sip: panic").Len() != 1 {
			t.Errorf("stats %+v", b.Stats())
		}
	})
	t.Run("no answer", func(t *testing.T) {
		b := start(t, func(context.Context, *Invite) {})
		p := b.phone("udp")
		p.send(newInvite())
		p.expect("INVITE", 500)
		eventually(t, "the log line", func() bool { return b.logs.FilterMessageSnippet("no final response").Len() == 1 })
	})
	t.Run("dialog", func(t *testing.T) {
		h := answering(&script{info: true, offer: func([]byte) ([]byte, *RejectError) { panic("boom") }})
		b := start(t, h.handle)
		p := b.phone("tcp")
		c := p.dial(newInvite())
		c.ack(1, "")
		for range 2 { // the second finds the dialog at rest
			p.send(c.next("INVITE", offerSDP))
			p.expect("INVITE", 500)
		}
		p.send(c.next("INFO", "x"))
		p.expect("INFO", 200)
	})
	t.Run("answer", func(t *testing.T) {
		h := &panicky{}
		b := start(t, func(_ context.Context, inv *Invite) { inv.Answer([]byte(offerSDP), h) })
		p := b.phone("tcp")
		inv := newInvite()
		inv.body = ""
		c := p.dial(inv)
		c.ack(1, offerSDP)
		p.request("BYE")
	})
}

type panicky struct{ deaf }

func (*panicky) Answer([]byte) error { panic("boom") }

func TestDeaf(t *testing.T) {
	b := start(t, func(_ context.Context, inv *Invite) { inv.Answer([]byte(offerSDP), nil) })
	p := b.phone("tcp")
	c := p.dial(newInvite())
	c.ack(1, "")
	p.send(c.next("INVITE", offerSDP))
	p.expect("INVITE", 488)
	p.send(c.next("INVITE", ""))
	p.expect("INVITE", 488)
	p.send(c.next("INFO", "x"))
	p.expect("INFO", 415)
}
