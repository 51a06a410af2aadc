package plc

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func tone(n, rate int, hz, amplitude float64) []int16 {
	pcm := make([]int16, n)
	for i := range pcm {
		pcm[i] = int16(amplitude * math.Sin(2*math.Pi*hz*float64(i)/float64(rate)))
	}
	return pcm
}

// vowels is something like speech: a buzz whose pitch glides, through three
// formants, loud and soft in turn, over a little noise.
func vowels(n, rate int) []int16 {
	random := rand.New(rand.NewPCG(7, 7))
	out := make([]float64, n)
	phase := 0.0
	for i := range out {
		t := float64(i) / float64(rate)
		phase += (140 + 10*math.Sin(2*math.Pi*0.4*t)) / float64(rate)
		if phase >= 1 {
			phase--
			out[i] = 1
		}
	}
	for _, formant := range []struct{ hz, width float64 }{{600, 80}, {1300, 100}, {2500, 140}} {
		r := math.Exp(-math.Pi * formant.width / float64(rate))
		a, b := 2*r*math.Cos(2*math.Pi*formant.hz/float64(rate)), -r*r
		var y1, y2 float64
		for i, x := range out {
			y := x + a*y1 + b*y2
			y1, y2 = y, y1
			out[i] = y
		}
	}
	peak := 0.0
	for _, v := range out {
		peak = max(peak, math.Abs(v))
	}
	pcm := make([]int16, n)
	for i, v := range out {
		loud := 0.55 + 0.45*math.Sin(2*math.Pi*3*float64(i)/float64(rate))
		pcm[i] = int16(12000*loud*v/peak + 30*random.NormFloat64())
	}
	return pcm
}

// lose puts sound through a line that loses every tenth packet of 20 ms, filled
// by fill, or with silence when fill is nil.
func lose(pcm []int16, rate int, c *Concealer) []int16 {
	frame := rate / 50
	var out []int16
	for i := 0; (i+1)*frame <= len(pcm); i++ {
		good := append([]int16(nil), pcm[i*frame:(i+1)*frame]...)
		switch {
		case i%10 != 7 && c != nil:
			c.Good(good)
			out = append(out, good...)
		case i%10 != 7:
			out = append(out, good...)
		case c != nil:
			out = c.Conceal(out, frame)
		default:
			out = append(out, make([]int16, frame)...)
		}
	}
	return out
}

func snr(want, got []int16) float64 {
	var signal, noise float64
	for i := range got {
		d := float64(want[i]) - float64(got[i])
		signal += float64(want[i]) * float64(want[i])
		noise += d * d
	}
	return 10 * math.Log10(signal/max(noise, 1))
}

// click is the largest second difference: how sharply the sound bends.
func click(pcm []int16) (worst float64) {
	for i := 2; i < len(pcm); i++ {
		worst = max(worst, math.Abs(float64(pcm[i])-2*float64(pcm[i-1])+float64(pcm[i-2])))
	}
	return worst
}

// BR-099: one of ten packets of a tone is lost.
func TestOneOfTenLost(t *testing.T) {
	for _, rate := range []int{8000, 16000, 48000} {
		for _, s := range []struct {
			name string
			pcm  []int16
			gain float64 // dB over silence at least
		}{
			{"tone of 1 kHz", tone(rate*3, rate, 1000, 10000), 15},
			{"tone of 1004 Hz", tone(rate*3, rate, 1004, 10000), 6},
			{"vowels", vowels(rate*3, rate), 3},
		} {
			t.Run(fmt.Sprintf("%s at %d", s.name, rate), func(t *testing.T) {
				silence, made := lose(s.pcm, rate, nil), lose(s.pcm, rate, New(rate))
				before, after := snr(s.pcm, silence), snr(s.pcm, made)
				t.Logf("SNR %.1f dB with silence, %.1f dB concealed; bend %.0f in the sound, %.0f with silence, %.0f concealed",
					before, after, click(s.pcm), click(silence), click(made))
				if after < before+s.gain {
					t.Errorf("concealed %.1f dB, silence %.1f dB: want %.0f better", after, before, s.gain)
				}
				// A bend of 3 % of the loudest sample more than the sound's own is not heard.
				if click(made) > click(s.pcm)+300 {
					t.Errorf("it clicks: %.0f, the sound itself %.0f", click(made), click(s.pcm))
				}
			})
		}
	}
}

func TestLongGapFadesToTheLinesNoise(t *testing.T) {
	const rate = 8000
	random := rand.New(rand.NewPCG(1, 1))
	c := New(rate)
	noise := func(n int) []int16 {
		pcm := make([]int16, n)
		for i := range pcm {
			pcm[i] = int16(40 * random.NormFloat64())
		}
		return pcm
	}
	for range 50 {
		c.Good(noise(160))
	}
	voice := vowels(rate, rate)
	for i := 0; i+160 <= len(voice); i += 160 {
		c.Good(voice[i : i+160])
	}
	gap := c.Conceal(nil, rate)
	for _, w := range []struct {
		from, to  int // ms
		low, high float64
	}{{0, 10, 300, 12000}, {70, 1000, 20, 60}} {
		part := gap[w.from*8 : w.to*8]
		sum := 0.0
		for _, s := range part {
			sum += float64(s) * float64(s)
		}
		if rms := math.Sqrt(sum / float64(len(part))); rms < w.low || rms > w.high {
			t.Errorf("%d to %d ms: rms %.0f, want %.0f to %.0f", w.from, w.to, rms, w.low, w.high)
		}
	}
}

func TestGapInManyCallsIsOneGap(t *testing.T) {
	pcm := vowels(8000, 8000)
	whole, parts := New(8000), New(8000)
	whole.Good(pcm)
	parts.Good(pcm)
	want := whole.Conceal(nil, 800)
	var got []int16
	for _, n := range []int{0, 1, 79, 160, 240, 320} {
		got = parts.Conceal(got, n)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("sample %d: %d and %d", i, got[i], want[i])
		}
	}
}

func TestNothingHeardYetIsSilence(t *testing.T) {
	c := New(8000)
	for _, s := range c.Conceal(nil, 480) {
		if s != 0 {
			t.Fatalf("made up %d out of nothing", s)
		}
	}
	c.Good(make([]int16, 160))
	c.Conceal(nil, 160)
	c.Good(tone(800, 8000, 500, 5000))
	c.Reset()
	for _, s := range c.Conceal(nil, 480) {
		if s != 0 {
			t.Fatalf("made up %d after a reset", s)
		}
	}
}

// Any rate, frame length and pattern of loss: no panic, the lengths asked for.
func TestAnyPattern(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	for _, rate := range []int{-1, 8000, 11025, 22050, 44100, 48000, 96000} {
		c := New(rate)
		for range 400 {
			pcm := make([]int16, random.IntN(2000))
			for i := range pcm {
				pcm[i] = int16(random.IntN(65536) - 32768)
			}
			if random.IntN(3) > 0 {
				c.Good(pcm)
			} else if got := c.Conceal(nil, len(pcm)); len(got) != len(pcm) {
				t.Fatalf("%d samples, want %d", len(got), len(pcm))
			}
		}
	}
}

func TestNoAllocation(t *testing.T) {
	c := New(8000)
	frame, out := tone(160, 8000, 400, 8000), make([]int16, 0, 160)
	if n := testing.AllocsPerRun(100, func() {
		c.Good(frame)
		c.Conceal(out, 160)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkGoodSecond(b *testing.B) {
	c, frame := New(8000), tone(160, 8000, 400, 8000)
	b.ReportAllocs()
	for b.Loop() {
		for range 50 {
			c.Good(frame)
		}
	}
}

func BenchmarkConceal(b *testing.B) {
	for _, rate := range []int{8000, 48000} {
		b.Run(fmt.Sprint(rate), func(b *testing.B) {
			c, frame := New(rate), vowels(rate, rate)
			c.Good(frame)
			out := make([]int16, 0, rate/50)
			b.ReportAllocs()
			for b.Loop() {
				c.Conceal(out, rate/50)
				c.gap = 0 // a new gap each time
			}
		})
	}
}

// A stream without a gap takes no room for the sound of one.
func TestNoGapNoCopy(t *testing.T) {
	c, frame := New(8000), vowels(8000, 160)
	for range 50 {
		c.Good(frame)
	}
	if c.voice != nil {
		t.Errorf("%d samples were kept for a gap", len(c.voice))
	}
	c.Conceal(nil, 160)
	if len(c.voice) != len(c.past) {
		t.Errorf("%d samples were kept in a gap, of %d", len(c.voice), len(c.past))
	}
}
