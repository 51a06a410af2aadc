package sip

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"parley/sip/torture"
)

// fuzzed is a server that is given datagrams without a socket of its own between:
// its answers go out to an address where nobody reads.
func fuzzed(t testing.TB, change func(*Config)) (*Server, *flow) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Listen = []Listener{{Network: "udp", Addr: "127.0.0.1:0"}}
	cfg.T1, cfg.T2, cfg.T4 = time.Millisecond, 4*time.Millisecond, 2*time.Millisecond
	cfg.MaxTransactions = 100
	change(&cfg)
	s, err := NewServer(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- s.Serve(ctx, func(_ context.Context, inv *Invite) {
			if len(inv.Header("X-Busy")) > 0 {
				inv.Reject(&RejectError{Code: 486, Rule: "test"})
				return
			}
			d, err := inv.Answer([]byte(offerSDP), &script{info: true})
			if err == nil && inv.To().URI.User == "bye" {
				d.Bye(ctx, Reason{})
			}
		})
	}()
	sink, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		sink.Close()
	})
	serving := func() (l *listener) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.serving {
			return nil
		}
		return s.listeners[0]
	}
	l := serving()
	for ; l == nil; l = serving() {
		runtime.Gosched()
	}
	return s, &flow{lis: l, local: l.bound(), remote: sink.LocalAddr().(*net.UDPAddr).AddrPort()}
}

// FuzzReceive throws whole datagrams at the receive path: parser, validation,
// transactions, dialogs. Nothing may panic, and the tables stay within their
// bounds. Behind a gate it goes as well.
func FuzzReceive(f *testing.F) {
	all, err := torture.Messages()
	if err != nil {
		f.Fatal(err)
	}
	for _, m := range all {
		f.Add(m.Bytes("UDP", "127.0.0.1:5060", "fuzz"))
	}
	p := &phone{via: "UDP", addr: "127.0.0.1:5060"}
	for _, r := range []req{newInvite(), newCall(req{method: "CANCEL"}), newCall(req{method: "BYE", to: "<sip:a@b>;tag=1"}), newCall(req{method: "PRACK", extra: []string{"RAck: 1 1 INVITE"}}),
		newCall(req{method: "UPDATE", body: offerSDP, kind: "application/sdp", extra: []string{"Session-Expires: 90;refresher=uac", "Min-SE: 90"}}),
		newCall(req{method: "REFER", extra: []string{"Refer-To: <sip:a@b?Replaces=x%3Bto-tag%3D1>"}})} {
		f.Add([]byte(p.text(r)))
	}
	s, fl := fuzzed(f, func(*Config) {})
	g, err := NewGate(Access{Realm: "example.com", Required: RequireAlways, Unknown: UnknownDrop}, map[string]string{"alice": "secret"}, nil)
	if err != nil {
		f.Fatal(err)
	}
	behind, gf := fuzzed(f, func(c *Config) { c.Gate = g })
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > maxDatagram {
			return
		}
		for _, one := range []struct {
			s *Server
			f *flow
		}{{s, fl}, {behind, gf}} {
			one.s.receive(one.f, bytes.Clone(b))
			if n := one.s.Stats(); n.Panics != 0 {
				t.Fatalf("%d panics", n.Panics)
			} else if n.Transactions > 2*one.s.cfg.MaxTransactions {
				t.Fatalf("%d transactions", n.Transactions)
			}
		}
	})
}

// FuzzStream does the same by a connection and by a WebSocket, in pieces.
func FuzzStream(f *testing.F) {
	p := &phone{via: "TCP", addr: "127.0.0.1:5060"}
	text := []byte(p.text(newInvite()))
	f.Add(append(text, text...), uint16(100))
	f.Add(maskedFrame(0x80|wsText, text), uint16(7))
	f.Add([]byte("\r\n\r\nOPTIONS sip:a SIP/2.0\r\nl: 0\r\n\r\n"), uint16(1))
	s, _ := fuzzed(f, func(*Config) {})
	f.Fuzz(func(t *testing.T, b []byte, step uint16) {
		for _, frames := range []stream{&tcpStream{framer{max: s.cfg.MaxMessage}}, &wsStream{wsFramer{max: s.cfg.MaxMessage}}} {
			c := &tcpConn{conn: nowhere{}, over: make(chan struct{})}
			fl := &flow{lis: &listener{cfg: Listener{Network: "tcp"}, host: "a", port: 1}, conn: c, remote: mustAddrPort("127.0.0.1:5060"), local: mustAddrPort("127.0.0.1:5060")}
			n := max(int(step), 1)
			for i := 0; i < len(b); i += n {
				frames.push(b[i:min(i+n, len(b))])
				if _, err := frames.drain(s, fl); err != nil {
					break
				}
			}
			if s.Stats().Panics != 0 {
				t.Fatal("panic")
			}
		}
	})
}

// nowhere is a connection that takes everything and gives nothing.
type nowhere struct{ net.Conn }

func (nowhere) Write(b []byte) (int, error)      { return len(b), nil }
func (nowhere) SetWriteDeadline(time.Time) error { return nil }
func (nowhere) SetDeadline(time.Time) error      { return nil }
func (nowhere) Close() error                     { return nil }
func (nowhere) RemoteAddr() net.Addr             { return &net.TCPAddr{} }

// Attackers' datagrams from 20,000 addresses: nothing is kept of them. The full
// version, over the network and with calls beside it, is in test/attack.
func TestSpoofedSourcesLeaveNothing(t *testing.T) {
	g, err := NewGate(Access{Realm: "example.com", Required: RequireAlways, RatePerSource: 10, RateBurst: 30}, map[string]string{"alice": "secret"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, fl := fuzzed(t, func(c *Config) { c.Gate = g })
	text := (&phone{via: "UDP", addr: "127.0.0.1:9"}).text(newInvite())
	for i := range 20000 {
		from := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 127<<24|uint32(i)<<4|1)))
		one := *fl
		one.remote = netip.AddrPortFrom(from, 9)
		s.receive(&one, []byte(strings.ReplaceAll(text, "call-", "call-"+from.String())))
	}
	st := s.Stats()
	if st.Transactions != 0 || st.Dialogs != 0 || st.Responses[401] != 20000 || st.Limited != 0 {
		t.Errorf("%+v", st)
	}
}
