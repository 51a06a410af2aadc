package sip

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/icholy/digest"
)

// socket is a bound UDP socket as a net.Conn: what is written goes to whoever sent
// last.
type socket struct {
	*net.UDPConn
	mu   sync.Mutex
	last net.Addr
}

func (s *socket) Read(b []byte) (int, error) {
	n, from, err := s.ReadFrom(b)
	if err == nil {
		s.mu.Lock()
		s.last = from
		s.mu.Unlock()
	}
	return n, err
}

func (s *socket) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.WriteTo(b, s.last)
}

// listenPhone is a phone that is called: it waits for requests on UDP.
func listenPhone(t *testing.T) *phone {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &phone{t: t, conn: &socket{UDPConn: conn}, via: "UDP", addr: conn.LocalAddr().String()}
}

// acceptPhone is the same on an accepted connection.
func acceptPhone(t *testing.T, l net.Listener) *phone {
	t.Helper()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &phone{t: t, conn: conn, rd: newReader(conn), via: "TCP", addr: l.Addr().String()}
}

// respond answers a request with a To tag, more headers, and a body.
func (p *phone) respond(m *msg, code int, tag, body string, extra ...string) {
	p.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "SIP/2.0 %d Test\r\n", code)
	for _, n := range []string{"Via", "From", "To", "Call-ID", "CSeq"} {
		v := m.get(n)
		if n == "To" && tag != "" && !strings.Contains(v, ";tag=") {
			v += ";tag=" + tag
		}
		fmt.Fprintf(&b, "%s: %s\r\n", n, v)
	}
	for _, e := range extra {
		b.WriteString(e + "\r\n")
	}
	if body != "" {
		b.WriteString("Content-Type: application/sdp\r\n")
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
	p.write(b.String())
}

// fresh reads the next request with the method that is not a copy of one that it
// returned before.
func (p *phone) fresh(method string) *msg {
	p.t.Helper()
	if p.seen == nil {
		p.seen = make(map[string]bool)
	}
	for {
		m := p.request(method)
		if key := m.get("Via") + m.get("CSeq"); !p.seen[key] {
			p.seen[key] = true
			return m
		}
	}
}

// copied sends a copy of a 2xx, more when it comes while the ACK of the first is
// still being noted down, and expects a copy of the ACK.
func (p *phone) copied(ack *msg, send func()) {
	p.t.Helper()
	for range 50 {
		send()
		if m := p.read(5 * testT1); m != nil && m.method == "ACK" {
			if m.raw != ack.raw {
				p.t.Errorf("not a copy:\n%s", m.raw)
			}
			return
		}
	}
	p.t.Error("no ACK for a copy")
}

// proves checks the credentials of a request for a realm as a server would.
func proves(t *testing.T, m *msg, header, realm, user, password string) (nonce, count string) {
	t.Helper()
	for _, v := range m.head[strings.ToLower(header)] {
		c, err := digest.ParseCredentials(strings.ReplaceAll(v, ",", ", "))
		if err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		if c.Realm != realm {
			continue
		}
		ch := &digest.Challenge{Realm: realm, Nonce: c.Nonce, Algorithm: c.Algorithm}
		if c.QOP != "" {
			ch.QOP = []string{c.QOP}
		}
		want, err := digest.Digest(ch, digest.Options{Method: m.method, URI: strings.Fields(m.start)[1], Count: c.Nc, Username: user, Password: password, Cnonce: c.Cnonce})
		if err != nil || want.Response != c.Response {
			t.Errorf("wrong digest (%v): %s", err, v)
		}
		return c.Nonce, fmt.Sprintf("%08x", c.Nc)
	}
	t.Errorf("no %s for %q in\n%s", header, realm, m.raw)
	return "", ""
}

// trunkTo is a trunk at the address, quick to try again.
func trunkTo(hosts ...string) Trunk {
	t := DefaultTrunk()
	t.Name, t.Hosts, t.Domain, t.User, t.Password = "carrier", hosts, "example.com", "gw1", "secret"
	t.Backoff, t.MaxBackoff, t.KeepAlive = 2*testT1, 8*testT1, 0
	return t
}

// eventually waits until f is true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !f(); time.Sleep(testT1 / 4) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not happen", what)
		}
	}
}

// names is a Resolver from tables.
type names struct {
	srv   map[string][]*net.SRV
	addrs map[string]string
}

func (n names) LookupSRV(_ context.Context, service, proto, name string) (string, []*net.SRV, error) {
	if r := n.srv["_"+service+"._"+proto+"."+name]; r != nil {
		return name, r, nil
	}
	return "", nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if a := n.addrs[host]; a != "" {
		return []netip.Addr{netip.MustParseAddr(a)}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}
