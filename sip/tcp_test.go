package sip

import (
	"context"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// BR-063: one byte for each write, so that line ends arrive alone.
func TestTCPByteByByte(t *testing.T) {
	h := answering(&script{})
	b := start(t, h.handle)
	p := b.phone("tcp")
	inv := newInvite()
	for _, c := range []byte(p.text(inv)) {
		p.write(string(c))
	}
	p.expect("INVITE", 200)
}

// BR-064: several messages in a write, and one and a half.
func TestTCPCoalesced(t *testing.T) {
	b := start(t, quiet)
	p := b.phone("tcp")
	var three strings.Builder
	for range 3 {
		three.WriteString(p.text(newCall(req{method: "OPTIONS"})))
	}
	p.write(three.String())
	for range 3 {
		p.expect("OPTIONS", 200)
	}
	first, second := p.text(newInvite()), p.text(newInvite())
	cut := len(second) - 30 // within the body
	p.write(first + second[:cut])
	p.expect("INVITE", 486)
	p.write(second[cut:])
	p.expect("INVITE", 486)
}

// BR-063, BR-066: line ends between messages, and the answer to a ping.
func TestTCPKeepAlive(t *testing.T) {
	b := start(t, quiet)
	p := b.phone("tcp")
	p.write("\r\n\r\n")
	pong := make([]byte, 2)
	p.conn.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(p.rd, pong); err != nil || string(pong) != "\r\n" {
		t.Fatalf("pong %q, %v", pong, err)
	}
	options := p.text(newCall(req{method: "OPTIONS", body: "1234567890", kind: "a/b"}))
	p.write("\r\n" + options + "\r\n\r\n\r\n" + options)
	p.expect("OPTIONS", 200)
	p.expect("OPTIONS", 200)
}

func TestTCPGarbageCloses(t *testing.T) {
	b := start(t, quiet)
	for name, tt := range map[string]struct {
		text string
		code int
	}{
		"garbage":           {"\x16\x03\x01\x00\xa5", 0},
		"HTTP":              {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 0},
		"no Content-Length": {"OPTIONS sip:a SIP/2.0\r\nVia: SIP/2.0/TCP a;branch=z9hG4bK1\r\nFrom: <sip:a@b>\r\n\r\n", 400},
		"bad one":           {"OPTIONS sip:a SIP/2.0\r\nl: x\r\nVia: SIP/2.0/TCP a;branch=z9hG4bK1\r\n\r\n", 400},
		"no way back":       {"OPTIONS sip:a SIP/2.0\r\nl: x\r\n\r\n", 0},
		"response":          {"SIP/2.0 200 OK\r\nl: x\r\nVia: SIP/2.0/TCP a;branch=z9hG4bK1\r\n\r\n", 0},
		"endless line":      {strings.Repeat("x", 70000), 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := b.phone("tcp")
			p.conn.Write([]byte(tt.text)) // may be cut short
			m := p.read(patience)
			if tt.code == 0 && m != nil || tt.code != 0 && (m == nil || m.code != tt.code) {
				t.Errorf("got %+v, want %d", m, tt.code)
			}
			if _, err := p.rd.ReadByte(); err == nil {
				t.Error("the connection is open")
			}
		})
	}
	if n := b.Stats().Malformed; n < 6 {
		t.Errorf("%d malformed", n)
	}
}

func TestTCPConnectionLimit(t *testing.T) {
	b := start(t, quiet, func(c *Config) { c.MaxConnections = 1 })
	p := b.phone("tcp")
	p.send(newCall(req{method: "OPTIONS"}))
	p.expect("OPTIONS", 200)
	if n := b.Stats().Connections; n != 1 {
		t.Errorf("%d connections", n)
	}
	second := b.phone("tcp")
	second.conn.SetReadDeadline(time.Now().Add(patience))
	if _, err := second.rd.ReadByte(); err == nil {
		t.Error("a second connection")
	}
	if _, err := b.connect(t.Context(), "tcp", b.tcp, TLS{}, nil); err == nil {
		t.Error("connect beyond the limit")
	}
}

// A response does not get lost for its size, over UDP either.
func TestLargeResponse(t *testing.T) {
	big := offerSDP + strings.Repeat("a=x-filler:0123456789012345678901234567890123456789\r\n", 100)
	b := start(t, func(_ context.Context, inv *Invite) { inv.Answer([]byte(big), nil) })
	for _, network := range networks {
		c := b.phone(network).dial(newInvite())
		if c.ok.body != big {
			t.Errorf("%s: %d bytes of %d", network, len(c.ok.body), len(big))
		}
	}
}

// Connections of ours need no listener; their own address is then the Contact.
func TestConnectWithoutListener(t *testing.T) {
	other := start(t, quiet)
	b := start(t, quiet, func(c *Config) { c.Listen = c.Listen[:1] })
	f, err := b.connect(t.Context(), "tcp", other.tcp, TLS{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if f.transport() != "TCP" || f.sentBy() != f.local.String() {
		t.Errorf("%s %s", f.transport(), f.sentBy())
	}
	if _, err := b.listenerFor("udp", netip.IPv6Loopback()); err == nil {
		t.Error("IPv6 over a socket for IPv4")
	}
}

func TestFramer(t *testing.T) {
	message := "INFO sip:a SIP/2.0\r\nl : 4\r\nX: y\r\n\r\n\r\n\r\n"
	for step := 1; step <= len(message); step++ {
		f := framer{max: 1000}
		stream := "\r\n\r\n" + message + "\r\n" + message + "\r\n\r\n"
		var got []string
		pings := 0
		for i := 0; i < len(stream); i += step {
			f.push([]byte(stream[i:min(i+step, len(stream))]))
			for {
				m, n, err := f.next()
				if err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
				pings += n
				if m == nil {
					break
				}
				got = append(got, string(m))
			}
		}
		if len(got) != 2 || got[0] != message || got[1] != message || pings != 2 || f.partial() {
			t.Errorf("step %d: %q, %d pings", step, got, pings)
		}
	}
}

func FuzzFramer(f *testing.F) {
	f.Add([]byte("OPTIONS sip:a SIP/2.0\r\nContent-Length: 3\r\n\r\nabc\r\n\r\nSIP/2.0 200 OK\r\nl: 0\r\n\r\n"), uint8(3))
	f.Add([]byte("\r\n\r\n\r\n\x00"), uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		frames := framer{max: 4096}
		n := max(int(step), 1)
		for i := 0; i < len(b); i += n {
			frames.push(b[i:min(i+n, len(b))])
			for {
				m, _, err := frames.next()
				if err != nil {
					return
				}
				if m == nil {
					break
				}
				if len(m) > 4096 {
					t.Fatalf("%d bytes", len(m))
				}
			}
			if len(frames.buf) > 4096+n {
				t.Fatalf("holds %d bytes", len(frames.buf))
			}
		}
	})
}
