package silero

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"parley/media/vad"
)

// A Model is what the pool of package vad asks for.
var _ vad.Model = (*Model)(nil)

// With the real weights the made-up voice of signal is one voice, at its place;
// the clicks after it are none. Loudness alone takes them for one.
func TestVoiceAmongClicks(t *testing.T) {
	for _, rate := range []int{8000, 16000, 48000} {
		m := published(t, min(rate, 16000))
		if m == nil {
			t.Skip("skipped: telling a voice from clicks; run deploy/weights/fetch-silero.sh .cache first")
		}
		synctest.Test(t, func(t *testing.T) {
			pool, err := vad.NewPool(vad.PoolConfig{Workers: 1}, m)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			d, err := pool.Detector(vad.DefaultEnergyConfig(rate))
			if err != nil {
				t.Fatal(err)
			}
			var on, off []time.Duration
			sound := signal(rate)
			for i := 0; i < len(sound); i += rate / 50 {
				e := d.Process(sound[i:][:rate/50])
				synctest.Wait() // a worker has 20 ms of real time for what it does here
				at := time.Duration(i+rate/50) * time.Second / time.Duration(rate)
				switch e.Kind {
				case vad.On:
					on = append(on, at-e.Lag)
				case vad.Off:
					off = append(off, at-e.Lag)
				}
			}
			// The syllables fade out where a sine crosses zero, so some pauses are
			// long enough to part the voice in two or three.
			if len(on) == 0 || len(on) != len(off) || len(on) > 5 {
				t.Fatalf("%d Hz: on %v, off %v", rate, on, off)
			}
			if on[0] < 750*time.Millisecond || on[0] > 1200*time.Millisecond || slices.Max(off) > 3*time.Second {
				t.Errorf("%d Hz: a voice from %v to %v, not within 0.8 and 2.8 s", rate, on[0], off)
			}
		})
	}
}
