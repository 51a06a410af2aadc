package tone

import (
	"math"
	"slices"
	"testing"
	"time"
)

// level is the part of pcm at hz in dBFS, 20*log10(rms/32768).
func level(pcm []int16, rate int, hz float64) float64 {
	var re, im float64
	for i, s := range pcm {
		a := 2 * math.Pi * hz * float64(i) / float64(rate)
		re += float64(s) * math.Cos(a)
		im += float64(s) * math.Sin(a)
	}
	return 20 * math.Log10(math.Sqrt2*math.Hypot(re, im)/float64(len(pcm))/32768)
}

func loudness(pcm []int16) float64 {
	sum := 0.0
	for _, s := range pcm {
		sum += float64(s) * float64(s)
	}
	return 10 * math.Log10(sum/float64(len(pcm))/32768/32768)
}

func near(t *testing.T, what string, got, want, by float64) {
	t.Helper()
	if !(math.Abs(got-want) <= by) {
		t.Errorf("%s: %.2f, want %.2f", what, got, want)
	}
}

func TestSine(t *testing.T) {
	for _, rate := range []int{8000, 16000, 48000} {
		pcm := Take(Sine(rate, 1000, -20), rate, time.Second)
		if len(pcm) != rate || pcm[0] != 0 {
			t.Fatalf("%d samples from %d on", len(pcm), pcm[0])
		}
		near(t, "level", loudness(pcm), -20, 0.01)
		near(t, "at its frequency", level(pcm, rate, 1000), -20, 0.01)
	}
	// Ten minutes later it is still the same tone.
	s := Sine(8000, 1004, -10)
	buf := make([]int16, 0, 8000)
	for range 600 {
		buf = s.Append(buf[:0], 8000)
	}
	near(t, "after ten minutes", level(buf, 8000, 1004), -10, 0.01)
	near(t, "loudest", float64(slices.Max(Take(Sine(8000, 200, 20), 8000, time.Second))), 32767, 0)
}

func TestWaiting(t *testing.T) {
	for _, rate := range []int{8000, 16000, 24000} {
		pcm := Waiting(rate)
		if d := time.Duration(len(pcm)) * time.Second / time.Duration(rate); d != 360*time.Millisecond {
			t.Errorf("%d Hz: it lasts %v", rate, d)
		}
		loudest := slices.Max(pcm)
		if loudest < 900 || loudest > 1040 {
			t.Errorf("%d Hz: the loudest sample is %d", rate, loudest)
		}
		first, second := pcm[:rate*14/100], pcm[rate*18/100:rate*32/100]
		if level(first, rate, 440) < level(first, rate, 554)+6 || level(second, rate, 554) < level(second, rate, 440)+6 {
			t.Errorf("%d Hz: these are not the notes", rate)
		}
		for i := 1; i < len(pcm); i++ { // no click
			if d := int(pcm[i]) - int(pcm[i-1]); d > 500 || d < -500 {
				t.Fatalf("%d Hz: a leap of %d", rate, d)
			}
		}
	}
}

func TestPiecesMakeNoDifference(t *testing.T) {
	for name, make := range map[string]func() Source{
		"dual":     func() Source { return Dual(8000, 350, 440, -13) },
		"ringback": func() Source { return Ringback(8000, "GB", -13) },
		"noise":    func() Source { return Noise(-30, 7) },
	} {
		want, s, got := make().Append(nil, 30000), make(), []int16(nil)
		for n := 1; len(got) < 30000; n = n*3%1001 + 1 {
			got = s.Append(got, min(n, 30000-len(got)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s depends on how it is cut", name)
		}
		if got := s.Append(nil, -5); len(got) != 0 {
			t.Errorf("%s: %d samples for -5", name, len(got))
		}
	}
}

func TestDigits(t *testing.T) {
	rows, columns := []float64{697, 770, 852, 941}, []float64{1209, 1336, 1477, 1633}
	for i, key := range []byte("123A456B789C*0#D") {
		s, err := Digit(8000, key, -10)
		if err != nil {
			t.Fatal(err)
		}
		pcm := Take(s, 8000, time.Second)
		near(t, string(key), loudness(pcm), -10, 0.05)
		near(t, string(key)+" low", level(pcm, 8000, rows[i/4]), -13, 0.05)
		near(t, string(key)+" high", level(pcm, 8000, columns[i%4]), -13, 0.05)
	}
	if s, err := Digit(8000, 'd', -10); err != nil || s == nil {
		t.Errorf("a small letter: %v", err)
	}
	for _, key := range []byte{'E', 0, ' ', 0xFF} {
		if _, err := Digit(8000, key, -10); err == nil {
			t.Errorf("%q was accepted", key)
		}
	}
}

func TestRingback(t *testing.T) {
	for _, c := range []struct {
		country string
		hz      []float64
		times   []int // ms: on, off, …
	}{
		{"us", []float64{440, 480}, []int{2000, 4000}},
		{"GB", []float64{400, 450}, []int{400, 200, 400, 2000}},
		{"JP", []float64{384, 416}, []int{1000, 2000}},
		{"FR", []float64{440}, []int{1500, 3500}},
		{"DE", []float64{425}, []int{1000, 4000}},
		{"", []float64{425}, []int{1000, 4000}},
	} {
		s := Ringback(8000, c.country, -15)
		for round := range 2 {
			for i, ms := range c.times {
				pcm := s.Append(nil, ms*8)
				if i%2 == 1 {
					if slices.Max(pcm) != 0 || slices.Min(pcm) != 0 {
						t.Errorf("%q, round %d: pause %d sounds", c.country, round, i)
					}
					continue
				}
				near(t, c.country, loudness(pcm), -15, 0.2)
				for _, hz := range c.hz {
					near(t, c.country, level(pcm, 8000, hz), -15-10*math.Log10(float64(len(c.hz))), 0.3)
				}
			}
		}
	}
	if pcm := Sine(8000, 400, -10).Cadence(0).Append(nil, 100); slices.Max(pcm) == 0 {
		t.Error("a cadence of nothing is silent")
	}
}

func TestNoise(t *testing.T) {
	pcm := Take(Noise(-30, 1), 8000, 4*time.Second)
	near(t, "level", loudness(pcm), -30, 0.1)
	if !slices.Equal(pcm, Take(Noise(-30, 1), 8000, 4*time.Second)) {
		t.Error("the same seed gives other noise")
	}
	if slices.Equal(pcm, Take(Noise(-30, 2), 8000, 4*time.Second)) {
		t.Error("another seed gives the same noise")
	}
	// White: no sample tells of the next one.
	product := 0.0
	for i := 1; i < len(pcm); i++ {
		product += float64(pcm[i]) * float64(pcm[i-1])
	}
	sum := math.Pow(10, loudness(pcm)/10) * 32768 * 32768 * float64(len(pcm))
	near(t, "correlation", product/sum, 0, 0.02)
}

func TestNoAllocation(t *testing.T) {
	buf := make([]int16, 0, 160)
	for name, s := range map[string]Source{"ringback": Ringback(8000, "US", -15), "noise": Noise(-30, 1)} {
		if n := testing.AllocsPerRun(100, func() { s.Append(buf, 160) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkRingbackSecond(b *testing.B) {
	s, buf := Ringback(8000, "US", -15), make([]int16, 0, 8000)
	b.ReportAllocs()
	for b.Loop() {
		s.Append(buf, 8000)
	}
}
