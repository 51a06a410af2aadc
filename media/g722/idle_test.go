package g722

import (
	"slices"
	"testing"
)

func TestSilenceIsSilent(t *testing.T) {
	for _, s := range decode(t, encode(t, make([]int16, SampleRate))) {
		if s < -4 || s > 4 {
			t.Fatalf("silence comes out as %d", s)
		}
	}
}

// A call sends idle payloads for as long as nothing is said, and then speech.
func TestIdle(t *testing.T) { // P13
	pcm := voice(4, 3400)
	const end, begin = SampleRate + 173, 20000 // amid words
	for _, ms := range []int{10, 20, 30, 40, 60} {
		for _, packets := range []int{1, 3, 10, 50, 500} {
			e, d := NewEncoder(), NewDecoder()
			b, _ := e.Encode(nil, pcm[:end/2*2])
			_, _ = d.Decode(nil, b)
			idle := e.Idle(nil, 16*ms)
			if len(idle) != 8*ms {
				t.Fatalf("%d bytes for %d ms", len(idle), ms)
			}
			var quiet []int16
			for range packets {
				quiet, _ = d.Decode(quiet, idle)
			}
			for i, s := range quiet {
				if i > 3200 && (s < -60 || s > 60) {
					t.Fatalf("%d ms × %d: sample %d is %d", ms, packets, i, s)
				}
			}
			for range min(packets, 500/ms) {
				e.Follow(idle)
			}
			b, _ = e.Encode(nil, pcm[begin:])
			got, _ := d.Decode(nil, b)
			want := pcm[begin:]
			first, later := snr(want[160:640], got[160:640+lag], lag), snr(want[640:16000], got[640:16000+lag], lag)
			if first < 20 || later < 35 {
				t.Errorf("%d ms × %d: SNR %.1f dB in the first 40 ms, then %.1f", ms, packets, first, later)
			}
			for _, s := range got {
				if s > 20000 || s < -20000 {
					t.Fatalf("%d ms × %d: a peak of %d in speech of at most %d", ms, packets, s, slices.Max(pcm))
				}
			}
		}
	}
}

// Speech that a pause interrupts was encoded before: its encoder cannot follow.
func TestIdleWithinSpeech(t *testing.T) {
	pcm := voice(4, 3400)
	for _, packets := range []int{1, 5, 20, 100} {
		e, d := NewEncoder(), NewDecoder()
		b, _ := e.Encode(nil, pcm)
		at := len(b) / 2
		_, _ = d.Decode(nil, b[:at])
		for range packets {
			_, _ = d.Decode(nil, e.Idle(nil, 320))
		}
		got, _ := d.Decode(nil, b[at:])
		later := snr(pcm[2*at+3200:], got[3200+lag:], 0)
		peak := max(slices.Max(got), -slices.Min(got))
		t.Logf("%d packets: peak %d, SNR after 200 ms %.1f dB", packets, peak, later)
		if peak > 20000 || later < 25 {
			t.Errorf("%d packets: peak %d, SNR after 200 ms %.1f dB", packets, peak, later)
		}
	}
}
