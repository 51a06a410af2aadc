package cascade

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/agent/llm"
	"parley/agent/turn"
)

// TestBR131: something is said from within a tool while the caller begins to speak, and no
// final transcript comes.
func TestBR131WordsFromWithinATool(t *testing.T) {
	for _, sooner := range []time.Duration{-300 * ms, 50 * ms, 200 * ms, 600 * ms} {
		converse(t, func(r *rig) {
			r.cfg.STT = deafAfter{r.stt, 1}
			r.model.reply = func(ctx context.Context, n int, _ llm.Turn, out func(llm.Chunk) error) error {
				if n > 1 {
					return out(llm.Chunk{Text: "Here it is."})
				}
				said := make(chan struct{})
				go func() { // the tool speaks, and waits until that was heard
					defer close(said)
					r.wait(2 * time.Second)
					_ = r.session.(agent.Announcer).Announce(ctx, "I am at it.")
				}()
				if err := out(llm.Chunk{Thinking: true}); err != nil {
					return err
				}
				select {
				case <-said:
					return out(llm.Chunk{Text: "Done."})
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}, func(r *rig) {
			r.quiet(1)
			r.say("do it", time.Second)
			r.until("the tool runs", func() bool { return len(r.model.asked()) == 1 })
			r.wait(2*time.Second - sooner)
			r.sound(1200 * ms)
			silence := time.Now().Add(-200 * ms)
			r.speaks(2)
			if d := time.Since(silence); d > 3*time.Second {
				t.Errorf("%v sooner: the agent spoke %v after the noise", sooner, d)
			}
		})
	}
}

// TestBR132: while a model hangs, nobody hears nothing for long.
func TestBR132AModelThatHangsIsFilledInFor(t *testing.T) {
	converse(t, func(r *rig) {
		r.cfg.FillerAfter = DefaultConfig().FillerAfter
		r.model.reply = func(ctx context.Context, _ int, _ llm.Turn, _ func(llm.Chunk) error) error {
			<-ctx.Done()
			return ctx.Err()
		}
	}, func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		last := time.Now()
		r.speaks(2)
		for _, s := range r.wire() {
			if d := s.at.Sub(last); d > 2500*ms {
				t.Errorf("silent for %v", d)
			}
			if s.at.After(last) {
				last = s.at
			}
		}
		if n := len(r.tones()); n < 3 {
			t.Errorf("%d tones in 8 s", n)
		}
	})
}

// TestBR135: wherever a caller hangs up, everything is closed within a second and nobody is
// asked anything more. The bubble of the test fails on a goroutine that is left.
func TestBR135HangUpAtAnyPoint(t *testing.T) {
	for i := range 200 {
		converse(t, func(r *rig) {
			c := &chance{r: rand.New(rand.NewPCG(uint64(i), 135))}
			fill([]string{"", "One moment please."}[c.n(2)], c.n(2) == 0)(r)
			r.cfg.FillerAfter = 300 * ms
			r.voice.firstByte = c.upTo(time.Second)
			if c.n(3) == 0 {
				r.cfg.Eager = 200 * ms
			}
			if c.n(3) == 0 {
				r.cfg.Turn.Stop = []turn.StopStrategy{turn.StopTimeout, turn.StopDeferred}
			}
			if c.n(4) == 0 {
				outbound(r)
			}
			r.model.reply = func(ctx context.Context, n int, t llm.Turn, out func(llm.Chunk) error) error {
				for range 3 {
					chunk := llm.Chunk{Text: fmt.Sprintf("Reply number %d. ", n)}
					if c.n(3) == 0 {
						chunk = llm.Chunk{Thinking: true}
					}
					if err := out(chunk); err != nil {
						return err
					}
					if err := sleep(ctx, c.upTo(2*time.Second)); err != nil {
						return err
					}
				}
				return nil
			}
		}, func(r *rig) {
			go func() {
				for range 3 {
					r.wait(700 * ms)
					r.say("one two three", 900*ms, "one")
				}
			}()
			r.wait(time.Duration(rand.Uint64N(uint64(10 * time.Second))))
			r.hangUpOnce()
			asked, spoken := len(r.model.asked()), len(r.voice.texts)
			r.wait(10 * time.Second)
			if len(r.model.asked()) != asked || len(r.voice.texts) != spoken {
				t.Errorf("%d: the model or the voice was asked after the end", i)
			}
		})
	}
}

// TestBR141: a call whose playback never moves and whose model is stuck is ended by whoever
// owns the call, at once.
func TestBR141AStuckConversationEndsWithTheCall(t *testing.T) {
	converse(t, func(r *rig) {
		r.line.dead = true
		r.model.reply = func(ctx context.Context, _ int, _ llm.Turn, _ func(llm.Chunk) error) error {
			<-ctx.Done()
			return ctx.Err()
		}
	}, func(r *rig) {
		r.say("go", time.Second)
		r.wait(58 * time.Second) // max_duration
		began := time.Now()
		r.hangUpOnce()
		if d := time.Since(began); d > time.Second {
			t.Errorf("it took %v", d)
		}
	})
}

// TestBR143: a listener's "mhm" lets the reply go on from where it was paused.
func TestBR143ABackchannelDoesNotStopTheReply(t *testing.T) {
	for _, words := range []string{"mhm", "okay", ""} {
		converse(t, func(r *rig) { r.model.reply = saying(numbers(20)) }, func(r *rig) {
			r.quiet(1)
			r.say("go", time.Second)
			r.speaks(2)
			r.wait(time.Second)
			r.say(words, 400*ms)
			r.quiet(2)
			if n := len(r.all(agent.EventBargeIn)); n != 0 || r.all(agent.EventAgentStopped)[1].Interrupted {
				t.Errorf("%q:\n%s", words, r.log())
			}
			if wire := strings.Join(r.heard(), " "); wire != "Welcome to Parley. "+strings.TrimSpace(numbers(20)) {
				t.Errorf("%q: wire %q", words, wire)
			}
			if n := len(r.model.asked()); n != 1 {
				t.Errorf("%q: asked %d times", words, n)
			}
		})
	}
}

// A "yes" after a question is an answer, and not a backchannel.
func TestAYesAfterAQuestionIsAnAnswer(t *testing.T) {
	converse(t, func(r *rig) {
		r.model.reply = saying("Shall I book it? It costs ten dollars a night and you can still cancel.")
	}, func(r *rig) {
		r.quiet(1)
		r.say("a room", time.Second)
		r.speaks(2)
		r.wait(600 * ms)
		r.say("yes", 300*ms)
		r.quiet(3)
		if turns := r.model.asked(); len(turns) != 2 || turns[1].Text != "yes" {
			t.Errorf("asked %+v\n%s", turns, r.log())
		}
	})
}

// TestBR152: twenty seconds of speech are ready when the caller hangs up, and none of it is
// sent.
func TestBR152NothingIsSentAfterTheEnd(t *testing.T) {
	converse(t, func(r *rig) {
		r.line.buffer = 30 * rate
		r.model.reply = saying(numbers(100))
	}, func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		r.speaks(2)
		r.wait(510 * ms)
		sent := len(r.wire())
		r.hangUpOnce()
		r.wait(30 * time.Second)
		if n := len(r.wire()); n != sent {
			t.Errorf("%d packets after the end", n-sent)
		}
	})
}

// Every edge is reported: of turns with what opened and closed them, of silences, and of
// mutes.
func TestWhatIsReportedOfTurns(t *testing.T) {
	converse(t, func(r *rig) {
		r.cfg.Turn.MuteGreeting = true
		r.cfg.STT = deafAfter{r.stt, 1}
		r.cfg.Turn.Reprompts = 1
	}, func(r *rig) {
		r.quiet(1)
		r.say("hello there", time.Second)
		r.quiet(2)
		r.sound(2 * time.Second) // no final transcript of it ever comes
		r.ends()
		var got []string
		for _, e := range r.events {
			switch e.Type {
			case agent.EventMuted, agent.EventUserStarted, agent.EventUserStopped, agent.EventStopTimeout, agent.EventIdle, agent.EventInference:
				got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Type, e.Reason, e.Strategy)))
			}
		}
		want := lines(`muted on
			muted off
			user_started voice
			user_stopped  timeout
			inference turn
			user_started voice
			stop_timeout
			user_stopped garbled timeout
			inference turn
			idle goodbye`)
		if strings.Join(got, "\n") != want {
			t.Errorf("got\n%s", strings.Join(got, "\n"))
		}
	})
}
