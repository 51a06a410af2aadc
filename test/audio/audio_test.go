package audio

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

const rate = 8000

func sine(hz, amplitude float64, length time.Duration) []int16 {
	out := make([]int16, int(int64(length)*rate/int64(time.Second)))
	for i := range out {
		out[i] = int16(amplitude * 32767 * math.Sin(2*math.Pi*hz*float64(i)/rate))
	}
	return out
}

func noise(seed uint64, amplitude float64, length time.Duration) []int16 {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]int16, int(int64(length)*rate/int64(time.Second)))
	for i := range out {
		out[i] = int16(amplitude * 32767 * (2*r.Float64() - 1))
	}
	return out
}

// babble is noise whose loudness wanders like speech.
func babble(seed uint64, length time.Duration) []int16 {
	out := noise(seed, 0.5, length)
	r := rand.New(rand.NewPCG(seed, 2))
	gain := 0.0
	for i := range out {
		if i%640 == 0 {
			gain = math.Pow(r.Float64(), 3)
		}
		out[i] = int16(float64(out[i]) * gain)
	}
	return out
}

func join(parts ...[]int16) (out []int16) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance {
		t.Errorf("%s: %.3f, want %.3f ± %.3f", what, got, want, tolerance)
	}
}

func TestLevels(t *testing.T) {
	square := make([]int16, 160)
	for i := range square {
		square[i] = 32767
		if i%8 < 4 {
			square[i] = -32768
		}
	}
	near(t, "full square", Level(square), 0, 0.01)
	near(t, "full sine", Level(sine(1000, 1, time.Second)), -3.01, 0.01)
	near(t, "peak of a half sine", Peak(sine(1000, 0.5, time.Second)), -6.02, 0.05)
	near(t, "silence", Level(make([]int16, 160)), Floor, 0)
	near(t, "nothing", Level(nil), Floor, 0)
	if Level([]int16{1, 0, 0, 0, 0, 0, 0, 0}) < Floor {
		t.Error("a level below the floor")
	}
}

func TestToneShareTellsTones(t *testing.T) {
	half := 500 * time.Millisecond
	for _, c := range []struct {
		name   string
		pcm    []int16
		share  float64
		frames int
	}{
		{"the tone", sine(1000, 0.3, time.Second), 1, 50},
		{"another tone", sine(1400, 0.3, time.Second), 0, 50},
		{"noise", noise(3, 0.3, time.Second), 0, 50},
		{"silence does not count", join(make([]int16, 4000), sine(1000, 0.3, half)), 1, 25},
		{"half and half", join(sine(1000, 0.3, half), sine(500, 0.3, half)), 0.5, 50},
		{"nothing", nil, 0, 0},
	} {
		share, frames := ToneShare(c.pcm, rate, 1000)
		near(t, c.name, share, c.share, 0.001)
		if frames != c.frames {
			t.Errorf("%s: %d frames, want %d", c.name, frames, c.frames)
		}
	}
	if share, frames := ToneShare([]int16{1, 2}, 10, 1000); share != 0 || frames != 0 {
		t.Error("a rate without frames gave a share")
	}
}

func TestFindWaveformFindsTheSampleItBeginsAt(t *testing.T) {
	ref := babble(1, 900*time.Millisecond)
	for _, lead := range []int{0, 1, 777, 8001} {
		rec := join(noise(9, 0.001, time.Duration(lead)*time.Second/rate), ref, noise(8, 0.001, 300*time.Millisecond))
		m := FindWaveform(ref, rec, rate)
		near(t, "score", m.Score, 1, 0.001)
		if got := int(math.Round(m.At.Seconds() * rate)); got != lead {
			t.Errorf("found at %d, want %d", got, lead)
		}
	}
	if m := FindWaveform(ref, babble(2, 2*time.Second), rate); m.Score > 0.3 {
		t.Errorf("another sound scores %.2f", m.Score)
	}
	if m := FindWaveform(ref, ref[:100], rate); m != (Match{}) {
		t.Errorf("a recording shorter than its reference matched: %+v", m)
	}
	if m := FindWaveform(make([]int16, 100), ref, rate); m.Score != 0 {
		t.Error("silence was found")
	}
}

func TestFindEnvelopeSurvivesGainAndRate(t *testing.T) {
	ref := babble(4, 2*time.Second)
	quiet := make([]int16, 0, 2*len(ref))
	for _, v := range ref {
		quiet = append(quiet, v/3, v/3) // 16 kHz, 9.5 dB down
	}
	rec := join(make([]int16, 16000), quiet, make([]int16, 8000))
	m := FindEnvelope(ref, rate, rec, 2*rate)
	if m.Score < 0.9 || m.At != time.Second {
		t.Errorf("score %.3f at %v, want > 0.9 at 1s", m.Score, m.At)
	}
	if m := FindEnvelope(ref, rate, babble(5, 4*time.Second), rate); m.Score > 0.6 {
		t.Errorf("another sound scores %.2f", m.Score)
	}
	if m := FindEnvelope(ref, rate, nil, rate); m != (Match{}) {
		t.Error("found in nothing")
	}
	if m := FindEnvelope(ref, rate, make([]int16, len(ref)), rate); m.Score != 0 {
		t.Error("found in silence")
	}
}

func TestSpeechFindsBeginningAndEnd(t *testing.T) {
	quiet := func(d time.Duration) []int16 { return make([]int16, int(int64(d)*rate/int64(time.Second))) }
	pcm := join(quiet(time.Second), sine(300, 0.2, 500*time.Millisecond), quiet(200*time.Millisecond),
		sine(300, 0.2, 300*time.Millisecond), quiet(time.Second), sine(300, 0.2, 20*time.Millisecond),
		quiet(time.Second), sine(300, 0.2, 400*time.Millisecond))
	got := Speech(pcm, rate, DefaultRule())
	want := []Span{{time.Second, 2 * time.Second}, {4020 * time.Millisecond, 4420 * time.Millisecond}}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%v, want %v", got[i], want[i])
		}
	}
	if Speech(pcm, 10, DefaultRule()) != nil {
		t.Error("a rate without frames gave speech")
	}
}

// packets makes 20 ms marks, loud inside the spans.
func packets(length time.Duration, loud ...Span) (out []Mark) {
	for at := time.Duration(0); at < length; at += 20 * time.Millisecond {
		m := Mark{At: at, Level: Floor}
		for _, s := range loud {
			if at >= s.Start && at <= s.End {
				m.Level = -20
			}
		}
		out = append(out, m)
	}
	return out
}

func ms(start, end int) Span {
	return Span{time.Duration(start) * time.Millisecond, time.Duration(end) * time.Millisecond}
}

func TestTurnsMeasureWhatTheCallerWaited(t *testing.T) {
	length := 20 * time.Second
	sent := packets(length, ms(3000, 4000), ms(6000, 7000), ms(7600, 8000), ms(12000, 13000), ms(16000, 17000))
	heard := packets(length, ms(1000, 2000), ms(4400, 5000), ms(8500, 10000), ms(12600, 14000), ms(14800, 15000))
	var got []time.Duration
	for _, turn := range Turns(sent, heard, DefaultRule()) {
		got = append(got, turn.Latency)
	}
	// 6-7 s: the caller spoke on. 12-13 s: the agent spoke already. 16 s: no reply.
	want := []time.Duration{400 * time.Millisecond, 500 * time.Millisecond}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestBargeInsMeasureTheStop(t *testing.T) {
	length := 10 * time.Second
	sent := packets(length, ms(3000, 4000), ms(7000, 7500))
	heard := packets(length, ms(1000, 3140), ms(5000, 6000))
	got := BargeIns(sent, heard, DefaultRule())
	if len(got) != 1 || got[0].Stop != 140*time.Millisecond || got[0].Agent != ms(1000, 3140) || got[0].Caller != ms(3000, 4000) {
		t.Errorf("%+v", got)
	}
}
