package main

import (
	"math"
	"math/cmplx"
	"slices"
)

// The score is the neurogram similarity index (NSIM) of Hines and Harte (Speech
// Communication 54, 2012), which is the heart of ViSQOL (Hines et al., EURASIP JASMP
// 2015): the structural similarity of two spectrograms in bands of equal width to the
// ear. It is not ViSQOL: bands are triangles over a Fourier transform in place of a
// gammatone bank, and nothing is mapped to opinions. 1 is the file itself; speech one
// would repeat a question about is below 0.9. It is for comparing rows of one table.
//
//	clean ─┐                                    for each 300 ms of speech
//	       ├─ 32 ms windows, 10 ms apart ─ dB in bands ─ best fit nearby ─ similarity
//	heard ─┘                                                                  │ mean

const (
	windowMS = 32
	hopMS    = 10
	patch    = 30 // frames of a patch
	nearby   = 12 // frames by which a patch is looked for about where it should be
	range_   = 50 // dB below the loudest that count
	lowest   = 80 // Hz
)

// spectrogram is dB by frame and band.
type spectrogram [][]float64

// reference is the clean speech that others are compared with.
type reference struct {
	rate    int
	bands   [][]float64 // weight by bin
	image   spectrogram
	loudest float64
	speech  []int // the first frames of patches with speech in them
}

func newReference(pcm []int16, rate int) *reference {
	r := &reference{rate: rate, bands: bands(rate)}
	r.image = r.spectrogram(pcm)
	r.loudest = loudness(r.image)
	r.image.clamp(r.loudest)
	for i := 0; i+patch <= len(r.image); i += patch / 2 {
		if mean := average(r.image[i : i+patch]); mean > -range_+12 {
			r.speech = append(r.speech, i)
		}
	}
	return r
}

// bands are triangles whose middles are evenly spaced in ERB numbers (Glasberg and
// Moore 1990) up to what the codec carries.
func bands(rate int) (out [][]float64) {
	size := transformSize(rate)
	erb := func(f float64) float64 { return 21.4 * math.Log10(1+0.00437*f) }
	hertz := func(e float64) float64 { return (math.Pow(10, e/21.4) - 1) / 0.00437 }
	top := float64(rate) * 0.43
	count := int(erb(top) - erb(lowest))
	step := (erb(top) - erb(lowest)) / float64(count)
	for k := range count {
		at := erb(lowest) + (float64(k)+0.5)*step
		lo, mid, hi := hertz(at-step), hertz(at), hertz(at+step)
		w := make([]float64, size/2)
		sum := 0.0
		for i := range w {
			f := float64(i) * float64(rate) / float64(size)
			switch {
			case f > lo && f <= mid:
				w[i] = (f - lo) / (mid - lo)
			case f > mid && f < hi:
				w[i] = (hi - f) / (hi - mid)
			}
			sum += w[i]
		}
		if sum == 0 { // narrower than a bin
			w[int(mid*float64(size)/float64(rate)+0.5)] = 1
		}
		out = append(out, w)
	}
	return out
}

func transformSize(rate int) int {
	size := 1
	for size < rate*windowMS/1000 {
		size *= 2
	}
	return size
}

func (r *reference) spectrogram(pcm []int16) (out spectrogram) {
	window, hop, size := r.rate*windowMS/1000, r.rate*hopMS/1000, transformSize(r.rate)
	x := make([]complex128, size)
	for i := 0; i+window <= len(pcm); i += hop {
		clear(x)
		for k, s := range pcm[i : i+window] {
			x[k] = complex(float64(s)*(0.5-0.5*math.Cos(2*math.Pi*(float64(k)+0.5)/float64(window))), 0)
		}
		transform(x)
		frame := make([]float64, len(r.bands))
		for b, weights := range r.bands {
			power := 1.0
			for k, w := range weights {
				if w > 0 {
					power += w * real(x[k]*cmplx.Conj(x[k]))
				}
			}
			frame[b] = 10 * math.Log10(power)
		}
		out = append(out, frame)
	}
	return out
}

// transform is a Fourier transform in place; its length is a power of two.
func transform(x []complex128) {
	n := len(x)
	for i, j := 1, 0; i < n; i++ {
		bit := n >> 1
		for ; j&bit != 0; bit >>= 1 {
			j ^= bit
		}
		if j ^= bit; i < j {
			x[i], x[j] = x[j], x[i]
		}
	}
	for size := 2; size <= n; size *= 2 {
		step := cmplx.Rect(1, -2*math.Pi/float64(size))
		for i := 0; i < n; i += size {
			w := complex(1, 0)
			for k := i; k < i+size/2; k++ {
				a, b := x[k], x[k+size/2]*w
				x[k], x[k+size/2] = a+b, a-b
				w *= step
			}
		}
	}
}

// loudness is the level that one value in a hundred is above.
func loudness(s spectrogram) float64 {
	var all []float64
	for _, f := range s {
		all = append(all, f...)
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)*99/100]
}

// clamp makes values relative to top, and nothing quieter than what counts.
func (s spectrogram) clamp(top float64) {
	for _, f := range s {
		for i := range f {
			f[i] = min(5, max(-range_, f[i]-top))
		}
	}
}

func average(s spectrogram) (mean float64) {
	for _, f := range s {
		for _, v := range f {
			mean += v
		}
	}
	return mean / float64(len(s)*len(s[0]))
}

// compare scores what was heard: the mean of all patches, and by how many
// milliseconds any is away from where most are.
func (r *reference) compare(heard []int16) (score, shift float64) {
	got := r.spectrogram(heard)
	got.clamp(r.loudest)
	if len(r.speech) == 0 || len(got) == 0 {
		return 0, 0
	}
	var at []int
	for _, i := range r.speech {
		best, where := -1.0, 0
		for d := -nearby; d <= nearby; d++ {
			if i+d < 0 || i+d+patch > len(got) {
				continue
			}
			if v := similarity(r.image[i:i+patch], got[i+d:i+d+patch]); v > best {
				best, where = v, d
			}
		}
		score += max(0, best)
		if best > 0.8 { // where it is nothing can be said of a patch that is not there
			at = append(at, where)
		}
	}
	if len(at) > 0 {
		slices.Sort(at)
		middle := at[len(at)/2]
		shift = float64(max(middle-at[len(at)/50], at[len(at)-1-len(at)/50]-middle) * hopMS)
	}
	return score / float64(len(r.speech)), shift
}

// similarity is the NSIM of two patches: the mean of intensity times structure over
// windows of 3 by 3.
func similarity(a, b spectrogram) float64 {
	const (
		span   = range_ + 5
		c1, c3 = (0.01 * span) * (0.01 * span), (0.03 * span) * (0.03 * span) / 2
	)
	gauss := [3][3]float64{{0.0113, 0.0838, 0.0113}, {0.0838, 0.6193, 0.0838}, {0.0113, 0.0838, 0.0113}}
	sum, n := 0.0, 0
	for i := 1; i+1 < len(a); i++ {
		for k := 1; k+1 < len(a[i]); k++ {
			var ma, mb, aa, bb, ab float64
			for di := range 3 {
				for dk := range 3 {
					w := gauss[di][dk]
					// From the floor, so that intensity has a zero.
					x, y := a[i+di-1][k+dk-1]+range_, b[i+di-1][k+dk-1]+range_
					ma, mb = ma+w*x, mb+w*y
					aa, bb, ab = aa+w*x*x, bb+w*y*y, ab+w*x*y
				}
			}
			va, vb, cov := max(0, aa-ma*ma), max(0, bb-mb*mb), ab-ma*mb
			intensity := (2*ma*mb + c1) / (ma*ma + mb*mb + c1)
			structure := (cov + c3) / (math.Sqrt(va*vb) + c3)
			sum += intensity * structure
			n++
		}
	}
	return sum / float64(n)
}
