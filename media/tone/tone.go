// Package tone makes test and telephone tones: sines, key tones, the ringing
// that a caller hears, and noise; and it hears key tones.
//
// Levels are in dBFS, 20*log10(rms/32768), as everywhere in Parley: a sine of
// -3.01 dBFS reaches full scale.
package tone

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Source is an endless sound. One goroutine at a time may use it.
type Source interface {
	// Append appends the next n samples to dst and returns the longer slice. It
	// allocates only when dst has no room.
	Append(dst []int16, n int) []int16
}

// Take is the first d of s at rate Hz as a new slice.
func Take(s Source, rate int, d time.Duration) []int16 {
	n := max(0, int(int64(d)*int64(rate)/int64(time.Second)))
	return s.Append(make([]int16, 0, n), n)
}

// wave is one sine: a unit vector turned by a fixed angle for each sample. It is
// set upright again now and then, so that rounding does not make it grow.
type wave struct {
	re, im       float64 // where it is
	turnR, turnI float64
	at           int
}

const upright = 1024

func (w *wave) next() float64 {
	v := w.im
	w.re, w.im = w.re*w.turnR-w.im*w.turnI, w.re*w.turnI+w.im*w.turnR
	if w.at++; w.at == upright {
		w.at = 0
		length := math.Hypot(w.re, w.im)
		w.re, w.im = w.re/length, w.im/length
	}
	return v
}

// Sines is a sum of sines, steady or in the rhythm of a cadence.
type Sines struct {
	rate      int
	amplitude float64
	waves     []wave
	cadence   []int // samples on, off, on, …; empty: always on
	part      int
	left      int
}

// Sine is a tone of hz at rate Hz.
func Sine(rate int, hz, dBFS float64) *Sines { return sines(rate, dBFS, hz) }

// Dual is two tones of the same level; dBFS is that of their sum.
func Dual(rate int, low, high, dBFS float64) *Sines { return sines(rate, dBFS, low, high) }

func sines(rate int, dBFS float64, hz ...float64) *Sines {
	s := &Sines{
		rate:      rate,
		amplitude: amplitude(dBFS) * math.Sqrt2 / math.Sqrt(float64(len(hz))),
	}
	for _, f := range hz {
		turn := 2 * math.Pi * f / float64(rate)
		s.waves = append(s.waves, wave{re: 1, turnR: math.Cos(turn), turnI: math.Sin(turn)})
	}
	return s
}

// amplitude is the rms of a level.
func amplitude(dBFS float64) float64 { return 32768 * math.Pow(10, dBFS/20) }

// keys are those of a telephone, row by row (ITU-T Q.23).
const keys = "123A456B789C*0#D"

// The tones of its rows and columns in Hz.
var (
	lowTones  = [4]float64{697, 770, 852, 941}
	highTones = [4]float64{1209, 1336, 1477, 1633}
)

// Digit is the sound of a key (DTMF): 0 to 9, *, #, A to D in either case.
func Digit(rate int, key byte, dBFS float64) (*Sines, error) {
	i := strings.IndexByte(keys, upper(key))
	if i < 0 {
		return nil, fmt.Errorf("tone: %q is no key of a telephone", key)
	}
	return Dual(rate, lowTones[i/4], highTones[i%4], dBFS), nil
}

func upper(b byte) byte {
	if b >= 'a' && b <= 'z' {
		return b - 'a' + 'A'
	}
	return b
}

// Ringback is the ringing tone that a caller hears in a country (ITU-T E.180),
// named as in ISO 3166: US, CA, GB, AU, NZ, JP, FR have their own; all others, and
// none, the 425 Hz of most of the world.
func Ringback(rate int, country string, dBFS float64) *Sines {
	const ms = time.Millisecond
	switch strings.ToUpper(country) {
	case "US", "CA":
		return sines(rate, dBFS, 440, 480).Cadence(2*time.Second, 4*time.Second)
	case "GB", "AU", "NZ":
		return sines(rate, dBFS, 400, 450).Cadence(400*ms, 200*ms, 400*ms, 2*time.Second)
	case "JP":
		return sines(rate, dBFS, 384, 416).Cadence(time.Second, 2*time.Second)
	case "FR":
		return sines(rate, dBFS, 440).Cadence(1500*ms, 3500*ms)
	}
	return sines(rate, dBFS, 425).Cadence(time.Second, 4*time.Second)
}

// Waiting is what fills a silence for somebody who waits: two soft notes, each swelling and
// fading, and no louder than -30 dBFS. It lasts 360 ms.
func Waiting(rate int) []int16 {
	const note, gap = 140 * time.Millisecond, 40 * time.Millisecond
	var pcm []int16
	for _, hz := range []float64{440, 554} {
		at := len(pcm)
		pcm = append(pcm, Take(Sine(rate, hz, -30.3-3.01), rate, note)...)
		n := len(pcm) - at
		for i := range n {
			swell := math.Sin(math.Pi * float64(i) / float64(n))
			pcm[at+i] = clip(float64(pcm[at+i]) * swell * swell)
		}
		pcm = append(pcm, make([]int16, int(int64(rate)*int64(gap)/int64(time.Second)))...)
	}
	return pcm
}

// Cadence is s in a rhythm: on, off, on, off and so on, over and over. It changes
// s and returns it. No times, or any of less than one sample, leave it as it was.
func (s *Sines) Cadence(times ...time.Duration) *Sines {
	var cadence []int
	for _, d := range times {
		n := int(int64(d) * int64(s.rate) / int64(time.Second))
		if n < 1 {
			return s
		}
		cadence = append(cadence, n)
	}
	if len(cadence) > 0 {
		s.cadence, s.part, s.left = cadence, 0, cadence[0]
	}
	return s
}

// Append implements Source.
func (s *Sines) Append(dst []int16, n int) []int16 {
	for range max(0, n) {
		v := 0.0
		for i := range s.waves {
			v += s.waves[i].next()
		}
		if !s.on() {
			v = 0
		}
		dst = append(dst, clip(v*s.amplitude))
	}
	return dst
}

// on is whether the cadence sounds at this sample.
func (s *Sines) on() bool {
	if len(s.cadence) == 0 {
		return true
	}
	for s.left == 0 {
		s.part = (s.part + 1) % len(s.cadence)
		s.left = s.cadence[s.part]
	}
	s.left--
	return s.part%2 == 0
}

// Hiss is white noise with a normal distribution.
type Hiss struct {
	rms  float64
	seed uint64
}

// Noise is white noise. Equal seeds give equal noise on any machine.
func Noise(dBFS float64, seed uint64) *Hiss {
	return &Hiss{rms: amplitude(dBFS), seed: seed}
}

// Append implements Source.
func (h *Hiss) Append(dst []int16, n int) []int16 {
	for range max(0, n) {
		// Twelve uniform numbers of variance 1/12 add up to a nearly normal one of
		// variance 1.
		sum := 0.0
		for range 3 {
			r := h.next()
			for k := range 4 {
				sum += float64(uint16(r>>(16*k))) / 65536
			}
		}
		dst = append(dst, clip((sum-6)*h.rms))
	}
	return dst
}

// next is Vigna's splitmix64.
func (h *Hiss) next() uint64 {
	h.seed += 0x9E3779B97F4A7C15
	z := h.seed
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

func clip(v float64) int16 {
	return int16(math.Round(min(math.MaxInt16, max(math.MinInt16, v))))
}
