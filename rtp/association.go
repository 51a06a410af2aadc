package rtp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/transport/v5/deadline"
)

const (
	// flight is how many datagrams wait between the wheel and a handshake, each way.
	flight = 16
	// maxRecords is how many datagrams one association takes in all: a handshake
	// needs a dozen.
	maxRecords = 256
	// linger is how long after a handshake the peer may still ask for our last
	// flight again. Protected packets of its own end that sooner.
	linger = 30 * time.Second
)

// association is one DTLS handshake of a session, on a goroutine that ends soon
// after it (there are two more inside the library for as long). The wheel owns the
// socket; datagrams go through two bounded channels.
//
//	wheel ── in ──> handshake goroutine ──> keys
//	wheel <─ out ──        │
//	                       └─ Done
type association struct {
	of      *DTLS
	ctx     context.Context // done when nobody wants it any more
	stop    context.CancelFunc
	in, out chan []byte
	keys    atomic.Pointer[SRTP]

	begun, confirmed happening
	over             atomic.Bool // the goroutine has no more use for datagrams
	taken            int         // the wheel's: datagrams so far
}

// happening is a channel that is closed once; saying so again costs a load.
type happening struct {
	once sync.Once
	done chan struct{}
	past atomic.Bool
}

func (h *happening) now() {
	if !h.past.Load() {
		h.once.Do(func() { close(h.done); h.past.Store(true) })
	}
}

func newAssociation(d *DTLS) *association {
	a := &association{of: d, in: make(chan []byte, flight), out: make(chan []byte, flight)}
	a.ctx, a.stop = context.WithCancel(context.Background())
	a.begun.done, a.confirmed.done = make(chan struct{}), make(chan struct{})
	return a
}

// begin says that there is an address to send to.
func (a *association) begin() { a.begun.now() }

// confirm says that the peer has used its keys.
func (a *association) confirm() { a.confirmed.now() }

// take hands a datagram to the handshake; it says false when there is none.
func (a *association) take(b []byte) bool {
	if a.over.Load() || a.taken >= maxRecords {
		return false
	}
	a.taken++
	select {
	case a.in <- append([]byte(nil), b...):
	default: // it does not keep up; the peer sends it again
	}
	return true
}

// run is the goroutine.
func (a *association) run() {
	defer a.over.Store(true)
	ctx, cancel := context.WithTimeout(a.ctx, a.of.Timeout)
	defer cancel()
	conn := &virtual{a: a, reading: deadline.New()}
	keys, end, err := a.shake(ctx, conn)
	if a.ctx.Err() != nil {
		end()
		return
	}
	if err != nil {
		a.of.Done(0, err)
		return
	}
	a.of.Done(keys.Suite, nil)
	timer := time.NewTimer(linger)
	defer timer.Stop()
	select {
	case <-a.confirmed.done:
	case <-a.ctx.Done():
	case <-timer.C:
	}
	end()
}

// shake waits for the peer to be known, does the handshake and publishes the keys.
// end gives back what the library holds.
func (a *association) shake(ctx context.Context, conn *virtual) (keys Keys, end func(), err error) {
	end = func() {}
	defer func() {
		if v := recover(); v != nil { // the peer chose the bytes
			err = fmt.Errorf("%w: panic: %v", ErrHandshake, v)
		}
	}()
	select {
	case <-a.begun.done:
	case <-ctx.Done():
		return keys, end, fmt.Errorf("%w: nobody came in %v", ErrHandshakeTimeout, a.of.Timeout)
	}
	c, keys, err := a.of.shake(ctx, conn, conn.LocalAddr())
	if err != nil {
		return keys, end, err
	}
	// Not a word more goes out: a close_notify would end the peer's session.
	end = func() { conn.mute.Store(true); _ = c.Close() }
	srtp, err := NewSRTP(keys)
	if err != nil {
		end()
		return keys, func() {}, err
	}
	a.keys.Store(srtp)
	return keys, end, nil
}

// virtual is the net.PacketConn of an association. Its addresses mean nothing: the
// wheel knows where datagrams come from and go.
type virtual struct {
	a       *association
	reading *deadline.Deadline
	mute    atomic.Bool
	closed  atomic.Bool
}

// ReadFrom implements net.PacketConn.
func (v *virtual) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case d := <-v.a.in:
		return copy(b, d), v.LocalAddr(), nil
	case <-v.reading.Done():
		return 0, nil, context.DeadlineExceeded
	case <-v.a.ctx.Done():
		return 0, nil, net.ErrClosed
	}
}

// WriteTo implements net.PacketConn. What does not fit is dropped, as on any network.
func (v *virtual) WriteTo(b []byte, _ net.Addr) (int, error) {
	if v.closed.Load() {
		return 0, net.ErrClosed
	}
	if !v.mute.Load() {
		select {
		case v.a.out <- append([]byte(nil), b...):
		default:
		}
	}
	return len(b), nil
}

// Close implements net.PacketConn.
func (v *virtual) Close() error {
	v.closed.Store(true)
	v.reading.Set(time.Unix(1, 0))
	return nil
}

// LocalAddr implements net.PacketConn.
func (*virtual) LocalAddr() net.Addr { return &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9} }

// SetDeadline implements net.PacketConn.
func (v *virtual) SetDeadline(t time.Time) error { return v.SetReadDeadline(t) }

// SetReadDeadline implements net.PacketConn.
func (v *virtual) SetReadDeadline(t time.Time) error { v.reading.Set(t); return nil }

// SetWriteDeadline implements net.PacketConn; a write never waits.
func (*virtual) SetWriteDeadline(time.Time) error { return nil }

// associate begins a handshake when the flow wants one that is not under way.
func (s *Session) associate(d *DTLS) {
	if a := s.association.Load(); a != nil && a.of == d || a == nil && d == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.association.Load(); old != nil {
		old.stop()
	}
	if d == nil || s.closed.Load() {
		s.association.Store(nil)
		return
	}
	a := newAssociation(d)
	s.association.Store(a)
	s.handshakes.Go(a.run)
}

// record takes a DTLS datagram (RFC 7983). With ICE it is heard from addresses that
// passed a check, without from that of the session description alone.
func (s *Session) record(b []byte, from netip.AddrPort, f *Flow, now time.Duration) {
	a := s.association.Load()
	switch {
	case f.DTLS == nil || a == nil || a.of != f.DTLS:
		s.count.malformed.Add(1)
	case f.ICE != nil && !s.ice.passed(from, now), f.ICE == nil && from != f.Peer:
		s.count.strange.Add(1)
	default:
		s.count.dtls.Add(1)
		a.begin()
		a.take(b)
	}
}

// shaking says that there is a handshake which may have something to say.
func (s *Session) shaking() bool {
	a := s.association.Load()
	return a != nil && !a.over.Load()
}

// flights sends what a handshake has to say.
func (s *Session) flights(f *Flow, now time.Duration) {
	a := s.association.Load()
	if a == nil || len(a.out) == 0 {
		return
	}
	to := f.Peer
	if f.ICE != nil {
		to = s.ice.talkTo(now)
	}
	for range flight {
		select {
		case b := <-a.out:
			if usable(to) && !s.closed.Load() && !s.sock.send(b, to) {
				s.count.sendErrors.Add(1)
			}
		default:
			return
		}
	}
}
