package echo

import "sync/atomic"

// queue hands frames from the packet mover to Run. Its buffers are made once and
// go round between two channels, so that nothing is allocated per frame and each
// buffer has one owner at any time.
type queue struct {
	free, full chan []int16 // each has room for all buffers
	dropped    atomic.Uint64
}

func newQueue(frames, samples int) *queue {
	q := &queue{free: make(chan []int16, frames), full: make(chan []int16, frames)}
	for range frames {
		q.free <- make([]int16, 0, samples)
	}
	return q
}

// put never blocks. When no buffer is free it takes that of the oldest frame. A
// frame longer than expected makes its buffer grow once.
func (q *queue) put(pcm []int16) {
	var buf []int16
	select {
	case buf = <-q.free:
	default:
		q.dropped.Add(1)
		select {
		case buf = <-q.full:
		default: // Run holds them all
			return
		}
	}
	q.full <- append(buf[:0], pcm...)
}
