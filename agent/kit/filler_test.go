package kit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent"
	"parley/agent/live"
)

// tones are the times at which there was sound again after half a second without.
func (p *phone) tones() (at []time.Time) {
	var last time.Time
	for _, s := range p.wire() {
		if s.value == 0 {
			continue
		}
		if s.at.Sub(last) > 500*ms {
			at = append(at, s.at)
		}
		last = s.at
	}
	return at
}

// A caller who waits hears a soft tone, no voice needed, until the first word. It is no
// reply.
func TestToneFillsTheSilence(t *testing.T) {
	ring(t, nil, func(p *phone) {
		p.speaks("What time is it?", time.Second)
		over := p.all(agent.EventInference)[0].At.Add(-600 * ms) // the caller's last sound
		time.Sleep(4500 * ms)
		tones := p.tones()
		if len(tones) != 2 {
			p.Fatalf("%d tones", len(tones))
		}
		if first, second := tones[0].Sub(over), tones[1].Sub(tones[0]); first < 1180*ms || first > 1260*ms || second < 1960*ms || second > 2060*ms {
			p.Errorf("%v after the caller's last sound, and %v later", first, second)
		}
		if got := p.all(agent.EventAgentStarted); len(got) > 0 {
			p.Errorf("the tone counts as a reply: %+v", got)
		}
		p.replies("item-1", "Noon.")
		p.quiet(1)
		p.wantStopped("Noon.|Noon.")
		if e := p.all(agent.EventAgentStarted); len(e) != 1 || e[0].Latency < 4*time.Second {
			p.Errorf("started %+v", e)
		}
		time.Sleep(5 * time.Second)
		if n := len(p.tones()); n != 3 { // the word is one
			p.Errorf("%d tones", n)
		}
	})
}

// So does one whose connection is made anew, and one who waits for a tool.
func TestToneWhileAway(t *testing.T) {
	ring(t, func(p *phone) {
		p.cfg.Session.Recovery = live.Recovery{Tries: 9, Budget: 10 * time.Second, Pause: time.Second}
	}, func(p *phone) {
		p.speaks("What time is it?", time.Second)
		synctest.Wait()
		began := time.Now()
		_ = p.script.Refuse(live.ErrBusy)
		p.script.Last().Drop()
		time.Sleep(1900 * ms)
		tones := p.tones()
		if len(tones) != 1 || tones[0].Sub(began) > 1500*ms {
			p.Errorf("tones at %v, lost at %v", tones, began)
		}
		_ = p.script.Refuse(nil)
		p.until("a new connection", func() bool { return len(p.script.Conns()) == 2 })
	})
}

// A tool that asks for it has the soft tone after half a second, whatever is configured,
// until the first word; others have not.
func TestThinkingSound(t *testing.T) {
	for sound, want := range map[bool]int{true: 2, false: 0} {
		ring(t, func(p *phone) {
			p.cfg.FillerAfter, p.cfg.FillerTone = 0, false
			p.cfg.CallTools = func(agent.Call) []Tool {
				slow := does("slow", func(context.Context, map[string]any) (map[string]any, error) {
					time.Sleep(3 * time.Second)
					return nil, nil
				})
				slow.ToolTraits.ThinkingSound = sound
				return []Tool{slow}
			}
		}, func(p *phone) {
			synctest.Wait()
			began := time.Now()
			p.tell(call("1", "slow", nil))
			time.Sleep(2800 * ms)
			tones := p.tones()
			if len(tones) != want {
				p.Fatalf("sound %v: %d tones", sound, len(tones))
			}
			if want > 0 && (tones[0].Sub(began) < 480*ms || tones[0].Sub(began) > 560*ms) {
				p.Errorf("the first after %v", tones[0].Sub(began))
			}
			time.Sleep(time.Second)
			p.replies("item-1", "Noon.")
			p.quiet(1)
			time.Sleep(5 * time.Second)
			if got := len(p.tones()); got != want+1 { // the word is one
				p.Errorf("sound %v: %d tones at the end", sound, got)
			}
		})
	}
}

// Where a reply ended does not move when another follows at once.
func TestRepliesOnTheHeels(t *testing.T) {
	ring(t, nil, func(p *phone) {
		for _, item := range []string{"item-1", "item-2", "item-3"} {
			p.replies(item, "One two.")
		}
		p.quiet(3)
		for i, e := range p.all(agent.EventAgentStopped) {
			if want := time.Duration(i+1) * 2 * wordTime; e.Position != want {
				p.Errorf("reply %d ended at %v, want %v", i+1, e.Position, want)
			}
		}
	})
}

// Words that come without a sound were not heard.
func TestWordsWithoutSound(t *testing.T) {
	ring(t, nil, func(p *phone) {
		p.tell(live.Message{ItemID: "item-1", Agent: live.Transcript{Delta: "Nobody hears this."}})
		p.tell(live.Message{TurnDone: true})
		p.quiet(1)
		p.wantStopped("Nobody hears this.|")
	})
}

// Who has finished waits though the service has not yet said what it heard, nor replied.
func TestToneBeforeTheTranscript(t *testing.T) {
	ring(t, func(p *phone) { p.cfg.Session.LocalTurns, p.cfg.ReplyTimeout = true, 3*time.Second }, func(p *phone) {
		p.sound(time.Second)
		over := time.Now()
		time.Sleep(1900 * ms)
		tones := p.tones()
		if len(tones) != 1 || tones[0].Sub(over) > 1800*ms {
			p.Errorf("tones at %v, the caller's last word at %v", tones, over)
		}
		if got := p.all(agent.EventUserStopped); len(got) > 0 {
			p.Errorf("the turn has ended: %+v", got)
		}
		// A service that has heard nothing was asked all the same.
		p.until("a new connection", func() bool { return len(p.script.Conns()) == 2 })
	})
}

// A reply that breaks off is waited for like one that never came, where the model is known
// to say when its replies end: it is made up for by a new connection.
func TestReplyBreaksOff(t *testing.T) {
	ring(t, func(p *phone) { p.cfg.Resumed, p.cfg.ReplyTimeout = "Say sorry.", 3*time.Second }, func(p *phone) {
		p.replies("item-1", "Hello.")
		p.quiet(1)
		time.Sleep(600 * ms)
		p.says("item-2", "You have to")
		p.until("it is given up", func() bool { return len(p.all(agent.EventAgentStopped)) == 2 })
		gave := time.Now()
		p.until("a tone", func() bool { return len(p.tones()) == 3 })
		if took := time.Since(gave); took > 1100*ms {
			p.Errorf("a tone %v later", took)
		}
		p.until("a new connection", func() bool { return len(p.script.Conns()) == 2 && len(p.sent()) == 1 })
		p.wantSent("instruct Say sorry.")
	})
}
