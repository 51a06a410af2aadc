package tone

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/media/wav"
)

// press is a key for d and silence for as long as given.
func press(t *testing.T, rate int, key byte, dBFS float64, d, pause time.Duration) []int16 {
	t.Helper()
	s, err := Digit(rate, key, dBFS)
	if err != nil {
		t.Fatal(err)
	}
	return append(Take(s, rate, d), make([]int16, rate*int(pause/time.Millisecond)/1000)...)
}

// pair is two sines of levels and frequencies of their own.
func pair(rate int, d time.Duration, low, lowLevel, high, highLevel float64) []int16 {
	out := Take(Sine(rate, low, lowLevel), rate, d)
	for i, s := range Take(Sine(rate, high, highLevel), rate, d) {
		out[i] += s
	}
	return append(out, make([]int16, rate/20)...)
}

func TestKeysAreHeard(t *testing.T) {
	const ms = time.Millisecond
	for _, rate := range []int{8000, 16000, 24000, 48000} {
		for _, tt := range []struct {
			name string
			pcm  func() []int16
			want string
		}{
			{"all, as short as may be", func() (pcm []int16) {
				for _, key := range []byte(keys) {
					pcm = append(pcm, press(t, rate, key, -13, 45*ms, 45*ms)...)
				}
				return pcm
			}, keys},
			{"loud", func() []int16 { return press(t, rate, '5', -4, 100*ms, 60*ms) }, "5"},
			{"soft", func() []int16 { return press(t, rate, '5', -38, 100*ms, 60*ms) }, "5"},
			{"too soft", func() []int16 { return press(t, rate, '5', -50, 100*ms, 60*ms) }, ""},
			{"ten seconds", func() []int16 { return press(t, rate, '0', -13, 10*time.Second, 60*ms) }, "0"},
			{"twice", func() []int16 {
				return append(press(t, rate, '0', -13, 60*ms, 60*ms), press(t, rate, '0', -13, 60*ms, 60*ms)...)
			}, "00"},
			{"one after the other without a pause", func() []int16 {
				return append(press(t, rate, '1', -13, 80*ms, 0), press(t, rate, '9', -13, 80*ms, 60*ms)...)
			}, "19"},
			{"a gap of 10 ms is no pause", func() []int16 {
				return append(press(t, rate, '1', -13, 80*ms, 10*ms), press(t, rate, '1', -13, 80*ms, 60*ms)...)
			}, "1"},
			{"15 ms are no press", func() []int16 { return press(t, rate, '1', -13, 15*ms, 60*ms) }, ""},
			{"1.5 % high", func() []int16 { return pair(rate, 100*ms, 770*1.015, -13, 1336*1.015, -13) }, "5"},
			{"1.5 % low", func() []int16 { return pair(rate, 100*ms, 941*.985, -13, 1633*.985, -13) }, "D"},
			{"6 % high is another tone", func() []int16 { return pair(rate, 100*ms, 697*1.06, -13, 1209*1.06, -13) }, ""},
			{"the high tone 4 dB louder", func() []int16 { return pair(rate, 100*ms, 697, -14, 1209, -10) }, "1"},
			{"the low tone 7 dB louder", func() []int16 { return pair(rate, 100*ms, 697, -10, 1209, -17) }, "1"},
			{"the low tone 12 dB louder", func() []int16 { return pair(rate, 100*ms, 697, -10, 1209, -22) }, ""},
			{"one tone", func() []int16 { return Take(Sine(rate, 697, -10), rate, time.Second) }, ""},
			{"two of a row", func() []int16 { return pair(rate, 100*ms, 697, -13, 852, -13) }, ""},
			{"ringback", func() []int16 { return Take(Ringback(rate, "US", -13), rate, 5*time.Second) }, ""},
			{"noise", func() []int16 { return Take(Noise(-10, 1), rate, 20*time.Second) }, ""},
			{"beside noise of -15 dB", func() []int16 {
				pcm := press(t, rate, '7', -13, 100*ms, 60*ms)
				for i, s := range Take(Noise(-28, 1), rate, 160*ms)[:len(pcm)] {
					pcm[i] += s
				}
				return pcm
			}, "7"},
			{"silence", func() []int16 { return make([]int16, rate) }, ""},
		} {
			t.Run(fmt.Sprint(tt.name, " at ", rate), func(t *testing.T) {
				pcm := tt.pcm()
				if got := string(NewKeys(rate).Hear(nil, pcm)); got != tt.want {
					t.Errorf("heard %q, want %q", got, tt.want)
				}
				k, got := NewKeys(rate), []byte(nil)
				for i := 0; i < len(pcm); i += 37 { // in pieces
					got = k.Hear(got, pcm[i:min(i+37, len(pcm))])
				}
				if string(got) != tt.want {
					t.Errorf("in pieces %q, want %q", got, tt.want)
				}
			})
		}
	}
}

// What people say is no key.
func TestSpeechIsNoKey(t *testing.T) {
	files, err := filepath.Glob("/usr/share/asterisk/sounds/en*/*.wav")
	if err != nil || len(files) == 0 {
		t.Skip("the prompts are missing; on Debian: apt-get install asterisk-core-sounds-en-wav")
	}
	all := time.Duration(0)
	for _, f := range files {
		pcm, format, err := wav.ReadFile(f, 1<<24)
		if err != nil || format.Rate < 8000 || strings.Contains(f, "tone") || strings.Contains(f, "beep") {
			continue
		}
		if got := NewKeys(format.Rate).Hear(nil, pcm); len(got) > 0 {
			t.Errorf("%s: heard %q", filepath.Base(f), got)
		}
		all += time.Duration(len(pcm)) * time.Second / time.Duration(format.Rate)
	}
	t.Logf("%v of speech", all.Round(time.Second))
}

func FuzzKeys(f *testing.F) {
	f.Add(int64(1), uint16(800))
	f.Fuzz(func(t *testing.T, seed int64, size uint16) {
		pcm := make([]int16, size)
		for i := range pcm {
			seed = seed*6364136223846793005 + 1442695040888963407
			pcm[i] = int16(seed >> 48)
		}
		k := NewKeys(8000)
		for _, key := range k.Hear(nil, pcm) {
			if strings.IndexByte(keys, key) < 0 {
				t.Fatalf("%q is no key", key)
			}
		}
		if math.IsNaN(k.energy) {
			t.Fatal("no number")
		}
	})
}

func TestHearingKeysAllocatesNothing(t *testing.T) {
	k, pcm, dst := NewKeys(16000), press(t, 16000, '5', -13, 100*time.Millisecond, 100*time.Millisecond), make([]byte, 0, 8)
	if n := testing.AllocsPerRun(100, func() { dst = k.Hear(dst[:0], pcm) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkKeysSecond(b *testing.B) {
	k, pcm := NewKeys(16000), Take(Noise(-20, 1), 16000, time.Second)
	for b.Loop() {
		k.Hear(nil, pcm)
	}
}
