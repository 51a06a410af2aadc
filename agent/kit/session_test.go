package kit

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/live"
	"parley/agent/live/livetest"
)

// The numbers are the lines of the contract of agent sessions.

// 1: what is nil has a default, and ids are unique.
func TestSessionDefaults(t *testing.T) {
	a := NewAgentSession(livetest.NewScript().Bare(), Callbacks{}, nil, LifecycleHooks{}, nil)
	b := NewAgentSession(livetest.NewScript().Bare(), Callbacks{}, nil, LifecycleHooks{}, nil)
	if a.Registry() == nil || a.Registry().Len() != 0 {
		t.Error("a nil registry is an empty one")
	}
	if err := a.Memory().Set(t.Context(), "k", "v"); err != nil {
		t.Error(err)
	}
	if a.SessionID() == "" || a.SessionID() == b.SessionID() {
		t.Errorf("ids %q and %q", a.SessionID(), b.SessionID())
	}
	if a.State() != live.StateInactive {
		t.Errorf("state %s", a.State())
	}
}

// 2: Start when active changes nothing.
func TestStartTwice(t *testing.T) {
	sit(t, nil, func(b *bench) {
		if err := b.session.Start(b.Context(), b.cfg, b.idle); !errors.Is(err, live.ErrActive) {
			b.Errorf("second Start: %v", err)
		}
		if n := b.script.Tries(); n != 1 {
			b.Errorf("%d connections tried", n)
		}
		b.is(live.StateListening)
		b.want("start ", "true")
		b.want("state ", "connecting", "listening")
	})
}

// 2: a second Start while the first connects is refused at once.
func TestStartWhileConnecting(t *testing.T) {
	seat(t, func(b *bench) { b.script.ConnectDelay = time.Second }, func(b *bench) {
		done := make(chan error, 1)
		go func() { done <- b.session.Start(b.Context(), b.cfg, b.idle) }()
		synctest.Wait()
		began := time.Now()
		if err := b.session.Start(b.Context(), b.cfg, b.idle); !errors.Is(err, live.ErrActive) || time.Since(began) > 0 {
			b.Errorf("second Start: %v after %v", err, time.Since(began))
		}
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
}

// 2: a failed connect is told, leaves nothing behind, and may be tried again.
func TestStartFails(t *testing.T) {
	no := errors.New("no route")
	seat(t, func(b *bench) {
		b.script.OnConnect = func(n int, _ LiveConfig) error {
			if n == 1 {
				return no
			}
			return nil
		}
	}, func(b *bench) {
		if err := b.session.Start(b.Context(), b.cfg, b.idle); !errors.Is(err, no) {
			b.Errorf("Start: %v", err)
		}
		b.is(live.StateInactive)
		b.want("start ")
		b.want("end ")
		b.start()
		b.want("state ", "connecting", "inactive", "connecting", "listening")
		b.want("start ", "true")
	})
}

// 2, 5: a session that is stopped while it connects never began.
func TestStopWhileConnecting(t *testing.T) {
	seat(t, func(b *bench) { b.script.ConnectDelay = time.Minute }, func(b *bench) {
		done := make(chan error, 1)
		go func() { done <- b.session.Start(b.Context(), b.cfg, b.idle) }()
		synctest.Wait()
		b.session.Stop()
		if err := <-done; !errors.Is(err, live.ErrStopped) {
			b.Errorf("Start: %v", err)
		}
		b.is(live.StateInactive)
		b.want("start ")
		b.want("end ")
	})
}

// 3: the registry's definitions come after the caller's own, sorted, and the caller's
// slice stays as it is.
func TestStartTellsTools(t *testing.T) {
	seat(t, func(b *bench) {
		for _, name := range []string{"zebra", "ant"} {
			b.register(&FuncTool{ToolName: name})
		}
	}, func(b *bench) {
		own := make([]ToolDefinition, 1, 8)
		own[0] = ToolDefinition{Name: "mine"}
		b.cfg.Tools = own
		b.start()
		var names []string
		for _, d := range b.script.Last().Config().Tools {
			names = append(names, d.Name)
		}
		if !slices.Equal(names, []string{"mine", "ant", "zebra"}) {
			b.Errorf("tools %q", names)
		}
		if rest := own[:3]; rest[1].Name != "" || len(b.cfg.Tools) != 1 {
			b.Errorf("the caller's slice was written to: %+v", rest)
		}
	})
}

// 4: nothing is sent while inactive, nor once Stop was called, which may be called
// again.
func TestSendInactive(t *testing.T) {
	seat(t, nil, func(b *bench) {
		send := func() {
			b.Helper()
			for _, err := range []error{b.session.SendAudio(pcm(20 * ms)), b.session.SendText("x"), b.session.EndAudioStream()} {
				if err != nil {
					b.Error(err)
				}
			}
		}
		send()
		if b.script.Tries() != 0 {
			b.Error("the provider was touched")
		}
		b.session.Stop()
		b.start()
		c := b.script.Last()
		b.session.Stop()
		send()
		b.session.Stop()
		if got := c.All(livetest.SentAudio, livetest.SentText, livetest.SentAudioEnd); len(got) != 0 {
			b.Errorf("sent %+v", got)
		}
		b.want("end ", "<nil>")
		b.want("state ", "connecting", "listening", "deactivating", "inactive")
	})
}

// 4: Stop waits 3 s for a provider that does not close, and 5 s in all.
func TestStopIsBounded(t *testing.T) {
	seat(t, func(b *bench) { b.script.CloseDelay = time.Minute }, func(b *bench) {
		b.start()
		began := time.Now()
		b.session.Stop()
		if took := time.Since(began); took < 3*time.Second || took > 3100*ms {
			b.Errorf("Stop took %v with a provider that does not close", took)
		}
		b.want("end ", "<nil>")
	})
	stuck := make(chan struct{})
	seat(t, func(b *bench) {
		stuck = make(chan struct{})
		b.register(&FuncTool{ToolName: "deaf", Fn: func(context.Context, map[string]any) (map[string]any, error) {
			<-stuck
			return nil, nil
		}})
	}, func(b *bench) {
		b.start()
		b.tell(call("1", "deaf", nil))
		began := time.Now()
		b.session.Stop()
		if took := time.Since(began); took < 4900*ms || took > 5200*ms {
			b.Errorf("Stop took %v with a tool that does not end", took)
		}
		b.want("end ", "<nil>")
		b.is(live.StateInactive)
		close(stuck)
	})
}

// 4: Stop waits for running tools, which learn of it, and sends nothing of them.
func TestStopWaitsForTools(t *testing.T) {
	seat(t, func(b *bench) {
		b.register(&FuncTool{ToolName: "slow", Fn: func(ctx context.Context, _ map[string]any) (map[string]any, error) {
			<-ctx.Done()
			time.Sleep(2 * time.Second)
			b.add("tool over")
			return map[string]any{"late": true}, nil
		}})
	}, func(b *bench) {
		b.start()
		c := b.script.Last()
		b.tell(call("1", "slow", nil))
		b.session.Stop()
		b.want("tool ", "over")
		if got := c.All(); len(got) != 0 {
			b.Errorf("sent after Stop: %+v", got)
		}
		if b.script.Open() != 0 {
			b.Error("the connection is open")
		}
	})
}

// 4: a callback that hangs does not keep Stop.
func TestStopWithStuckCallback(t *testing.T) {
	var stuck chan struct{}
	seat(t, func(b *bench) {
		stuck = make(chan struct{})
		b.calls.OnAudio = func([]byte) { <-stuck }
	}, func(b *bench) {
		b.start()
		b.tell(live.Message{Audio: pcm(20 * ms)})
		began := time.Now()
		b.session.Stop()
		if took := time.Since(began); took > 5200*ms {
			b.Errorf("Stop took %v", took)
		}
		if got := b.all("end "); len(got) != 1 {
			b.Errorf("the end was told %d times before Stop returned", len(got))
		}
		close(stuck)
		synctest.Wait()
		b.want("end ", "<nil>")
	})
}

// 5: OnSessionEnd fires once on every way out.
func TestEveryWayOut(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*bench)
		leave   func(*bench)
	}{
		"stop":      {nil, func(b *bench) { b.session.Stop() }},
		"two stops": {nil, func(b *bench) { go b.session.Stop(); b.session.Stop() }},
		"idle": {func(b *bench) { b.idle = IdleConfig{DeactivateAfter: time.Minute} },
			func(*bench) { time.Sleep(2 * time.Minute) }},
		"provider error": {func(b *bench) { b.cfg.Recovery.Tries = -1 }, func(b *bench) { b.script.Last().Drop() }},
		"key refused":    {nil, func(b *bench) { b.script.Last().Fail(live.ErrAuth) }},
		"no way back": {nil, func(b *bench) {
			_ = b.script.Refuse(live.ErrBusy)
			b.script.Last().Drop()
		}},
		"stop from a callback": {func(b *bench) {
			b.calls.OnInterrupted = func() { go b.session.Stop() }
		}, func(b *bench) {
			b.tell(live.Message{Audio: pcm(time.Second)})
			b.tell(live.Message{Interrupted: true})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			sit(t, c.prepare, func(b *bench) {
				c.leave(b)
				time.Sleep(10 * time.Second)
				b.is(live.StateInactive)
				b.session.Stop()
				b.want("start ", "true")
				b.want("end ", "<nil>")
				if b.script.Open() != 0 {
					b.Error("the connection is open")
				}
			})
		})
	}
	t.Run("hang-up", func(t *testing.T) {
		seat(t, nil, func(b *bench) {
			ctx, hangUp := context.WithCancel(b.Context())
			if err := b.session.Start(ctx, b.cfg, b.idle); err != nil {
				b.Fatal(err)
			}
			hangUp()
			b.is(live.StateInactive)
			b.want("start ", "true")
			b.want("end ", "<nil>")
		})
	})
}

// 5: a session can be started again, and its hooks fire again.
func TestStartAgain(t *testing.T) {
	sit(t, nil, func(b *bench) {
		id := b.session.SessionID()
		b.session.Stop()
		b.start()
		if b.session.SessionID() != id {
			b.Error("the id changed")
		}
		b.session.Stop()
		b.want("start ", "true", "true")
		b.want("end ", "<nil>", "<nil>")
	})
}

// 6: the first audio makes it speak, once; a turn without a done message settles
// 900 ms after its last audio.
func TestSpeakingSettles(t *testing.T) {
	sit(t, nil, func(b *bench) {
		b.tell(live.Message{Audio: pcm(20 * ms), Agent: live.Transcript{Delta: "Hello "}})
		time.Sleep(500 * ms)
		b.tell(live.Message{Audio: pcm(20 * ms), Agent: live.Transcript{Delta: "there."}})
		time.Sleep(899 * ms)
		b.is(live.StateSpeaking)
		time.Sleep(1 * ms)
		b.is(live.StateListening)
		b.want("state ", "connecting", "listening", "speaking", "listening")
		b.want("agent ", `transcript "Hello " false`, `transcript "there." false`, `transcript "Hello there." true`, "Hello there.")
		time.Sleep(time.Minute)
		b.want("state ", "connecting", "listening", "speaking", "listening")
	})
}

// 6: Interrupted goes to listening at once, and counts only when the agent speaks.
func TestInterrupted(t *testing.T) {
	sit(t, nil, func(b *bench) {
		b.tell(live.Message{Interrupted: true})
		b.want("interrupted")
		b.is(live.StateListening)
		b.tell(live.Message{Audio: pcm(5 * time.Second)})
		b.is(live.StateSpeaking)
		b.tell(live.Message{Interrupted: true})
		b.want("interrupted", "")
		b.is(live.StateListening)
		b.tell(live.Message{Interrupted: true})
		b.want("interrupted", "")
		// Said and done, but still heard: there is something to stop.
		b.tell(live.Message{Audio: pcm(5 * time.Second)})
		b.tell(live.Message{TurnDone: true})
		time.Sleep(2 * time.Second)
		b.tell(live.Message{Interrupted: true})
		b.want("interrupted", "", "")
	})
}

// 6: listening, processing, speaking.
func TestStates(t *testing.T) {
	sit(t, func(b *bench) {
		b.register(&FuncTool{ToolName: "look", Fn: func(context.Context, map[string]any) (map[string]any, error) {
			time.Sleep(time.Second)
			return nil, nil
		}})
	}, func(b *bench) {
		b.tell(live.Message{SpeechStarted: true})
		b.is(live.StateListening)
		b.tell(live.Message{SpeechStopped: true})
		b.is(live.StateProcessing)
		b.tell(live.Message{User: live.Transcript{Done: true}}) // a noise
		b.is(live.StateListening)
		b.tell(live.Message{User: live.Transcript{Done: true, Text: "Look it up."}})
		b.is(live.StateProcessing)
		b.tell(call("1", "look", nil))
		b.tell(live.Message{TurnDone: true})
		b.is(live.StateProcessing)
		time.Sleep(2 * time.Second)
		b.tell(live.Message{Audio: pcm(20 * ms)})
		b.is(live.StateSpeaking)
		b.tell(live.Message{TurnDone: true})
		b.is(live.StateListening)
		if err := b.session.SendText("more"); err != nil {
			b.Error(err)
		}
		b.is(live.StateProcessing)
	})
}

// 7: a message is told once, whichever way the provider tells it.
func TestMessages(t *testing.T) {
	user := func(delta, text string, done bool) live.Message {
		return live.Message{User: live.Transcript{Delta: delta, Text: text, Done: done}}
	}
	agent := func(delta, text string, done bool) live.Message {
		return live.Message{Agent: live.Transcript{Delta: delta, Text: text, Done: done}}
	}
	for name, c := range map[string]struct {
		told []live.Message
		want []string
	}{
		"deltas and the full text": {[]live.Message{user("Good ", "", false), user("day", "", false), user("", "Good day.", true)}, []string{"user Good day."}},
		"the full text alone":      {[]live.Message{user("", "Yes.", true), user("", "Yes.", true)}, []string{"user Yes.", "user Yes."}},
		"done without text":        {[]live.Message{agent("Well ", "", false), agent("then.", "", false), agent("", "", true)}, []string{"agent Well then."}},
		"done twice":               {[]live.Message{agent("Well.", "", true), agent("", "", true), {TurnDone: true}}, []string{"agent Well."}},
		"done with the turn":       {[]live.Message{agent("Well.", "", false), {TurnDone: true}}, []string{"agent Well."}},
		"a cut reply is not glued to the next": {[]live.Message{
			{Audio: pcm(time.Second), Agent: live.Transcript{Delta: "I was say"}}, {Interrupted: true},
			agent("What ", "", false), agent("is it?", "", true), {TurnDone: true},
		}, []string{"agent I was say", "agent What is it?"}},
		"blank":         {[]live.Message{user(" ", "", false), user("", " ", true)}, nil},
		"delta at done": {[]live.Message{user("a ", "", false), user("b", "", true)}, []string{"user a b"}},
	} {
		t.Run(name, func(t *testing.T) {
			sit(t, func(b *bench) {
				b.calls.OnUserTranscript, b.calls.OnAgentTranscript = nil, nil
			}, func(b *bench) {
				for _, m := range c.told {
					b.tell(m)
				}
				got := append([]string{}, b.all("")...)
				got = slices.DeleteFunc(got, func(l string) bool {
					return !strings.HasPrefix(l, "user ") && !strings.HasPrefix(l, "agent ")
				})
				if !slices.Equal(got, c.want) {
					b.Errorf("messages %q, want %q", got, c.want)
				}
			})
		})
	}
}

// 7: what was gathered when the session ends is told, before its end.
func TestMessagesAtTheEnd(t *testing.T) {
	sit(t, nil, func(b *bench) {
		b.tell(live.Message{User: live.Transcript{Delta: "I wanted to"}})
		b.session.Stop()
		lines := b.all("")
		user, end := slices.Index(lines, "user I wanted to"), slices.Index(lines, "end <nil>")
		if user < 0 || end < user {
			b.Errorf("%q", lines)
		}
	})
}

// Callbacks that panic are told, and end nothing.
func TestPanics(t *testing.T) {
	sit(t, func(b *bench) {
		b.calls.OnAudio = func([]byte) { panic("ouch") }
		b.hooks.OnUserMessage = func(context.Context, SessionContext, string) { panic("oops") }
	}, func(b *bench) {
		b.tell(live.Message{Audio: pcm(20 * ms)})
		b.tell(live.Message{User: live.Transcript{Text: "Hi.", Done: true}, TurnDone: true})
		b.want("error ", "live: panic: ouch", "live: panic: oops")
		b.is(live.StateListening)
	})
}
