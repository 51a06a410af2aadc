package call

import (
	"testing"
	"testing/synctest"
	"time"

	"parley/agent"
	"parley/media"
	"parley/media/g711"
	"parley/media/g722"
	"parley/rtp/rtptest"
	"parley/test/audio"
)

// Speech that is queued, and speech to come, goes on under a new codec.
func TestACodecChangesAmidSpeech(t *testing.T) {
	const ms = time.Millisecond
	wide := opusCodec(t)
	all := []media.Codec{g711.PCMU(), g711.PCMA(), g722.G722(), wide}
	for _, tt := range []struct {
		name     string
		from, to media.Codec
		old, new time.Duration
	}{
		{"PCMU to Opus", g711.PCMU(), wide, 20 * ms, 20 * ms},
		{"Opus to PCMU", wide, g711.PCMU(), 20 * ms, 20 * ms},
		{"PCMU to G.722", g711.PCMU(), g722.G722(), 20 * ms, 20 * ms},
		{"G.722 to PCMA", g722.G722(), g711.PCMA(), 20 * ms, 20 * ms},
		{"G.722 to Opus", g722.G722(), wide, 20 * ms, 60 * ms},
		{"Opus to G.722", wide, g722.G722(), 60 * ms, 20 * ms},
		{"longer packets", g722.G722(), g722.G722(), 20 * ms, 60 * ms},
		{"shorter packets", wide, wide, 60 * ms, 10 * ms},
		{"neither divides the other", g711.PCMU(), g711.PCMA(), 30 * ms, 40 * ms},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := new(listener)
				n := rtptest.New(5, rtptest.Conditions{})
				codecs := append([]media.Codec{tt.from}, all...)
				m := joinAs(t, n, agent.Format{HearRate: 16000, SayRate: 16000}, codecs, tt.old, l)
				pcm := words(6 * time.Second)
				go func() {
					for rest := pcm; len(rest) > 0; rest = rest[3200:] {
						if err := m.mouth.Say(t.Context(), rest[:3200]); err != nil {
							t.Error(err)
						}
					}
					m.mouth.Flush()
				}()
				time.Sleep(100 * ms)
				var enc media.Encoder
				stream := func(codec media.Codec, packetTime time.Duration) {
					if enc == nil || tt.from.Name != tt.to.Name {
						var err error
						if enc, err = codec.NewEncoder(); err != nil {
							t.Fatal(err)
						}
					}
					for _, b := range codedBy(t, enc, codec, packetTime, pcm[:38400]) {
						m.peer.Send(false, b)
						time.Sleep(packetTime)
					}
				}
				stream(tt.from, tt.old)
				m.pending.Store(m.offer(t, tt.to, tt.new))
				time.Sleep(10 * ms)
				stream(tt.to, tt.new)
				time.Sleep(3 * time.Second)
				m.leave(t)

				sound := played(t, m.peer.Seen(), all...)
				// Loudness, which survives any codec, before and after the change.
				for i, part := range [][]int16{pcm[:32000], pcm[64000:92000]} {
					if got := audio.FindEnvelope(part, 16000, sound, 16000); got.Score < 0.95 {
						t.Errorf("the caller heard part %d with a correlation of %.3f, want 0.95", i+1, got.Score)
					}
				}
				if p := peak(sound); p > 3*peak(pcm)/2 {
					t.Errorf("the caller heard a peak of %d, said were %d", p, peak(pcm))
				}
				if got := m.mouth.Played(); got != 6*time.Second {
					t.Errorf("%v of speech on the wire, want 6 s", got)
				}
				heard := l.heard()
				if p := peak(heard); p > 3*peak(pcm)/2 {
					t.Errorf("the agent heard a peak of %d, said were %d", p, peak(pcm))
				}
				for i, part := range [][]int16{heard[:42000], heard[36000:]} {
					if got := audio.FindEnvelope(pcm[4000:36000], 16000, part, 16000); got.Score < 0.95 {
						t.Errorf("the agent heard part %d with a correlation of %.3f, want 0.95", i+1, got.Score)
					}
				}
				if on, off := l.count(agent.VoiceOn), l.count(agent.VoiceOff); on == 0 || on != off {
					t.Errorf("%d voices began and %d ended", on, off)
				}
			})
		})
	}
}

func TestStopAmidAChangeOfCodec(t *testing.T) {
	m, _ := mouthAt(t, 16000)
	old := m.line.Load()
	if err := m.Say(t.Context(), words(time.Second/2)); err != nil {
		t.Fatal(err)
	}
	fresh, err := newLine(g722.G722(), "", 60*time.Millisecond, old)
	if err != nil {
		t.Fatal(err)
	}
	m.next(old, 0)
	m.line.Store(fresh)
	if silent(fresh, m.next(fresh, 0)) {
		t.Fatal("queued speech is gone")
	}
	heard := m.Stop()
	for range 10 {
		if !silent(fresh, m.next(fresh, 0)) {
			t.Fatal("speech after Stop")
		}
	}
	if want := 80*time.Millisecond - m.say.rate.Delay(); heard != want || m.Played() != heard {
		t.Errorf("heard %v, then %v; want %v", heard, m.Played(), want)
	}
}
