// Package plc makes up sound for packets that never came, in the spirit of ITU-T
// G.711 Appendix I: the last pitch period is repeated, fades, and gives way to
// noise as loud as the line's own. Unlike the appendix it adds no delay: what was
// played cannot be changed any more, so the join is smoothed on its far side.
//
// A gap filled with silence is a click at each end, and with zero bytes of G.711
// it is worse than that.
package plc

import (
	"math"
	"time"
)

// The times of Appendix I, but for match: it compares 20 ms. On prompts spoken by
// people the shorter piece follows a gliding pitch better.
const (
	shortestPitch = 5 * time.Millisecond
	longestPitch  = 15 * time.Millisecond
	match         = 10 * time.Millisecond // compared when the pitch is looked for
	hold          = 10 * time.Millisecond // before fading begins
	fade          = 60 * time.Millisecond // nothing is left of the voice
)

// Concealer remembers the recent sound of one stream, about 1 KB at 8 kHz,
// and as much again from the first gap on. One goroutine at a time may use it. It allocates
// in that first gap only.
type Concealer struct {
	rate               int
	pitchMin, pitchMax int
	matchN             int
	ten, fadeEnd       int // samples in 10 and 60 ms
	// past is the latest sound, newest last: three of the longest periods and a
	// quarter for the cross-fade.
	past []int16
	// voice is past as it was when the present gap began; nil before the first.
	voice []int16

	gap    int     // samples made up since the last good one
	period int     // of the voice, in samples; 0: none, noise only
	cycles int     // periods in the cycle: 1 to 3
	at     int     // next sample of the cycle
	step   float64 // by which the first made-up sample would jump
	heard  int     // samples of past that are known

	background float64 // rms of the quietest recent sound
	noise      float64 // memory of the noise's colour
	seed       uint32
}

// New makes a concealer for sound at rate Hz, 8000 to 48000. Rates outside that
// are taken for the nearer of the two.
func New(rate int) *Concealer {
	rate = min(max(rate, 8000), 48000)
	n := func(d time.Duration) int { return int(int64(d) * int64(rate) / int64(time.Second)) }
	longest := n(longestPitch)
	size := 3*longest + longest/4
	return &Concealer{
		rate:     rate,
		pitchMin: n(shortestPitch),
		pitchMax: longest,
		matchN:   n(match),
		ten:      n(hold),
		fadeEnd:  n(fade),
		past:     make([]int16, size),
		seed:     0x9E3779B9,
	}
}

// Reset forgets the stream.
func (c *Concealer) Reset() {
	clear(c.past)
	c.gap, c.heard, c.background, c.step, c.noise = 0, 0, 0, 0, 0
}

// Good takes every decoded frame, in order. After a gap it blends the made-up
// sound into the beginning of pcm, in place. It does not keep pcm.
func (c *Concealer) Good(pcm []int16) {
	if len(pcm) == 0 {
		return
	}
	if c.gap > 0 {
		c.rejoin(pcm)
	}
	c.measure(pcm)
	c.remember(pcm)
	c.heard = min(c.heard+len(pcm), len(c.past))
}

// rejoin cross-fades from the made-up sound to the real one: 4 ms, and 4 more for
// each further 10 ms of gap, at most 10.
func (c *Concealer) rejoin(pcm []int16) {
	n := c.ten * 4 / 10 * (1 + max(0, c.gap-c.ten)/c.ten)
	n = min(n, c.ten, len(pcm))
	for i := range n {
		w := (float64(i) + 0.5) / float64(n)
		pcm[i] = clip(float64(pcm[i])*w + c.next()*(1-w))
	}
	c.gap, c.step = 0, 0
}

// Conceal appends n made-up samples to dst and returns the longer slice. Calls
// without a Good between them go on with the same gap.
func (c *Concealer) Conceal(dst []int16, n int) []int16 {
	if n <= 0 {
		return dst
	}
	if c.gap == 0 {
		c.begin()
	}
	old := len(dst)
	for range n {
		dst = append(dst, clip(c.next()))
	}
	c.remember(dst[old:])
	return dst
}

// begin prepares for a gap.
func (c *Concealer) begin() {
	if c.heard < c.matchN+c.pitchMax {
		c.period = 0 // too little is known: noise only
		return
	}
	if c.voice == nil {
		c.voice = make([]int16, len(c.past))
	}
	copy(c.voice, c.past)
	c.period, c.cycles, c.at = c.pitch(), 1, 0
	// The sound jumps from the last sample played to the one that followed it a
	// period ago. What the two differ by is taken back over a quarter period.
	end := len(c.past)
	c.step = float64(c.past[end-1]) - float64(c.past[end-1-c.period])
}

// next is the next made-up sample.
func (c *Concealer) next() float64 {
	gain := 1 - float64(c.gap-c.ten)/float64(c.fadeEnd-c.ten)
	gain = min(1, max(0, gain))
	c.gap++
	if c.period == 0 || gain == 0 {
		return c.hiss()
	}
	v := c.repeat()
	if gain == 1 {
		return v
	}
	return v*gain + c.hiss()*math.Sqrt(1-gain*gain)
}

// repeat is the next sample of the voice, which goes round in a cycle of the
// latest one to three periods. The last quarter period of a cycle passes over
// into what preceded the cycle, and so runs into its beginning without a step.
func (c *Concealer) repeat() float64 {
	end := len(c.voice)
	cycle, quarter := c.cycles*c.period, c.period/4
	i := end - cycle + c.at
	v := float64(c.voice[i])
	if late := c.at - (cycle - quarter); late >= 0 {
		w := (float64(late) + 0.5) / float64(quarter)
		v += w * (float64(c.voice[i-cycle]) - v)
	}
	if c.gap <= quarter {
		v += c.step * (1 - float64(c.gap)/float64(quarter+1))
	}
	if c.at++; c.at == cycle {
		// One period over and over soon sounds like a buzzer: take another one in
		// for each 10 ms. This pass begins where the shorter cycle would have.
		more := min(3, 1+c.gap/c.ten) - c.cycles
		c.at = more * c.period
		c.cycles += more
	}
	return v
}

// hiss is a sample of noise as loud as the background.
func (c *Concealer) hiss() float64 {
	c.seed = c.seed*1664525 + 1013904223
	white := float64(int32(c.seed)) / (1 << 31)
	c.noise = 0.5*c.noise + white // lines hiss less towards the top
	return c.noise * c.background * 1.5
}

// pitch is the distance in samples at which the latest sound resembles itself
// most. Every second sample at 8 kHz is compared at first, then all of them
// around the best.
func (c *Concealer) pitch() int {
	stride := max(1, c.rate/8000)
	best := c.best(c.pitchMin, c.pitchMax, stride, 2*stride)
	return c.best(max(c.pitchMin, best-stride), min(c.pitchMax, best+stride), 1, 1)
}

// best tries the periods from lo to hi.
func (c *Concealer) best(lo, hi, stride, skip int) int {
	end := len(c.past)
	now := c.past[end-c.matchN:]
	found, score := lo, math.Inf(-1)
	for lag := lo; lag <= hi; lag += stride {
		then := c.past[end-c.matchN-lag : end-lag]
		var product, energy int64
		for i := 0; i < len(now) && i < len(then); i += skip {
			x := int64(then[i])
			product += int64(now[i]) * x
			energy += x * x
		}
		p := float64(product)
		if s := p * math.Abs(p) / float64(energy+1); s > score {
			found, score = lag, s
		}
	}
	return found
}

// loudest bounds the made-up background: -50 dBFS. A steady tone is not noise.
const loudest = 104

// measure follows the background: down at once, up by a quarter each second.
func (c *Concealer) measure(pcm []int16) {
	sum := int64(0)
	for _, s := range pcm {
		sum += int64(s) * int64(s)
	}
	rms := math.Sqrt(float64(sum) / float64(len(pcm)))
	limit := float64(loudest)
	if c.heard > 0 {
		limit = max(c.background, 1) * (1 + 0.25*float64(len(pcm))/float64(c.rate))
	}
	c.background = min(rms, limit, loudest)
}

// remember moves pcm into past.
func (c *Concealer) remember(pcm []int16) {
	if n := len(pcm) - len(c.past); n > 0 {
		pcm = pcm[n:]
	}
	copy(c.past, c.past[len(pcm):])
	copy(c.past[len(c.past)-len(pcm):], pcm)
}

// clip rounds to the nearest sample.
func clip(v float64) int16 {
	return int16(math.Floor(min(math.MaxInt16, max(math.MinInt16, v)) + 0.5))
}
