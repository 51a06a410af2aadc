package tool

import (
	"context"
	"sync"
	"time"
)

// Line is the call that call tools act on; see CallTools. Its methods may be called
// from any goroutine.
type Line interface {
	// Transfer hands the other party to somebody else. nil: it went through, and the
	// call ends.
	Transfer(ctx context.Context, to string, attended bool) error
	SendDigits(ctx context.Context, digits string) error
	Hold(ctx context.Context) error
	Resume(ctx context.Context) error
	// HangUp ends the call after the last words were heard. It returns at once; see
	// Farewell.
	HangUp()
}

// transfer is the shape of a transfer in the agent's contract.
type transfer = struct {
	To       string
	Attended bool
	Trunk    string
	Headers  map[string]string
}

// Control is what a call lends to its agent, whatever its type of transfers is named:
// parley/agent.Control is one.
type Control[T ~transfer] interface {
	Transfer(ctx context.Context, t T) error
	SendDigits(ctx context.Context, digits string) error
	Hold(ctx context.Context) error
	Resume(ctx context.Context) error
}

// NewLine makes a Line of a call's control and of what ends the call, as
// Farewell.Arm does.
func NewLine[T ~transfer](c Control[T], hangUp func()) Line { return line[T]{c, hangUp} }

type line[T ~transfer] struct {
	Control[T]
	hangUp func()
}

// Transfer implements Line.
func (l line[T]) Transfer(ctx context.Context, to string, attended bool) error {
	return l.Control.Transfer(ctx, T(transfer{To: to, Attended: attended}))
}

// HangUp implements Line.
func (l line[T]) HangUp() { l.hangUp() }

// Farewell ends a call when the agent's last words were heard: not while the model
// still thinks of them or the caller has yet to hear them, and not at all when the
// caller speaks meanwhile. It is safe for concurrent use.
type Farewell struct {
	cfg FarewellConfig

	mu    sync.Mutex
	armed bool
	busy  bool
	done  bool
	quiet *time.Timer // the call ends when it fires
	limit *time.Timer // and at the latest when this one does
}

// FarewellConfig is how a Farewell ends calls.
type FarewellConfig struct {
	// HangUp ends the call. It is called once at most, on a goroutine of its own.
	HangUp func()
	// Quiet is how long nothing may be left to hear before the call ends; 0: 500 ms.
	Quiet time.Duration
	// Limit is the longest goodbye; 0: 30 s.
	Limit time.Duration
}

// NewFarewell returns a Farewell that is not armed.
func NewFarewell(cfg FarewellConfig) *Farewell {
	orElse(&cfg.Quiet, 500*time.Millisecond)
	orElse(&cfg.Limit, 30*time.Second)
	return &Farewell{cfg: cfg}
}

// Busy tells whether the model is at a reply, or speech of the agent is not yet heard
// to its end.
func (f *Farewell) Busy(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy = on
	f.turn()
}

// Arm ends the call as soon as the agent is no longer busy.
func (f *Farewell) Arm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.armed || f.done {
		return
	}
	f.armed = true
	f.limit = time.AfterFunc(f.cfg.Limit, f.fire)
	f.turn()
}

// CallerSpoke takes Arm back: who speaks is not done. It reports whether a goodbye was
// under way.
func (f *Farewell) CallerSpoke() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.armed && !f.done
	f.disarm()
	return was
}

// Close takes Arm back for good.
func (f *Farewell) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = true
	f.disarm()
}

// turn starts or stops the wait for quiet.
func (f *Farewell) turn() {
	if f.quiet != nil {
		f.quiet.Stop()
		f.quiet = nil
	}
	if !f.armed || f.busy || f.done {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(f.cfg.Quiet, func() {
		f.mu.Lock()
		current := f.quiet == t
		f.mu.Unlock()
		if current { // else it was stopped in the moment it fired
			f.fire()
		}
	})
	f.quiet = t
}

func (f *Farewell) disarm() {
	f.armed = false
	f.turn()
	if f.limit != nil {
		f.limit.Stop()
		f.limit = nil
	}
}

// fire ends the call, unless that was taken back.
func (f *Farewell) fire() {
	f.mu.Lock()
	if !f.armed || f.done {
		f.mu.Unlock()
		return
	}
	f.done = true
	f.disarm()
	f.mu.Unlock()
	f.cfg.HangUp()
}
