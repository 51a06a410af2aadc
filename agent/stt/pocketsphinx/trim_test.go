package pocketsphinx

import (
	"math"
	"testing"
)

func TestTrim(t *testing.T) {
	const rate = 8000
	// sound is ms of noise of an amplitude.
	seed := uint32(1)
	sound := func(pcm []int16, ms int, amplitude float64) []int16 {
		for range ms * rate / 1000 {
			seed = seed*1664525 + 1013904223
			pcm = append(pcm, int16(math.Round(amplitude*(float64(seed>>8)/(1<<23)-1))))
		}
		return pcm
	}
	for _, c := range []struct {
		name               string
		before, ms, behind int
		line, voice        float64
		want               int // ms
	}{
		{"long silences", 2000, 500, 3000, 8, 4000, trimBefore*10 + 500 + trimAfter*10},
		{"quiet voice", 1000, 500, 1000, 8, 300, trimBefore*10 + 500 + trimAfter*10},
		{"noisy line", 1000, 500, 1000, 400, 4000, trimBefore*10 + 500 + trimAfter*10},
		{"digital silence", 1000, 500, 1000, 0, 4000, trimBefore*10 + 500 + trimAfter*10},
		{"short silences", 100, 500, 200, 8, 4000, 800},
		{"no voice", 1000, 500, 1000, 100, 100, 2500},
		{"nothing", 0, 0, 0, 0, 0, 0},
		{"short", 100, 100, 100, 8, 4000, 300},
	} {
		pcm := sound(sound(sound(nil, c.before, c.line), c.ms, c.voice), c.behind, c.line)
		got := len(trim(pcm, rate)) * 1000 / rate
		if d := got - c.want; d < -20 || d > 20 {
			t.Errorf("%s: %d ms are left, want %d", c.name, got, c.want)
		}
	}
}
