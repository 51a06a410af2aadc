package echo

import "sync/atomic"

// queue hands frames from the packet mover to Run. Its buffers are made once and
// go round between two channels, so that nothing is allocated per frame and each
// buffer has one owner at any time.
type queue struct {
	free, full chan []int16
	dropped    atomic.Uint64
}

func newQueue(frames, samples int) *queue {
	// One buffer more than fits into full: put always finds one, either free or
	// by taking the oldest.
	q := &queue{free: make(chan []int16, frames+1), full: make(chan []int16, frames)}
	for range frames + 1 {
		q.free <- make([]int16, 0, samples)
	}
	return q
}

// put never blocks. A frame longer than expected makes its buffer grow once.
func (q *queue) put(pcm []int16) {
	var buf []int16
	select {
	case buf = <-q.free:
	default:
		select {
		case buf = <-q.full:
			q.dropped.Add(1)
		default: // Run holds them all
			q.dropped.Add(1)
			return
		}
	}
	select {
	case q.full <- append(buf[:0], pcm...):
	default: // full has filled up meanwhile; only with more than one caller of put
		q.dropped.Add(1)
		q.free <- buf
	}
}
