package rtp

import (
	"sync/atomic"
	"time"
)

// latenessBounds are the upper bounds of the buckets of a Histogram; a last
// bucket takes the rest.
var latenessBounds = [...]time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond, 750 * time.Microsecond,
	time.Millisecond, 1500 * time.Microsecond, 2 * time.Millisecond, 3 * time.Millisecond,
	5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond,
}

// Histogram counts durations by size.
type Histogram struct {
	// Counts has one entry for each bucket, the last for all above the bounds.
	Counts [len(latenessBounds) + 1]uint64
	// Sum of all durations, and the largest.
	Sum, Max time.Duration
}

// Bounds are the inclusive upper bounds of all buckets but the last.
func (h Histogram) Bounds() []time.Duration { return latenessBounds[:] }

// Quantile is an upper bound of the q-th quantile (0 to 1): the bound of the
// bucket it falls in. 0 when nothing was counted.
func (h Histogram) Quantile(q float64) time.Duration {
	var total uint64
	for _, n := range h.Counts {
		total += n
	}
	if total == 0 {
		return 0
	}
	rank := uint64(q * float64(total))
	for i, n := range h.Counts {
		if rank < n || i == len(latenessBounds) {
			if i == len(latenessBounds) {
				return h.Max
			}
			return min(latenessBounds[i], h.Max)
		}
		rank -= n
	}
	return h.Max
}

// histogram is the Histogram while it is being counted: one writer, any readers.
type histogram struct {
	counts   [len(latenessBounds) + 1]atomic.Uint64
	sum, max atomic.Int64
}

func (h *histogram) observe(d time.Duration) {
	i := 0
	for i < len(latenessBounds) && d > latenessBounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
	if int64(d) > h.max.Load() {
		h.max.Store(int64(d))
	}
}

func (h *histogram) snapshot() (out Histogram) {
	for i := range h.counts {
		out.Counts[i] = h.counts[i].Load()
	}
	out.Sum, out.Max = time.Duration(h.sum.Load()), time.Duration(h.max.Load())
	return out
}
