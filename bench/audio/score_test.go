package main

import (
	"math"
	"math/rand/v2"
	"testing"
)

// babble is sound with the shape of speech: harmonics that glide, in syllables.
func babble(n, rate int) []int16 {
	pcm, phase := make([]int16, n), 0.0
	for i := range pcm {
		at := float64(i) / float64(rate)
		pitch := 140 + 40*math.Sin(2*math.Pi*0.7*at)
		phase += 2 * math.Pi * pitch / float64(rate)
		v := 0.0
		for k := 1.0; k*pitch < 0.4*float64(rate); k++ {
			v += math.Sin(k*phase+k*k) / k
		}
		pcm[i] = int16(5000 * v * math.Pow(math.Sin(2*math.Pi*2*at), 2))
	}
	return pcm
}

// TestTheScoreFallsWithTheDamage: a copy is 1, more damage is less, and a copy that is
// a little late is still 1.
func TestTheScoreFallsWithTheDamage(t *testing.T) {
	const rate = 8000
	clean := babble(10*rate, rate)
	r := newReference(clean, rate)
	if score, shift := r.compare(clean); score < 0.9999 || shift != 0 {
		t.Errorf("a copy scores %v, moved by %v ms", score, shift)
	}
	late := append(make([]int16, rate/20), clean...)
	if score, shift := r.compare(late); score < 0.999 || shift != 0 {
		t.Errorf("a copy 50 ms late scores %v, moved by %v ms", score, shift)
	}
	before := 1.0
	for _, share := range []float64{0.01, 0.05, 0.1, 0.3} {
		random := rand.New(rand.NewPCG(1, 1))
		hurt := append([]int16(nil), clean...)
		for i := 0; i+160 <= len(hurt); i += 160 {
			if random.Float64() < share {
				clear(hurt[i : i+160])
			}
		}
		score, _ := r.compare(hurt)
		if score >= before-0.003 {
			t.Errorf("with %.0f %% missing the score is %.3f, with less it was %.3f", 100*share, score, before)
		}
		before = score
	}
	half := append(append([]int16(nil), clean[:5*rate]...), clean[5*rate+rate/10:]...)
	if _, shift := r.compare(half); shift < 40 {
		t.Errorf("100 ms are missing in the middle: moved by %v ms", shift)
	}
}

// TestTracesDoWhatLinesSay counts what becomes of packets.
func TestTracesDoWhatLinesSay(t *testing.T) {
	const n = 5000
	for _, l := range lines() {
		trace, every := l.trace(n, 3)
		came, overtaken := map[int]int{}, 0
		for i, a := range trace {
			came[a.i]++
			if i > 0 && a.i < trace[i-1].i {
				overtaken++
			}
		}
		lost := float64(n-len(came)) / n
		want := l.loss
		if l.outage > 0 && !l.held {
			want += 0.02
		}
		if math.Abs(lost-want) > 0.25*want+0.001 || (l.reorder > 0) != (overtaken > 0) && l.jitter <= packetTime && l.duplicate == 0 {
			t.Errorf("%s: %.3f lost, want %.3f; %d overtaken", l.name, lost, want, overtaken)
		}
		if (len(trace) > len(came)) != (l.duplicate > 0) {
			t.Errorf("%s: %d packets arrived, %d of them different", l.name, len(trace), len(came))
		}
		if got := float64(every)/float64(packetTime) - 1; math.Abs(got-l.skew) > 1e-6 {
			t.Errorf("%s: clock off by %v", l.name, got)
		}
	}
}
