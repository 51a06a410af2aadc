package call

import (
	"context"
	"testing"
	"time"

	"parley/agent"
	"parley/sip"
	"parley/test/phone"
)

// TestTheAnnouncementComesFirst: the caller is told before the agent says a word or
// hears one, it is in the recording, and the agent's timeline begins after it.
func TestTheAnnouncementComesFirst(t *testing.T) {
	cfg := always(t)
	g := startGatewayOf(t, func(c *Config, _ *sip.Config) { c.Recording = cfg }, func(p *Parts) {
		p.NewSoundFile = openSound
		p.Announcement = Announcement{PCM: sine(440, 16000, 600*time.Millisecond), Rate: 16000}
	})
	ran := make(chan time.Duration, 1)
	g.agent.does(func(ctx context.Context, s *fakeSession) error {
		frames, _, _ := s.heard()
		if frames != 0 || len(s.notices) != 0 {
			t.Errorf("before it runs the agent heard %d frames and got %d notices", frames, len(s.notices))
		}
		ran <- s.call.Speaker.Played()
		if err := s.call.Speaker.Say(ctx, sine(1200, 8000, 400*time.Millisecond)); err != nil {
			return err
		}
		s.call.Speaker.Flush()
		<-ctx.Done()
		return context.Cause(ctx)
	})
	p := ringUp(t, phone.Config{Number: "+14155550100"})
	c := dial(t, p, g.uri)
	c.Say(sine(900, 8000, 3*time.Second))
	if at := await(t, ran, "agent"); at != 0 {
		t.Errorf("the agent's timeline begins at %v", at)
	}
	s := g.agent.last()
	s.await(t, agent.VoiceOn) // it speaks on: the agent finds it speaking
	if n := s.await(t, agent.SpeechEnded); n.Position != 400*time.Millisecond {
		t.Errorf("its speech ended at %v", n.Position)
	}
	if err := c.Hangup(within(t)); err != nil {
		t.Fatal(err)
	}
	r := g.seen.awaitEnd(t)
	// A machine under load may stall; what that costs is not on the wire.
	if got := r.Stats.Speech; got > 400*time.Millisecond || got+g.SoundStats().SpeechDropped < 400*time.Millisecond {
		t.Errorf("%v of the agent's speech on the wire", got)
	}
	left, right, rate := readRecording(t, cfg.Dir)
	if got := spans(right, rate); len(got) == 0 || got[0][0] > 60 || got[len(got)-1][1] < 950 {
		t.Errorf("the agent's side sounds at %v ms", got)
	}
	if got := spans(left, rate); len(got) == 0 {
		t.Error("the caller is not in the recording")
	}
	if st := g.SoundStats(); st.Recording.Files != 1 || st.Recording.Failed != 0 || st.Delays.Say.Total() == 0 || st.Delays.Hear.Total() == 0 {
		t.Errorf("%+v", st)
	}
}
