package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// How long what ends a session may take.
const (
	closeTimeout = 3 * time.Second // the provider's Close
	stopTimeout  = 5 * time.Second // all of Stop
)

// Why a session ended, as OnError or the cause of its context tell.
var (
	// ErrActive is returned by Start when a session is under way, which goes on.
	ErrActive = errors.New("live: a session is under way")
	// ErrStopped is the cause when Stop was called.
	ErrStopped = errors.New("live: stopped")
	// ErrIdle is the cause when nobody spoke for IdleConfig.DeactivateAfter.
	ErrIdle = errors.New("live: nobody spoke")
)

// Session holds a conversation through a provider, one at a time: it keeps the state,
// puts messages together, connects anew, and ends what nobody speaks in. Its methods
// may be called from any goroutine.
type Session struct {
	provider LiveProvider
	cb       Callbacks
	options  Options
	serial   serial // of the callbacks

	mu    sync.Mutex
	state State
	run   *run // nil while inactive
}

// Options are for hosts that know more than a provider tells.
type Options struct {
	// HostHears says that the host plays the audio and tells what was heard of each
	// reply, by Heard, and when it plays, by Playing. Without it a reply counts as heard
	// when the provider is done with it, and playing is reckoned from the audio's length.
	HostHears bool
	// Ending is called when the session ends, beside the closing of the provider, on a
	// goroutine of its own; what it waits for ends with ctx. It may be nil.
	Ending func(ctx context.Context)
}

// run is one conversation.
type run struct {
	cfg  LiveConfig
	idle IdleConfig

	ctx      context.Context // of the conversation
	cancel   context.CancelCauseFunc
	link     context.Context // of the connection
	cut      context.CancelCauseFunc
	received chan struct{} // closed when nobody receives any more
	done     chan struct{} // closed when all is over
	receives bool
	brief    int            // connections in a row that did not last; of the goroutine that receives
	late     sync.WaitGroup // what sends on a new connection what an old one lost; begun under mu, before ended

	// Guarded by Session.mu.
	ended    bool
	broken   bool      // the connection is known to be lost, or given up
	linked   time.Time // when the connection was made
	flushing bool      // somebody sends what is pending
	owes     bool      // the model was given something to answer meanwhile
	pending  []outgoing
	waiting  time.Duration // of audio among them

	user, agent transcript
	history     []remembered
	calls       map[string]bool // not answered yet

	speech  speech
	settle  *time.Timer
	renewal *time.Timer
	renewBy time.Time   // when a new connection is made at the latest; zero: not planned
	watch   *time.Timer // of silence
	silence silence
}

// NewSession returns an inactive session.
func NewSession(p LiveProvider, cb Callbacks, o Options) *Session {
	return &Session{provider: p, cb: cb, options: o, state: StateInactive}
}

// State is where the session is.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Start connects and begins the conversation, which ends when ctx does. Its error is
// ErrActive when one is under way, or wraps why the provider could not connect; then
// the session is inactive, and Start may be tried again.
func (s *Session) Start(ctx context.Context, cfg LiveConfig, idle IdleConfig) error {
	if err := errors.Join(cfg.Validate(), idle.Validate()); err != nil {
		return err
	}
	cfg.Recovery = cfg.Recovery.withDefaults()
	r := &run{
		cfg: cfg, idle: idle, received: make(chan struct{}), done: make(chan struct{}),
		calls: map[string]bool{},
	}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	s.mu.Lock()
	if s.run != nil {
		s.mu.Unlock()
		r.cancel(ErrActive)
		return ErrActive
	}
	s.run = r
	s.change(StateConnecting)
	s.mu.Unlock()
	s.tell()
	if err := s.connect(r, r.ctx, cfg); err != nil {
		s.mu.Lock()
		s.run = nil
		s.change(StateInactive)
		s.mu.Unlock()
		r.cancel(err)
		close(r.done)
		s.tell()
		return fmt.Errorf("live: %s: %w", s.provider.Name(), err)
	}
	s.mu.Lock()
	if r.ctx.Err() != nil { // stopped in the moment it connected
		s.mu.Unlock()
		err := context.Cause(r.ctx)
		_ = s.closeProvider(closeTimeout) // nobody was told of a session
		s.mu.Lock()
		s.run = nil
		s.change(StateInactive)
		s.mu.Unlock()
		close(r.done)
		s.tell()
		return fmt.Errorf("live: %s: %w", s.provider.Name(), err)
	}
	r.receives = true
	s.later(func() {
		if f := s.cb.OnSessionStart; f != nil {
			f()
		}
	})
	s.mu.Unlock()
	s.connected(r)
	context.AfterFunc(r.ctx, func() { s.conclude(r) })
	go s.receive(r)
	return nil
}

// connect connects the provider; a panic of it is an error.
func (s *Session) connect(r *run, ctx context.Context, cfg LiveConfig) error {
	err := guarded(func() error { return s.provider.Connect(ctx, cfg) })
	if err != nil && r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	return err
}

// Stop ends the conversation and waits until all is over, for 5 s at most: the
// provider's connection, tools that run, callbacks. Nothing is sent once it was called.
// Stopping what is inactive does nothing.
func (s *Session) Stop() {
	s.mu.Lock()
	r := s.run
	s.mu.Unlock()
	if r == nil {
		return
	}
	r.cancel(ErrStopped)
	s.conclude(r)
	limit := time.NewTimer(stopTimeout + 100*time.Millisecond) // conclude keeps the time itself
	defer limit.Stop()
	select {
	case <-r.done:
	case <-limit.C:
	}
}

// conclude ends r, once, on a goroutine of its own. r.ctx is done.
func (s *Session) conclude(r *run) {
	s.mu.Lock()
	if r.ended || !r.receives {
		s.mu.Unlock()
		return // over already, or Start is still at it and sees that its context ended
	}
	r.ended = true
	s.change(StateDeactivating)
	for _, t := range []*time.Timer{r.settle, r.renewal, r.watch} {
		if t != nil {
			t.Stop()
		}
	}
	s.mu.Unlock()
	go s.finish(r)
}

// finish waits for everything, within its time.
func (s *Session) finish(r *run) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), stopTimeout)
	defer cancel()
	go s.tell()
	ending := over(func() {
		if f := s.options.Ending; f != nil {
			s.guard(func() { f(ctx) })
		}
	})
	if err := s.closeProvider(closeTimeout); err != nil {
		s.later(func() { s.report(err) })
	}
	await(ctx, r.received)
	await(ctx, ending)
	await(ctx, over(r.late.Wait))
	s.mu.Lock()
	user, agent := r.user.take(), r.agent.take()
	s.mu.Unlock()
	told := make(chan struct{})
	var once sync.Once
	last := func() {
		once.Do(func() {
			defer close(told)
			s.userMessage(user)
			if !s.options.HostHears {
				s.agentMessage(agent)
			}
			s.guard(func() {
				if f := s.cb.OnSessionEnd; f != nil {
					f()
				}
			})
		})
	}
	go s.serial.do(last)
	if !await(ctx, told) {
		last() // a callback hangs: the end is told all the same
	}
	s.mu.Lock()
	s.run = nil
	s.change(StateInactive)
	s.mu.Unlock()
	await(ctx, over(func() { s.tell(); s.serial.wait() }))
	close(r.done)
}

// over is closed when wait has returned.
func over(wait func()) chan struct{} {
	done := make(chan struct{})
	go func() { wait(); close(done) }()
	return done
}

// await says whether done was closed before ctx ended.
func await(ctx context.Context, done chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// closeProvider closes the provider and does not wait for one that ignores its
// context.
func (s *Session) closeProvider(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- guarded(func() error { return s.provider.Close(ctx) }) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		select {
		case err = <-done:
		case <-time.After(10 * time.Millisecond):
			err = ctx.Err()
		}
	}
	if err != nil {
		return fmt.Errorf("live: closing %s: %w", s.provider.Name(), err)
	}
	return nil
}

// change moves to another state; mu is held. tell is to be called once it is not.
func (s *Session) change(to State) {
	if s.state == to {
		return
	}
	s.state = to
	if f := s.cb.OnStateChange; f != nil {
		s.later(func() { f(to) })
	}
}

// later has f called with the callbacks, in order; mu may be held.
func (s *Session) later(f func()) {
	s.serial.mu.Lock()
	defer s.serial.mu.Unlock()
	s.serial.queue = append(s.serial.queue, func() { s.guard(f) })
}

// tell calls the callbacks that are due.
func (s *Session) tell() { s.serial.do(func() {}) }

// guard tells of a panic of f.
func (s *Session) guard(f func()) {
	if err := guarded(func() error { f(); return nil }); err != nil {
		s.report(err)
	}
}

// Report has OnError called with err, in its turn: for what the host sees fail.
func (s *Session) Report(err error) {
	s.later(func() { s.report(err) })
	s.tell()
}

// report calls OnError; one that panics has nobody left to tell.
func (s *Session) report(err error) {
	if f := s.cb.OnError; f != nil {
		_ = guarded(func() error { f(err); return nil })
	}
}

// guarded turns a panic of f into an error.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("live: panic: %v", p)
		}
	}()
	return f()
}
