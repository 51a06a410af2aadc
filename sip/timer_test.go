package sip

import (
	"context"
	"strings"
	"testing"
	"time"
)

func shortTimer(c *Config) { c.Timer = SessionTimer{Expires: 3 * time.Second, Min: 2 * time.Second} }

// The table of RFC 4028 section 9, and what we add to calls that leave it open.
func TestSessionTimerGranted(t *testing.T) {
	for _, tt := range []struct {
		name    string
		extra   []string
		code    int
		expires string
		require string
		ours    bool
	}{
		{"nothing known of it", nil, 200, "", "", false},
		{"supported only", []string{"Supported: replaces, timer"}, 200, "1800;refresher=uac", "timer", false},
		{"the caller refreshes", []string{"Supported: timer", "Session-Expires: 90;refresher=uac"}, 200, "90;refresher=uac", "timer", false},
		{"we refresh", []string{"k: timer", "x: 100 ; refresher=uas"}, 200, "100;refresher=uas", "timer", true},
		{"required", []string{"Require: timer", "Session-Expires: 90"}, 200, "90;refresher=uac", "timer", false},
		{"a proxy asks", []string{"Session-Expires: 120;refresher=uac"}, 200, "120;refresher=uas", "", true},
		{"too long", []string{"Supported: timer", "Session-Expires: 7200"}, 200, "1800;refresher=uac", "timer", false},
		{"long, and must be", []string{"Supported: timer", "Session-Expires: 7200", "Min-SE: 3600"}, 200, "3600;refresher=uac", "timer", false},
		{"too short", []string{"Supported: timer", "Session-Expires: 30"}, 422, "", "", false},
		{"too short, unaware", []string{"Session-Expires: 30"}, 200, "90;refresher=uas", "", true},
		{"nonsense", []string{"Supported: timer", "Session-Expires: soon"}, 200, "1800;refresher=uac", "timer", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := answering(&script{})
			b := start(t, h.handle)
			p := b.phone("tcp")
			inv := newInvite()
			inv.extra = tt.extra
			p.send(inv)
			m := p.expect("INVITE", tt.code)
			if m.get("Session-Expires") != tt.expires || m.get("Require") != tt.require {
				t.Errorf("Session-Expires %q, Require %q", m.get("Session-Expires"), m.get("Require"))
			}
			if tt.code == 422 {
				if m.get("Min-SE") != "90" {
					t.Errorf("Min-SE %q", m.get("Min-SE"))
				}
				return
			}
			d := wait(t, h.calls, "the call")
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.session.ours != tt.ours || (d.clock != nil) != (tt.expires != "") {
				t.Errorf("session %+v, clock %v", d.session, d.clock)
			}
		})
	}
}

// BR-037, BR-051: refreshes keep the call, one below the minimum changes nothing,
// and without one the call is ended before its time.
func TestSessionTimerRefreshedByPeer(t *testing.T) {
	t.Parallel()
	h := answering(&script{})
	b := start(t, h.handle, shortTimer)
	p := b.phone("udp")
	inv := newInvite()
	inv.extra = []string{"Supported: timer", "Session-Expires: 3;refresher=uac"}
	c := p.dial(inv)
	c.ack(1, "")
	d := wait(t, h.calls, "the call")
	began := time.Now()
	for _, body := range []string{"", offerSDP} {
		time.Sleep(1200 * time.Millisecond)
		up := c.next("UPDATE", body)
		up.extra = inv.extra
		p.send(up)
		if m := p.expect("UPDATE", 200); m.get("Session-Expires") != "3;refresher=uac" || m.get("Require") != "timer" || (m.body == "") != (body == "") {
			t.Errorf("UPDATE answered:\n%s", m.raw)
		}
	}
	re := c.next("INVITE", offerSDP)
	re.extra = []string{"Supported: timer", "Session-Expires: 1"}
	p.send(re)
	m := p.expect("INVITE", 422)
	if m.get("Min-SE") != "2" {
		t.Errorf("422:\n%s", m.raw)
	}
	p.send(ackOf(re, m))
	bye := p.fresh("BYE")
	if took := time.Since(began); took < 4*time.Second || !strings.Contains(bye.get("Reason"), "Session timer") {
		t.Errorf("after %v: %s", took, bye.get("Reason"))
	}
	p.reply(bye, 200)
	ended(t, d, ErrExpired)
}

func TestSessionTimerRefreshedByUs(t *testing.T) {
	t.Parallel()
	b := start(t, quiet, shortTimer)
	p := listenPhone(t)
	result := dial(t.Context(), b, trunkTo(p.addr), Outgoing{}, nil)
	inv := p.fresh("INVITE")
	if inv.get("Session-Expires") != "3" || inv.get("Min-SE") != "2" || inv.get("Supported") != "100rel, replaces, timer" {
		t.Errorf("INVITE:\n%s", inv.raw)
	}
	p.respond(inv, 422, "x", "", "Min-SE: 4")
	p.request("ACK")
	inv = p.fresh("INVITE")
	if inv.get("Session-Expires") != "4" || inv.get("Min-SE") != "4" || inv.get("CSeq") != "2 INVITE" {
		t.Errorf("second INVITE:\n%s", inv.raw)
	}
	p.respond(inv, 200, "t1", answerSDP, "Contact: <sip:c@"+p.addr+">", "Require: timer", "Session-Expires: 2;refresher=uac", "Allow: INVITE, UPDATE")
	began := time.Now()
	p.request("ACK")
	d := wait(t, result, "Dial").d
	up := p.fresh("UPDATE")
	if took := time.Since(began); took < 900*time.Millisecond || up.get("Session-Expires") != "2;refresher=uac" || up.body != "" || up.get("CSeq") != "3 UPDATE" {
		t.Errorf("UPDATE after %v:\n%s", took, up.raw)
	}
	p.respond(up, 422, "", "", "Min-SE: 3")
	up = p.fresh("UPDATE")
	if up.get("Session-Expires") != "3;refresher=uac" {
		t.Errorf("UPDATE:\n%s", up.raw)
	}
	p.respond(up, 200, "", "", "Session-Expires: 2;refresher=uac")
	// It does not take UPDATE after all: a re-INVITE with what is in force.
	p.respond(p.fresh("UPDATE"), 501, "", "")
	re := p.fresh("INVITE")
	if re.body != offerSDP || re.get("Session-Expires") != "2;refresher=uac" {
		t.Errorf("re-INVITE:\n%s", re.raw)
	}
	p.respond(re, 200, "", answerSDP, "Session-Expires: 2;refresher=uac")
	p.request("ACK")
	// And then it is gone.
	p.fresh("INVITE")
	p.reply(p.fresh("BYE"), 200)
	ended(t, d, ErrGone)
}

// A refusal of a refresh is tried again until the time is over.
func TestSessionTimerRefreshRefused(t *testing.T) {
	t.Parallel()
	h := answering(&script{})
	b := start(t, h.handle, shortTimer)
	p := b.phone("udp")
	inv := newInvite()
	inv.extra = []string{"Supported: timer", "Session-Expires: 2;refresher=uas"}
	c := p.dial(inv)
	c.ack(1, "")
	d := wait(t, h.calls, "the call")
	result := make(chan *msg, 1)
	go func() {
		for {
			m := p.read(patience)
			if m == nil || m.method == "BYE" {
				p.reply(m, 200)
				result <- m
				return
			}
			if m.method == "INVITE" {
				if m.body != offerSDP {
					t.Errorf("refresh:\n%s", m.raw)
				}
				p.respond(m, 500, "", "")
			}
		}
	}()
	if m := wait(t, result, "BYE"); m == nil {
		t.Fatal("no BYE")
	}
	ended(t, d, ErrExpired)
}

// A timer of a call that is over does nothing.
func TestSessionTimerAfterTheEnd(t *testing.T) {
	t.Parallel()
	h := answering(&script{})
	b := start(t, h.handle, shortTimer)
	p := b.phone("tcp")
	inv := newInvite()
	inv.extra = []string{"Supported: timer", "Session-Expires: 2;refresher=uas"}
	c := p.dial(inv)
	c.ack(1, "")
	d := wait(t, h.calls, "the call")
	go d.Bye(context.Background(), Reason{})
	p.reply(p.fresh("BYE"), 200)
	d.mu.Lock()
	d.startTimer(session{interval: 2 * time.Second, ours: true})
	if d.clock != nil {
		t.Error("it runs")
	}
	d.mu.Unlock()
	p.silent(1200*time.Millisecond, "the call is over")
}
