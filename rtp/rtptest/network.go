// Package rtptest gives tests a network in memory: it loses, doubles, delays and
// reorders packets by a seed, counts exactly what it did, and works under
// testing/synctest, where five minutes of a call pass in a moment.
package rtptest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"parley/rtp"
)

// Conditions are what a network does to packets. The zero value delivers all, in
// order and at once.
type Conditions struct {
	// Loss, Duplicate and Reorder are the shares of packets, 0 to 1, that are
	// dropped, delivered twice, and held back by ReorderBy.
	Loss, Duplicate, Reorder float64
	// ReorderBy is by how much a packet is held back; 0 means 30 ms, one and a
	// half packets.
	ReorderBy time.Duration
	// Delay is what every packet takes; Jitter adds up to that much to each,
	// without changing the order.
	Delay, Jitter time.Duration
}

// Counts is what a network did.
type Counts struct {
	// Sent counts packets written. Each was Lost, or Unreachable because nobody
	// listened at its destination, or handed on; Duplicated counts second copies.
	Sent, Lost, Unreachable, Duplicated uint64
	// Reordered counts packets held back.
	Reordered uint64
	// Delivered counts packets that were read, Unread those under way to a socket
	// when it was closed; both with the copies.
	Delivered, Unread uint64
}

// Network connects the sockets that its Listen made. Safe for concurrent use.
// What happens to the n-th packet of a port depends on the seed alone, not on how
// goroutines interleave.
type Network struct {
	seed uint64

	mu     sync.Mutex
	cond   Conditions
	conns  map[netip.AddrPort]*conn
	next   uint16 // port for "any"
	counts Counts
}

// New makes a network.
func New(seed uint64, c Conditions) *Network {
	return &Network{seed: seed, cond: c, conns: make(map[netip.AddrPort]*conn), next: 40000}
}

// Set changes the conditions for packets sent from now on.
func (n *Network) Set(c Conditions) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cond = c
}

// Counts is what was done so far.
func (n *Network) Counts() Counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.counts
}

// Open is how many sockets are open.
func (n *Network) Open() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.conns)
}

// Listen binds a socket; give it to rtp.WithListen. An address that is not valid
// or unspecified becomes 127.0.0.1, port 0 any even port. A port that is taken is
// an error that wraps syscall.EADDRINUSE.
func (n *Network) Listen(addr netip.AddrPort) (rtp.PacketConn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !addr.Addr().IsValid() || addr.Addr().IsUnspecified() {
		addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), addr.Port())
	}
	if addr.Port() == 0 {
		for n.conns[netip.AddrPortFrom(addr.Addr(), n.next)] != nil {
			n.next += 2
		}
		addr = netip.AddrPortFrom(addr.Addr(), n.next)
		n.next += 2
	}
	if n.conns[addr] != nil {
		return nil, fmt.Errorf("rtptest: listen %v: %w", addr, syscall.EADDRINUSE)
	}
	c := &conn{
		network: n, addr: addr,
		arrived: make(chan struct{}, 1), closed: make(chan struct{}),
		random: rand.New(rand.NewPCG(n.seed, uint64(addr.Port())<<32|uint64(hash(addr.Addr())))),
	}
	n.conns[addr] = c
	return c, nil
}

func hash(a netip.Addr) uint32 {
	h := uint32(2166136261)
	for _, b := range a.As16() {
		h = (h ^ uint32(b)) * 16777619
	}
	return h
}

// send decides the fate of one packet.
func (n *Network) send(c *conn, b []byte, to netip.AddrPort) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counts.Sent++
	// All dice are thrown for every packet: changed conditions do not shift the
	// luck of those that follow.
	lose, double, hold, late := c.random.Float64(), c.random.Float64(), c.random.Float64(), c.random.Float64()
	target := n.conns[to]
	switch {
	case lose < n.cond.Loss:
		n.counts.Lost++
		return
	case target == nil:
		n.counts.Unreachable++
		return
	}
	at := time.Now().Add(n.cond.Delay + time.Duration(late*float64(n.cond.Jitter)))
	if at.Before(c.last) {
		at = c.last
	}
	if hold < n.cond.Reorder {
		n.counts.Reordered++
		by := n.cond.ReorderBy
		if by == 0 {
			by = 30 * time.Millisecond
		}
		at = at.Add(by)
	} else {
		c.last = at
	}
	data := append([]byte(nil), b...)
	target.enqueue(delivery{at: at, from: c.addr, data: data})
	if double < n.cond.Duplicate {
		n.counts.Duplicated++
		target.enqueue(delivery{at: at, from: c.addr, data: data})
	}
}

// delivery is a packet under way.
type delivery struct {
	at   time.Time
	from netip.AddrPort
	data []byte
}

// conn is one socket of a Network.
type conn struct {
	network *Network
	addr    netip.AddrPort
	arrived chan struct{} // something was enqueued
	closed  chan struct{}
	once    sync.Once

	// Under network.mu:
	random *rand.Rand
	last   time.Time  // arrival of the latest packet sent in order
	queue  []delivery // by time of arrival, then of sending
}

// enqueue is called under network.mu.
func (c *conn) enqueue(d delivery) {
	i := len(c.queue)
	for i > 0 && c.queue[i-1].at.After(d.at) {
		i--
	}
	c.queue = append(c.queue, delivery{})
	copy(c.queue[i+1:], c.queue[i:])
	c.queue[i] = d
	select {
	case c.arrived <- struct{}{}:
	default:
	}
}

// take is the oldest packet that has arrived, or how long until one will; wait is
// negative when none is under way.
func (c *conn) take() (d delivery, ok bool, wait time.Duration) {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	if len(c.queue) == 0 {
		return d, false, -1
	}
	if wait := time.Until(c.queue[0].at); wait > 0 {
		return d, false, wait
	}
	d = c.queue[0]
	c.queue = c.queue[1:]
	c.network.counts.Delivered++
	return d, true, 0
}

func (c *conn) ReadFromUDPAddrPort(b []byte) (int, netip.AddrPort, error) {
	for {
		select {
		case <-c.closed:
			return 0, netip.AddrPort{}, net.ErrClosed
		default:
		}
		d, ok, wait := c.take()
		if ok {
			return copy(b, d.data), d.from, nil
		}
		c.wait(wait)
	}
}

// wait returns when something may have arrived.
func (c *conn) wait(d time.Duration) {
	var due <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		due = t.C
	}
	select {
	case <-c.arrived:
	case <-due:
	case <-c.closed:
	}
}

func (c *conn) WriteToUDPAddrPort(b []byte, to netip.AddrPort) (int, error) {
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	default:
	}
	c.network.send(c, b, to)
	return len(b), nil
}

func (c *conn) LocalAddr() net.Addr { return net.UDPAddrFromAddrPort(c.addr) }

func (c *conn) Close() error {
	c.once.Do(func() {
		c.network.mu.Lock()
		delete(c.network.conns, c.addr)
		c.network.counts.Unread += uint64(len(c.queue))
		c.queue = nil
		c.network.mu.Unlock()
		close(c.closed)
	})
	return nil
}
