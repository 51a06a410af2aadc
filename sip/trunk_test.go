package sip

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// Over IPv6, and from a socket bound to all addresses.
func TestTrunkIPv6(t *testing.T) {
	conn, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		t.Skip(err)
	}
	defer conn.Close()
	b := start(t, quiet, func(c *Config) {
		c.Listen = []Listener{{Network: "udp", Addr: "127.0.0.1:0"}, {Network: "udp", Addr: "[::]:0"}}
	})
	p := &phone{t: t, conn: &socket{UDPConn: conn}, via: "UDP", addr: conn.LocalAddr().String()}
	trunk := trunkTo(p.addr)
	trunk.Domain = ""
	r := register(t, b, trunk)
	m := p.fresh("REGISTER")
	own := netip.AddrPortFrom(netip.IPv6Loopback(), b.Addrs()[1].Addr.Port()).String()
	if m.start != "REGISTER sip:[::1] SIP/2.0" || !strings.HasPrefix(m.get("Contact"), "<sip:gw1@"+own+";transport=udp;line=") ||
		!strings.HasPrefix(m.get("Via"), "SIP/2.0/UDP "+own+";") {
		t.Errorf("REGISTER:\n%s", m.raw)
	}
	contact, _, _ := strings.Cut(m.get("Contact"), ";expires")
	p.respond(m, 200, "r", "", "Contact: <sip:other@[2001:db8::1]>;expires=9, "+contact+";expires=600")
	eventually(t, "registered", func() bool { return r.State().Registered })
	if left := time.Until(r.State().Expires); left < 590*time.Second {
		t.Errorf("expires in %v", left)
	}
	result := dial(t.Context(), b, trunk, Outgoing{}, nil)
	inv := p.fresh("INVITE")
	p.respond(inv, 200, "t1", answerSDP, "Contact: <sip:c@"+p.addr+">")
	if ack := p.request("ACK"); ack.start != "ACK sip:c@"+p.addr+" SIP/2.0" {
		t.Errorf("ACK:\n%s", ack.raw)
	}
	got := wait(t, result, "Dial")
	if got.err != nil {
		t.Fatal(got.err)
	}
	go got.d.Bye(context.Background(), Reason{})
	p.reply(p.fresh("BYE"), 200)
	wait(t, got.d.Context().Done(), "the end")
}

func TestLookUp(t *testing.T) {
	s := &Server{cfg: Config{Resolver: names{
		srv: map[string][]*net.SRV{
			"_sips._tcp.example.com": {{Target: "a.example.com.", Port: 5071}, {Target: "missing.example.com.", Port: 1}, {Target: "192.0.2.9", Port: 5072}},
			"_sip._udp.alone.com":    {{Target: "missing.example.com.", Port: 1}},
		},
		addrs: map[string]string{"a.example.com": "192.0.2.1", "example.com": "192.0.2.2"},
	}}}
	for _, tt := range []struct{ network, host, want string }{
		{"tls", "example.com", "192.0.2.1:5071/example.com 192.0.2.9:5072/example.com"},
		{"tls", "example.com:5099", "192.0.2.2:5099/example.com"},
		{"tls", "a.example.com", "192.0.2.1:5061/a.example.com"},
		{"udp", "example.com", "192.0.2.2:5060/example.com"},
		{"tcp", "192.0.2.5", "192.0.2.5:5060/192.0.2.5"},
		{"udp", "alone.com", ""},
		{"udp", "[::1", ""},
	} {
		all, err := s.targets(t.Context(), Trunk{Transport: tt.network, Hosts: []string{tt.host, tt.host}})
		var got []string
		for _, a := range all {
			got = append(got, a.addr.String()+"/"+a.name)
		}
		if strings.Join(got, " ") != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s %s: %q %v", tt.network, tt.host, got, err)
		}
	}
}
