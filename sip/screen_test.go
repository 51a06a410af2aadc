package sip

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// phoneAt is a phone over UDP at an address of its own.
func (b *bench) phoneAt(addr string) *phone {
	b.t.Helper()
	conn, err := net.DialUDP("udp", &net.UDPAddr{IP: net.ParseIP(addr)}, net.UDPAddrFromAddrPort(b.udp))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	return &phone{t: b.t, conn: conn, via: "UDP", addr: conn.LocalAddr().String()}
}

// refusals counts what Config.Refused is told.
type refusals struct {
	mu  sync.Mutex
	got map[string]int
}

func (r *refusals) note(code int, rule string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.got == nil {
		r.got = map[string]int{}
	}
	r.got[fmt.Sprint(code, " ", rule)]++
}

func (r *refusals) count(key string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got[key]
}

// gated is a server behind a gate; its handler answers what the gate lets in.
func gated(t *testing.T, a Access, users map[string]string, sources []Source, h *answered, change ...func(*Config)) (*bench, chan Admission, *refusals) {
	t.Helper()
	a.Realm = "example.com"
	g, err := NewGate(a, users, sources)
	if err != nil {
		t.Fatal(err)
	}
	in, told := make(chan Admission, 64), &refusals{}
	b := start(t, func(ctx context.Context, inv *Invite) {
		who, rej := g.Admit(inv)
		if rej != nil {
			t.Errorf("let in and then refused: %v", rej)
			return
		}
		in <- who
		h.handle(ctx, inv)
	}, append(change, func(c *Config) { c.Gate, c.Refused = g, told.note })...)
	return b, in, told
}

// A stranger is asked without leaving a trace; who answers is let in once, and
// copies of that INVITE are no replay.
func TestChallengeWithoutState(t *testing.T) {
	h := answering(&script{})
	b, in, told := gated(t, Access{Required: RequireAlways}, map[string]string{"alice": "secret"}, nil, h)
	p := b.phone("udp")
	inv := newInvite()
	p.send(inv)
	first := p.expect("INVITE", 401)
	p.send(inv)
	if again := p.expect("INVITE", 401); again.toTag() != first.toTag() {
		t.Error("another To tag for a copy")
	}
	p.send(ackOf(inv, first))
	if n := b.Stats().Transactions; n != 0 {
		t.Errorf("%d transactions", n)
	}
	inv.cseq, inv.branch = 2, "z9hG4bKsecond"
	inv.extra = []string{"Authorization: " + authorization(t, first.get("WWW-Authenticate"), "INVITE", inv.uri, "alice", "secret", 1)}
	p.send(inv)
	ok := p.expect("INVITE", 200)
	p.send(inv)
	p.expect("INVITE", 200)
	if who := wait(t, in, "the call"); who != (Admission{User: "alice", By: "digest"}) || len(in) != 0 {
		t.Errorf("%+v, %d more", who, len(in))
	}
	(&call{p: p, inv: inv, ok: ok}).ack(2, "")
	if told.count("401 credentials") != 2 {
		t.Errorf("told %v", told.got)
	}
	if b.logs.FilterField(zapRule("credentials")).Len() != 1 {
		t.Error("one line names the rule")
	}
}

// What a stranger hears: each method, and what is no call at all. Peers that are
// known, and requests inside a call, are answered as ever.
func TestStrangersIgnored(t *testing.T) {
	h := answering(&script{})
	pbx := []Source{{Trunk: "pbx", Addrs: prefixes("127.0.0.9/32")}}
	requests := map[string]req{
		"INVITE": newInvite(), "OPTIONS": newCall(req{method: "OPTIONS"}), "REGISTER": newCall(req{method: "REGISTER"}),
		"BYE": newCall(req{method: "BYE", to: "<sip:a@b>;tag=1"}), "CANCEL": newCall(req{method: "CANCEL"}), "malformed": newCall(req{method: "OPTIONS", from: "<sip:>"}),
	}
	for _, tt := range []struct {
		unknown  string
		required string
		users    map[string]string
		from     string
		want     map[string]int
	}{
		{UnknownDrop, RequireAlways, nil, "127.0.0.2", map[string]int{"INVITE": 0, "OPTIONS": 0, "REGISTER": 0, "BYE": 0, "CANCEL": 0, "malformed": 0}},
		{UnknownDrop, RequireAlways, map[string]string{"a": "b"}, "127.0.0.2", map[string]int{"INVITE": 401, "OPTIONS": 0, "REGISTER": 0, "BYE": 0, "CANCEL": 0, "malformed": 0}},
		{UnknownRefuse, RequireAlways, nil, "127.0.0.2", map[string]int{"INVITE": 403, "OPTIONS": 200, "REGISTER": 405, "BYE": 481, "CANCEL": 481, "malformed": 400}},
		{UnknownDrop, RequireAlways, nil, "127.0.0.9", map[string]int{"INVITE": 403, "OPTIONS": 200, "REGISTER": 405, "BYE": 481, "CANCEL": 481, "malformed": 400}},
		{UnknownDrop, RequireOutside, nil, "127.0.0.2", map[string]int{"INVITE": 200, "OPTIONS": 200, "REGISTER": 405, "BYE": 481, "CANCEL": 481, "malformed": 400}},
	} {
		b, _, told := gated(t, Access{Required: tt.required, Unknown: tt.unknown}, tt.users, pbx, h)
		for name, r := range requests {
			p := b.phoneAt(tt.from)
			p.send(r)
			if want := tt.want[name]; want != 0 {
				p.expect(r.method, want)
			} else if m := p.read(patienceFor(0)); m != nil {
				t.Errorf("%+v: %s gets %s", tt, name, m.start)
			}
		}
		if tt.want["INVITE"] == 0 {
			if told.count("0 source_not_allowed") != 1 || b.Stats().Ignored != 6 {
				t.Errorf("told %v, ignored %d", told.got, b.Stats().Ignored)
			}
			if b.logs.FilterField(zapRule("unknown_source")).Len() != 1 {
				t.Error("one line in a second names the rule")
			}
		}
		b.stop()
	}
}

// A call of a user who is a stranger by address goes on as any other.
func TestStrangersCallGoesOn(t *testing.T) {
	h := answering(&script{})
	b, _, _ := gated(t, Access{Required: RequireAlways, Unknown: UnknownDrop, RatePerSource: 5, RateBurst: 5}, map[string]string{"alice": "secret"}, nil, h)
	p := b.phoneAt("127.0.0.2")
	c := p.dialAs(t, "alice", "secret")
	c.ack(c.n, "")
	for _, m := range []string{"OPTIONS", "UPDATE", "BYE"} {
		p.send(c.next(m, ""))
		p.expect(m, 200)
	}
	p.send(c.next("OPTIONS", ""))
	p.expect("OPTIONS", 481)
}

// dialAs makes a call that proves a password.
func (p *phone) dialAs(t *testing.T, user, password string) *call {
	t.Helper()
	inv := newInvite()
	asked := p.insist(inv, 401)
	p.send(ackOf(inv, asked))
	inv.cseq, inv.branch = 2, inv.branch+"again"
	inv.extra = []string{"Authorization: " + authorization(t, asked.get("WWW-Authenticate"), "INVITE", inv.uri, user, password, 1)}
	return &call{p: p, inv: inv, ok: p.insist(inv, 200), n: inv.cseq}
}

// insist sends a request, again as phones do when nothing comes, until it has its
// answer.
func (p *phone) insist(r req, code int) *msg {
	p.t.Helper()
	for range 20 {
		p.send(r)
		for m := p.read(10 * testT1); m != nil; m = p.read(10 * testT1) {
			if m.code == code && m.get("CSeq") == fmt.Sprint(r.cseq, " ", r.method) {
				return m
			}
		}
	}
	p.t.Fatalf("no %d to %s", code, r.method)
	return nil
}

// BR-164: a scanner sends 400 INVITEs as fast as it can, under every name scanners
// have. It gets its few answers; a call of somebody else is set up meanwhile; the
// log has a line a second for each rule, and no number of a caller.
func TestScanner(t *testing.T) {
	h := answering(&script{})
	b, in, told := gated(t, Access{Required: RequireAlways, RatePerSource: 1, RateBurst: 5}, map[string]string{"alice": "secret"}, nil, h)
	scanner := b.phoneAt("127.0.0.3")
	for i := range 400 {
		inv := newInvite()
		inv.from = fmt.Sprintf("<sip:+1555010%04d@example.com>;tag=%d", i, i)
		inv.extra = []string{"User-Agent: " + []string{"friendly-scanner", "pplsip", "sipvicious", "", "Parley"}[i%5]}
		scanner.send(inv)
		if i == 200 {
			p := b.phoneAt("127.0.0.2")
			c := p.dialAs(t, "alice", "secret")
			c.ack(c.n, "")
			wait(t, in, "the good call")
		}
	}
	answers := 0
	for scanner.read(patienceFor(0)) != nil {
		answers++
	}
	if answers < 5 || answers > 5+int(patience.Seconds()) {
		t.Errorf("%d answers to the scanner", answers)
	}
	// The system may drop some of a burst before we see it.
	if n := int(b.Stats().Limited); n < 200 || n > 400-answers || told.count("401 credentials") != answers+1 || told.count("0 rate_per_source") == 0 {
		t.Errorf("%d dropped, %d answered, told %v", n, answers, told.got)
	}
	for _, e := range b.logs.All() {
		if strings.Contains(fmt.Sprint(e.ContextMap()), "+1555010") {
			t.Errorf("a number in the log: %v", e.ContextMap())
		}
	}
	if n := b.logs.Len(); n > 12 {
		t.Errorf("%d lines", n)
	}
}

// The same over a connection, where no copy will come by itself.
func TestStrangersRateOverTCP(t *testing.T) {
	b, _, told := gated(t, Access{Required: RequireAlways, RatePerSource: 0.001, RateBurst: 2}, nil, nil, answering(&script{}))
	p := b.phone("tcp")
	for _, code := range []int{403, 403, 503} {
		p.send(newInvite())
		m := p.expect("INVITE", code)
		if code == 503 && m.get("Retry-After") != "1" {
			t.Errorf("Retry-After %q", m.get("Retry-After"))
		}
	}
	if told.count("503 rate_per_source") != 1 {
		t.Errorf("told %v", told.got)
	}
}

// BR-161: a flood of malformed requests counts as one of calls. Above the rate of
// messages nothing is read at all; a trunk is read always.
func TestStrangersFlood(t *testing.T) {
	a := Access{Required: RequireAlways, RatePerSource: 0.001, RateBurst: 2}
	b, _, _ := gated(t, a, nil, []Source{{Trunk: "pbx", Addrs: prefixes("127.0.0.9/32")}}, answering(&script{}))
	for _, tt := range []struct {
		from    string
		answers int
	}{{"127.0.0.2", 2}, {"127.0.0.9", 100}} {
		p := b.phoneAt(tt.from)
		answers := 0
		for range 100 {
			p.send(newCall(req{method: "OPTIONS", from: "<sip:>;sip:;1001@192.0.2.1;tag=1"}))
			if tt.answers == 100 {
				p.expect("OPTIONS", 400)
				answers++
			}
		}
		for tt.answers != 100 && p.read(patienceFor(0)) != nil {
			answers++
		}
		if answers != tt.answers {
			t.Errorf("%s: %d answers", tt.from, answers)
		}
	}
	st := b.Stats()
	if st.Malformed != 100+messagesPerCall*2 || st.Limited != 98 {
		t.Errorf("%d malformed, %d dropped", st.Malformed, st.Limited)
	}
	p := b.phoneAt("127.0.0.4")
	p.send(newCall(req{method: "OPTIONS"}))
	p.expect("OPTIONS", 200)
}

// A trunk that we called is heard although it is no source.
func TestTrunkOfOursIsKnown(t *testing.T) {
	b, _, _ := gated(t, Access{Required: RequireAlways, Unknown: UnknownDrop}, nil, nil, answering(&script{}))
	p := b.phoneAt("127.0.0.2")
	p.send(newCall(req{method: "OPTIONS"}))
	p.silent(patienceFor(0), "a stranger gets nothing")
	l := b.linkOf(trunkTo("127.0.0.2"))
	l.settle(target{addr: mustAddrPort("127.0.0.2:5060")}, false)
	p.send(newCall(req{method: "OPTIONS"}))
	p.expect("OPTIONS", 200)
}

// While draining everybody hears the same, and nobody is asked for a password.
func TestStrangersWhileDraining(t *testing.T) {
	b, _, _ := gated(t, Access{Required: RequireAlways}, map[string]string{"a": "b"}, nil, answering(&script{}))
	b.Drain(true)
	p := b.phone("udp")
	p.send(newInvite())
	p.expect("INVITE", 503)
}

// One address cannot take all connections.
func TestConnectionsPerSource(t *testing.T) {
	b := start(t, quiet, func(c *Config) { c.MaxConnectionsPerSource = 2 })
	var open []*phone
	for range 2 {
		p := b.phone("tcp")
		p.send(newCall(req{method: "OPTIONS"}))
		p.expect("OPTIONS", 200)
		open = append(open, p)
	}
	third := b.phone("tcp")
	third.conn.SetReadDeadline(time.Now().Add(patience))
	if _, err := third.rd.ReadByte(); err == nil {
		t.Error("a third connection")
	}
	if b.logs.FilterField(zapRule("max_connections_per_source")).Len() != 1 {
		t.Error("no line names the rule")
	}
	from, err := net.DialTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, net.TCPAddrFromAddrPort(b.tcp))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	other := &phone{t: t, conn: from, rd: newReader(from), via: "TCP", addr: from.LocalAddr().String()}
	other.send(newCall(req{method: "OPTIONS"}))
	other.expect("OPTIONS", 200)
	open[0].conn.Close()
	eventually(t, "the place becoming free", func() bool { return b.Stats().Connections == 2 })
	again := b.phone("tcp")
	again.send(newCall(req{method: "OPTIONS"}))
	again.expect("OPTIONS", 200)
	if _, err := b.connect(t.Context(), "tcp", b.tcp, TLS{}, nil); err != nil {
		t.Errorf("a connection of ours: %v", err)
	}
}
