package openai

import "math"

// loudest is how long an utterance must reach the level asked for, in frames of 20 ms.
const loudest = 4

// voiced says whether pcm reaches level, in dB of full scale, for long enough to be a
// word. A constant offset of the line is not loud.
func voiced(pcm []int16, rate int, level float64) bool {
	size := rate / 50
	least := math.Pow(10, level/10) * (1 << 15) * (1 << 15)
	n := 0
	for ; len(pcm) >= size; pcm = pcm[size:] {
		sum, squares := 0.0, 0.0
		for _, x := range pcm[:size] {
			sum += float64(x)
			squares += float64(x) * float64(x)
		}
		mean := sum / float64(size)
		if squares/float64(size)-mean*mean >= least {
			if n++; n >= loudest {
				return true
			}
		}
	}
	return false
}
