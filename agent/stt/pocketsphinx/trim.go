package pocketsphinx

import "math"

// What is left around the speech of an utterance, in frames of 10 ms. Its mean and
// its confidence depend on how much silence there is, which voice detectors and
// endpointing leave more or less of: with 300 ms less before it, the same words
// were rejected. So it is made the same for all.
const (
	trimBefore = 60
	trimAfter  = 45
)

// trim cuts the silence around the speech in pcm. It looks at energy only and keeps
// everything when speech does not stand out.
func trim(pcm []int16, rate int) []int16 {
	size := rate / 100
	n := len(pcm) / size
	if n < trimBefore+trimAfter {
		return pcm
	}
	levels := make([]float64, n)
	floor, peak := math.Inf(1), math.Inf(-1)
	for i := range levels {
		levels[i] = decibels(pcm[i*size : (i+1)*size])
		// Three frames each: neither one click nor one gap decides.
		if i >= 2 {
			low := max(levels[i], levels[i-1], levels[i-2])
			high := min(levels[i], levels[i-1], levels[i-2])
			floor, peak = min(floor, low), max(peak, high)
		}
	}
	if peak-floor < 12 {
		return pcm
	}
	threshold := max(floor+8, peak-30)
	first, last := -1, 0
	for i := 2; i < n; i++ {
		if min(levels[i], levels[i-1], levels[i-2]) < threshold {
			continue
		}
		if first < 0 {
			first = i - 2
		}
		last = i
	}
	from := max(0, first-trimBefore)
	to := min(n, last+1+trimAfter)
	return pcm[from*size : to*size]
}

// decibels is the level of a frame against one unit, silence being 0.
func decibels(frame []int16) float64 {
	sum := 1.0
	for _, x := range frame {
		sum += float64(x) * float64(x)
	}
	return 10 * math.Log10(sum/float64(len(frame))+1)
}
