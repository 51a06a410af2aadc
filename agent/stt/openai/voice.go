package openai

import "math"

// loudest is how long an utterance must reach the level asked for, in frames of 20 ms.
const loudest = 4

// meter says whether there is a voice in what it is given.
type meter struct {
	least float64 // the power that counts
	n     int     // frames that had it
}

// newMeter is for a level in dB of full scale.
func newMeter(level float64) meter {
	return meter{least: math.Pow(10, level/10) * (1 << 15) * (1 << 15)}
}

// add takes a frame. A constant offset of the line is not loud.
func (m *meter) add(frame []int16) {
	sum, squares := 0.0, 0.0
	for _, x := range frame {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	n := float64(len(frame))
	mean := sum / n
	if squares/n-mean*mean >= m.least {
		m.n++
	}
}

// voiced says whether the level was reached for long enough to be a word.
func (m *meter) voiced() bool { return m.n >= loudest }

// voiced says whether there is a voice in pcm.
func voiced(pcm []int16, rate int, level float64) bool {
	m := newMeter(level)
	for size := rate / 50; len(pcm) >= size && !m.voiced(); pcm = pcm[size:] {
		m.add(pcm[:size])
	}
	return m.voiced()
}
