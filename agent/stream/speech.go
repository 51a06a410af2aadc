package stream

import (
	"context"
	"sync"
	"time"
)

// The bounds of what waits besides the bytes of sound; beyond them nothing more is read
// from the agent.
const (
	// maxMarks and maxMarkBytes bound the marks that were neither reached nor reported
	// yet, by number and by their names and texts.
	maxMarks     = 10000
	maxMarkBytes = 2 << 20
	// leastItem is how many bytes of sound an item has, or it and the next: sound in tiny
	// pieces takes no more memory than in large ones.
	leastItem = 4 << 10
)

// mark is a place in the agent's speech.
type mark struct {
	name string
	text string // the words before it, if the agent says
	end  bool   // no mark of the agent's: the call ends here
	at   int64  // in samples on the Speaker's timeline
	// cleared says that the sound before it was dropped.
	cleared bool
}

// speech is what the agent wants said, in order: sound and marks.
//
//	put, mark ─> items ─ next ─> Say ─> pending ─ reach ─> reached ─ take ─> agent
//	             └───────────── cut: all marks at once ────────^
//
// One goroutine reads from the agent: put, mark, end, cut. One speaks: next, done. The
// others may be called by any.
type speech struct {
	width int // bytes a sample
	limit int // bytes that wait at the most, but for the last message

	mu         sync.Mutex
	items      []item // from head on
	head       int
	queued     int // bytes in items
	flying     int // bytes that next gave out and done has not heard of
	marks      int // in items, pending and reached
	markBytes  int // of their names and texts
	last       time.Time
	said       int64 // samples: the end of what Say took, on the Speaker's timeline
	generation int
	life       context.Context // of the session
	ctx        context.Context // of the speech of this generation
	cancel     context.CancelFunc
	pending    []mark // behind sound that Say took
	reached    []mark // to be told

	more  chan struct{} // a token when there is something to say
	room  chan struct{} // a token when there may be room again
	moved chan struct{} // a token when pending has changed
	told  chan struct{} // a token when there is something in reached
}

// item is sound, or a mark.
type item struct {
	sound []byte
	mark  *mark
}

func newSpeech(life context.Context, width, limit int) *speech {
	token := func() chan struct{} { return make(chan struct{}, 1) }
	q := &speech{width: width, limit: limit, life: life, more: token(), room: token(), moved: token(), told: token()}
	q.ctx, q.cancel = context.WithCancel(life)
	return q
}

// signal leaves a token.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// put queues sound, and keeps it. It waits while the queue is full.
func (q *speech) put(ctx context.Context, sound []byte) error {
	return q.add(ctx, item{sound: sound})
}

// mark queues a mark, and waits like put.
func (q *speech) mark(ctx context.Context, m mark) error {
	return q.add(ctx, item{mark: &m})
}

func (q *speech) add(ctx context.Context, it item) error {
	for {
		q.mu.Lock()
		if q.queued < q.limit && q.marks < maxMarks && q.markBytes < maxMarkBytes {
			q.push(it)
			q.mu.Unlock()
			return nil
		}
		q.mu.Unlock()
		select {
		case <-q.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// push queues it. The caller holds mu.
func (q *speech) push(it item) {
	signal(q.more)
	if it.mark != nil {
		q.count(*it.mark, 1)
		q.items = append(q.items, it)
		return
	}
	q.queued += len(it.sound)
	q.last = time.Now()
	if n := len(q.items); n > q.head && q.items[n-1].mark == nil && len(q.items[n-1].sound)+len(it.sound) <= leastItem {
		// Behind what next gave out of it, which stays as it is.
		q.items[n-1].sound = append(q.items[n-1].sound, it.sound...)
		return
	}
	q.items = append(q.items, it)
}

// count notes that a mark has come, 1, or is done with, -1. The caller holds mu.
func (q *speech) count(m mark, by int) {
	q.marks += by
	q.markBytes += by * (len(m.name) + len(m.text))
}

// end queues the end of the call; it never waits.
func (q *speech) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.push(item{mark: &mark{end: true}})
}

// piece is sound to be said.
type piece struct {
	ctx        context.Context
	generation int
	sound      []byte
}

// next is up to max bytes of what is to be said now, and where marks lie is noted. ok is
// false when there is nothing.
func (q *speech) next(max int) (p piece, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.head < len(q.items) {
		it := &q.items[q.head]
		if it.mark != nil {
			it.mark.at = q.said
			q.pending = append(q.pending, *it.mark)
			signal(q.moved)
			q.drop()
			continue
		}
		n := min(max, len(it.sound))
		p = piece{ctx: q.ctx, generation: q.generation, sound: it.sound[:n]}
		if it.sound = it.sound[n:]; len(it.sound) == 0 {
			q.drop()
		}
		q.queued, q.flying = q.queued-n, n
		signal(q.room)
		return p, true
	}
	return piece{}, false
}

// drop removes the first item. The caller holds mu.
func (q *speech) drop() {
	q.items[q.head] = item{}
	q.head++
	if q.head == len(q.items) || q.head > 1024 && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
}

// done notes that Say took a piece.
func (q *speech) done(p piece) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.generation == q.generation {
		q.flying = 0
		q.said += int64(len(p.sound) / q.width)
	}
}

// cut is what a clear did.
type cut struct {
	dropped int64  // samples that the caller did not hear
	marks   []mark // those that came due by it
}

// clear drops all that was not played. stop stops the speaker and returns where, in
// samples; nothing of what was queued before is said after that.
func (q *speech) clear(stop func() int64) cut {
	q.mu.Lock()
	q.cancel()
	q.ctx, q.cancel = context.WithCancel(q.life)
	q.generation++
	dropped := q.items[q.head:]
	queued, said := int64(q.queued/q.width), q.said+int64(q.flying/q.width)
	q.items, q.head, q.queued, q.flying = nil, 0, 0, 0
	q.mu.Unlock()

	at := stop()

	q.mu.Lock()
	defer q.mu.Unlock()
	var c cut
	for _, m := range q.pending {
		m.cleared = m.at > at
		c.marks = append(c.marks, m)
	}
	for _, it := range dropped {
		if it.mark != nil {
			it.mark.cleared = queued > 0 || said > at
			c.marks = append(c.marks, *it.mark)
		}
	}
	c.dropped = max(0, said-at) + queued
	q.said, q.pending = at, nil
	q.report(c.marks)
	signal(q.room)
	return c
}

// report gives marks to whoever tells the agent. The caller holds mu.
func (q *speech) report(marks []mark) {
	for _, m := range marks {
		if m.end {
			q.count(m, -1)
		} else {
			q.reached = append(q.reached, m)
		}
	}
	if len(q.reached) > 0 {
		signal(q.told)
	}
}

// reach looks which marks speech has come to that was played up to a sample. next is
// where the one is that is waited for, if there is one.
func (q *speech) reach(played int64) (reached []mark, next int64, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for n < len(q.pending) && q.pending[n].at <= played {
		n++
	}
	reached = append(reached, q.pending[:n]...)
	q.pending = q.pending[:copy(q.pending, q.pending[n:])]
	q.report(reached)
	if len(q.pending) == 0 {
		return reached, 0, false
	}
	return reached, q.pending[0].at, true
}

// take are the marks that the agent is to be told of now.
func (q *speech) take() []mark {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := q.reached
	q.reached = nil
	for _, m := range out {
		q.count(m, -1)
	}
	signal(q.room)
	return out
}

// waiting is how much sound Say has not taken yet, in samples, and the marks that were
// not reported.
func (q *speech) waiting() (samples int64, marks []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	add := func(m mark) {
		if !m.end {
			marks = append(marks, m.name)
		}
	}
	for _, list := range [][]mark{q.reached, q.pending} {
		for _, m := range list {
			add(m)
		}
	}
	for _, it := range q.items[q.head:] {
		if it.mark != nil {
			add(*it.mark)
		}
	}
	return int64(q.queued / q.width), marks
}

// tail is how much was said, and when sound came last from the agent.
func (q *speech) tail() (said int64, last time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.said, q.last
}

// untake gives back marks that could not be told.
func (q *speech) untake(marks []mark) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range marks {
		q.count(m, 1)
	}
	q.reached = append(marks, q.reached...)
	signal(q.told)
}

// forgetMarks drops the agent's marks: a new one does not know them.
func (q *speech) forgetMarks() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.reached {
		q.count(m, -1)
	}
	q.reached = nil
	signal(q.room)
}
