package stream

import (
	"sync/atomic"
	"time"
)

// frameTime is the length of the frames that the agent gets.
const frameTime = 20 * time.Millisecond

// frame is 20 ms of the caller's sound, as the agent gets it.
type frame struct {
	at    int64 // its first sample, since the call began
	sound []byte
}

// heard is the caller's sound on its way to the agent: whole frames between the
// goroutine that moves packets, which puts, and the one that writes, which takes. When
// the writer does not keep up the oldest frame is dropped and counted. put neither
// blocks nor allocates.
type heard struct {
	full, free chan *frame
	width      int // bytes a sample

	cur *frame // being filled; the putting goroutine's
	at  int64  // where it begins

	samples atomic.Int64 // heard so far
	dropped atomic.Int64 // frames that nobody took
}

// newHeard makes a queue for so much sound, in frames of so many samples.
func newHeard(buffer time.Duration, samples, width int) *heard {
	n := int(buffer / frameTime)
	h := &heard{full: make(chan *frame, n+1), free: make(chan *frame, n+1), width: width}
	// One frame more is being filled, and one in the writer's hands.
	room := make([]byte, (n+2)*samples*width)
	next := func() *frame {
		f := &frame{sound: room[: 0 : samples*width]}
		room = room[samples*width:]
		return f
	}
	for range n + 1 {
		h.free <- next()
	}
	h.cur = next()
	return h
}

// put takes sound of any length.
func (h *heard) put(sound []byte) {
	for len(sound) > 0 {
		n := min(len(sound), cap(h.cur.sound)-len(h.cur.sound))
		h.cur.sound = append(h.cur.sound, sound[:n]...)
		sound = sound[n:]
		if len(h.cur.sound) == cap(h.cur.sound) {
			h.push()
		}
	}
}

// push gives the frame that is full to the writer.
func (h *heard) push() {
	n := int64(len(h.cur.sound) / h.width)
	h.cur.at = h.at
	h.at += n
	h.samples.Add(n)
	var next *frame
	select {
	case next = <-h.free:
	default:
		select {
		case next = <-h.full: // the oldest
		case next = <-h.free: // the writer gave one back just now
		}
		h.dropped.Add(1)
	}
	h.full <- h.cur // there is room: no more frames than that are about
	next.sound = next.sound[:0]
	h.cur = next
}

// back returns a frame that was written.
func (h *heard) back(f *frame) { h.free <- f }

// forget drops what waits; for the taking side.
func (h *heard) forget() {
	for {
		select {
		case f := <-h.full:
			h.back(f)
		default:
			return
		}
	}
}
