package sip

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func mustAddrPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func zapRule(rule string) zapcore.Field { return zap.String("rule", rule) }

// BR-069.
func TestWhereResponsesGo(t *testing.T) {
	b := start(t, quiet)
	other, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	second := &phone{t: t, conn: other}
	otherPort := other.LocalAddr().(*net.UDPAddr).AddrPort()

	p := b.phone("udp")
	_, port, _ := strings.Cut(p.addr, ":")
	for _, rport := range []string{"rport", "RPORT", "rport=", "rport=9;received=192.0.2.1"} {
		p.send(newCall(req{method: "OPTIONS", via: "SIP/2.0/UDP 10.99.99.99:5078;branch=z9hG4bKa;" + rport + ";x=1"}))
		m := p.expect("OPTIONS", 200)
		if got, want := m.get("Via"), "SIP/2.0/UDP 10.99.99.99:5078;branch=z9hG4bKa;x=1;received=127.0.0.1;rport="+port; got != want {
			t.Errorf("%s: Via %q, want %q", rport, got, want)
		}
	}
	// Without rport: the source's address with the port of Via; maddr moves nothing.
	p.send(newCall(req{method: "OPTIONS", via: "SIP / 2.0 / UDP 10.99.99.99:" + strings.TrimPrefix(otherPort.String(), "127.0.0.1:") +
		" ;branch=z9hG4bKb;maddr=127.0.0.9, SIP/2.0/UDP 1.1.1.1;branch=z9hG4bKc"}))
	m := second.read(patience)
	if m == nil || m.code != 200 || strings.Contains(m.raw, "rport") || !strings.Contains(m.raw, "received=127.0.0.1") {
		t.Fatalf("got %+v", m)
	}
	if v := m.head["via"]; len(v) != 2 || v[1] != "SIP/2.0/UDP 1.1.1.1;branch=z9hG4bKc" {
		t.Errorf("Vias %q", v)
	}
	p.silent(testT1, "nothing for the source's port")
}

// BR-070 and the route set.
func TestWhereByeGoes(t *testing.T) {
	sink, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	proxy := sink.LocalAddr().String()
	tests := []struct {
		name    string
		nat     NAT
		contact string
		record  []string
		proxied bool // arrives at the proxy, else at the phone
		start   string
		routes  []string
	}{
		{"private Contact", NATAuto, "<sip:a@10.1.1.1:5060>", nil, false, "BYE sip:a@10.1.1.1:5060 SIP/2.0", nil},
		{"shared Contact over TCP", NATAuto, "<sip:a@100.64.1.1;transport=tcp>", nil, false, "BYE sip:a@100.64.1.1;transport=tcp SIP/2.0", nil},
		{"Contact elsewhere", NATAuto, "<sip:a@" + proxy + ">;expires=5", nil, true, "BYE sip:a@" + proxy + " SIP/2.0", nil},
		{"Contact elsewhere by name", NATAuto, "sip:a@localhost:" + proxy[10:] + ";q=1", nil, true, "BYE sip:a@localhost:" + proxy[10:] + " SIP/2.0", nil},
		{"always", NATAlways, "<sip:a@" + proxy + ">", nil, false, "BYE sip:a@" + proxy + " SIP/2.0", nil},
		{"loose routes", NATAuto, "<sip:a@10.1.1.1>", []string{"Record-Route: <sip:" + proxy + ";lr>, \"x, y\" <sip:1.1.1.1;lr>", "Record-Route: <sip:2.2.2.2;lr>"}, true,
			"BYE sip:a@10.1.1.1 SIP/2.0", []string{"<sip:" + proxy + ";lr>", "\"x, y\" <sip:1.1.1.1;lr>", "<sip:2.2.2.2;lr>"}},
		{"strict route", NATAuto, "<sip:a@10.1.1.1>", []string{"Record-Route: <sip:" + proxy + ">, <sip:1.1.1.1;lr>"}, true,
			"BYE sip:" + proxy + " SIP/2.0", []string{"<sip:1.1.1.1;lr>", "<sip:a@10.1.1.1>"}},
		{"TCP refused, UDP instead", NATNever, "<sip:a@127.0.0.1:1;transport=tcp>", nil, false, "BYE sip:a@127.0.0.1:1;transport=tcp SIP/2.0", nil},
		{"unknown host", NATAuto, "<sip:a@nowhere.invalid>", nil, false, "BYE sip:a@nowhere.invalid SIP/2.0", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := answering(&script{})
			b := start(t, h.handle, func(c *Config) {
				c.NAT, c.Resolver = tt.nat, names{addrs: map[string]string{"localhost": "127.0.0.1"}}
			})
			p := b.phone("udp")
			inv := newInvite()
			inv.contact, inv.extra = tt.contact, tt.record
			c := p.dial(inv)
			c.ack(1, "")
			d := wait(t, h.calls, "the call")
			result := make(chan error, 1)
			go func() { result <- d.Bye(context.Background(), Reason{}) }()
			at := p
			if tt.proxied {
				at = &phone{t: t, conn: sink}
			}
			bye := at.request("BYE")
			if bye.start != tt.start || strings.Join(bye.head["route"], "|") != strings.Join(tt.routes, "|") {
				t.Errorf("%s with routes %q", bye.start, bye.head["route"])
			}
			if tt.proxied {
				p.replyLike(bye) // any source will do: the branch counts
			} else {
				p.reply(bye, 200)
			}
			if err := wait(t, result, "Bye"); err != nil {
				t.Errorf("Bye: %v", err)
			}
		})
	}
}

func (p *phone) replyLike(m *msg) { p.reply(m, 481) }

// BR-067 for TCP: the connection of the INVITE is gone, another one is made.
func TestByeOverNewConnection(t *testing.T) {
	h := answering(&script{})
	b := start(t, h.handle)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, reachable := range []bool{true, false} {
		p := b.phone("tcp")
		inv := newInvite()
		inv.contact = "<sip:a@" + l.Addr().String() + ";transport=tcp>"
		if !reachable {
			inv.contact = "<sip:a@127.0.0.1:1;transport=tcp>"
		}
		c := p.dial(inv)
		c.ack(1, "")
		d := wait(t, h.calls, "the call")
		wait(t, d.Confirmed(), "the ACK")
		gone := d.flow.conn
		p.conn.Close()
		for !gone.gone.Load() {
			if !b.pause(testT1) {
				t.Fatal("stopped")
			}
		}
		result := make(chan error, 1)
		go func() { result <- d.Bye(context.Background(), Reason{}) }()
		if !reachable {
			if err := wait(t, result, "Bye"); err == nil {
				t.Error("Bye found a way")
			}
			continue
		}
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		p2 := &phone{t: t, conn: conn, rd: newReader(conn)}
		p2.reply(p2.request("BYE"), 200)
		if err := wait(t, result, "Bye"); err != nil {
			t.Errorf("Bye: %v", err)
		}
		conn.Close()
	}
}

func TestBehindNAT(t *testing.T) {
	for _, tt := range []struct {
		nat          NAT
		host, source string
		want         bool
	}{
		{NATAuto, "10.0.0.1", "192.0.2.1", true},
		{NATAuto, "10.0.0.1", "10.0.0.1", false},
		{NATAuto, "192.168.1.1", "10.0.0.1", true},
		{NATAuto, "198.51.100.1", "192.0.2.1", false},
		{NATAuto, "127.0.0.1", "192.0.2.1", true},
		{NATAuto, "127.0.0.1", "127.0.0.2", false},
		{NATAuto, "0.0.0.0", "192.0.2.1", true},
		{NATAuto, "fd00::1", "2001:db8::1", true},
		{NATAuto, "fe80::1", "2001:db8::1", true},
		{NATAuto, "pbx.example.com", "192.0.2.1", false},
		{NATNever, "10.0.0.1", "192.0.2.1", false},
		{NATAlways, "198.51.100.1", "192.0.2.1", true},
	} {
		s := &Server{cfg: Config{NAT: tt.nat}}
		if got := s.behindNAT(tt.host, netip.MustParseAddr(tt.source)); got != tt.want {
			t.Errorf("%s %s from %s: %v", tt.nat, tt.host, tt.source, got)
		}
	}
}
