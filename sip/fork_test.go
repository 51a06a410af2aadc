package sip

import (
	"context"
	"errors"
	"strings"
	"testing"
)

type tried struct {
	d   *Dialog
	n   int
	err error
}

// dialFirst calls phones at the same time or one after the other.
func dialFirst(ctx context.Context, b *bench, parallel bool, phones []*phone, handlers ...*script) chan tried {
	var all []Attempt
	for i, p := range phones {
		a := Attempt{Trunk: trunkTo(p.addr), Outgoing: Outgoing{To: "1", Offer: []byte(offerSDP)}}
		a.Trunk.Name = "carrier" + string(rune('0'+i))
		if i < len(handlers) {
			a.Handler = handlers[i]
		}
		all = append(all, a)
	}
	result := make(chan tried, 1)
	go func() {
		d, n, err := b.DialFirst(ctx, all, parallel)
		result <- tried{d, n, err}
	}()
	return result
}

func phones(t *testing.T, n int) []*phone {
	var all []*phone
	for range n {
		all = append(all, listenPhone(t))
	}
	return all
}

// The first answer wins; what rings is cancelled, and an answer that crosses the CANCEL
// is acknowledged and ended (BR-031).
func TestDialFirstParallel(t *testing.T) {
	b := start(t, quiet)
	p := phones(t, 4)
	h := []*script{{}, {}, {}, {}}
	result := dialFirst(t.Context(), b, true, p, h...)
	var inv []*msg
	for _, p := range p {
		inv = append(inv, p.fresh("INVITE"))
	}
	p[0].respond(inv[0], 180, "a", "")
	p[3].respond(inv[3], 180, "d", "")
	p[2].respond(inv[2], 486, "c", "")
	p[2].request("ACK")
	p[1].respond(inv[1], 200, "b", answerSDP, "Contact: <sip:b@"+p[1].addr+">")
	p[1].request("ACK")
	cancel := p[0].fresh("CANCEL")
	if got := cancel.get("Reason"); got != `SIP;cause=200;text="Call completed elsewhere"` {
		t.Errorf("Reason %s", got) // else the call stands among those missed
	}
	p[0].reply(cancel, 200)
	p[0].respond(inv[0], 487, "a", "")
	p[0].request("ACK")
	cancel = p[3].fresh("CANCEL")
	p[3].reply(cancel, 200)
	p[3].respond(inv[3], 200, "d", answerSDP, "Contact: <sip:d@"+p[3].addr+">")
	p[3].request("ACK")
	p[3].reply(p[3].fresh("BYE"), 200)
	r := wait(t, result, "DialFirst")
	if r.err != nil || r.n != 1 || r.d.Context().Err() != nil {
		t.Fatalf("%+v", r)
	}
	for i, want := range []string{"", "answer", "", ""} {
		if got := h[i].heard(); got != want {
			t.Errorf("handler %d heard %q", i, got)
		}
	}
	eventually(t, "one call", func() bool { return b.Stats().Dialogs == 1 })
}

// Two answers at the same moment: one call.
func TestDialFirstRace(t *testing.T) {
	for range 10 {
		b := start(t, quiet)
		p := phones(t, 2)
		h := []*script{{}, {}}
		result := dialFirst(t.Context(), b, true, p, h...)
		inv := []*msg{p[0].fresh("INVITE"), p[1].fresh("INVITE")}
		for i := range p {
			p[i].respond(inv[i], 200, "x", answerSDP, "Contact: <sip:x@"+p[i].addr+">")
		}
		r := wait(t, result, "DialFirst")
		if r.err != nil {
			t.Fatal(r.err)
		}
		loser := 1 - r.n
		bye := p[loser].fresh("BYE")
		if !strings.Contains(bye.get("Reason"), "lsewhere") {
			t.Errorf("BYE:\n%s", bye.raw)
		}
		p[loser].reply(bye, 200)
		if h[loser].heard() != "" || h[r.n].heard() != "answer" {
			t.Errorf("handlers heard %q %q", h[0].heard(), h[1].heard())
		}
		b.stop()
	}
}

// RFC 3261 section 16.7: a 6xx is for all, and stops what rings.
func TestDialFirstDeclined(t *testing.T) {
	b := start(t, quiet)
	p := phones(t, 3)
	result := dialFirst(t.Context(), b, true, p)
	inv := []*msg{p[0].fresh("INVITE"), p[1].fresh("INVITE"), p[2].fresh("INVITE")}
	p[0].respond(inv[0], 180, "a", "")
	p[2].respond(inv[2], 404, "c", "")
	p[1].respond(inv[1], 603, "b", "")
	cancel := p[0].fresh("CANCEL")
	if got := cancel.get("Reason"); got != `SIP;cause=603;text="Test"` {
		t.Errorf("Reason %s", got)
	}
	p[0].reply(cancel, 200)
	p[0].respond(inv[0], 487, "a", "")
	r := wait(t, result, "DialFirst")
	var e *DialError
	if !errors.As(r.err, &e) || e.Code != 603 || r.n != 1 || r.d != nil {
		t.Errorf("%+v", r)
	}

	// One after the other, too.
	p = phones(t, 2)
	result = dialFirst(t.Context(), b, false, p)
	p[0].respond(p[0].fresh("INVITE"), 600, "a", "")
	if r = wait(t, result, "DialFirst"); !errors.As(r.err, &e) || e.Code != 600 || r.n != 0 {
		t.Errorf("%+v", r)
	}
	p[1].silent(2*testT1, "nobody else is called")
}

func TestDialFirstSerial(t *testing.T) {
	b := start(t, quiet)
	p := phones(t, 3)
	result := dialFirst(t.Context(), b, false, p, &script{}, &script{answer: errors.New("no codec")}, &script{})
	p[0].respond(p[0].fresh("INVITE"), 486, "a", "")
	p[0].request("ACK")
	inv := p[1].fresh("INVITE") // whose answer does not fit
	p[1].respond(inv, 200, "b", answerSDP, "Contact: <sip:b@"+p[1].addr+">")
	p[1].reply(p[1].fresh("BYE"), 200)
	p[2].respond(p[2].fresh("INVITE"), 200, "c", answerSDP, "Contact: <sip:c@"+p[2].addr+">")
	if r := wait(t, result, "DialFirst"); r.err != nil || r.n != 2 {
		t.Errorf("%+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p = phones(t, 2)
	result = dialFirst(ctx, b, false, p)
	inv = p[0].fresh("INVITE")
	p[0].respond(inv, 180, "a", "")
	cancel()
	p[0].reply(p[0].fresh("CANCEL"), 200)
	if r := wait(t, result, "DialFirst"); !errors.Is(r.err, context.Canceled) || r.n != 0 {
		t.Errorf("%+v", r)
	}
	p[1].silent(2*testT1, "nobody else is called")
	if _, n, err := b.DialFirst(t.Context(), nil, true); err == nil || n != -1 {
		t.Errorf("%d %v", n, err)
	}
	if _, n, err := b.DialFirst(t.Context(), []Attempt{{}, {Trunk: trunkTo("127.0.0.1:1")}}, true); err == nil || n > 1 || n < 0 {
		t.Errorf("%d %v", n, err)
	}
}

// Each place is made ready when its turn comes, and what became of it is told.
func TestDialFirstTellsOfEachPlace(t *testing.T) {
	b := start(t, quiet)
	p := phones(t, 3)
	var told []string
	attempt := func(n int) Attempt {
		return Attempt{
			Trunk: trunkTo(p[n].addr), Outgoing: Outgoing{To: "1"},
			Before: func(o *Outgoing) error {
				told = append(told, "before "+string(rune('0'+n)))
				if n == 1 {
					return errors.New("no port")
				}
				o.Offer = []byte(offerSDP)
				return nil
			},
			Failed: func(err error) { told = append(told, err.Error()) },
		}
	}
	result := make(chan tried, 1)
	go func() {
		d, n, err := b.DialFirst(t.Context(), []Attempt{attempt(0), attempt(1), attempt(2)}, false)
		result <- tried{d, n, err}
	}()
	inv := p[0].fresh("INVITE")
	if !strings.Contains(inv.raw, "m=audio") {
		t.Errorf("no offer in\n%s", inv.raw)
	}
	p[0].respond(inv, 486, "a", "")
	p[2].respond(p[2].fresh("INVITE"), 200, "c", answerSDP, "Contact: <sip:c@"+p[2].addr+">")
	if r := wait(t, result, "DialFirst"); r.err != nil || r.n != 2 {
		t.Errorf("%+v", r)
	}
	if len(told) != 5 || told[0] != "before 0" || !strings.Contains(told[1], "486") || told[2] != "before 1" || told[3] != "no port" || told[4] != "before 2" {
		t.Errorf("told %q", told)
	}
	p[1].silent(2*testT1, "it was not ready")
}

// The best refusal (RFC 3261 section 16.7 number 6).
func TestBetter(t *testing.T) {
	code := func(n int) error { return &DialError{Code: n} }
	mistake, lost, silent := errors.New("mistake"), &DialError{Err: ErrElsewhere}, &DialError{Err: ErrRingTimeout}
	for _, tt := range []struct {
		all  []error
		want int
	}{
		{[]error{code(486), code(603)}, 1},
		{[]error{code(503), code(302), code(404)}, 1},
		{[]error{code(486), code(407), code(404)}, 1},
		{[]error{code(486), code(404)}, 0},
		{[]error{silent, code(486)}, 1},
		{[]error{code(503), silent}, 1},
		{[]error{mistake, lost, code(503)}, 2},
		{[]error{mistake, lost}, 1},
	} {
		var best forked
		for n, err := range tt.all {
			best = better(best, forked{n: n, err: err})
		}
		if best.n != tt.want {
			t.Errorf("%v: %d", tt.all, best.n)
		}
	}
}
