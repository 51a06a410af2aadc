package call

import (
	"slices"
	"sync/atomic"
	"time"
)

// delayBounds are the upper bounds of the buckets of the gateway's own delays; a
// last bucket takes the rest. They lie around the bars of docs/performance.md.
var delayBounds = [...]time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 8 * time.Millisecond, 10 * time.Millisecond,
	15 * time.Millisecond, 20 * time.Millisecond, 30 * time.Millisecond, 60 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
}

// Delay counts durations by size since the server began. It is a copy: nobody
// changes it.
type Delay struct {
	// Bounds are the inclusive upper bounds of all buckets but the last, and Counts
	// how many durations fell into each: one more than there are bounds.
	Bounds []time.Duration
	Counts []uint64
	// Sum of all durations, and the largest.
	Sum, Max time.Duration
}

// Total is how many durations were counted.
func (d Delay) Total() (n uint64) {
	for _, c := range d.Counts {
		n += c
	}
	return n
}

// Quantile is an upper bound of the q-th quantile, 0 to 1: the bound of the bucket
// that it falls in, but no more than Max. 0 when nothing was counted.
func (d Delay) Quantile(q float64) time.Duration {
	rank := uint64(q * float64(d.Total()))
	for i, n := range d.Counts {
		if rank < n && i < len(d.Bounds) {
			return min(d.Bounds[i], d.Max)
		}
		if rank < n {
			break
		}
		rank -= n
	}
	return d.Max
}

// Delays are what the gateway itself adds to a conversation, over all calls since
// the server began. docs/sound.md says how to read them.
type Delays struct {
	// Hear is from a packet's arrival at the socket until its sound is given to the
	// agent, of one packet in 32.
	Hear Delay
	// Say is from the first sample that an idle mouth is given until its packet goes
	// out.
	Say Delay
	// Stop is from Speaker.Stop amid speech until the first packet of silence goes out;
	// no packet of speech does after Stop.
	Stop Delay
}

// SoundStats are the figures of the sound of all calls since the server began.
type SoundStats struct {
	Delays Delays
	// SpeechDropped is how much speech of agents was never sent because a stall had
	// made it too late.
	SpeechDropped time.Duration
	Recording     RecordingStats
}

// SoundStats are the figures so far. It may be called at any time, from any
// goroutine, and waits for nobody.
func (s *Server) SoundStats() SoundStats {
	d := &s.delays
	return SoundStats{
		Delays:        Delays{Hear: d.hear.snapshot(), Say: d.say.snapshot(), Stop: d.stop.snapshot()},
		SpeechDropped: time.Duration(d.dropped.Load()),
		Recording:     s.recorder.stats(),
	}
}

// delays are the delays while they are counted: by the wheel, and with atomics
// because others read them. Nobody waits for anybody.
type delays struct {
	hear, say, stop delay
	dropped         atomic.Int64 // speech, in nanoseconds
}

type delay struct {
	counts   [len(delayBounds) + 1]atomic.Uint64
	sum, max atomic.Int64
}

func (d *delay) observe(t time.Duration) {
	t = max(0, t)
	i := 0
	for i < len(delayBounds) && t > delayBounds[i] {
		i++
	}
	d.counts[i].Add(1)
	d.sum.Add(int64(t))
	for was := d.max.Load(); int64(t) > was && !d.max.CompareAndSwap(was, int64(t)); was = d.max.Load() {
	}
}

func (d *delay) snapshot() Delay {
	out := Delay{Bounds: slices.Clone(delayBounds[:]), Counts: make([]uint64, len(d.counts))}
	for i := range d.counts {
		out.Counts[i] = d.counts[i].Load()
	}
	out.Sum, out.Max = time.Duration(d.sum.Load()), time.Duration(d.max.Load())
	return out
}
