package kit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent"
	"parley/agent/live"
	"parley/agent/live/livetest"
)

// 12, BR-138: a connection that ends is made anew without a second greeting, what the
// caller says meanwhile is not lost, and what is being said is said to its end.
func TestGoAwayInCall(t *testing.T) {
	ring(t, func(p *phone) { p.cfg.Greeting = "Welcome." }, func(p *phone) {
		p.replies("item-1", "Welcome.")
		p.quiet(1)
		p.script.ConnectDelay = time.Second
		p.tell(live.Message{GoAway: &live.GoAway{TimeLeft: 5 * time.Second}})
		frames := len(p.script.Last().All(livetest.SentAudio))
		p.line.set(func() { p.line.voice = 7 })
		p.sound(800 * ms)
		p.until("a new connection", func() bool { return len(p.script.Conns()) == 2 })
		time.Sleep(500 * ms)
		c := p.script.Conns()
		audio := append(c[0].All(livetest.SentAudio)[frames:], c[1].All(livetest.SentAudio)...)
		lost := 0
		for _, s := range audio {
			if !holds(s, 7) {
				lost++
			}
		}
		if lost > 1 || len(audio) < 70 {
			p.Errorf("%d frames reached the model, %d of another sound", len(audio), lost)
		}
		p.wantSent()
		p.tell(live.Message{User: live.Transcript{Text: "Hello?", Done: true}})
		p.replies("item-2", "Yes, hello.")
		p.quiet(2)
		p.wantStopped("Welcome.|Welcome.", "Yes, hello.|Yes, hello.")
		h := c[1].Config().History
		if len(h) != 1 || h[0].Text != "Welcome." {
			p.Errorf("history %+v", h)
		}
		if got := p.all(agent.EventError); len(got) != 0 {
			p.Errorf("errors %+v", got)
		}
	})
}

// BR-138: while the agent is heard a connection is not given up, if there is time.
func TestGoAwayWhileHeard(t *testing.T) {
	ring(t, nil, func(p *phone) {
		p.replies("item-1", "One two three four five six seven eight nine ten.") // two seconds
		p.until("it speaks", func() bool { return len(p.all(agent.EventAgentStarted)) > 0 })
		p.tell(live.Message{GoAway: &live.GoAway{TimeLeft: 10 * time.Second}})
		p.until("a new connection", func() bool { return len(p.script.Conns()) == 2 })
		if got := p.all(agent.EventAgentStopped); len(got) != 1 {
			p.Error("the connection was given up while the agent spoke")
		}
	})
}

// A connection that is lost with a reply: what had come is heard, and the model is told
// to go on.
func TestLostWithReply(t *testing.T) {
	ring(t, func(p *phone) { p.cfg.Resumed = "Say sorry." }, func(p *phone) {
		p.says("item-1", "One two three four")
		synctest.Wait()
		p.script.Last().Drop()
		p.until("it is asked", func() bool { return len(p.script.Conns()) == 2 && len(p.sent()) == 1 })
		p.wantSent("instruct Say sorry.")
		p.replies("item-2", "Sorry. Where was I?")
		p.quiet(2)
		p.wantStopped("One two three four|One two three four", "Sorry. Where was I?|Sorry. Where was I?")
	})
}

// The same when the reply had not begun: the caller waits for one.
func TestLostBeforeReply(t *testing.T) {
	ring(t, func(p *phone) { p.cfg.Resumed = "Say sorry." }, func(p *phone) {
		p.speaks("What time is it?", time.Second)
		p.script.Last().Drop()
		p.until("it is asked", func() bool { return len(p.script.Conns()) == 2 && len(p.sent()) == 1 })
		p.wantSent("instruct Say sorry.")
		if h := p.script.Last().Config().History; len(h) != 1 || h[0].Text != "What time is it?" {
			p.Errorf("history %+v", h)
		}
	})
}

// What was cut is what a new connection is told was said.
func TestHistoryIsHeard(t *testing.T) {
	ring(t, nil, func(p *phone) {
		p.replies("item-1", "One two three four five six seven eight.")
		time.Sleep(500 * ms)
		p.speaks("Stop.", 600*ms)
		heard := p.heard()
		p.script.Last().Drop()
		p.until("a new connection", func() bool { return len(p.script.Conns()) == 2 })
		h := p.script.Last().Config().History
		if len(h) != 2 || h[0].Role != "assistant" || h[0].Text != heard || h[1].Text != "Stop." {
			p.Errorf("history %+v, heard %q", h, heard)
		}
	})
}

// speaksFor is a voice of the gateway's own.
func (p *phone) ownVoice() Voice {
	return func(_ context.Context, text string, rate int, say func([]int16) error) error {
		if rate != p.line.says {
			return fmt.Errorf("a voice at %d Hz", rate)
		}
		for _, w := range strings.Fields(text) {
			if err := say(p.wordPCM(w)); err != nil {
				return err
			}
		}
		return nil
	}
}

// 12: a model that is gone for good: the caller hears an apology, and the call ends or
// is transferred by policy.
func TestLostForGood(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*phone)
		heard   string
		done    string
	}{
		"apology":         {func(p *phone) { p.cfg.Voice = p.ownVoice() }, "One two three. I am sorry.", ""},
		"no voice":        {func(*phone) {}, "One two three.", ""},
		"transfer":        {func(p *phone) { p.cfg.Voice = p.ownVoice(); p.cfg.LostTo = "+4930123" }, "One two three. I am sorry.", "transfer +4930123"},
		"transfer failed": {func(p *phone) { p.cfg.LostTo = "+4930123"; p.hands.fails = agent.ErrForbidden }, "One two three.", "transfer +4930123"},
	} {
		t.Run(name, func(t *testing.T) {
			ring(t, func(p *phone) {
				p.cfg.Apology = "I am sorry."
				c.prepare(p)
			}, func(p *phone) {
				p.replies("item-1", "One two three.")
				_ = p.script.Refuse(live.ErrAuth)
				p.script.Last().Drop()
				p.ends()
				if !errors.Is(p.err, live.ErrAuth) {
					p.Errorf("Run: %v", p.err)
				}
				if p.heard() != c.heard || p.hands.done() != c.done {
					p.Errorf("heard %q, done %q", p.heard(), p.hands.done())
				}
				if got := p.all(agent.EventError); len(got) == 0 {
					p.Error("nothing was reported")
				}
			})
		})
	}
}

// A model that stalls: the silence is filled within 2 s, the connection made anew, and
// the call ended when that does not help.
func TestStalled(t *testing.T) {
	ring(t, func(p *phone) {
		p.cfg.Voice = p.ownVoice()
		p.cfg.Filler, p.cfg.FillerTone, p.cfg.Apology = "One moment.", false, "I am sorry."
	}, func(p *phone) {
		p.speaks("What time is it?", time.Second)
		began := time.Now()
		p.until("a filler", func() bool { return p.heard() == "One moment." })
		if took := time.Since(began); took > 2500*ms {
			p.Errorf("the filler came after %v", took)
		}
		p.until("a new connection", func() bool { return len(p.script.Conns()) == 2 })
		p.ends()
		if p.err == nil || p.heard() != "One moment. One moment. I am sorry." {
			p.Errorf("Run: %v, heard %q", p.err, p.heard())
		}
	})
}

// A refused connection refuses the call.
func TestOpenFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := livetest.NewScript()
		_ = script.Refuse(live.ErrBusy)
		cfg := DefaultConfig()
		cfg.Provider = func() live.LiveProvider { return script.Provider() }
		opener, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		c := agent.Call{Speaker: newLine(), Control: agent.NoControl{}, Emit: func(agent.Event) {}}
		if _, err := opener.Open(t.Context(), c); !errors.Is(err, live.ErrBusy) {
			t.Errorf("Open: %v", err)
		}
		// A caller who hangs up while the provider connects waits for nothing.
		_ = script.Refuse(nil)
		script.ConnectDelay = time.Minute
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := opener.Open(ctx, c); err == nil || time.Since(began) > 2*time.Second {
			t.Errorf("Open: %v after %v", err, time.Since(began))
		}
		// A session whose context is done already is closed by Run.
		script.ConnectDelay = 0
		s, err := opener.Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		done, end := context.WithCancelCause(t.Context())
		end(errHungUp)
		if err := s.Run(done); !errors.Is(err, errHungUp) || script.Open() != 0 {
			t.Errorf("Run: %v, %d open", err, script.Open())
		}
	})
}

// BR-135: whenever the caller hangs up, everything is closed.
func TestHangUpAnywhere(t *testing.T) {
	for i := range 60 {
		after := time.Duration(i) * 83 * ms
		ring(t, func(p *phone) {
			p.cfg.Greeting = "Welcome."
			p.cfg.CallTools = func(agent.Call) []Tool {
				return []Tool{does("slow", func(ctx context.Context, _ map[string]any) (map[string]any, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				})}
			}
		}, func(p *phone) {
			c := p.script.Last()
			go func() {
				p.saysOn(c, "item-1", "Welcome.")
				_ = c.Tell(live.Message{TurnDone: true})
				time.Sleep(2500 * ms)
				p.saysOn(c, "item-2", "One two three four five six.")
				_ = c.Tell(call("1", "slow", nil))
				_ = c.Tell(live.Message{TurnDone: true})
			}()
			go func() {
				time.Sleep(500 * ms)
				p.sound(time.Second)
			}()
			time.Sleep(after)
			p.cancel(errHungUp)
			<-p.done
			if !errors.Is(p.err, errHungUp) {
				p.Errorf("Run: %v", p.err)
			}
			time.Sleep(5 * time.Second)
			synctest.Wait()
			started, stopped := p.all(agent.EventUserStarted), p.all(agent.EventUserStopped)
			if len(started) != len(stopped) {
				p.Errorf("hung up after %v: %d turns began, %d ended", after, len(started), len(stopped))
			}
			calls, results := p.all(agent.EventToolCall), p.all(agent.EventToolResult)
			if len(calls) < len(results) {
				p.Errorf("%d calls, %d results", len(calls), len(results))
			}
		})
	}
}

// The budget: five goroutines a call, the provider's included.
func TestGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := livetest.NewScript()
		cfg := DefaultConfig()
		cfg.Provider = func() live.LiveProvider { return script.Provider() }
		opener, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		before := runtime.NumGoroutine()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		const calls = 100
		for range calls {
			s, err := opener.Open(ctx, agent.Call{Speaker: newLine(), Control: agent.NoControl{}, Emit: func(agent.Event) {}})
			if err != nil {
				t.Fatal(err)
			}
			go func() { done <- s.Run(ctx) }()
		}
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n > 4*calls { // one is left for the provider
			t.Errorf("%d goroutines for %d calls", n, calls)
		}
		cancel()
		for range calls {
			<-done
		}
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n > 3 { // the runtime has some of its own
			t.Errorf("%d goroutines are left", n)
		}
	})
}
