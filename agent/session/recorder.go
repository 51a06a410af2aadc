package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// ErrQueueFull is wrapped by Recording.Append when too much waits to be written: the
// event will be missing in the record.
var ErrQueueFull = errors.New("session: too much waits to be written")

// RecorderConfig is how a Recorder works. Zero values stand for the defaults.
type RecorderConfig struct {
	// Queue is how many events of one call may wait. 0: 256.
	Queue int
	// Bytes is how many bytes of events may wait, of all calls together. 0: 64 MiB.
	Bytes int
	// Writers is how many goroutines write. 0: 4.
	Writers int
	// OpenTimeout is how long Open waits for the store at most. 0: 500 ms.
	OpenTimeout time.Duration
	// WriteTimeout is how long one attempt to write may last. 0: 10 s.
	WriteTimeout time.Duration
	// RetryMin is the pause after the first failure; it doubles up to RetryMax.
	// 0: 100 ms and 30 s.
	RetryMin, RetryMax time.Duration
	// GiveUp is how long an event is tried to be written. 0: one hour.
	GiveUp time.Duration
	// Logger gets a line when writing begins to fail and when it succeeds again, and at
	// most one a second about events that were lost. Nil: nobody.
	Logger *zap.Logger
}

// withDefaults fills in what is zero.
func (c RecorderConfig) withDefaults() RecorderConfig {
	or := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	orInt := func(v *int, n int) {
		if *v <= 0 {
			*v = n
		}
	}
	orInt(&c.Queue, 256)
	orInt(&c.Bytes, 64<<20)
	orInt(&c.Writers, 4)
	or(&c.OpenTimeout, 500*time.Millisecond)
	or(&c.WriteTimeout, 10*time.Second)
	or(&c.RetryMin, 100*time.Millisecond)
	or(&c.RetryMax, 30*time.Second)
	or(&c.GiveUp, time.Hour)
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return c
}

// RecorderStats is what a Recorder did since it was made.
type RecorderStats struct {
	// Waiting is how many events wait to be written now, and WaitingBytes their size.
	Waiting, WaitingBytes int64
	// Written is how many events are in the store.
	Written int64
	// Failures is how many attempts failed and were tried again.
	Failures int64
	// Lost is how many events were given up: no room, no success for too long, or the
	// end of the recorder.
	Lost int64
	// Forgotten is how many events were dropped because their session was removed.
	Forgotten int64
}

// Recorder writes the records of calls. It stands between calls, which must not wait,
// and a Store, which may be slow or away: events wait in bounded queues, failures are
// tried again, and nothing here ever blocks a call. It is safe for concurrent use.
type Recorder struct {
	store *Store
	c     RecorderConfig

	waiting, bytes, written, failures, lost, forgotten atomic.Int64

	ctx    context.Context // of the writers' attempts
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // writers

	mu       sync.Mutex
	wake     *sync.Cond // ready grew, or closed changed
	ready    []*Recording
	busy     map[*Recording]struct{} // those that have something to write
	idle     chan struct{}           // closed while busy is empty and closing
	failing  int                     // recordings whose last attempt failed
	closing  bool
	drained  bool
	stopped  bool
	lostLine time.Time // when the last line about losses was logged
}

// NewRecorder starts a Recorder. It has to be closed, before its store.
func NewRecorder(store *Store, c RecorderConfig) *Recorder {
	r := &Recorder{store: store, c: c.withDefaults(), busy: map[*Recording]struct{}{}, idle: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	r.wake = sync.NewCond(&r.mu)
	for range r.c.Writers {
		r.wg.Go(r.write)
	}
	return r
}

// Stats returns the counters.
func (r *Recorder) Stats() RecorderStats {
	return RecorderStats{
		Waiting: r.waiting.Load(), WaitingBytes: r.bytes.Load(), Written: r.written.Load(),
		Failures: r.failures.Load(), Lost: r.lost.Load(), Forgotten: r.forgotten.Load(),
	}
}

// Open begins the record of a call. It waits for the store for OpenTimeout at most: when
// that fails the record begins all the same, with the state of the request only, and
// the session is created later. It returns an error only for a request that can never
// succeed (ErrInvalid, ErrExists) and after Close (ErrClosed).
func (r *Recorder) Open(ctx context.Context, req *CreateRequest) (*Recording, error) {
	if req == nil {
		return nil, fmt.Errorf("%w: no request", ErrInvalid)
	}
	if r.isClosing() {
		return nil, ErrClosed
	}
	stored, set, err := r.store.plan(ctx, req)
	if err != nil {
		return nil, err
	}
	c := &Recording{r: r, plan: stored, set: set, revision: stored.Revision}
	within, cancel := context.WithTimeout(ctx, r.c.OpenTimeout)
	defer cancel()
	state, failure := r.store.backend.Create(within, stored, set)
	switch {
	case errors.Is(failure, ErrExists), errors.Is(failure, ErrClosed):
		return nil, of(stored.Key, failure)
	case failure == nil:
		c.created, c.loaded, stored.State = true, true, state
	default:
		stored.State = make(map[string]json.RawMessage, len(set))
		for _, e := range set {
			if e.Value != nil {
				stored.State[e.Key] = e.Value
			}
		}
	}
	if c.view, err = newHandle(stored, time.Time{}); err != nil {
		return nil, err
	}
	if !c.created {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.begin() {
			return nil, ErrClosed
		}
		c.scheduled = true
		c.failed(failure)
	}
	return c, nil
}

// write is a writer: it writes for one recording after the other.
func (r *Recorder) write() {
	for c := r.next(); c != nil; c = r.next() {
		c.write()
	}
}

// next waits for a recording that has something to write. Nil: the recorder stopped.
func (r *Recorder) next() *Recording {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.ready) == 0 && !r.stopped {
		r.wake.Wait()
	}
	if r.stopped {
		return nil
	}
	c := r.ready[0]
	r.ready = r.ready[1:]
	return c
}

// enqueue makes a writer take c.
func (r *Recorder) enqueue(c *Recording) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = append(r.ready, c)
	r.wake.Signal()
}

// isBusy notes that c has something to write. False: the recorder has ended.
func (r *Recorder) isBusy(c *Recording) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return false
	}
	r.busy[c] = struct{}{}
	return true
}

// isIdle notes that c has nothing to write.
func (r *Recorder) isIdle(c *Recording) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, c)
	if r.closing && len(r.busy) == 0 && !r.drained {
		r.drained = true
		close(r.idle)
	}
}

// isClosing says whether Close was called.
func (r *Recorder) isClosing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closing
}

// fails notes that one more recording cannot be written. The first is logged.
func (r *Recorder) fails(c *Recording, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failing++; r.failing == 1 {
		r.c.Logger.Warn("records of calls cannot be written; they are kept and tried again",
			zap.String("session_id", c.plan.Session), zap.Error(err))
	}
}

// succeeds notes that one recording less cannot be written. The last is logged.
func (r *Recorder) succeeds() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failing--; r.failing == 0 {
		r.c.Logger.Info("no record of a call waits for another attempt",
			zap.Int64("failures", r.failures.Load()), zap.Int64("lost", r.lost.Load()))
	}
}

// lose counts n events that will be missing.
func (r *Recorder) lose(c *Recording, n int, err error) {
	if n == 0 {
		return
	}
	total := r.lost.Add(int64(n))
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := time.Now(); r.lostLine.IsZero() || at.Sub(r.lostLine) >= time.Second {
		r.lostLine = at
		r.c.Logger.Error("events of a call are missing in its record",
			zap.String("session_id", c.plan.Session), zap.Int64("lost", total), zap.Error(err))
	}
}

// Close writes what waits, until ctx is done, and ends the writers. It returns an error
// that says how many events were lost for it. Only the first call does something.
func (r *Recorder) Close(ctx context.Context) error {
	r.mu.Lock()
	if r.closing {
		r.mu.Unlock()
		return nil
	}
	r.closing = true
	busy := slices.Collect(maps.Keys(r.busy))
	r.mu.Unlock()
	if len(busy) > 0 {
		for _, c := range busy {
			c.hurry()
		}
		select {
		case <-r.idle:
		case <-ctx.Done():
		}
	}
	r.mu.Lock()
	r.stopped = true
	r.wake.Broadcast()
	r.mu.Unlock()
	r.cancel(ErrClosed)
	r.wg.Wait()
	r.mu.Lock()
	busy = slices.Collect(maps.Keys(r.busy)) // none is added any more
	r.mu.Unlock()
	lost := 0
	for _, c := range busy {
		lost += c.abandon()
	}
	if lost > 0 {
		return fmt.Errorf("session: %d events were not written: %w", lost, ErrClosed)
	}
	return nil
}
