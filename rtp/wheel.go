package rtp

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/stun/v3"
)

// spread is the time over which the first slots of sessions are spread.
const spread = 20 * time.Millisecond

// Option changes how NewWheel works.
type Option func(*Wheel)

// WithListen gives the function that binds sockets, in place of the system's. It
// implies the goroutine driver. The port is 0 for "any"; a port that is taken is
// an error that wraps syscall.EADDRINUSE.
func WithListen(listen func(addr netip.AddrPort) (PacketConn, error)) Option {
	return func(w *Wheel) { w.listen = listen }
}

// Wheel turns the sessions of many calls on one goroutine. Its methods may be
// called from any goroutine.
type Wheel struct {
	cfg    Config
	listen func(netip.AddrPort) (PacketConn, error)
	bind   binder
	batch  batch  // nil: each socket by itself
	driver string // chosen
	ports  *Ports // nil when the system chooses
	began  time.Time

	mu     sync.Mutex // never taken by the turning goroutine
	open   map[*Session]struct{}
	closed bool

	commands atomic.Pointer[command] // a stack, newest first
	wake     chan struct{}           // for a wheel at rest
	stop     chan struct{}
	stopped  chan struct{}

	turns, missed, skipped, faults atomic.Uint64
	longest, turning               atomic.Int64
	lateness                       histogram

	// The turning goroutine's alone.
	sessions []*Session
	dues     []time.Duration // when each has something to do; beside them, so that the idle ones are not touched
	load     []int           // sessions by phase
	in       [maxDatagram]byte
	plain    [maxDatagram]byte // what was decrypted
	out      [headerSize + maxPayload + trailer]byte
	request  stun.Message // a connectivity check
	reply    stun.Message
}

// NewWheel checks cfg, probes that the address can be bound and starts turning.
func NewWheel(cfg Config, options ...Option) (*Wheel, error) {
	w, err := newWheel(cfg, options...)
	if err != nil {
		return nil, err
	}
	go w.run()
	return w, nil
}

// newWheel makes a wheel that does not turn yet.
func newWheel(cfg Config, options ...Option) (*Wheel, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	w := &Wheel{
		cfg: cfg, began: time.Now(), open: make(map[*Session]struct{}),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
		load: make([]int, max(1, spread/cfg.Tick)),
	}
	for _, o := range options {
		o(w)
	}
	if err := w.choose(); err != nil {
		return nil, err
	}
	if cfg.PortMin != 0 {
		w.ports = newPorts(cfg.PortMin, cfg.PortMax, cfg.Quarantine)
	}
	probe, err := w.bind(w, 0, queued)
	if err != nil {
		w.release()
		return nil, fmt.Errorf("rtp: cannot bind %v: %w (is it an address of this machine?)", cfg.Addr, err)
	}
	probe.close()
	return w, nil
}

// choose picks the driver.
func (w *Wheel) choose() error {
	w.driver = w.cfg.Driver
	switch {
	case w.driver != DriverAuto:
	case w.listen != nil || rawBinder == nil:
		w.driver = DriverGoroutine
	case batchOpener(w) == nil:
		w.driver = DriverUring
		return nil
	default:
		w.driver = DriverRaw
	}
	switch {
	case w.driver == DriverGoroutine:
		if w.listen == nil {
			w.listen = listenUDP(w.cfg.DSCP)
		}
		w.bind = bindPacketConn
	case rawBinder == nil:
		return fmt.Errorf("rtp: the %s driver is for Linux only", w.driver)
	case w.listen != nil:
		return fmt.Errorf("rtp: the %s driver cannot use sockets given by WithListen", w.driver)
	case w.driver == DriverRaw:
		w.bind = rawBinder
	default:
		if err := batchOpener(w); err != nil {
			return fmt.Errorf("rtp: the uring driver: %w (it may be forbidden here; auto does without)", err)
		}
	}
	return nil
}

// Driver is the driver that was chosen: "uring", "raw" or "goroutine".
func (w *Wheel) Driver() string { return w.driver }

// Listen reserves a port and binds its socket, which holds what arrives until
// Join. The session is not turned before. The error wraps ErrNoPort when the range
// is used up, and ErrClosed on a closed wheel.
func (w *Wheel) Listen() (*Session, error) {
	var sock socket
	bind := func(port uint16) (err error) {
		sock, err = w.bind(w, port, queued)
		return err
	}
	var port uint16
	var err error
	if w.ports != nil {
		port, err = w.ports.Take(w.Now(), bind)
	} else {
		err = bind(0)
	}
	if errors.Is(err, ErrNoPort) {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("rtp: bind %v: %w", w.cfg.Addr, err)
	}
	s := newSession(w, sock, port)
	w.mu.Lock()
	closed := w.closed
	if !closed {
		w.open[s] = struct{}{}
	}
	w.mu.Unlock()
	if closed {
		s.Close()
		return nil, ErrClosed
	}
	return s, nil
}

// forget gives back what a closed session held.
func (w *Wheel) forget(s *Session) {
	w.mu.Lock()
	delete(w.open, s)
	w.mu.Unlock()
	if s.port != 0 {
		w.ports.Release(s.port, w.Now())
	}
}

// Now is the monotonic time since the wheel began.
func (w *Wheel) Now() time.Duration { return time.Since(w.began) }

// Stats are the figures so far.
func (w *Wheel) Stats() WheelStats {
	st := WheelStats{
		Turns: w.turns.Load(), MissedTurns: w.missed.Load(),
		Lateness: w.lateness.snapshot(), LongestTurn: time.Duration(w.longest.Load()),
		SkippedSlots: w.skipped.Load(), Faults: w.faults.Load(), Sessions: int(w.turning.Load()),
	}
	if w.ports != nil {
		st.PortsInUse, st.PortsQuarantined, st.PortsTotal = w.ports.Count(w.Now())
	} else {
		w.mu.Lock()
		st.PortsInUse = len(w.open)
		w.mu.Unlock()
	}
	return st
}

// Close closes all sessions and returns when every goroutine has ended. It may be
// called again, but not from a Handler.
func (w *Wheel) Close() error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.stop)
	}
	open := make([]*Session, 0, len(w.open))
	for s := range w.open {
		open = append(open, s)
	}
	w.mu.Unlock()
	<-w.stopped
	for _, s := range open {
		s.Close()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.release()
	return nil
}

// release gives back what the driver holds.
func (w *Wheel) release() {
	if w.batch != nil {
		w.batch.close()
		w.batch = nil
	}
}

// run turns until Close. Deadlines are whole ticks since the wheel began, so that
// a late turn makes no later one late; turns missed altogether are passed over.
func (w *Wheel) run() {
	defer close(w.stopped)
	sleep := time.Sleep
	if w.driver != DriverGoroutine {
		takeThread()
		sleep = preciseSleep
	}
	tick := w.cfg.Tick
	deadline := w.Now().Truncate(tick)
	for {
		if len(w.sessions) == 0 && w.commands.Load() == nil {
			if !w.rest() {
				return
			}
			deadline = w.Now().Truncate(tick)
		}
		deadline += tick
		if d := deadline - w.Now(); d > 0 {
			sleep(d)
		}
		select {
		case <-w.stop:
			return
		default:
		}
		now := w.Now()
		late := now - deadline
		w.lateness.observe(max(0, late))
		if late >= tick {
			w.missed.Add(uint64(late / tick))
			deadline += late.Truncate(tick)
		}
		w.turn(deadline, now)
		if took := int64(w.Now() - now); took > w.longest.Load() {
			w.longest.Store(took)
		}
	}
}

// rest waits until there is something to do. False: the wheel is closed.
func (w *Wheel) rest() bool {
	select {
	case <-w.wake:
		return true
	case <-w.stop:
		return false
	}
}

// turn turns all sessions that have something to do. tick is the deadline, which
// slots are reckoned by.
func (w *Wheel) turn(tick, now time.Duration) {
	w.turns.Add(1)
	w.obey()
	for i := 0; i < len(w.sessions); {
		end := w.readAhead(i, tick, now)
		for i < min(end, len(w.sessions)) {
			if tick < w.dues[i] {
				i++
				continue
			}
			s := w.sessions[i]
			if s.turn(tick, now) {
				w.dues[i] = s.due()
				i++
				continue
			}
			w.faults.Add(1)
			w.leave(s) // another takes its place
		}
	}
	w.flush()
}

// readAhead reads the sockets that sessions from i on will look at, as many as go
// into one system call, and says which session is the first that it did not reach.
// What sessions have sent goes out with that.
func (w *Wheel) readAhead(i int, tick, now time.Duration) (end int) {
	if w.batch == nil {
		return len(w.sessions)
	}
	w.batch.begin()
	for ; i < len(w.sessions); i++ {
		if tick < w.dues[i] {
			continue
		}
		s := w.sessions[i]
		if n := s.looks(tick); n > 0 && !w.batch.want(s.sock, n) {
			break
		}
		if c := s.control.sock.Load(); c != nil && now >= s.control.poll {
			w.batch.want(*c, 1) // without room it asks for itself
		}
	}
	w.batch.do()
	return i
}

// flush lets what sessions have sent go out.
func (w *Wheel) flush() {
	if w.batch != nil {
		w.batch.do()
	}
}

// start is when the first slot of a session in phase is due: at tick or up to
// spread later.
func (w *Wheel) start(phase int, tick time.Duration) time.Duration {
	t := w.cfg.Tick
	behind := (time.Duration(phase) - tick/t) % time.Duration(len(w.load))
	if behind < 0 {
		behind += time.Duration(len(w.load))
	}
	return tick + behind*t
}
