package resample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// sine is n samples of a tone.
func sine(n, rate int, hz, amplitude float64) []int16 {
	pcm := make([]int16, n)
	for i := range pcm {
		pcm[i] = int16(math.Round(amplitude * math.Sin(2*math.Pi*hz*float64(i)/float64(rate))))
	}
	return pcm
}

// amplitude is that of the part of pcm at hz, seen through a Hann window so that
// neighbouring tones do not leak in.
func amplitude(pcm []int16, rate int, hz float64) float64 {
	var re, im, total float64
	for i, s := range pcm {
		w := 0.5 - 0.5*math.Cos(2*math.Pi*(float64(i)+0.5)/float64(len(pcm)))
		a := 2 * math.Pi * hz * float64(i) / float64(rate)
		re += w * float64(s) * math.Cos(a)
		im += w * float64(s) * math.Sin(a)
		total += w
	}
	return 2 * math.Hypot(re, im) / total
}

func rms(pcm []int16) float64 {
	sum := 0.0
	for _, s := range pcm {
		sum += float64(s) * float64(s)
	}
	return math.Sqrt(sum / float64(len(pcm)))
}

func dB(x float64) float64 { return 20 * math.Log10(x) }

// settled cuts off both ends, where the filter sees the edge of the sound.
func settled(pcm []int16) []int16 { return pcm[len(pcm)/10 : len(pcm)*9/10] }

func pairs() (out [][2]int) {
	rates := []int{8000, 16000, 22050, 24000, 44100, 48000}
	for _, in := range rates {
		for _, o := range rates {
			out = append(out, [2]int{in, o})
		}
	}
	return out
}

func TestEveryRatioKeepsToneLengthAndPlace(t *testing.T) {
	for _, p := range pairs() {
		for _, q := range []Quality{Voice, Fast} {
			t.Run(fmt.Sprintf("%d-%d-%d", p[0], p[1], q), func(t *testing.T) {
				in := sine(p[0]/2, p[0], 1000, 12000)
				out, err := Convert(p[0], p[1], q, in)
				if err != nil {
					t.Fatal(err)
				}
				if len(out) != p[1]/2 {
					t.Fatalf("%d samples, want %d", len(out), p[1]/2)
				}
				// The same tone computed at the other rate differs by rounding only:
				// frequency, level and place are all right.
				want := sine(p[1]/2, p[1], 1000, 12000)
				diff := make([]int16, len(out))
				for i := range diff {
					diff[i] = out[i] - want[i]
				}
				if snr := dB(rms(settled(want)) / max(rms(settled(diff)), 1e-3)); snr < 80 {
					t.Errorf("error only %.1f dB down", snr)
				}
			})
		}
	}
}

func TestPassband(t *testing.T) {
	for _, p := range [][2]int{{8000, 16000}, {16000, 8000}, {8000, 48000}, {48000, 8000}, {44100, 8000}, {22050, 8000}, {24000, 8000}} {
		for _, q := range []Quality{Voice, Fast} {
			for _, hz := range []float64{100, 300, 1000, 2000, 3000, 3200, 3300, 3400} {
				out, err := Convert(p[0], p[1], q, sine(p[0]/2, p[0], hz, 10000))
				if err != nil {
					t.Fatal(err)
				}
				if g := dB(amplitude(settled(out), p[1], hz) / 10000); math.Abs(g) > 0.5 {
					t.Errorf("%d to %d, quality %d: %.0f Hz changed by %.2f dB", p[0], p[1], q, hz, g)
				}
			}
		}
	}
}

func TestAliasRejection(t *testing.T) {
	worst := 200.0
	for _, p := range [][2]int{{16000, 8000}, {22050, 8000}, {24000, 8000}, {44100, 8000}, {48000, 8000}, {48000, 16000}, {24000, 16000}, {22050, 16000}, {44100, 24000}, {48000, 44100}} {
		half := float64(p[1]) / 2
		for _, q := range []Quality{Voice, Fast} {
			from := half
			if q == Fast {
				from = half * 1.17
			}
			top := float64(p[0]) / 2
			for i := range 12 {
				hz := from + 10 + (top-from-20)*float64(i)/11
				if hz >= top || hz < from {
					continue
				}
				out, err := Convert(p[0], p[1], q, sine(p[0]/2, p[0], hz, 30000))
				if err != nil {
					t.Fatal(err)
				}
				down := dB(30000 / math.Sqrt2 / max(rms(settled(out)), 1e-3))
				worst = min(worst, down)
				if down < 80 {
					t.Errorf("%d to %d, quality %d: %.0f Hz only %.1f dB down", p[0], p[1], q, hz, down)
				}
			}
		}
	}
	t.Logf("worst alias %.1f dB down", worst)
}

func TestImageRejection(t *testing.T) {
	for _, p := range [][2]int{{8000, 16000}, {8000, 48000}, {16000, 48000}} {
		hz := 0.4 * float64(p[0])
		out, err := Convert(p[0], p[1], Voice, sine(p[0]/2, p[0], hz, 20000))
		if err != nil {
			t.Fatal(err)
		}
		if a := amplitude(settled(out), p[1], float64(p[0])-hz); dB(20000/max(a, 1e-3)) < 80 {
			t.Errorf("%d to %d: image of %.0f Hz only %.1f dB down", p[0], p[1], hz, dB(20000/a))
		}
	}
}

func TestChunksMakeNoDifference(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, p := range pairs() {
		in := make([]int16, p[0]/5+17)
		for i := range in {
			in[i] = int16(random.IntN(65536) - 32768)
		}
		whole, _ := New(p[0], p[1], Voice)
		want := whole.Flush(whole.Process(nil, in))
		parts, _ := New(p[0], p[1], Voice)
		var got []int16
		for rest := in; len(rest) > 0; {
			n := min(len(rest), random.IntN(500))
			got = parts.Process(got, rest[:n])
			rest = rest[n:]
		}
		got = parts.Flush(got)
		if !slices.Equal(got, want) {
			t.Errorf("%d to %d: cut into parts it gives something else", p[0], p[1])
		}
	}
}

func TestPacketsKeepTheirLength(t *testing.T) {
	for _, p := range pairs() {
		r, _ := New(p[0], p[1], Voice)
		for range 10 {
			if got := len(r.Process(nil, make([]int16, p[0]/50))); got != p[1]/50 {
				t.Fatalf("%d to %d: a packet of 20 ms gave %d samples, want %d", p[0], p[1], got, p[1]/50)
			}
		}
	}
}

func TestDelay(t *testing.T) {
	for _, p := range pairs() {
		for _, q := range []Quality{Voice, Fast} {
			r, _ := New(p[0], p[1], q)
			in := make([]int16, p[0]/10)
			in[0] = 20000
			out := r.Process(nil, in)
			peak := 0
			for i, s := range out {
				if s > out[peak] {
					peak = i
				}
			}
			got := time.Duration(peak) * time.Second / time.Duration(p[1])
			if d := (got - r.Delay()).Abs(); d > time.Second/time.Duration(p[1]) {
				t.Errorf("%d to %d, quality %d: delayed %v, reported %v", p[0], p[1], q, got, r.Delay())
			}
			if r.Delay() > 5*time.Millisecond {
				t.Errorf("%d to %d: delay %v", p[0], p[1], r.Delay())
			}
		}
	}
}

func TestResetStartsOver(t *testing.T) {
	r, _ := New(22050, 8000, Voice)
	in := sine(1001, 22050, 700, 9000)
	want := slices.Clone(r.Process(nil, in))
	r.Reset()
	if got := r.Process(nil, in); !slices.Equal(got, want) {
		t.Error("a reset resampler remembers")
	}
	r.Flush(nil)
	if got := r.Process(nil, in); !slices.Equal(got, want) {
		t.Error("a flushed resampler remembers")
	}
}

func TestSaturates(t *testing.T) {
	square := make([]int16, 800)
	for i := range square {
		square[i] = math.MaxInt16
		if i/40%2 == 1 {
			square[i] = math.MinInt16
		}
	}
	out, _ := Convert(8000, 16000, Voice, square)
	for i := 1; i < len(out); i++ {
		if d := int(out[i]) - int(out[i-1]); d > 60000 || d < -60000 {
			t.Fatalf("sample %d wrapped: %d after %d", i, out[i], out[i-1])
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		in, out int
		q       Quality
	}{{0, 8000, Voice}, {8000, -1, Voice}, {8000, 8001, Voice}, {8000, 16000, 9}} {
		if _, err := New(c.in, c.out, c.q); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

func TestEqualRatesPassThrough(t *testing.T) {
	r, err := New(16000, 16000, Voice)
	if err != nil {
		t.Fatal(err)
	}
	in := []int16{1, -2, 3}
	if got := r.Flush(r.Process([]int16{9}, in)); !slices.Equal(got, []int16{9, 1, -2, 3}) || r.Delay() != 0 {
		t.Errorf("%v, delay %v", got, r.Delay())
	}
}

func TestDotsAgree(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for n := 0; n <= 128; n += 8 {
		a, b := make([]float32, n), make([]float32, n)
		for i := range a {
			a[i], b[i] = random.Float32()-0.5, random.Float32()-0.5
		}
		if x, y := dot(a, b), dotPlain(a, b); math.Abs(float64(x-y)) > 1e-5 {
			t.Errorf("%d values: %g and %g", n, x, y)
		}
	}
}

func TestNoAllocationAndSharedFilter(t *testing.T) {
	a, _ := New(44100, 8000, Voice)
	b, _ := New(44100, 8000, Voice)
	if &a.bank.coef[0] != &b.bank.coef[0] {
		t.Error("two resamplers of the same rates hold two filters")
	}
	in, out := make([]int16, 882), make([]int16, 0, 200)
	if n := testing.AllocsPerRun(100, func() { a.Process(out, in) }); n != 0 {
		t.Errorf("%v allocations a packet", n)
	}
}

// BenchmarkSecond is the cost of one second of a call in packets of 20 ms.
func BenchmarkSecond(b *testing.B) {
	for _, p := range [][2]int{{8000, 16000}, {16000, 8000}, {24000, 8000}, {48000, 8000}, {22050, 8000}, {44100, 8000}} {
		for _, q := range []Quality{Voice, Fast} {
			b.Run(fmt.Sprintf("%d-%d-%d", p[0], p[1], q), func(b *testing.B) {
				r, _ := New(p[0], p[1], q)
				in, out := sine(p[0]/50, p[0], 1000, 10000), make([]int16, 0, p[1]/50)
				b.ReportAllocs()
				for b.Loop() {
					for range 50 {
						r.Process(out, in)
					}
				}
			})
		}
	}
}

func BenchmarkDotPlain(b *testing.B) {
	x, y := make([]float32, 64), make([]float32, 64)
	for b.Loop() {
		dotPlain(x, y)
	}
}
