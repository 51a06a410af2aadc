package vad

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// blocksPerSecond is how often loudness is judged. Blocks of 10 ms fit every
// packet time, hold a whole period of any voice, and are short enough for timing.
const blocksPerSecond = 100

// hysteresis is how far below the absolute thresholds a sound may fall without
// ending: 4 dB as a factor of power.
const hysteresis = 0.4

// ear hears loudness: it cuts the stream into blocks, follows the floor and says
// whether something sounds. Both detectors are built on it.
type ear struct {
	rate, block        int
	startNeed, stopLen int64 // blocks of sound to begin with; samples of silence to end with
	startMask          uint64
	margin, hold, min  float64

	extra atomic.Uint64 // the caller's own threshold: bits of a mean square
	last  atomic.Uint64 // of the last frame: bits of a mean square

	sum, squares int64 // of the block so far
	n            int

	now    int64  // samples heard
	blocks uint64 // one bit a block, the newest lowest: it was loud
	active bool   // something sounds
	first  int64  // where the present sound began
	ended  int64  // where the last sound ended
	floor  floor
}

func (e *ear) init(c EnergyConfig) {
	e.rate, e.block = c.Rate, c.Rate/blocksPerSecond
	need := max(1, int(c.Start*blocksPerSecond/time.Second))
	e.startNeed = int64(need)
	e.startMask = 1<<(need+need/2) - 1
	e.stopLen = e.samples(c.Stop)
	e.margin, e.hold, e.min = ratio(c.Margin), ratio(c.Hold), power(c.MinLevel)
	e.floor.span = max(1, int(c.Memory*blocksPerSecond/time.Second)/len(floor{}.lows))
	e.reset()
}

func (e *ear) reset() {
	e.sum, e.squares, e.n = 0, 0, 0
	e.now, e.blocks, e.active, e.first, e.ended = 0, 0, false, 0, 0
	e.last.Store(0)
	e.floor.reset()
}

func (e *ear) samples(d time.Duration) int64 {
	return int64(d) * int64(e.rate) / int64(time.Second)
}

// ago is the time from position at to now.
func (e *ear) ago(at int64) time.Duration {
	return time.Duration((e.now - at) * int64(time.Second) / int64(e.rate))
}

func (e *ear) setFloor(dBFS float64) {
	p := 0.0
	if dBFS > Quiet { // false for NaN too
		p = power(min(dBFS, 0))
	}
	e.extra.Store(math.Float64bits(p))
}

func (e *ear) level() float64 { return level(math.Float64frombits(e.last.Load())) }

// hear takes the next samples.
func (e *ear) hear(pcm []int16) {
	extra := math.Float64frombits(e.extra.Load())
	var total float64
	var count int
	for len(pcm) > 0 {
		part := pcm[:min(len(pcm), e.block-e.n)]
		pcm = pcm[len(part):]
		sum, squares := sums(part)
		e.sum, e.squares, e.n = e.sum+sum, e.squares+squares, e.n+len(part)
		e.now += int64(len(part))
		if e.n < e.block {
			break
		}
		// The variance: what is left without the offset that cheap lines add.
		n := float64(e.n)
		mean := float64(e.sum) / n
		p := max(0, float64(e.squares)/n-mean*mean)
		e.sum, e.squares, e.n = 0, 0, 0
		total += p
		count++
		e.judge(p, extra)
	}
	if count > 0 {
		e.last.Store(math.Float64bits(total / float64(count)))
	}
}

// sums is the one pass over the samples.
func sums(pcm []int16) (sum, squares int64) {
	for _, s := range pcm {
		v := int64(s)
		sum += v
		squares += v * v
	}
	return sum, squares
}

// judge takes the mean square of the next block.
func (e *ear) judge(p, extra float64) {
	f := e.floor.follow(p)
	threshold := max(f*e.margin, e.min, extra)
	if e.active {
		threshold = max(f*e.hold, hysteresis*max(e.min, extra))
	}
	e.blocks <<= 1
	if p > threshold {
		e.blocks |= 1
	}
	switch {
	case !e.active:
		recent := e.blocks & e.startMask
		if int64(bits.OnesCount64(recent)) >= e.startNeed {
			e.active = true
			e.first = e.now - int64(bits.Len64(recent)*e.block)
			e.ended = e.now
		}
	case bits.OnesCount64(e.blocks&7) >= 2: // one block alone is a crackle
		e.ended = e.now
	case e.now-e.ended >= e.stopLen:
		e.active = false
	}
}

// loud is how many of the latest n blocks were loud. n is at most 64.
func (e *ear) loud(n int) int { return bits.OnesCount64(e.blocks & (1<<n - 1)) }

// quiet forgets the present sound, so that only a new one is noticed.
func (e *ear) quiet() { e.active, e.blocks = false, 0 }

// floor follows the noise of a line: the lowest loudness within the last few
// seconds. A voice pauses more often than that, noise does not.
type floor struct {
	span   int // blocks in one part of the memory
	smooth float64
	lows   [8]float64 // the lowest of each part
	at     int        // the part being filled
	age    int        // blocks in it
	filled int        // parts filled so far, until all were
	low    float64    // lowest of lows
	lo, hi float64    // of the part being filled
	steady int        // parts in a row that hardly varied
}

const (
	smoothing = 0.25 // of a new block: a time constant of about 35 ms
	// steadiness is the most that a steady sound varies within a part: 4 dB.
	steadiness = 2.5
	// unsettled is -40 dBFS: more is not believed to be the floor before a whole
	// memory of it was heard, so that a caller who begins by speaking is heard.
	unsettled = fullScale * 1e-4
)

func (f *floor) reset() {
	*f = floor{span: f.span, smooth: -1, low: math.Inf(1), lo: math.Inf(1)}
	for i := range f.lows {
		f.lows[i] = math.Inf(1)
	}
}

// follow takes the mean square of the next block and returns the floor.
func (f *floor) follow(p float64) float64 {
	if f.smooth < 0 {
		f.smooth = p
	}
	f.smooth += smoothing * (p - f.smooth)
	f.lo, f.hi = min(f.lo, f.smooth), max(f.hi, f.smooth)
	f.low = min(f.low, f.smooth)
	if f.age++; f.age >= f.span {
		f.turn()
	}
	if f.filled < len(f.lows) {
		return min(f.low, unsettled)
	}
	return f.low
}

// turn ends a part of the memory.
func (f *floor) turn() {
	f.lows[f.at] = f.lo
	f.at = (f.at + 1) % len(f.lows)
	f.filled = min(f.filled+1, len(f.lows))
	if f.hi <= f.lo*steadiness {
		f.steady++
	} else {
		f.steady = 0
	}
	// No voice holds its level for so long: it is noise that has begun, or a tone,
	// and need not be waited for until the memory of silence has passed.
	if f.steady >= 2 {
		for i := range f.lows {
			f.lows[i] = f.lo
		}
		f.filled = len(f.lows)
	}
	f.low = f.lows[0]
	for _, l := range f.lows[1:] {
		f.low = min(f.low, l)
	}
	f.age, f.lo, f.hi = 0, f.smooth, f.smooth
}
