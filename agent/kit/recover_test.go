package kit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/live"
	"parley/agent/live/livetest"
)

// 12: a dropped socket is made anew, the conversation is kept, and what was sent
// meanwhile is delivered after, in order.
func TestRecover(t *testing.T) {
	sit(t, func(b *bench) {
		b.register(does("slow", func(context.Context, map[string]any) (map[string]any, error) {
			time.Sleep(2 * time.Second)
			return map[string]any{"late": true}, nil
		}))
		b.cfg.History = []live.Said{{Role: "user", Text: "Earlier."}}
	}, func(b *bench) {
		b.tell(live.Message{User: live.Transcript{Text: "Good day.", Done: true}})
		b.tell(live.Message{Agent: live.Transcript{Text: "Hello.", Done: true}, TurnDone: true})
		b.tell(call("1", "slow", nil))
		b.script.ConnectDelay = 5 * time.Second
		first := b.script.Last()
		first.Drop()
		synctest.Wait()
		b.is(live.StateRecovering)
		if err := b.session.SendText("Are you there?"); err != nil {
			b.Error(err)
		}
		if err := b.session.SendAudio(pcm(20 * ms)); err != nil {
			b.Error(err)
		}
		time.Sleep(3 * time.Second) // the tool answers
		if err := b.session.SendText("Hello?"); err != nil {
			b.Error(err)
		}
		time.Sleep(3 * time.Second)
		c := b.script.Last()
		if c == first || b.script.Tries() != 2 {
			b.Fatalf("%d connections tried", b.script.Tries())
		}
		got := texts(c.All(livetest.SentText, livetest.SentToolResponse, livetest.SentAudio))
		if want := []string{"text Are you there?", "audio", "response 1 map[late:true]", "text Hello?"}; !slices.Equal(got, want) {
			b.Errorf("delivered %q, want %q", got, want)
		}
		h := c.Config().History
		if len(h) != 4 || h[0].Text != "Earlier." || h[1].Text != "Good day." || h[2].Text != "Hello." || h[3].Call.ID != "1" {
			b.Errorf("the new connection was told %+v", h)
		}
		b.want("start ", "true")
		b.want("end ")
		b.want("error ")
		// The old socket was closed before the new one was opened: Connect refuses else.
		if b.script.Open() != 1 {
			b.Errorf("%d connections open", b.script.Open())
		}
	})
}

// 12: it is listening again after, and a reply that was cut is told.
func TestRecoverStates(t *testing.T) {
	sit(t, nil, func(b *bench) {
		b.tell(live.Message{Audio: pcm(20 * ms), Agent: live.Transcript{Delta: "I was say"}})
		b.script.Last().Drop()
		b.is(live.StateListening)
		b.want("state ", "connecting", "listening", "speaking", "listening", "recovering", "listening")
		b.want("agent ", `transcript "I was say" false`, `transcript "I was say" true`, "I was say")
	})
}

// 12: when there is no way back the error is told, and the session ends.
func TestRecoverFails(t *testing.T) {
	for name, c := range map[string]struct {
		refuse error
		tries  int
		want   int // connections tried
	}{
		"once":            {live.ErrBusy, 0, 2},
		"three times":     {live.ErrBusy, 3, 4},
		"the key is void": {live.ErrAuth, 3, 2},
	} {
		t.Run(name, func(t *testing.T) {
			sit(t, func(b *bench) { b.cfg.Recovery.Tries = c.tries }, func(b *bench) {
				if err := b.script.Refuse(c.refuse); err != nil {
					b.Fatal(err)
				}
				b.script.Last().Drop()
				time.Sleep(20 * time.Second)
				b.is(live.StateInactive)
				if got := b.script.Tries(); got != c.want {
					b.Errorf("%d connections tried, want %d", got, c.want)
				}
				if got := b.all("error "); len(got) != 1 {
					b.Errorf("errors %q", got)
				}
				b.want("end ", "<nil>")
			})
		})
	}
}

// 12: the budget bounds all tries together.
func TestRecoverBudget(t *testing.T) {
	sit(t, func(b *bench) { b.cfg.Recovery = live.Recovery{Tries: 100, Budget: 3 * time.Second} }, func(b *bench) {
		b.script.ConnectDelay = time.Hour
		b.script.Last().Drop()
		time.Sleep(2900 * ms)
		b.is(live.StateRecovering)
		time.Sleep(200 * ms)
		b.is(live.StateInactive)
	})
}

// 12: a connection that takes nothing though Receive waits is made anew as well, and
// what it did not take is delivered.
func TestRecoverFromSending(t *testing.T) {
	sit(t, func(b *bench) {
		b.script.OnSent = func(c *livetest.ScriptConn, s livetest.Sent) error {
			if c == b.script.Conns()[0] {
				return fmt.Errorf("%w: broken pipe", live.ErrLost)
			}
			return nil
		}
	}, func(b *bench) {
		for _, text := range []string{"one", "two"} {
			if err := b.session.SendText(text); err != nil {
				b.Error(err)
			}
		}
		b.is(live.StateProcessing)
		if got := b.sent(); len(b.script.Conns()) != 2 || !slices.Equal(got, []string{"text one", "text two"}) {
			b.Errorf("delivered %q over %d connections", got, len(b.script.Conns()))
		}
	})
}

// An error that is no loss is the sender's.
func TestSendFails(t *testing.T) {
	long := errors.New("too long")
	sit(t, func(b *bench) {
		b.script.OnSent = func(*livetest.ScriptConn, livetest.Sent) error { return long }
	}, func(b *bench) {
		if err := b.session.SendText("x"); !errors.Is(err, long) {
			b.Errorf("SendText: %v", err)
		}
		b.is(live.StateListening)
	})
}

// 12: audio is kept for so long only, the newest.
func TestRecoverKeepsAudio(t *testing.T) {
	sit(t, func(b *bench) { b.cfg.Recovery.Keep = time.Second }, func(b *bench) {
		b.script.ConnectDelay = 5 * time.Second
		b.script.Last().Drop()
		synctest.Wait()
		for i := range 200 {
			frame := make([]byte, 640)
			frame[0] = byte(i)
			if err := b.session.SendAudio(frame); err != nil {
				b.Fatal(err)
			}
		}
		time.Sleep(6 * time.Second)
		got := b.script.Last().All(livetest.SentAudio)
		if len(got) != 50 || got[0].PCM[0] != 150 || got[49].PCM[0] != 199 {
			b.Errorf("%d frames delivered", len(got))
		}
	})
}

// 12 and BR-138: GoAway has the connection made anew before the service ends it, by a
// timer and not by the next message; not while somebody speaks, if there is time.
func TestGoAway(t *testing.T) {
	for name, c := range map[string]struct {
		left    time.Duration
		before  live.Message
		min     time.Duration
		max     time.Duration
		nothing bool
	}{
		"nobody speaks":   {5 * time.Second, live.Message{}, 0, 10 * ms, false},
		"no time at all":  {0, live.Message{Audio: pcm(10 * time.Second)}, 0, 10 * ms, false},
		"the agent talks": {5 * time.Second, live.Message{Audio: pcm(2 * time.Second), TurnDone: true}, 2 * time.Second, 2300 * ms, false},
		"it talks long":   {5 * time.Second, live.Message{Audio: pcm(time.Minute), TurnDone: true}, 3900 * ms, 4100 * ms, false},
		"caller speaks":   {5 * time.Second, live.Message{SpeechStarted: true}, 3900 * ms, 4100 * ms, false},
	} {
		t.Run(name, func(t *testing.T) {
			sit(t, nil, func(b *bench) {
				b.tell(c.before)
				b.tell(live.Message{GoAway: &live.GoAway{TimeLeft: c.left}})
				began := time.Now()
				for len(b.script.Conns()) < 2 && time.Since(began) < time.Minute {
					time.Sleep(5 * ms)
					synctest.Wait()
				}
				if took := time.Since(began); took < c.min || took > c.max {
					b.Errorf("connected anew after %v, want %v to %v", took, c.min, c.max)
				}
				time.Sleep(time.Minute)
				b.is(live.StateListening)
				b.want("error ")
				if n := len(b.script.Conns()); n != 2 {
					b.Errorf("%d connections", n)
				}
				if got := b.sent(); len(got) != 0 {
					b.Errorf("the new connection was sent %q", got)
				}
			})
		})
	}
}

// BR-138: the service's own limit is not waited for.
func TestRenew(t *testing.T) {
	sit(t, func(b *bench) { b.cfg.Recovery.Renew = 10 * time.Minute }, func(b *bench) {
		time.Sleep(25 * time.Minute)
		synctest.Wait()
		if n := len(b.script.Conns()); n != 4 {
			b.Errorf("%d connections in 25 minutes, one every 8", n)
		}
		b.is(live.StateListening)
		b.want("error ")
	})
}
