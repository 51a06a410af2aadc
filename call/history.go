package call

import (
	"slices"
	"sync"
	"time"

	"parley/agent"
)

const (
	// maxPast is how many events of a call are kept for who asks later, and
	// maxBehind how many may wait for one reader.
	maxPast   = 256
	maxBehind = 128
	// maxReaders bounds those who follow one call.
	maxReaders = 16
)

// history is what happened in a call, and who follows it. The lock is held for
// moments only; no reader can hold anything up.
type history struct {
	mu      sync.Mutex
	past    []*agent.Event // a ring once it is full; never changed, most calls have few
	oldest  int
	readers []*reader
	closed  bool
}

// reader is one who follows.
type reader struct{ events chan agent.Event }

// add notes an event and passes it on. A reader that is too far behind gets
// EventLagged and nothing more.
func (h *history) add(e agent.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.past) < maxPast {
		h.past = append(h.past, &e)
	} else {
		h.past[h.oldest] = &e
		h.oldest = (h.oldest + 1) % maxPast
	}
	h.readers = slices.DeleteFunc(h.readers, func(r *reader) bool {
		if len(r.events) < maxBehind {
			r.events <- e // only add sends: there is room
			return false
		}
		r.events <- agent.Event{Type: agent.EventLagged, At: time.Now()} // the last place is for it
		close(r.events)
		return true
	})
}

// follow gives what was, and what will be.
func (h *history) follow() (past []agent.Event, live <-chan agent.Event, stop func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.past {
		past = append(past, *h.past[(h.oldest+i)%len(h.past)])
	}
	if len(h.readers) >= maxReaders {
		return nil, nil, nil, ErrLimit
	}
	r := &reader{events: make(chan agent.Event, maxBehind+1)}
	if h.closed {
		close(r.events)
		return past, r.events, func() {}, nil
	}
	h.readers = append(h.readers, r)
	return past, r.events, func() { h.leave(r) }, nil
}

// leave lets a reader go.
func (h *history) leave(r *reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.readers, r); i >= 0 {
		h.readers = slices.Delete(h.readers, i, i+1)
		close(r.events)
	}
}

// close ends all streams: the call is over.
func (h *history) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, r := range h.readers {
		close(r.events)
	}
	h.readers = nil
}
