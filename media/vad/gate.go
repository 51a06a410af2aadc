package vad

import "sync/atomic"

// gate carries sound from Process to a worker and the verdict back, without a
// lock: Process must never wait for a worker that lost its processor.
//
// Positions count samples since the beginning and never go back. The worker that
// has taken the stream owns read; otherwise Process does. The sound between read
// and written is the worker's, all else of the ring is Process's.
type gate struct {
	ring    []int16
	need    int64 // samples of one frame
	preroll int64

	written, read atomic.Int64
	start         atomic.Int64 // where the present opening begins
	opening       atomic.Uint64
	taken         atomic.Bool // a worker has it, or it waits for one
	broken        atomic.Bool // the model failed on it
	heard         atomic.Uint64

	openings uint64 // Process only
}

func (g *gate) init(need, size, preroll int) {
	g.need, g.preroll = int64(need), int64(preroll)
	g.ring = make([]int16, size)
}

// write puts pcm into the ring. It says false, and keeps nothing, when a worker
// is so late that there is no room.
func (g *gate) write(pcm []int16) bool {
	size := int64(len(g.ring))
	w := g.written.Load()
	if g.taken.Load() {
		if w+int64(len(pcm))-g.read.Load() > size {
			return false
		}
	} else if over := w + int64(len(pcm)) - size; over > g.read.Load() {
		g.read.Store(over)
	}
	if skip := int64(len(pcm)) - size; skip > 0 {
		pcm, w = pcm[skip:], w+skip
	}
	at := w % size
	n := copy(g.ring[at:], pcm)
	copy(g.ring, pcm[n:])
	g.written.Store(w + int64(len(pcm)))
	return true
}

// open lets the worker listen, from the preroll on. It returns how many samples
// ago that is.
func (g *gate) open() int64 {
	w := g.written.Load()
	// What is before read may be overwritten any moment if a worker still has the
	// stream from the last time, and is not known to be whole otherwise.
	from := max(g.read.Load(), w-g.preroll)
	g.start.Store(from)
	if !g.taken.Load() {
		g.read.Store(from)
	}
	g.openings++
	g.opening.Store(g.openings)
	return w - from
}

// shut ends the listening.
func (g *gate) shut() { g.opening.Store(0) }

// ready is whether there is a frame to judge.
func (g *gate) ready() bool {
	return g.written.Load()-max(g.read.Load(), g.start.Load()) >= g.need
}

// verdict is what the model heard since the gate was opened last.
func (g *gate) verdict() verdict {
	v, opening := unpack(g.heard.Load())
	if opening != g.openings&openingMask {
		return verdict{}
	}
	return v
}

// verdict is what a model heard, in frames.
type verdict struct {
	done  int // judged
	since int // since the last one that may have been a voice, or the first
	hits  int // that are a voice, in a row
}

const (
	countMask   = 1<<22 - 1 // 37 hours of 32 ms
	openingMask = 1<<12 - 1
	hitsMask    = 1<<8 - 1
)

// pack makes one word of v, so that its parts are always read together.
func (v verdict) pack(opening uint64) uint64 {
	return opening&openingMask<<52 | uint64(min(v.done, countMask))<<30 |
		uint64(min(v.since, countMask))<<8 | uint64(min(v.hits, hitsMask))
}

func unpack(w uint64) (v verdict, opening uint64) {
	return verdict{int(w >> 30 & countMask), int(w >> 8 & countMask), int(w & hitsMask)}, w >> 52
}
