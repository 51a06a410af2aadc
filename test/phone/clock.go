package phone

import "time"

// clock counts from the phone's start. Both of its readings come from the same
// monotonic source, so a step of the wall clock cannot bend a measurement.
type clock struct {
	start time.Time
}

func newClock() clock { return clock{start: time.Now()} }

// now is the time since the phone began.
func (c clock) now() time.Duration { return time.Since(c.start) }

// wall turns a time of this clock to wall-clock time, for captures and people.
func (c clock) wall(at time.Duration) time.Time { return c.start.Add(at) }

// arrival places a kernel timestamp, which is wall-clock time, on this clock. Both
// clocks are read here, a moment after the packet came, so only a step within that
// moment would matter; such a reading is replaced by the time of reading.
func (c clock) arrival(kernel time.Time) time.Duration {
	read := time.Now()
	at := read.Sub(c.start)
	if kernel.IsZero() {
		return at
	}
	ago := read.Round(0).Sub(kernel)
	if ago < 0 || ago > time.Minute {
		return at
	}
	return at - ago
}
