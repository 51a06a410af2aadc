// Package faults is a proxy on loopback that does to connections what networks and
// services do to them: refuses, resets, stalls, garbles and slows them down, in the middle
// of whatever goes over them.
package faults

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Fault is what happens to connections.
type Fault struct {
	// Refuse closes new connections at once, with a reset.
	Refuse bool
	// Stall keeps connections open and lets nothing through, in either direction, until
	// the fault is over; then what waited goes on.
	Stall bool
	// Garble changes every byte that comes from the service.
	Garble bool
	// Rate lets so many bytes a second come from the service. 0: all.
	Rate int
}

// Proxy passes TCP connections on to a service.
type Proxy struct {
	listener net.Listener
	target   string
	wait     sync.WaitGroup

	mu      sync.Mutex
	fault   Fault
	changed chan struct{} // closed when fault changes
	pairs   map[*pair]struct{}
	opened  int
	closed  bool
}

// pair is a connection and its other half.
type pair struct{ client, service *net.TCPConn }

// Start starts a proxy before a service, "127.0.0.1:8080", until the test ends.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, target: target, changed: make(chan struct{}), pairs: map[*pair]struct{}{}}
	p.wait.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Addr is where the proxy listens, as host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set makes a fault happen, to the connections that are open too. The zero value ends
// it.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	close(p.changed)
	p.changed = make(chan struct{})
}

// Reset cuts all connections off as a machine that has lost its memory does.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		c.reset()
	}
}

// Opened is how many connections came so far, Open how many there are now.
func (p *Proxy) Opened() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened
}

// Open is how many connections there are now.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pairs)
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	close(p.changed)
	for c := range p.pairs {
		c.reset()
	}
	p.mu.Unlock()
	_ = p.listener.Close()
	p.wait.Wait()
}

func (c *pair) reset() {
	for _, conn := range []*net.TCPConn{c.client, c.service} {
		_ = conn.SetLinger(0) // RST instead of FIN
		_ = conn.Close()
	}
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		client, ok := conn.(*net.TCPConn)
		if !ok {
			_ = conn.Close()
			continue
		}
		p.wait.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client *net.TCPConn) {
	f, _, over := p.now()
	if over || f.Refuse {
		_ = client.SetLinger(0)
		_ = client.Close()
		p.mu.Lock()
		p.opened++
		p.mu.Unlock()
		return
	}
	conn, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	service, ok := conn.(*net.TCPConn)
	if err != nil || !ok {
		_ = client.Close()
		return
	}
	c := &pair{client, service}
	p.mu.Lock()
	p.opened++
	p.pairs[c] = struct{}{}
	if p.closed {
		c.reset()
	}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.pump(service, client, false) })
	both.Go(func() { p.pump(client, service, true) })
	both.Wait()
	_ = client.Close()
	_ = service.Close()
	p.mu.Lock()
	delete(p.pairs, c)
	p.mu.Unlock()
}

// now is the fault in force, a channel that closes when it changes, and whether the
// proxy is over.
func (p *Proxy) now() (f Fault, changed <-chan struct{}, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.changed, p.closed
}

// pump passes bytes on from one side to the other until either ends.
func (p *Proxy) pump(to, from *net.TCPConn, fromService bool) {
	buf := make([]byte, 16<<10)
	for {
		limit := len(buf)
		if f, _, _ := p.now(); fromService && f.Rate > 0 {
			limit = min(limit, max(1, f.Rate/20))
		}
		n, err := from.Read(buf[:limit])
		if n > 0 && !p.pass(to, buf[:n], fromService) {
			return
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				_ = to.CloseWrite()
			} else {
				_ = to.SetLinger(0)
				_ = to.Close()
			}
			return
		}
	}
}

// pass writes b when the fault in force lets it, and as that says.
func (p *Proxy) pass(to *net.TCPConn, b []byte, fromService bool) bool {
	for {
		f, changed, over := p.now()
		if over {
			return false
		}
		if f.Stall {
			<-changed
			continue
		}
		if fromService && f.Garble {
			for i := range b {
				b[i] ^= 0x55
			}
		}
		if fromService && f.Rate > 0 {
			timer := time.NewTimer(time.Duration(len(b)) * time.Second / time.Duration(f.Rate))
			select {
			case <-timer.C:
			case <-changed: // it may be over
				timer.Stop()
			}
		}
		_, err := to.Write(b)
		return err == nil
	}
}
