package live

import "sync"

// serial runs functions one at a time in the order in which they came, on the
// goroutine of whoever came while nobody was at it. No lock is held meanwhile.
type serial struct {
	mu      sync.Mutex
	quiet   sync.Cond
	queue   []func()
	running bool
}

// do runs f after what came before it. When somebody else is at that, it leaves f to
// him and returns.
func (q *serial) do(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, f)
	if q.running {
		return
	}
	q.running = true
	for len(q.queue) > 0 {
		next := q.queue[0]
		q.queue = q.queue[1:]
		q.mu.Unlock()
		next()
		q.mu.Lock()
	}
	q.running = false
	if q.quiet.L != nil {
		q.quiet.Broadcast()
	}
}

// wait returns when nothing is left to run. It must not be called by what is run.
func (q *serial) wait() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.quiet.L == nil {
		q.quiet.L = &q.mu
	}
	for q.running {
		q.quiet.Wait()
	}
}
