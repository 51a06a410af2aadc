package call

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"parley/agent"
	"parley/media"
	"parley/media/resample"
)

// Announcement is what callers are told before the agent speaks, such as that the
// call is recorded. The zero value is none.
type Announcement struct {
	PCM  []int16
	Rate int // Hz
}

// announcement is the state of a call's Announcement. While it is played the agent
// neither runs nor hears; keys and holds it is told of.
type announcement struct {
	playing atomic.Bool
	once    sync.Once
	played  chan struct{} // closed when all was sent
}

// playGrace is how much longer than its sound an announcement may take.
const playGrace = 2 * time.Second

// announce plays the announcement and returns when it is over or the call is. The
// agent's timeline begins after it. An announcement that cannot be played is logged
// and the call goes on: whether it may then be recorded is for the operator to say,
// so it is not.
func (c *Call) announce(ctx context.Context) {
	a := c.server.parts.Announcement
	if len(a.PCM) == 0 {
		return
	}
	err := c.playAnnouncement(ctx, a)
	c.mouth.rewind()
	c.prompt.playing.Store(false)
	if err != nil && ctx.Err() == nil {
		c.log.Error("announcement not played; the call is not recorded", zap.Error(err))
		if err := c.Record(false); err != nil {
			c.log.Debug("recording not stopped", zap.Error(err))
		}
	}
}

func (c *Call) playAnnouncement(ctx context.Context, a Announcement) error {
	r, err := resample.New(a.Rate, c.mouth.sayRate, resample.Voice)
	if err != nil {
		return err
	}
	pcm := r.Process(nil, a.PCM)
	if err := c.mouth.Say(ctx, pcm); err != nil {
		return err
	}
	c.mouth.Flush()
	limit := time.NewTimer(c.server.cfg.SpeechBuffer + playGrace)
	defer limit.Stop()
	for {
		select {
		case <-c.prompt.played:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			if !c.held.Load() {
				return errors.New("call: the announcement does not end")
			}
			limit.Reset(playGrace)
		}
	}
}

// prepare is called before the wheel turns: nothing of the caller's is to reach the
// agent before the announcement is over.
func (a *announcement) prepare(of Announcement) {
	a.played = make(chan struct{})
	a.playing.Store(len(of.PCM) > 0)
}

// hides says whether a notice is not for the agent: those of the announcement's own
// sound, and of voices meanwhile.
func (a *announcement) hides(n agent.Notice, all time.Duration) bool {
	if !a.playing.Load() {
		return false
	}
	switch n.Kind {
	case agent.SpeechEnded:
		if n.Position >= all {
			a.once.Do(func() { close(a.played) })
		}
		return true
	case agent.SpeechStarted, agent.VoiceOn, agent.VoiceConfirmed, agent.VoiceOff:
		return true
	}
	return false
}

// lasts is how long the announcement is, but for what resampling rounds.
func (a Announcement) lasts() time.Duration {
	return max(0, media.Duration(len(a.PCM), max(1, a.Rate))-media.FrameTime)
}

// equip gives ear and mouth what they measure and ask by. It is called once, before
// the wheel turns.
func (c *Call) equip() {
	c.prompt.prepare(c.server.parts.Announcement)
	c.ear.deaf = c.prompt.playing.Load
	c.ear.delays, c.mouth.delays = &c.server.delays, &c.server.delays
	c.ear.age = func() time.Duration { return c.rtp.Age() } // which session that is, an answer may decide
}
