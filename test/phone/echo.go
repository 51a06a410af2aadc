package phone

import (
	"math"
	"slices"
	"sync"
	"time"
)

// Echo is a line, or a loudspeaker, that gives what is heard back to the microphone.
// The zero value gives nothing back.
type Echo struct {
	// Level is that of the echo against what is heard, in dB: -20 is a tenth. 0 is no
	// echo at all.
	Level float64
	// Delay is how much later it comes.
	Delay time.Duration
}

// echo holds what is on its way back. What is heard is put where it comes back on the
// phone's clock; what is sent takes it from there.
type echo struct {
	factor float64
	delay  time.Duration

	mu     sync.Mutex
	sound  []int16
	origin int // of sound, in samples of the phone's clock
	next   int // where the next packet goes when it follows on the last
	taken  int // up to where it was sent
}

// apart is how far a packet may be from the place where the last one ended and still
// follow on it, in samples: the jitter of arrivals is no gap.
const apart = 60 * sampleRate / 1000

func newEcho(c Echo) *echo {
	if c.Level == 0 {
		return nil
	}
	return &echo{factor: math.Pow(10, c.Level/20), delay: c.Delay}
}

func samplesAt(at time.Duration) int { return int(at * sampleRate / time.Second) }

// heard takes a packet that arrived.
func (e *echo) heard(at time.Duration, pcm []int16) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	place := samplesAt(at + e.delay)
	if d := place - e.next; d > -apart && d < apart {
		place = e.next
	}
	place = max(place, e.taken)
	e.next = place + len(pcm)
	if len(e.sound) == 0 {
		e.origin = place
	}
	if grow := e.next - e.origin - len(e.sound); grow > 0 {
		e.sound = append(e.sound, make([]int16, grow)...)
	}
	for i, v := range pcm {
		if at := place - e.origin + i; at >= 0 {
			e.sound[at] = int16(float64(v) * e.factor)
		}
	}
}

// take is what comes back in the packet that is sent now; nil for nothing.
func (e *echo) take(now time.Duration) []int16 {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	from := samplesAt(now)
	if d := from - e.taken; d > -apart && d < apart {
		from = e.taken
	}
	e.taken = from + frameSamples
	skip := from - e.origin
	if len(e.sound) == 0 || skip+frameSamples <= 0 {
		return nil
	}
	out := make([]int16, frameSamples)
	if skip < 0 {
		copy(out[-skip:], e.sound)
	} else if skip < len(e.sound) {
		copy(out, e.sound[skip:])
	}
	if drop := min(len(e.sound), skip+frameSamples); drop > 0 {
		e.sound, e.origin = slices.Delete(e.sound, 0, drop), e.origin+drop
	}
	return out
}
