// Package resample changes the sampling rate of sound: a polyphase FIR filter
// with a Kaiser-windowed sinc, for any pair of the rates that telephones, speech
// services and files use. What would alias is 80 dB down.
package resample

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Quality chooses between delay and sharpness.
type Quality uint8

const (
	// Voice is flat to 85 % of half the lower rate (3.4 kHz at 8 kHz) and stops
	// everything above half of it. Its delay is 32 samples of the lower rate:
	// 4 ms at 8 kHz.
	Voice Quality = iota
	// Fast has half the delay and half the cost. It is as flat, but sounds within
	// 17 % above half the lower rate fold back beneath it.
	Fast
)

// crossings is how many zero crossings of the sinc are kept on each side.
func (q Quality) crossings() int {
	if q == Fast {
		return 16
	}
	return 32
}

// Rates are the sampling rates in Hz that New takes.
func Rates() []int {
	return []int{8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000}
}

// chunk is how many input samples are filtered at a time. It bounds the memory
// of a Resampler whatever it is fed.
const chunk = 192

// Resampler changes the rate of one stream. It remembers the last few
// milliseconds, about 2 KB; the filter itself is shared by all resamplers of the
// same rates. One goroutine at a time may use it.
type Resampler struct {
	bank *bank // nil: the rates are equal
	in   int
	// phase is where the next output lies, in steps of 1/up of an input sample
	// after the first window in buf.
	phase int
	// buf is the last taps-1 samples, then the chunk in work.
	buf []float32
}

// New makes a resampler from rate in to rate out, both in Hz. Equal rates pass
// samples through. It fails on a rate that is not one of Rates.
func New(in, out int, q Quality) (*Resampler, error) {
	for _, r := range []int{in, out} {
		if !slices.Contains(Rates(), r) {
			return nil, fmt.Errorf("resample: cannot change %d Hz to %d Hz: %d Hz is not one of %v", in, out, r, Rates())
		}
	}
	if q > Fast {
		return nil, fmt.Errorf("resample: quality %d is unknown", q)
	}
	r := &Resampler{in: in}
	if in != out {
		r.bank = banks.of(in, out, q)
		r.buf = make([]float32, r.bank.taps-1, r.bank.taps-1+chunk)
	}
	return r, nil
}

// Process appends the samples that follow from src to dst and returns the longer
// slice. How the stream is cut into calls makes no difference. It allocates only
// when dst has no room, keeps neither slice, and they must not overlap.
//
// A src that lasts a whole number of samples at both rates, as any packet does,
// gives exactly as long a result.
func (r *Resampler) Process(dst, src []int16) []int16 {
	if r.bank == nil {
		return append(dst, src...)
	}
	for len(src) > 0 {
		n := min(len(src), chunk)
		dst = r.filter(dst, src[:n])
		src = src[n:]
	}
	return dst
}

// filter is Process for at most one chunk.
func (r *Resampler) filter(dst, src []int16) []int16 {
	b := r.bank
	past := b.taps - 1
	buf := r.buf[:past+len(src)]
	for i, s := range src {
		buf[past+i] = float32(s)
	}
	end := len(src) * b.up
	phase := r.phase
	if phase < end {
		count := (end - phase + b.down - 1) / b.down
		old := len(dst)
		dst = slices.Grow(dst, count)[:old+count]
		out := dst[old:]
		for i := range out {
			at, p := phase/b.up, phase%b.up
			v := dot(buf[at:at+b.taps], b.coef[p*b.taps:(p+1)*b.taps])
			out[i] = round(v)
			phase += b.down
		}
	}
	r.phase = phase - end
	copy(r.buf, buf[len(src):])
	return dst
}

// round is the nearest int16, saturated.
func round(v float32) int16 {
	switch {
	case v >= math.MaxInt16:
		return math.MaxInt16
	case v <= math.MinInt16:
		return math.MinInt16
	case v >= 0:
		return int16(v + 0.5)
	}
	return int16(v - 0.5)
}

// Delay is how much later a sound leaves than it came in.
func (r *Resampler) Delay() time.Duration {
	if r.bank == nil {
		return 0
	}
	return time.Duration(int64(r.bank.taps/2) * int64(time.Second) / int64(r.in))
}

// Flush appends the end of the stream, which Process still holds back for Delay,
// and resets r.
func (r *Resampler) Flush(dst []int16) []int16 {
	if r.bank != nil {
		dst = r.tail(dst)
	}
	r.Reset()
	return dst
}

func (r *Resampler) tail(dst []int16) []int16 {
	var silence [chunk]int16
	for n := r.bank.taps / 2; n > 0; n -= min(n, chunk) {
		dst = r.filter(dst, silence[:min(n, chunk)])
	}
	return dst
}

// Reset forgets the stream: what comes next follows upon silence.
func (r *Resampler) Reset() {
	r.phase = 0
	clear(r.buf)
}

// Convert changes the rate of a whole sound at once, without delay: a sample of
// the result lies where it lay in pcm, and the result lasts as long as pcm. The
// result is a new slice.
func Convert(in, out int, q Quality, pcm []int16) ([]int16, error) {
	r, err := New(in, out, q)
	if err != nil {
		return nil, err
	}
	if r.bank == nil {
		return slices.Clone(pcm), nil
	}
	b := r.bank
	dst := make([]int16, 0, (len(pcm)*b.up+b.down-1)/b.down)
	r.phase = b.taps / 2 * b.up // skip what would come before the first sample
	return r.tail(r.Process(dst, pcm)), nil
}
