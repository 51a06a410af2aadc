package vad

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// EchoConfig configures an Echo. Zero fields mean the default.
type EchoConfig struct {
	// Loss is by how many dB an echo is taken to be softer than what was sent, as long as
	// nothing was measured. Default 20. 0 to 60.
	Loss float64
	// Margin is how many dB above the loudest echo a sound must be. Default 6. 0 to 30.
	Margin float64
	// Delay is how long after it was sent an echo may come, with what jitter buffers add.
	// Default 500 ms. 20 ms to 2 s.
	Delay time.Duration
}

func (c EchoConfig) withDefaults() EchoConfig {
	orLevel(&c.Loss, 20)
	orLevel(&c.Margin, 6)
	orTime(&c.Delay, 500*time.Millisecond)
	return c
}

// Validate says all that is wrong with c, after the defaults were filled in.
func (c EchoConfig) Validate() error {
	c = c.withDefaults()
	var errs []error
	if !(c.Loss >= 0 && c.Loss <= 60) {
		errs = append(errs, fmt.Errorf("vad: echo loss %g dB is not within 0 and 60", c.Loss))
	}
	if !(c.Margin >= 0 && c.Margin <= 30) {
		errs = append(errs, fmt.Errorf("vad: echo margin %g dB is not within 0 and 30", c.Margin))
	}
	if c.Delay < echoStep || c.Delay > 2*time.Second {
		errs = append(errs, fmt.Errorf("vad: echo delay %v is not within 20ms and 2s", c.Delay))
	}
	return errors.Join(errs...)
}

// Echo follows how loud the agent is on the line, and says how loud its echo may be: on
// a line without echo cancellation that much has to be exceeded by whoever interrupts.
//
//	Sent ──> the loudest of the last Delay ──┐
//	                                          ├──> Floor ──> Detector.SetFloor
//	Heard ─> loudest of half a second ─> gain ┘
//
// The gain of the path is measured all the time: whatever comes in while the agent
// speaks, its echo is no louder than that, after whatever delay. The lowest of the last
// eight half seconds of speech holds, so that a caller who speaks meanwhile does not raise
// it, and a handset that becomes a loudspeaker is noticed in four seconds of speech, or at
// once when a sound began within the agent's speech and ended when the agent was silenced
// for it.
//
// An Echo starts nothing, allocates nothing and belongs to one goroutine. Levels are those
// of Loudness.
type Echo struct {
	loss, margin float64
	sent         []float64 // one level a step, in a ring
	at           int
	rest         time.Duration // sent and no whole step yet
	loud         float64       // the loudest of sent

	heard   time.Duration // and no whole step yet
	loudest float64       // of that

	frames int       // heard in this block while an echo could be
	peak   float64   // the loudest of them
	spoken []float64 // the loudest that was sent so many steps before them
	blocks int       // measured so far
	gains  [8]float64
	gain   float64 // the lowest of gains
	boost  float64 // from a sound that proved to be echo; until a block says otherwise

	silent  int // steps since the agent was heard last
	sounds  bool
	length  int // steps of that sound
	highest float64
	against float64 // the loudest that was sent during it
	recent  [3]float64
}

const (
	echoStep = 20 * time.Millisecond
	// audible is the level in dBFS from which speech of the agent counts.
	audible = -50.0
	// A block is half a second of speech.
	echoBlock = 25
	// evenness is how much the loudest of a block may differ over all delays: else the
	// agent spoke for too short a time to tell anything.
	evenness = 6.0
	// leastLoss and mostLoss bound the path.
	leastLoss, mostLoss = 1.0, 60.0
	// A sound longer than this many steps is no echo of what ended with it.
	longestEcho = 40
)

// NewEcho makes an Echo. It fails only on what c.Validate refuses.
func NewEcho(c EchoConfig) (*Echo, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	steps := int((c.Delay + echoStep - 1) / echoStep)
	e := &Echo{loss: c.Loss, margin: c.Margin, sent: make([]float64, steps), spoken: make([]float64, steps)}
	e.Reset()
	return e, nil
}

// Reset forgets the line.
func (e *Echo) Reset() {
	*e = Echo{
		loss: e.loss, margin: e.margin, sent: e.sent, spoken: e.spoken,
		loud: Quiet, loudest: Quiet, gain: bounded(-e.loss), boost: -mostLoss, silent: math.MaxInt32,
	}
	for i := range e.sent {
		e.sent[i] = Quiet
	}
	for i := range e.gains {
		e.gains[i] = e.gain
	}
	e.restart()
}

// Sent tells how loud what goes out for d is, in dBFS; Quiet for silence.
func (e *Echo) Sent(level float64, d time.Duration) {
	if math.IsNaN(level) {
		level = Quiet
	}
	for e.rest += min(d, 2*time.Second); e.rest >= echoStep; e.rest -= echoStep {
		was := e.sent[e.at]
		e.sent[e.at] = level
		e.at = (e.at + 1) % len(e.sent)
		switch {
		case level >= e.loud:
			e.loud = level
		case was >= e.loud: // the loudest goes
			e.loud = Quiet
			for _, l := range e.sent {
				e.loud = max(e.loud, l)
			}
		}
		if e.silent < math.MaxInt32 {
			e.silent++
		}
		if level >= audible {
			e.silent = 0
		}
	}
}

// Floor is the level in dBFS that the agent's echo stays below; Quiet when the agent was
// not heard lately.
func (e *Echo) Floor() float64 {
	if e.loud < audible {
		return Quiet
	}
	return max(Quiet, min(e.loud+e.path()+e.margin, -1))
}

// Above says whether a sound of that level is louder than the agent's echo.
func (e *Echo) Above(level float64) bool { return level > e.Floor() }

// Gain is the estimate of the path in dB, below 0.
func (e *Echo) Gain() float64 { return e.path() }

func (e *Echo) path() float64 { return max(e.gain, e.boost) }

// Heard tells how loud the next sound of the caller was, in dBFS, and how long.
func (e *Echo) Heard(level float64, d time.Duration) {
	if math.IsNaN(level) {
		level = Quiet
	}
	e.loudest = max(e.loudest, level)
	for e.heard += min(d, 2*time.Second); e.heard >= echoStep; e.heard -= echoStep {
		e.step(e.loudest)
	}
	if e.heard == 0 {
		e.loudest = Quiet
	}
}

// step takes 20 ms of the caller.
func (e *Echo) step(level float64) {
	copy(e.recent[1:], e.recent[:])
	e.recent[0] = level
	if e.sounds {
		e.length++
		e.highest = max(e.highest, level)
		e.against = max(e.against, e.loud)
	}
	if e.loud < audible {
		return
	}
	e.frames++
	e.peak = max(e.peak, level)
	oldest := len(e.sent) - e.at // steps from there to the end of the ring
	louder(e.spoken[:oldest], e.sent[e.at:])
	louder(e.spoken[oldest:], e.sent[:e.at])
	if e.frames >= echoBlock {
		e.measure()
	}
}

// measure ends a block. What came in was at least the echo, so the path is no better
// than what came in is against what was sent, at the delay that is worst for us.
func (e *Echo) measure() {
	least, most := e.spoken[0], e.spoken[0]
	for _, l := range e.spoken {
		least, most = min(least, l), max(most, l)
	}
	if least >= audible && most-least <= evenness {
		g := bounded(e.peak - least)
		e.gains[e.blocks%len(e.gains)] = g
		e.blocks++
		e.boost = min(e.boost, g)
		e.gain = 0
		for _, g := range e.gains {
			e.gain = min(e.gain, g)
		}
	}
	e.restart()
}

// louder keeps in a what is louder in b.
func louder(a, b []float64) {
	for i, l := range b {
		a[i] = max(a[i], l)
	}
}

func (e *Echo) restart() {
	e.frames, e.peak = 0, Quiet
	for i := range e.spoken {
		e.spoken[i] = Quiet
	}
}

// bounded is a gain within what a path can have.
func bounded(gain float64) float64 { return max(-mostLoss, min(gain, -leastLoss)) }

// Edge tells what the Detector found: a sound that begins while the agent is heard, and
// ends when the agent has been silenced, was its echo.
func (e *Echo) Edge(v Edge) {
	switch v.Kind {
	case Candidate:
		e.sounds = e.loud >= audible
		e.length, e.against = int(v.Lag/echoStep), e.loud
		e.highest = max(e.recent[0], e.recent[1], e.recent[2])
	case Off, Rejected:
		lag := int(v.Lag / echoStep)
		// A sound that still goes on has not ended with the agent: a model took it for no voice.
		within := lag >= 2 && e.silent >= lag && e.silent-lag <= len(e.sent)
		if e.sounds && within && e.length-lag <= longestEcho {
			e.boost = max(e.boost, bounded(e.highest-e.against))
		}
		e.sounds = false
	}
}

// Loudness is the level of pcm in dBFS, as Detector.Level: 20*log10(rms/32768) without
// the offset. Of more than one part of n samples it is that of the loudest; n of 0 means
// one part.
func Loudness(pcm []int16, n int) float64 {
	if n <= 0 {
		n = max(1, len(pcm))
	}
	loudest := 0.0
	for len(pcm) > 0 {
		part := pcm[:min(n, len(pcm))]
		pcm = pcm[len(part):]
		sum, squares := sums(part)
		mean := float64(sum) / float64(len(part))
		loudest = max(loudest, float64(squares)/float64(len(part))-mean*mean)
	}
	return level(loudest)
}
