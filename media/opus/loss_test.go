package opus

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"parley/media"
)

func TestSilenceSuppressedIsSilence(t *testing.T) { // BR-106
	c := DefaultConfig()
	c.DTX = true
	e := coder(t, codec(t, c, "usedtx=1"))
	coded := packets(t, e, append(voice(time.Second, SampleRate), make([]int16, 2*SampleRate)...), 20*time.Millisecond)
	short := 0
	for _, b := range coded {
		if len(b) <= 2 {
			short++
		}
	}
	if short < 60 {
		t.Errorf("%d of 100 packets of silence are short", short)
	}
	d := decoder(t)
	got := decode(t, d, coded)
	if l := level(got[len(got)-SampleRate:]); l > -60 {
		t.Errorf("silence at %.0f dBFS", l)
	}
	// A first byte alone, in the place of speech too, lasts as long as it says.
	out, err := d.Decode(nil, coded[10][:1])
	if err != nil || len(out) != 320 {
		t.Errorf("a first byte alone: %d samples, %v", len(out), err)
	}
	// Not asked for, there is none.
	for _, b := range packets(t, coder(t, codec(t, c, "")), make([]int16, SampleRate), 20*time.Millisecond) {
		if len(b) <= 2 {
			t.Fatal("DTX towards a peer that did not ask")
		}
	}
}

func TestLostSpeechIsRecovered(t *testing.T) {
	pcm := voice(10*time.Second, SampleRate)
	for _, length := range []time.Duration{20 * time.Millisecond, 40 * time.Millisecond, 60 * time.Millisecond} {
		coded := packets(t, coder(t, codec(t, DefaultConfig(), "useinbandfec=1")), pcm, length)
		want := decode(t, decoder(t), coded)
		n := media.Samples(length, SampleRate)
		run := func(recover bool) []int16 {
			random := rand.New(rand.NewPCG(1, 2))
			d := decoder(t)
			var out []int16
			var err error
			for i, b := range coded {
				lost := i > 0 && i+1 < len(coded) && random.IntN(10) == 0
				switch {
				case lost && recover:
					out, err = d.Recover(out, coded[i+1], n)
				case lost:
					out, err = d.Conceal(out, n)
				default:
					out, err = d.Decode(out, b)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			return out
		}
		made, recovered := snr(want, run(false)), snr(want, run(true))
		t.Logf("%v: %.1f dB made up, %.1f dB recovered", length, made, recovered)
		if recovered < made+3 {
			t.Errorf("%v: %.1f dB made up, %.1f dB recovered", length, made, recovered)
		}
	}
}

func TestConcealAnyLength(t *testing.T) {
	coded := packets(t, coder(t, codec(t, DefaultConfig(), "")), voice(time.Second, SampleRate), 20*time.Millisecond)
	for _, n := range []int{0, 1, 39, 40, 320, 321, 1920, 1921, 16000} {
		d := decoder(t)
		if out, err := d.Conceal(nil, n); err != nil || len(out) != n {
			t.Errorf("before the first packet: %d samples for %d, %v", len(out), n, err)
		}
		decode(t, d, coded)
		out, err := d.Conceal(make([]int16, 5), n)
		if err != nil || len(out) != n+5 {
			t.Errorf("%d samples for %d, %v", len(out), n, err)
		}
		if n == 16000 && level(out[len(out)-4000:]) > -40 {
			t.Errorf("still at %.0f dBFS after 750 ms", level(out[len(out)-4000:]))
		}
		if out, err = d.Recover(nil, coded[20], n); err != nil || len(out) != n {
			t.Errorf("recovered %d samples for %d, %v", len(out), n, err)
		}
	}
}

// A call sends the same payload for as long as nothing is said.
func TestOnePayloadOfSilenceRepeated(t *testing.T) { // P13
	c := codec(t, DefaultConfig(), "useinbandfec=1")
	idle, err := coder(t, c).Encode(nil, make([]int16, 320))
	if err != nil {
		t.Fatal(err)
	}
	pcm := voice(2*time.Second, SampleRate)
	coded := packets(t, coder(t, c), pcm, 20*time.Millisecond)
	d := decoder(t)
	if l := level(decode(t, d, slices.Repeat([][]byte{idle}, 100))); l > -70 {
		t.Errorf("silence at first is at %.0f dBFS", l)
	}
	decode(t, d, coded[:50])
	quiet := decode(t, d, slices.Repeat([][]byte{idle}, 100))
	for i, limit := range []float64{0, -35, -50, -60, -70} {
		if l := level(quiet[i*320 : i*320+320]); l > limit {
			t.Errorf("packet %d after speech is at %.0f dBFS, want %.0f", i, l, limit)
		}
	}
	if l := level(quiet[320*10:]); l > -70 {
		t.Errorf("silence after speech is at %.0f dBFS", l)
	}
	after := decode(t, d, coded[50:])
	if r := alike(pcm[SampleRate:], after); r < 0.8 {
		t.Errorf("speech after silence correlates by %.3f", r)
	}
	if most := slices.Max(after[:640]); most > 2*slices.Max(pcm) {
		t.Errorf("it begins with a peak of %d", most)
	}
}
