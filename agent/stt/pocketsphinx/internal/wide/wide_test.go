package wide

import (
	"math"
	"testing"
)

// level in dB of a tone of f Hz in pcm at 16 kHz, relative to full scale.
func level(pcm []int16, f float64) float64 {
	var re, im float64
	for i, x := range pcm {
		s, c := math.Sincos(2 * math.Pi * f * float64(i) / 16000)
		re += float64(x) * c
		im += float64(x) * s
	}
	return 20 * math.Log10(2*math.Hypot(re, im)/float64(len(pcm))/32768)
}

func tone(f float64, n int) []int16 {
	pcm := make([]int16, n)
	for i := range pcm {
		pcm[i] = int16(math.Round(16384 * math.Sin(2*math.Pi*f*float64(i)/8000)))
	}
	return pcm
}

func TestTonesAndTheirImages(t *testing.T) {
	for _, f := range []float64{300, 1000, 2000, 3000, 3400} {
		var d Doubler
		out := d.Process(nil, tone(f, 8000))[1000:15000]
		if got := level(out, f); math.Abs(got+6.02) > 0.5 {
			t.Errorf("%v Hz: %.1f dB, want -6", f, got)
		}
		if got := level(out, 8000-f); math.Abs(got+6.02+14) > 1 {
			t.Errorf("image of %v Hz: %.1f dB, want 14 dB less", f, got)
		}
	}
}

func TestPiecesMakeTheSameStream(t *testing.T) {
	in := tone(440, 1000)
	var whole, parts Doubler
	want := whole.Process(nil, in)
	var got []int16
	for i := 0; i < len(in); i += 7 {
		got = parts.Process(got, in[i:min(len(in), i+7)])
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("sample %d: %d, want %d", i, got[i], want[i])
		}
	}
	parts.Reset()
	if again := parts.Process(nil, in); again[0] != want[0] || again[999] != want[999] {
		t.Error("a stream after Reset is not like the first")
	}
}

func TestFullScaleClips(t *testing.T) {
	in := make([]int16, 200)
	for i := range in {
		in[i] = math.MaxInt16
		if i/4%2 == 0 {
			in[i] = math.MinInt16
		}
	}
	var d Doubler
	for i, x := range d.Process(nil, in)[100:] {
		if x > -5000 && x < 5000 && i%16 == 4 {
			t.Errorf("sample %d wrapped to %d", i, x)
		}
	}
}

func TestProcessDoesNotAllocate(t *testing.T) {
	var d Doubler
	in, out := tone(300, 160), make([]int16, 0, 320)
	if n := testing.AllocsPerRun(100, func() { d.Process(out, in) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSecond(b *testing.B) {
	var d Doubler
	in, out := tone(300, 8000), make([]int16, 0, 16000)
	for b.Loop() {
		d.Process(out, in)
	}
}
