package rtp

import (
	"math/rand/v2"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Session is one RTP port: a stream in, a stream out. Its methods may be called
// from any goroutine.
type Session struct {
	wheel *Wheel
	sock  socket
	local netip.AddrPort
	port  uint16 // of the wheel's range; 0 when the system chose

	flow   atomic.Pointer[Flow]
	rearms atomic.Uint32 // how often SetFlow asked to open the latch
	closed atomic.Bool   // set first thing in Close: nothing is sent any more
	count  counters
	fault  chan struct{}
	err    atomic.Pointer[FaultError]

	association atomic.Pointer[association] // changed under mu
	handshakes  sync.WaitGroup

	mu     sync.Mutex // orders Join, Close and handshakes
	joined bool
	gone   chan struct{} // closed when Close is done

	// What follows is the wheel's alone, from Join until it left.
	handler Handler
	events  EventSender // handler, if it is one
	index   int         // in Wheel.sessions; -1 when not there
	phase   int         // of the wheel's load
	seen    *Flow       // the flow applied last
	armed   uint32      // the value of rearms applied last
	latch   latch
	seq     sequence
	out     sender
	guard   guard
	ice     lite
	control control
	packet  Packet        // handed to the Handler
	resync  bool          // a new space began with a packet that was not delivered
	rest    time.Duration // the socket is left alone until this tick; 0: it was not
	regular uint32        // packets on time
	empty   bool          // the last look at the socket found its end
	paced   struct {      // the packet before, for pace
		seq uint16
		ts  uint32
	}
}

func newSession(w *Wheel, sock socket, port uint16) *Session {
	s := &Session{
		wheel: w, sock: sock, port: port, local: sock.local(),
		fault: make(chan struct{}), gone: make(chan struct{}), index: -1,
		latch: latch{packets: w.cfg.LatchPackets, wait: w.cfg.LatchWait, relatch: w.cfg.Relatch},
		// RFC 3550 section 5.1 wants all three random.
		out: sender{ssrc: rand.Uint32(), seq: uint16(rand.Uint32()), ts: rand.Uint32(), mark: true},
	}
	if r, ok := sock.(refuser); ok {
		r.onRefusal(s.refused)
	}
	s.control.name()
	s.count.ssrc.Store(s.out.ssrc)
	return s
}

// Local is the bound address and port. The address is unspecified when all are
// bound.
func (s *Session) Local() netip.AddrPort { return s.local }

// SetFlow replaces what was agreed; it holds from the next packet on. It may be
// called at any time, also before Join.
func (s *Session) SetFlow(f Flow) {
	f.Peer, f.RTCP = unmap(f.Peer), unmap(f.RTCP)
	s.associate(f.DTLS)
	s.flow.Store(&f)
	if f.Rearm {
		// After the flow, so that whoever sees the number sees the peer too. A
		// number, for two calls between two packets must not lose the opening.
		s.rearms.Add(1)
	}
	s.wheel.command(&command{session: s})
}

// Join lets the wheel turn the session for h from the next tick on. What had
// arrived before is dropped (it was said before the call was answered). Once
// only; later calls, and calls after Close, do nothing.
func (s *Session) Join(h Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.joined || s.closed.Load() {
		return
	}
	s.joined = true
	s.wheel.command(&command{session: s, join: h})
}

// Stats are the figures so far.
func (s *Session) Stats() Stats {
	return s.count.snapshot()
}

// Fault is closed when the Handler panicked: the session has left the wheel and
// Err says why. It must still be closed.
func (s *Session) Fault() <-chan struct{} { return s.fault }

// Err is a *FaultError when the Handler panicked, else nil.
func (s *Session) Err() error {
	if err := s.err.Load(); err != nil {
		return err
	}
	return nil
}

// Close takes the session off the wheel, closes its socket and puts the port into
// quarantine. Nothing is sent after the call began, not even an RTCP BYE (see Bye), and no Handler method runs
// after it returned, two ticks later at most. It may be called again, but not from
// a Handler: it waits for the wheel.
func (s *Session) Close() {
	s.mu.Lock()
	first := !s.closed.Swap(true)
	joined := s.joined
	s.mu.Unlock()
	if !first {
		<-s.gone // a channel, so that a test with a clock of its own can wait too
		return
	}
	defer close(s.gone)
	if joined {
		left := make(chan struct{})
		s.wheel.command(&command{session: s, left: left})
		select {
		case <-left:
		case <-s.wheel.stopped:
		}
	}
	if a := s.association.Load(); a != nil {
		a.stop()
	}
	s.handshakes.Wait()
	s.sock.close()
	if sock := s.control.sock.Load(); sock != nil {
		(*sock).close()
	}
	s.wheel.forget(s)
}

// turn is one tick of the session. It says false when the Handler panicked.
func (s *Session) turn(tick, now time.Duration) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			s.err.Store(&FaultError{Value: v, Stack: debug.Stack()})
			close(s.fault)
		}
	}()
	if s.drain(tick, now) {
		s.handler.Turn(now)
	}
	if f := s.seen; f != nil && f.DTLS != nil {
		s.flights(f, now)
	}
	s.slots(tick, now)
	if now >= s.control.due {
		s.reports(now)
	}
	return true
}

// due is the tick at which the session has something to do again, 0 for the next.
func (s *Session) due() time.Duration {
	f := s.seen
	if f == nil || s.rest == 0 || f.DTLS != nil && s.shaking() {
		return 0
	}
	next := min(s.rest, s.control.due)
	if f.PacketTime > 0 && f.ClockRate > 0 {
		next = min(next, s.out.next)
	}
	return next
}

// current is the flow that holds now, with what its arrival changes applied; nil
// when none was set.
func (s *Session) current(now time.Duration) *Flow {
	armed := s.rearms.Load()
	f := s.flow.Load()
	if f != s.seen || armed != s.armed {
		if armed != s.armed || s.seen == nil {
			s.latch.arm(f.Peer, now)
			s.control.rearm()
		}
		s.seen, s.armed = f, armed
		s.apply(f, now)
	} else if f != nil && f.DTLS != nil && s.guard.keys == nil {
		s.protect(f, now) // the handshake may have ended
	}
	return f
}

// apply puts the protection of a new flow into force.
func (s *Session) apply(f *Flow, now time.Duration) {
	if f.ICE != s.ice.of {
		s.ice.restart(f.ICE)
	}
	if f.DTLS != nil && f.ICE == nil {
		if a := s.association.Load(); a != nil {
			a.begin() // the address is known
		}
	}
	s.protect(f, now)
}

// publish shows where we send, for Stats.
func (s *Session) publish(to netip.AddrPort) {
	if r := s.count.remote.Load(); r == nil || *r != to {
		changed := to // allocated here and not in every slot
		s.count.remote.Store(&changed)
	}
}
