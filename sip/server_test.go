package sip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"listen: at least one":      func(c *Config) { c.Listen = nil },
		"listen[1].network":         func(c *Config) { c.Listen[1].Network = "sctp" },
		"listen[0].addr":            func(c *Config) { c.Listen[0].Addr = "localhost" },
		"listen[0].advertise":       func(c *Config) { c.Listen[0].Advertise = "a b" },
		`port "0"`:                  func(c *Config) { c.Listen[0].Advertise = "a:0" },
		"unspecified":               func(c *Config) { c.Listen[0].Advertise = "[::]:5060" },
		"user_agent":                func(c *Config) { c.UserAgent = "a\r\nX: y" },
		"max_message":               func(c *Config) { c.MaxMessage = 100 },
		"max_transactions":          func(c *Config) { c.MaxTransactions = 0 },
		"max_connections":           func(c *Config) { c.MaxConnections = 0 },
		"t1 500ms, t2 1ms, t4 5s":   func(c *Config) { c.T2 = time.Millisecond },
		"retry_after":               func(c *Config) { c.RetryAfter = -1 },
		"nat: \"sometimes\" is not": func(c *Config) { c.NAT = "sometimes" },
	} {
		c := DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
		if _, err := NewServer(c, nil); err == nil {
			t.Error("NewServer takes it")
		}
	}
}

func TestListenErrors(t *testing.T) {
	busy, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for addr, want := range map[string]string{busy.Addr().String(): "another process", "203.0.113.1:0": "advertise"} {
		c := DefaultConfig()
		c.Listen = []Listener{{Network: "udp", Addr: "127.0.0.1:0"}, {Network: "tcp", Addr: addr}}
		s, err := NewServer(c, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Serve(t.Context(), quiet); err == nil {
			t.Error("Serve before Listen")
		}
		if err := s.Listen(); err == nil || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", addr, err)
		}
		if len(s.Addrs()) != 0 {
			t.Error("half of it is bound")
		}
	}
	b := start(t, quiet)
	if err := b.Listen(); err == nil {
		t.Error("Listen twice")
	}
	if got := bindError(Listener{}, fmt.Errorf("x")).Error(); strings.Contains(got, ";") {
		t.Errorf("a remedy for nothing: %s", got)
	}
}

// A caller that waits for long gets its provisional response again.
func TestInviteKeptAlive(t *testing.T) {
	got, release := make(chan *Invite, 1), make(chan struct{})
	b := start(t, func(_ context.Context, inv *Invite) {
		inv.Ring()
		got <- inv
		<-release
		inv.Reject(&RejectError{Code: 480})
	})
	p := b.phone("tcp")
	p.send(newInvite())
	inv := wait(t, got, "the INVITE")
	inv.keepAlive()
	for _, code := range []int{100, 180, 180} {
		if m := p.read(patience); m == nil || m.code != code {
			t.Fatalf("got %+v, want %d", m, code)
		}
	}
	close(release)
	p.expect("INVITE", 480)
	inv.keepAlive()
	p.silent(testT1, "nothing behind the final response")
	if inv.Context().Err() == nil {
		t.Error("the context goes on")
	}
}

func TestRouteTo(t *testing.T) {
	if got := routeTo(mustAddrPort("127.0.0.1:5060")); !got.IsLoopback() || !got.Is4() {
		t.Errorf("to loopback: %v", got)
	}
	if got := routeTo(mustAddrPort("[::1]:5060")); !got.IsLoopback() || !got.Is6() {
		t.Errorf("to loopback: %v", got)
	}
}

func TestIPv6Call(t *testing.T) {
	h := answering(&script{})
	b := start(t, h.handle, func(c *Config) {
		c.Listen = []Listener{{Network: "udp", Addr: "[::1]:0"}, {Network: "tcp", Addr: "[::1]:0"}}
	})
	for _, network := range networks {
		p := b.phone(network)
		c := p.dial(newInvite())
		if !strings.Contains(c.ok.get("Contact"), "@[::1]:") || !strings.Contains(c.ok.get("Via"), "received=::1") {
			t.Errorf("200:\n%s", c.ok.raw)
		}
		c.ack(1, "")
		d := wait(t, h.calls, "the call")
		go d.Bye(context.Background(), Reason{})
		p.reply(p.request("BYE"), 200)
		ended(t, d, ErrLocalBye)
	}
}

func TestTexts(t *testing.T) {
	r := &RejectError{Code: 486, Rule: "limit", Text: "full"}
	if r.Error() != "sip: refused with 486 by rule limit: full" || (&RejectError{Code: 404}).Error() != "sip: refused with 404" {
		t.Error(r.Error())
	}
	if (Reason{}).String() != "" || (Reason{Protocol: "a b"}).String() != "" || (Reason{Protocol: "SIP", Cause: 200}).String() != "SIP;cause=200" {
		t.Error("Reason")
	}
	seen := map[string]int{}
	for code := 100; code < 700; code++ {
		if p := phrase(code); p == "" {
			t.Errorf("%d has no phrase", code)
		} else {
			seen[p]++
		}
	}
	if phrase(486) != "Busy Here" || phrase(299) != "OK" || phrase(699) != "Global Failure" || len(seen) < 30 {
		t.Errorf("%d phrases", len(seen))
	}
	if clean("a\x1b\r\nb", 10) != "a...b" || clean("abcdef", 3) != "abc" {
		t.Error("clean")
	}
	if plainUser("a;b") || plainUser(strings.Repeat("a", 65)) || !plainUser("+1-5_a.B") {
		t.Error("plainUser")
	}
}

func TestNoise(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	n := newNoise(zap.New(core))
	for range 10 {
		n.warn("a", "a")
		n.warn("b", "b")
	}
	if logs.Len() != 2 {
		t.Fatalf("%d lines", logs.Len())
	}
	n.last["a"].at = time.Now().Add(-time.Second)
	n.warn("a", "a")
	n.flush()
	all := logs.All()
	if len(all) != 4 || all[2].ContextMap()["suppressed"] != int64(9) || all[3].ContextMap()["suppressed"] != int64(9) {
		t.Errorf("%v", all)
	}
}

// BR-174: both sides hang up at the same time, many times over.
func TestByesCross(t *testing.T) {
	h := answering(&script{})
	b := start(t, h.handle)
	p := b.phone("udp")
	var wg sync.WaitGroup
	for range 50 {
		c := p.dial(newInvite())
		c.ack(1, "")
		d := wait(t, h.calls, "the call")
		<-d.Confirmed()
		wg.Go(func() {
			if err := d.Bye(context.Background(), Reason{}); err != nil && !errors.Is(err, ErrByeTimeout) {
				t.Errorf("Bye: %v", err)
			}
		})
		p.send(c.next("BYE", ""))
		for m := p.read(patience); ; m = p.read(patience) {
			if m == nil {
				t.Fatal("no answer to BYE")
			}
			if m.method == "BYE" {
				p.reply(m, 481)
			} else if m.code == 200 && strings.HasSuffix(m.get("CSeq"), "BYE") && m.get("Call-ID") == c.inv.callID {
				break
			}
		}
		wait(t, d.Context().Done(), "the end")
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for {
		if m := p.read(testT1); m != nil && m.method == "BYE" {
			p.reply(m, 481)
		}
		select {
		case <-done:
			if n := b.Stats().Dialogs; n != 0 {
				t.Errorf("%d dialogs left", n)
			}
			return
		default:
		}
	}
}

// BR-171, BR-175: nothing is left of calls that ended.
func TestNothingLeft(t *testing.T) {
	h := answering(&script{})
	b := start(t, h.handle)
	p := b.phone("udp")
	for range 20 {
		c := p.dial(newInvite())
		c.ack(1, "")
		p.send(c.next("BYE", ""))
		p.expect("BYE", 200)
	}
	for deadline := time.Now().Add(patience); ; {
		st := b.Stats()
		left := len(b.dialogs.all())
		b.mu.Lock()
		left += len(b.invites)
		b.mu.Unlock()
		b.txs.mu.Lock()
		left += len(b.txs.merge)
		b.txs.mu.Unlock()
		if st.Transactions == 0 && st.Dialogs == 0 && left == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left: %+v, %d dialogs and invites", st, left)
		}
		b.pause(testT1)
	}
}

// BR-164, BR-177: a flood of requests that are refused leaves no state.
func TestFloodLeavesNoState(t *testing.T) {
	b := start(t, quiet)
	p := b.phone("udp")
	for range 200 {
		p.send(newCall(req{method: "REGISTER"}))
		p.expect("REGISTER", 405)
		p.send(newCall(req{method: "OPTIONS"}))
		p.expect("OPTIONS", 200)
	}
	if st := b.Stats(); st.Transactions != 0 || st.Requests["OTHER"] != 200 {
		t.Errorf("%+v", st)
	}
	if n := b.logs.Len(); n > 10 {
		t.Errorf("%d log lines", n)
	}
}
