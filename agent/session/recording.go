package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Recording is the record of one call that is being written. It is safe for concurrent
// use.
type Recording struct {
	r    *Recorder
	view *handle // what the call sees: ahead of the store

	mu      sync.Mutex
	plan    Stored // as it was to be created
	set     []Entry
	created bool
	loaded  bool
	gone    bool // removed from the store
	closed  bool
	// revision is the one in the store. Only the writer that works for the recording
	// uses it.
	revision int64
	queue    []waiting
	settled  chan struct{} // not nil while there is something to write; closed when there is not
	// scheduled: it is in the recorder's line, with a writer, or waits for the timer.
	scheduled bool
	timer     *time.Timer // of the next attempt
	failures  int         // in a row
	since     time.Time   // of the first of them
}

// waiting is an event that is not in the store yet.
type waiting struct {
	prepared
	since time.Time
}

// Session is the call's own view of its session: everything that was appended is in it
// at once, whether it is in the store yet or not. It must not be given to AppendEvent of
// a store.
func (c *Recording) Session() Session { return c.view }

// Loaded says whether the state of user and app was read from the store. When it was not
// (the store did not answer in time), they look empty until it is.
func (c *Recording) Loaded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.loaded
}

// Append puts an event into the record. It copies the event and returns at once; a
// writer does the rest. Partial events are ignored. What is refused is missing in the
// record, though not in Session, and counted: ErrQueueFull when too much waits,
// ErrClosed after Close. Of ErrInvalid nothing is taken.
func (c *Recording) Append(e *Event) error {
	if e == nil {
		return fmt.Errorf("%w: no event", ErrInvalid)
	}
	if e.Partial {
		return nil
	}
	p, err := c.r.store.prepare(context.Background(), e)
	if err != nil {
		c.r.lose(c, 1, err)
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.view.apply(p, 0, p.At); err != nil {
		return err
	}
	switch {
	case c.gone:
		c.r.forgotten.Add(1)
		return nil
	case c.closed:
		err = ErrClosed
	case len(c.queue) >= c.r.c.Queue || !c.r.reserve(len(p.Event)):
		err = ErrQueueFull
	case !c.begin():
		c.r.bytes.Add(-int64(len(p.Event)))
		err = ErrClosed
	default:
		c.r.waiting.Add(1)
		c.queue = append(c.queue, waiting{p, time.Now()})
		if !c.scheduled {
			c.scheduled = true
			c.r.enqueue(c)
		}
		return nil
	}
	c.r.lose(c, 1, err)
	return of(c.plan.Key, err)
}

// reserve takes room for n bytes, if there is.
func (r *Recorder) reserve(n int) bool {
	if r.bytes.Add(int64(n)) <= int64(r.c.Bytes) {
		return true
	}
	r.bytes.Add(-int64(n))
	return false
}

// begin notes that there is something to write; false when the recorder has ended. The
// caller holds mu.
func (c *Recording) begin() bool {
	if c.settled == nil && c.r.isBusy(c) {
		c.settled = make(chan struct{})
	}
	return c.settled != nil
}

// settle notes that there is nothing to write. The caller holds mu.
func (c *Recording) settle() {
	c.recovered()
	close(c.settled)
	c.settled, c.scheduled = nil, false
	c.r.isIdle(c)
}

// Flush waits until nothing waits to be written. What was appended before is in the store
// then and survives the end of the process, but for events that were lost. It returns
// ctx's error when ctx is done first; writing goes on.
func (c *Recording) Flush(ctx context.Context) error {
	c.mu.Lock()
	settled, n := c.settled, len(c.queue)
	c.mu.Unlock()
	if settled == nil {
		return nil
	}
	select {
	case <-settled:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("session: %d events wait to be written (session %q): %w", n, c.plan.Session, context.Cause(ctx))
	}
}

// Close ends the record: later events are refused. It waits as Flush does.
func (c *Recording) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	return c.Flush(ctx)
}

// turns is how many events a writer writes for one recording before the next gets its
// turn.
const turns = 16

// write does one writer's turn.
func (c *Recording) write() {
	for range turns {
		p, created, more := c.head()
		if !more {
			return
		}
		ctx, cancel := context.WithTimeout(c.r.ctx, c.r.c.WriteTimeout)
		var err error
		if created {
			err = c.append(ctx, p)
		} else {
			err = c.create(ctx)
		}
		cancel()
		if !c.done(err, created) {
			return
		}
	}
	c.r.enqueue(c)
}

// head is what to write next: an event, or the session itself. No more: it is settled.
func (c *Recording) head() (p prepared, created, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.created:
		return p, false, true
	case len(c.queue) > 0:
		return c.queue[0].prepared, true, true
	}
	c.settle()
	return p, true, false
}

// create creates the session in the store and takes over what others know of the user.
func (c *Recording) create(ctx context.Context) error {
	state, err := c.r.store.backend.Create(ctx, c.plan, c.set)
	if errors.Is(err, ErrExists) { // an earlier attempt did it, though its answer was lost
		var there Stored
		if there, err = c.r.store.backend.Load(ctx, c.plan.Key, Filter{Last: 1}); err == nil {
			c.revision, state = there.Revision, there.State
		}
	}
	if err != nil {
		return err
	}
	c.view.mu.Lock()
	defer c.view.mu.Unlock()
	return c.view.adopt(state)
}

// adopt adds values that the handle does not have. The caller holds mu.
func (h *handle) adopt(state map[string]json.RawMessage) error {
	for key, raw := range state {
		if _, there := h.state[key]; there {
			continue
		}
		if err := h.set([]Entry{{key, raw}}); err != nil {
			return err
		}
	}
	return nil
}

// append stores one event. Somebody else may have changed the session: that is no
// reason to lose it.
func (c *Recording) append(ctx context.Context, p prepared) error {
	for try := 0; ; try++ {
		p.Revision = c.revision
		_, err := c.r.store.backend.Append(ctx, c.plan.Key, p.Change)
		switch {
		case err == nil:
			c.revision++
			return nil
		case errors.Is(err, ErrDuplicateEvent): // by an attempt whose answer was lost
			return nil
		case !errors.Is(err, ErrStaleSession) || try == 3:
			return err
		}
		there, err := c.r.store.backend.Load(ctx, c.plan.Key, Filter{Last: 1})
		if err != nil {
			return err
		}
		c.revision = there.Revision
	}
}

// done notes the outcome of an attempt. False: this turn is over.
func (c *Recording) done(err error, created bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrInvalid) {
		c.failed(err)
		return false
	}
	c.recovered()
	switch {
	case errors.Is(err, ErrNotFound): // removed by Forget or Delete: it stays removed
		c.gone = true
		c.r.forgotten.Add(int64(c.drop(len(c.queue))))
		c.created = true
	case errors.Is(err, ErrInvalid):
		c.r.lose(c, c.drop(1), err)
	case created:
		c.r.written.Add(int64(c.drop(1)))
	default:
		c.created, c.loaded = true, true
	}
	return true
}

// drop takes n events off the queue. The caller holds mu.
func (c *Recording) drop(n int) int {
	for i, p := range c.queue[:n] {
		c.r.bytes.Add(-int64(len(p.Event)))
		c.queue[i] = waiting{}
	}
	c.queue = c.queue[n:]
	c.r.waiting.Add(-int64(n))
	return n
}

// failed arranges the next attempt. The caller holds mu.
func (c *Recording) failed(err error) {
	if c.r.ctx.Err() != nil {
		return // abandoned: Close counts what is left
	}
	c.r.failures.Add(1)
	if c.failures++; c.failures == 1 {
		c.since = time.Now()
		c.r.fails(c, err)
	}
	old := 0
	for old < len(c.queue) && time.Since(c.queue[old].since) >= c.r.c.GiveUp {
		old++
	}
	c.r.lose(c, c.drop(old), err)
	if c.closed && !c.created && len(c.queue) == 0 && time.Since(c.since) >= c.r.c.GiveUp {
		c.created, c.gone = true, true // nothing is left that would need the session
		c.settle()
		return
	}
	pause := c.r.c.RetryMin << min(c.failures-1, 20)
	if pause <= 0 || pause > c.r.c.RetryMax {
		pause = c.r.c.RetryMax
	}
	if c.r.isClosing() {
		pause = c.r.c.RetryMin
	}
	c.timer = time.AfterFunc(pause, func() { c.r.enqueue(c) })
}

// recovered notes that nothing fails any more. The caller holds mu.
func (c *Recording) recovered() {
	if c.failures > 0 {
		c.failures = 0
		c.r.succeeds()
	}
}

// hurry makes the next attempt now.
func (c *Recording) hurry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil && c.timer.Stop() {
		c.r.enqueue(c)
	}
}

// abandon gives up what is not written and says how much that was.
func (c *Recording) abandon() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
	n := c.drop(len(c.queue))
	c.r.lose(c, n, ErrClosed)
	c.closed = true
	if c.settled != nil {
		c.settle()
	}
	return n
}
