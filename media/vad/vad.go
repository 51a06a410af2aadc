// Package vad tells voice from silence in the sound of a caller.
//
// Two detectors stand behind one interface. Energy listens to loudness alone,
// over a noise floor that it follows; it costs a few microseconds a second and
// holds no model. Gated adds a neural Model that runs on a Pool of goroutines,
// woken only while the energy detector hears something, so silence costs nothing
// and no inference happens where packets are moved.
//
// # Edges
//
// Both say the same four things, always in this order:
//
//	(silence) ── Candidate ──┬── On ── Off ──> (silence)
//	                         └── Rejected ───> (silence)
//
// Candidate comes as early as anything can be known, about 50 ms into a sound: a
// conversation pauses its own voice there, which can be undone. On says that it
// is a voice: the conversation stops for good. Rejected says that it was a knock,
// a cough, a line click: the conversation goes on. Off ends a voice.
//
// At most one edge comes from one call of Process. All edges come from Process,
// on the caller's goroutine, also those that a model decided: its verdict is
// picked up with the next frame. So nobody needs a lock or has to order two
// sources of edges.
package vad

import (
	"fmt"
	"math"
	"time"
)

// Kind says what an Edge is.
type Kind uint8

// The kinds of edges. See the package comment for their order.
const (
	// None: nothing changed with this frame.
	None Kind = iota
	// Candidate: a sound has begun that may be a voice.
	Candidate
	// On: the candidate is a voice.
	On
	// Off: the voice has been silent for EnergyConfig.Stop.
	Off
	// Rejected: the candidate was no voice.
	Rejected
)

// String names the kind for logs.
func (k Kind) String() string {
	switch k {
	case None:
		return "none"
	case Candidate:
		return "candidate"
	case On:
		return "on"
	case Off:
		return "off"
	case Rejected:
		return "rejected"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Edge is a change between voice and silence.
type Edge struct {
	Kind Kind
	// Lag is how long before the end of the frame just processed it really
	// happened. For Candidate and On: the first sound. For Off and Rejected: the
	// end of the last sound.
	Lag time.Duration
}

// Detector finds where a voice begins and ends in one stream of sound.
//
// Process and Reset belong to one goroutine. Speaking, Level and SetFloor may be
// called from any.
type Detector interface {
	// Process takes the next piece of sound, usually 10, 20 or 30 ms, and returns
	// what changed. It neither blocks, allocates nor keeps pcm.
	Process(pcm []int16) Edge
	// Reset forgets the stream: silence, and a floor yet to be learned. No edge
	// tells of it.
	Reset()
	// Speaking is whether a voice is on: after On, before Off.
	Speaking() bool
	// Level is the loudness of the last frame in dBFS: 20*log10(rms/32768) without
	// its offset, so that a full sine is -3 dBFS. Silence is Quiet.
	Level() float64
	// SetFloor raises the threshold to at least dBFS until it is set again, for
	// while the agent itself speaks and may be heard as echo. Quiet or less takes
	// it away.
	SetFloor(dBFS float64)
}

// Quiet is the lowest level there is, in dBFS: below one step of 16 bits.
const Quiet = -96.0

// EnergyConfig configures the energy detector. Zero fields mean the default.
type EnergyConfig struct {
	// Rate is the sampling rate of the sound in Hz, 8000 to 48000.
	Rate int
	// Start is how much sound makes a Candidate. Default 40 ms; it may be
	// scattered over half as much time again. 10 to 400 ms.
	Start time.Duration
	// Confirm is how long after the Candidate it becomes On, if it went on
	// sounding for at least half of that time. Default 100 ms. With a model it is
	// how long the model has to recognise a voice. 10 to 600 ms.
	Confirm time.Duration
	// Stop is how much silence makes Off. Default 200 ms. At least 20 ms.
	Stop time.Duration
	// Margin is how far above the floor a sound must be to begin, in dB. Default
	// 10.
	Margin float64
	// Hold is how far above the floor it must stay to go on, in dB, at most
	// Margin. Default 6.
	Hold float64
	// MinLevel is the level in dBFS below which nothing is a sound however quiet
	// the line is. Default -50.
	MinLevel float64
	// Memory is how far back the floor is looked for: noise that changes its
	// level is taken for a voice no longer than this. Default 3.2 s. 400 ms to 30 s.
	Memory time.Duration
}

// DefaultEnergyConfig is the defaults for sound at rate Hz.
func DefaultEnergyConfig(rate int) EnergyConfig {
	return EnergyConfig{Rate: rate}.withDefaults()
}

func (c EnergyConfig) withDefaults() EnergyConfig {
	orTime(&c.Start, 40*time.Millisecond)
	orTime(&c.Confirm, 100*time.Millisecond)
	orTime(&c.Stop, 200*time.Millisecond)
	orTime(&c.Memory, 3200*time.Millisecond)
	orLevel(&c.Margin, 10)
	orLevel(&c.Hold, min(6, c.Margin))
	orLevel(&c.MinLevel, -50)
	return c
}

func orTime(d *time.Duration, def time.Duration) {
	if *d == 0 {
		*d = def
	}
}

func orLevel(v *float64, def float64) {
	if *v == 0 {
		*v = def
	}
}

// Validate says what is wrong with c, after the defaults were filled in.
func (c EnergyConfig) Validate() error {
	c = c.withDefaults()
	within := func(d, lo, hi time.Duration) bool { return d >= lo && d <= hi }
	const ms = time.Millisecond
	switch {
	case c.Rate < 8000 || c.Rate > 48000:
		return fmt.Errorf("vad: rate %d Hz is not within 8000 and 48000", c.Rate)
	case !within(c.Start, 10*ms, 400*ms):
		return fmt.Errorf("vad: start %v is not within 10ms and 400ms", c.Start)
	case !within(c.Confirm, 10*ms, 600*ms):
		return fmt.Errorf("vad: confirm %v is not within 10ms and 600ms", c.Confirm)
	case !within(c.Stop, 20*ms, time.Minute):
		return fmt.Errorf("vad: stop %v is not within 20ms and 1m", c.Stop)
	case !within(c.Memory, 400*ms, 30*time.Second):
		return fmt.Errorf("vad: memory %v is not within 400ms and 30s", c.Memory)
	case !(c.Margin > 0 && c.Margin <= 60):
		return fmt.Errorf("vad: margin %g dB is not within 0 and 60", c.Margin)
	case !(c.Hold > 0 && c.Hold <= c.Margin):
		return fmt.Errorf("vad: hold %g dB is not within 0 and the margin of %g", c.Hold, c.Margin)
	case !(c.MinLevel >= Quiet && c.MinLevel <= 0):
		return fmt.Errorf("vad: minimum level %g dBFS is not within %g and 0", c.MinLevel, Quiet)
	}
	return nil
}

// ratio is a distance in dB as a factor of power.
func ratio(dB float64) float64 { return math.Pow(10, dB/10) }

// fullScale is the mean square of 0 dBFS.
const fullScale = 32768.0 * 32768.0

// power is a level in dBFS as a mean square of samples.
func power(dBFS float64) float64 { return fullScale * ratio(dBFS) }

// level is a mean square of samples in dBFS.
func level(meanSquare float64) float64 {
	if meanSquare <= 0 {
		return Quiet
	}
	return max(Quiet, 10*math.Log10(meanSquare/fullScale))
}
