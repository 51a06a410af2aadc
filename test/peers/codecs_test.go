package peers

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"parley/call"
	"parley/media/wav"
	"parley/test/audio"
)

// prompt is a sentence that somebody spoke, at 16 kHz; a made-up one where the
// prompts are missing.
func prompt(t *testing.T, name string, seed float64) []int16 {
	t.Helper()
	const folder = "/usr/share/asterisk/sounds/en_US_f_Allison"
	narrow, format, err := wav.ReadFile(filepath.Join(folder, name+".wav"), 1<<24)
	if err != nil || format.Rate != 8000 {
		narrow = speech(seed, 3*time.Second)
	}
	return atRate(t, 8000, 16000, narrow)
}

// Wideband both ways: what is said must come out as the same wave.
func TestBaresipTalksInWideband(t *testing.T) {
	Isolated(t)
	t.Parallel()
	for _, way := range []struct {
		name, codec string
		rate        int // of its files
		alike       float64
	}{{"opus", "opus/48000/2", 48000, 0.95}, {"G722", "G722/16000/1", 16000, 0.95}} {
		t.Run(way.name, func(t *testing.T) {
			asks, answers := prompt(t, "vm-goodbye", 1.3), prompt(t, "vm-isunavail", 2.1)
			performer := &Performer{Rate: 16000, Says: answers, Pause: 700 * time.Millisecond}
			g := StartGateway(t, performer)
			all := make([]int16, 20*16000)
			copy(all[16000:], asks)
			path := filepath.Join(t.TempDir(), "microphone.wav")
			if err := os.WriteFile(path, wav.Encode(way.rate, 1, atRate(t, 16000, way.rate, all)), 0o600); err != nil {
				t.Fatal(err)
			}
			rate := fmt.Sprint(way.rate)
			b := StartBaresip(t, "+12025550109", path, way.codec, "udp", "ausrc_srate "+rate, "auplay_srate "+rate)
			b.Call(g.URI("agent"))
			time.Sleep(time.Second)
			b.Do("sndcode", "4")
			time.Sleep(7 * time.Second)
			b.Do("hangup", "")
			r := g.Records(1)

			recording, rateHeard := b.HeardAt()
			check := func(who string, want, got []int16) {
				t.Helper()
				// The middle of it: on a busy machine baresip drops a packet now and then.
				m := audio.FindWaveform(want[len(want)/4:len(want)*3/4], got, 16000)
				t.Logf("%s heard the sentence at %v with a correlation of %.3f", who, m.At, m.Score)
				if m.Score < way.alike {
					t.Errorf("%s heard the sentence with a correlation of %.3f, want %.2f", who, m.Score, way.alike)
				}
			}
			check("baresip", answers, atRate(t, rateHeard, 16000, recording))
			check("the agent", asks, performer.Heard())
			if d := performer.Digits(); d != "4" {
				t.Errorf("the agent got the keys %q, pressed was 4", d)
			}
			if len(r) == 1 && (r[0].Codec != way.name || r[0].Cause != call.CauseCallerHungUp || r[0].Stats.Lost != 0) {
				t.Errorf("%+v", r[0])
			}
		})
	}
}
