package pocketsphinx

import (
	"math"
	"testing"
)

func TestFrame(t *testing.T) {
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
		{"long silences", 2000, 500, 3000, 8, 4000, silenceBefore*10 + 500 + silenceBehind*10},
		{"quiet voice", 1000, 500, 1000, 8, 300, silenceBefore*10 + 500 + silenceBehind*10},
		{"noisy line", 1000, 500, 1000, 400, 4000, silenceBefore*10 + 500 + silenceBehind*10},
		{"digital silence", 1000, 500, 1000, 0, 4000, silenceBefore*10 + 500 + silenceBehind*10},
		{"short silences", 100, 500, 200, 8, 4000, silenceBefore*10 + 500 + silenceBehind*10},
		{"cut off", 100, 500, 30, 8, 4000, silenceBefore*10 + 500 + silenceBehind*10},
		{"no voice", 1000, 500, 1000, 100, 100, 2500},
		{"nothing", 0, 0, 0, 0, 0, 0},
		{"short", 100, 100, 100, 8, 4000, silenceBefore*10 + 100 + silenceBehind*10},
	} {
		pcm := sound(sound(sound(nil, c.before, c.line), c.ms, c.voice), c.behind, c.line)
		got := len(frame(pcm, rate)) * 1000 / rate
		if d := got - c.want; d < -20 || d > 20 {
			t.Errorf("%s: %d ms, want %d", c.name, got, c.want)
		}
	}
}

func TestFrameMakesAllEquallyLoud(t *testing.T) {
	for _, amplitude := range []float64{300, 3000, 30000} {
		var pcm []int16
		for i := range 16000 {
			x := 0.0
			if i > 6000 && i < 10000 {
				x = amplitude * math.Sin(float64(i))
			}
			pcm = append(pcm, int16(x))
		}
		before := pcm[8000]
		_, _, level := speech(frame(pcm, 8000), 80)
		if math.Abs(level-loudness) > 1 {
			t.Errorf("amplitude %v: level %.1f, want %v", amplitude, level, loudness)
		}
		if pcm[8000] != before {
			t.Error("the caller's samples were changed")
		}
	}
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte{1, 2, 3, 250}, 700, 2000)
	f.Fuzz(func(t *testing.T, b []byte, from, n int) {
		if n < 0 || n > 20000 || len(b) == 0 {
			return
		}
		pcm := make([]int16, n)
		for i := range pcm {
			if i > from {
				pcm[i] = int16(b[i%len(b)]) << 6
			}
		}
		if got := len(frame(pcm, 8000)); got > n+8000*(silenceBefore+silenceBehind)/100 {
			t.Fatalf("%d samples of %d", got, n)
		}
	})
}
