package rtp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// PacketConn is the part of net.UDPConn that the goroutine driver needs.
type PacketConn interface {
	// ReadFromUDPAddrPort blocks for a datagram, or until Close.
	ReadFromUDPAddrPort(b []byte) (n int, addr netip.AddrPort, err error)
	// WriteToUDPAddrPort does not wait for anybody.
	WriteToUDPAddrPort(b []byte, addr netip.AddrPort) (n int, err error)
	// LocalAddr is a *net.UDPAddr.
	LocalAddr() net.Addr
	Close() error
}

// listenUDP is the system's way to bind a socket.
func listenUDP(dscp int) func(netip.AddrPort) (PacketConn, error) {
	return func(addr netip.AddrPort) (PacketConn, error) {
		lc := net.ListenConfig{Control: markDSCP(dscp)}
		host := ""
		if addr.Addr().IsValid() {
			host = addr.Addr().String()
		}
		network := "udp"
		if addr.Addr().Is4() {
			network = "udp4"
		}
		c, err := lc.ListenPacket(context.Background(), network, net.JoinHostPort(host, fmt.Sprint(addr.Port())))
		if err != nil {
			return nil, err
		}
		return c.(*net.UDPConn), nil
	}
}

// queued is how many datagrams wait for the wheel, a power of two: more than half
// a second of sound.
const queued = 64

// maxFailed is how many errors in a row end a reader.
const maxFailed = 1000

// connSocket is a PacketConn read by a goroutine of its own, which hands over
// through a ring with one writer and one reader: the wheel waits for nobody.
type connSocket struct {
	conn PacketConn
	addr netip.AddrPort
	done sync.WaitGroup

	written, read atomic.Uint32 // how many, ever
	ring          []datagram
	held          bool      // the wheel has the oldest
	heldAt        time.Time // its arrival
}

type datagram struct {
	b    []byte
	from netip.AddrPort
	at   time.Time
}

func bindPacketConn(w *Wheel, port uint16, queue uint32) (socket, error) {
	conn, err := w.listen(netip.AddrPortFrom(w.cfg.Addr, port))
	if err != nil {
		return nil, err
	}
	c := &connSocket{conn: conn, ring: make([]datagram, queue)}
	if a, ok := conn.LocalAddr().(*net.UDPAddr); ok {
		c.addr = unmap(a.AddrPort())
	}
	c.done.Go(c.readAll)
	return c, nil
}

// readAll reads until the connection is closed. When the wheel does not keep up
// the newest are dropped, as a full socket buffer does.
func (c *connSocket) readAll() {
	var b [maxDatagram + 1]byte
	for failed := 0; failed < maxFailed; {
		n, from, err := c.conn.ReadFromUDPAddrPort(b[:])
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // some systems tell here that the peer's port is closed
			failed++
			continue
		}
		failed = 0
		if n > maxDatagram {
			n = 0
		}
		at := c.written.Load()
		if at-c.read.Load() == uint32(len(c.ring)) {
			continue
		}
		d := &c.ring[at%uint32(len(c.ring))]
		d.b = append(d.b[:0], b[:n]...)
		d.from, d.at = unmap(from), time.Now()
		c.written.Store(at + 1)
	}
}

func (c *connSocket) recv() ([]byte, netip.AddrPort, bool) {
	at := c.read.Load()
	if c.held {
		at++
		c.held = false
		c.read.Store(at)
	}
	if at == c.written.Load() {
		return nil, netip.AddrPort{}, false
	}
	c.held = true // given back at the next recv
	d := &c.ring[at%uint32(len(c.ring))]
	c.heldAt = d.at
	return d.b, d.from, true
}

func (c *connSocket) age() time.Duration {
	if !c.held {
		return 0
	}
	return time.Since(c.heldAt)
}

func (c *connSocket) send(b []byte, to netip.AddrPort) bool {
	_, err := c.conn.WriteToUDPAddrPort(b, to)
	return err == nil
}

func (c *connSocket) local() netip.AddrPort { return c.addr }

func (c *connSocket) close() {
	c.conn.Close()
	c.done.Wait()
}

// unmap writes an IPv4 address in its own form and leaves the zone out, so that
// addresses can be compared.
func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
