package jitter

import "time"

// wait estimates how long a missing packet is worth waiting for: as long as
// packets of this stream have lately been late by. A packet that overtakes
// nobody says nothing, and one that never comes neither, so a line that loses but
// does not reorder is not made slow.
//
//	late by 35 ms ─┐      the peak is taken at once
//	               └─╮___ and forgotten by a thousandth a packet: half in 14 s
type wait struct {
	min, max time.Duration
	peak     time.Duration
}

// late learns that a packet came by after it was first missed, in time or not.
func (w *wait) late(by time.Duration) {
	// What Max cannot save is not worth waiting for.
	if by <= w.max {
		w.peak = max(w.peak, by)
	}
}

// played forgets a little.
func (w *wait) played() { w.peak -= w.peak / 1024 }

// delay is the wait now: the peak and a quarter, and a tick of the wheel.
func (w *wait) delay() time.Duration {
	if w.peak == 0 {
		return w.min
	}
	return min(max(w.peak+w.peak/4+5*time.Millisecond, w.min), w.max)
}
