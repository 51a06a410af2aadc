package pocketsphinx

import "math"

// What there is around the speech of an utterance, in frames of 10 ms. Its mean and
// its confidence depend on how much silence there is, which voice detectors and
// endpointing leave more or less of: with 300 ms less before it, the same words
// were rejected. So it is made the same for all.
const (
	silenceBefore = 60
	silenceBehind = 45
)

// loudness is what speech is brought to, in decibels against one unit: -29 dBFS.
// Quieter than telephones are, but the model's noise removal likes it best.
const loudness = 61

// mostGain bounds how much is made of a whisper, in decibels.
const mostGain = 20

// frame gives the speech in pcm just so much silence before and behind, by cutting
// what is too long and repeating what is too short, and always the same loudness. It
// looks at energy only and changes nothing when speech does not stand out.
func frame(pcm []int16, rate int) []int16 {
	size := rate / 100
	first, last, level := speech(pcm, size)
	if first < 0 {
		return pcm
	}
	from, to := max(0, first-silenceBefore), min(len(pcm)/size, last+1+silenceBehind)
	out := make([]int16, 0, (silenceBefore+last+1-first+silenceBehind)*size)
	out = extend(out, pcm[from*size:first*size], (silenceBefore-(first-from))*size)
	out = append(out, pcm[from*size:to*size]...)
	out = extend(out, pcm[(last+1)*size:to*size], (silenceBehind-(to-last-1))*size)
	amplify(out, min(loudness-level, mostGain))
	return out
}

// amplify changes the loudness of pcm by some decibels.
func amplify(pcm []int16, gain float64) {
	factor := math.Pow(10, gain/20)
	for i, x := range pcm {
		pcm[i] = int16(math.Round(max(math.MinInt16, min(math.MaxInt16, factor*float64(x)))))
	}
}

// extend appends n samples of silence like that in pcm, there and back again so that
// nothing clicks; when there is too little of it, like a line's.
func extend(dst, pcm []int16, n int) []int16 {
	for i := range n {
		if len(pcm) < 100 {
			dst = append(dst, int16(i*7%11-5))
			continue
		}
		k := i % (2 * len(pcm))
		dst = append(dst, pcm[min(k, 2*len(pcm)-1-k)])
	}
	return dst
}

// speech finds the first and the last frame that stand out, -1 when none do, and the
// mean level of those that do.
func speech(pcm []int16, size int) (first, last int, level float64) {
	levels := make([]float64, len(pcm)/size)
	floor, peak := math.Inf(1), math.Inf(-1)
	for i := range levels {
		levels[i] = decibels(pcm[i*size : (i+1)*size])
		// Three frames each: neither one click nor one gap decides.
		if i >= 2 {
			floor = min(floor, max(levels[i], levels[i-1], levels[i-2]))
			peak = max(peak, min(levels[i], levels[i-1], levels[i-2]))
		}
	}
	first = -1
	if peak-floor < 12 {
		return first, last, 0
	}
	power, n := 0.0, 0
	threshold := max(floor+8, peak-30)
	for i := 2; i < len(levels); i++ {
		if min(levels[i], levels[i-1], levels[i-2]) < threshold {
			continue
		}
		if first < 0 {
			first = i - 2
		}
		last = i
		power += math.Pow(10, levels[i]/10)
		n++
	}
	return first, last, 10 * math.Log10(power/float64(n))
}

// decibels is the level of a frame against one unit, silence being 0.
func decibels(frame []int16) float64 {
	sum := 1.0
	for _, x := range frame {
		sum += float64(x) * float64(x)
	}
	return 10 * math.Log10(sum/float64(len(frame))+1)
}
