package audio

import (
	"math"
	"math/bits"
	"math/cmplx"
	"time"
)

// envelopeStep is the resolution of Envelope.
const envelopeStep = 10 * time.Millisecond

// envelopeFloor is where the envelope ends, in dBFS. Line noise and the encoding
// of silence lie below it and must not count as likeness.
const envelopeFloor = -60.0

// Envelope is the level of pcm in dBFS for every 10 ms, not below -60.
func Envelope(pcm []int16, rate int) []float64 {
	size := rate / 100
	if size == 0 {
		return nil
	}
	out := make([]float64, 0, len(pcm)/size)
	for ; len(pcm) >= size; pcm = pcm[size:] {
		out = append(out, max(envelopeFloor, Level(pcm[:size])))
	}
	return out
}

// Match is where a reference was found in a recording and how well it fits.
type Match struct {
	// Score is Pearson's correlation at the best place: 1 is the same, 0 unrelated.
	Score float64
	// At is where the reference begins in the recording.
	At time.Duration
}

// FindEnvelope looks for reference in recording by the shape of its loudness, the
// check that survives resampling, other codecs, time-scaling jitter buffers and
// gain control. The two may have different rates. Other sentences score up to
// about 0.5; 0.8 separates. The reference must lie wholly inside the recording.
func FindEnvelope(reference []int16, referenceRate int, recording []int16, recordingRate int) Match {
	want, got := Envelope(reference, referenceRate), Envelope(recording, recordingRate)
	best := Match{Score: -1}
	for lag := 0; lag+len(want) <= len(got); lag++ {
		if r := pearson(want, got[lag:lag+len(want)]); r > best.Score {
			best = Match{Score: r, At: time.Duration(lag) * envelopeStep}
		}
	}
	if best.Score < 0 {
		return Match{}
	}
	return best
}

// pearson is the correlation coefficient of two series of equal length, 0 when
// either does not vary.
func pearson(a, b []float64) float64 {
	var sa, sb float64
	for i := range a {
		sa += a[i]
		sb += b[i]
	}
	n := float64(len(a))
	if n == 0 {
		return 0
	}
	ma, mb := sa/n, sb/n
	var ab, aa, bb float64
	for i := range a {
		x, y := a[i]-ma, b[i]-mb
		ab += x * y
		aa += x * x
		bb += y * y
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return ab / math.Sqrt(aa*bb)
}

// FindWaveform looks for reference in recording sample by sample, the strict check
// for paths that should not change a wave: the same codec and rate end to end. It
// tries every place by one fast correlation. rate is in Hz for both.
func FindWaveform(reference, recording []int16, rate int) Match {
	if len(reference) == 0 || len(recording) < len(reference) || rate <= 0 {
		return Match{}
	}
	energy := 0.0
	for _, v := range reference {
		energy += float64(v) * float64(v)
	}
	if energy == 0 {
		return Match{}
	}
	products := correlate(reference, recording)
	window := 0.0
	for _, v := range recording[:len(reference)] {
		window += float64(v) * float64(v)
	}
	best, place := 0.0, 0
	for lag := 0; lag+len(reference) <= len(recording); lag++ {
		// A window much quieter than the reference would be judged by its noise.
		if window > energy*1e-4 {
			if r := products[lag] / math.Sqrt(window*energy); r > best {
				best, place = r, lag
			}
		}
		if next := lag + len(reference); next < len(recording) {
			out, in := float64(recording[lag]), float64(recording[next])
			window += in*in - out*out
		}
	}
	return Match{Score: min(best, 1), At: time.Duration(int64(place) * int64(time.Second) / int64(rate))}
}

// correlate gives the sum of products of reference and recording for every place,
// by multiplying their spectra.
func correlate(reference, recording []int16) []float64 {
	size := 1 << bits.Len(uint(len(reference)+len(recording)))
	a, b := make([]complex128, size), make([]complex128, size)
	for i, v := range reference {
		a[i] = complex(float64(v), 0)
	}
	for i, v := range recording {
		b[i] = complex(float64(v), 0)
	}
	transform(a)
	transform(b)
	for i := range a {
		// The inverse transform is the transform of the conjugate, conjugated; the
		// result is real, so the second conjugation is left out.
		a[i] = cmplx.Conj(cmplx.Conj(a[i]) * b[i])
	}
	transform(a)
	out := make([]float64, len(recording))
	for i := range out {
		out[i] = real(a[i]) / float64(size)
	}
	return out
}

// transform is the discrete Fourier transform in place; len(x) is a power of two.
func transform(x []complex128) {
	n := len(x)
	shift := 64 - bits.Len(uint(n-1))
	for i := range x {
		if j := int(bits.Reverse64(uint64(i)) >> shift); j > i && n > 1 {
			x[i], x[j] = x[j], x[i]
		}
	}
	for size := 2; size <= n; size *= 2 {
		half := size / 2
		step := cmplx.Rect(1, -2*math.Pi/float64(size))
		turns := make([]complex128, half)
		turns[0] = 1
		for i := 1; i < half; i++ {
			turns[i] = turns[i-1] * step
			if i%64 == 0 { // keep the rounding errors of the product small
				turns[i] = cmplx.Rect(1, -2*math.Pi*float64(i)/float64(size))
			}
		}
		for start := 0; start < n; start += size {
			for i, turn := range turns {
				even, odd := x[start+i], x[start+i+half]*turn
				x[start+i], x[start+i+half] = even+odd, even-odd
			}
		}
	}
}
