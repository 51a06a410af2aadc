package sip

import (
	"net/netip"
	"testing"

	"go.uber.org/zap"
)

// BenchmarkInvite is what an INVITE costs without its call: reading, checking, and the
// text of three responses.
func BenchmarkInvite(b *testing.B) {
	s, err := NewServer(DefaultConfig(), zap.NewNop())
	if err != nil {
		b.Fatal(err)
	}
	p := &phone{via: "UDP", addr: "127.0.0.1:5060"}
	raw := []byte(p.text(newInvite()))
	f := &flow{lis: &listener{cfg: Listener{Network: "udp"}}, remote: netip.MustParseAddrPort(p.addr)}
	b.ReportAllocs()
	for b.Loop() {
		m := parse(s.parser, raw)
		m.flow = f
		if m.via, err = parseVia(m.all("via")); err != nil {
			b.Fatal(err)
		}
		if r := m.validate(1 << 16); r != nil {
			b.Fatal(r.Text)
		}
		for _, code := range []int{100, 180, 200} {
			s.response(m, code, "", "tag", nil, nil)
		}
	}
}
