package cascade

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/agent/llm"
	"parley/agent/stt/stttest"
)

// saying is a model that replies with one text, and then shortly.
func saying(text string) func(context.Context, int, llm.Turn, func(llm.Chunk) error) error {
	return func(_ context.Context, n int, _ llm.Turn, out func(llm.Chunk) error) error {
		if n == 1 {
			return out(llm.Chunk{Text: text})
		}
		return out(llm.Chunk{Text: fmt.Sprintf("Short%d.", n)})
	}
}

func TestBR119ABargeInLeavesNothingToPlay(t *testing.T) {
	converse(t, func(r *rig) {
		r.model.reply = saying(numbers(150)) // 30 s of speech, made at once
	}, func(r *rig) {
		r.quiet(1)
		r.say("tell me all.", time.Second)
		r.speaks(2)
		r.wait(3 * time.Second)
		began := time.Now()
		r.say("stop please", 800*ms, "stop")
		r.quiet(3)
		barge := r.all(agent.EventBargeIn)
		if len(barge) != 1 || barge[0].Reason != "voice" || barge[0].Latency > 200*ms {
			t.Fatalf("barge in: %+v", barge)
		}
		if d := barge[0].At.Sub(began); d > 400*ms {
			t.Errorf("decided %v after the first sound (BR-153)", d)
		}
		next := r.all(agent.EventAgentStarted)[2].At
		for _, s := range r.wire() {
			if s.at.After(barge[0].At.Add(packet)) && s.at.Before(next) {
				t.Fatalf("speech on the wire %v after the barge-in", s.at.Sub(barge[0].At))
			}
		}
		cut := r.all(agent.EventAgentStopped)[1]
		wire := strings.Join(r.heard(), " ")
		if want := "Welcome to Parley. " + cut.Heard + " Short2."; wire != want || !cut.Interrupted {
			t.Errorf("wire %q\nwant %q", wire, want)
		}
		turns := r.model.asked()
		if len(turns) != 2 || turns[1].Interrupted != cut.Heard || !turns[1].WasInterrupted {
			t.Errorf("asked %+v", turns[1:])
		}
		// Once only.
		r.say("and now?", 800*ms)
		r.quiet(4)
		if last := r.model.asked()[2]; last.WasInterrupted || last.Interrupted != "" {
			t.Errorf("told twice: %+v", last)
		}
	})
}

func TestBR120AReplyCutBeforeItsFirstSoundIsNeverPlayed(t *testing.T) {
	converse(t, func(r *rig) {
		r.model.reply = saying("Never. Ever.")
		r.voice.firstByte = 800 * ms
	}, func(r *rig) {
		r.quiet(1)
		r.say("one", time.Second)
		r.until("the model is asked", func() bool { return len(r.model.asked()) == 1 })
		r.wait(300 * ms)
		r.say("no, two", 500*ms)
		r.quiet(3)
		if wire := strings.Join(r.heard(), " "); wire != "Welcome to Parley. Short2." {
			t.Errorf("wire %q", wire)
		}
		if turn := r.model.asked()[1]; turn.Text != "no, two" || !turn.WasInterrupted || turn.Interrupted != "" {
			t.Errorf("asked %+v", turn)
		}
		if n := len(r.all(agent.EventBargeIn)); n != 0 {
			t.Errorf("%d barge-ins into silence", n)
		}
	})
}

func TestBR122HeardWordsInProportion(t *testing.T) {
	converse(t, func(r *rig) {
		r.voice.untimed, r.voice.length = true, 300*ms
		r.model.reply = saying("aaaa bbbb cccc dddd eeee ffff gggg hhhh iiii jjjj.")
	}, func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		r.speaks(2)
		r.wait(1500 * ms)
		r.say("stop it", 500*ms)
		r.quiet(3)
		cut := r.all(agent.EventAgentStopped)[1]
		if cut.Heard != "aaaa bbbb cccc dddd eeee" || r.model.asked()[1].Interrupted != cut.Heard {
			t.Errorf("heard %q", cut.Heard)
		}
	})
}

func TestAtAnyInstantTheHeardTextIsWhatWasOnTheWire(t *testing.T) {
	for i := range 150 {
		converse(t, func(r *rig) {
			r.model.reply = saying(numbers(30))
			r.voice.untimed = i%3 == 2
			r.voice.length = 240 * ms
		}, func(r *rig) {
			r.quiet(1)
			r.say("tell me", time.Second)
			r.until("the model is asked", func() bool { return len(r.model.asked()) == 1 })
			r.wait(time.Duration(i*53) * ms)
			r.say("stop please", 500*ms)
			r.until("the next turn", func() bool { return len(r.model.asked()) == 2 })
			told := r.model.asked()[1]
			r.quiet(3)
			wire := strings.Join(r.heard()[3:], " ")
			wire = strings.TrimSpace(strings.TrimSuffix(wire, "Short2."))
			whole := strings.Join(strings.Fields(numbers(30)), " ")
			switch {
			case !told.WasInterrupted: // it was over already
				if wire != whole {
					t.Errorf("%d: wire %q", i, wire)
				}
			case !strings.HasPrefix(whole, told.Interrupted):
				t.Errorf("%d: %q is no prefix", i, told.Interrupted)
			case !r.voice.untimed && told.Interrupted != wire:
				t.Errorf("%d: told %q\nwire %q", i, told.Interrupted, wire)
			case r.voice.untimed && (len(told.Interrupted) > len(wire)+7 || len(told.Interrupted) < len(wire)-14):
				t.Errorf("%d: told %q\nwire %q", i, told.Interrupted, wire)
			}
		})
	}
}

func TestACutGreetingCounts(t *testing.T) {
	converse(t, func(r *rig) { r.cfg.Greeting = numbers(20) }, func(r *rig) {
		r.speaks(1)
		r.wait(time.Second)
		r.say("hello?", 500*ms)
		r.quiet(2)
		turns := r.model.asked()
		if len(turns) != 1 || turns[0].Interrupted != "Word0 Word1 Word2 Word3 Word4." {
			t.Errorf("asked %+v\n%s", turns, r.log())
		}
	})
}

func TestBR144EarlySpeechIsOneTurn(t *testing.T) {
	converse(t, nil, func(r *rig) {
		r.wait(100 * ms)
		r.stt.Add(stttest.Utterance{Text: "hello?"})
		r.sound(300 * ms) // noise
		r.sound(400 * ms)
		r.wait(5 * time.Second)
		if turns := r.model.asked(); len(turns) != 1 || turns[0].Text != "hello?" {
			t.Errorf("asked %+v\n%s", turns, r.log())
		}
	})
}

func TestBR144AnUninterruptibleGreetingIsHeardToItsEnd(t *testing.T) {
	converse(t, func(r *rig) {
		r.cfg.Turn.MuteGreeting = true
		r.cfg.Greeting = numbers(10)
	}, func(r *rig) {
		r.speaks(1)
		r.wait(200 * ms)
		r.sound(800 * ms)
		r.quiet(1)
		if got := r.all(agent.EventAgentStopped)[0]; got.Interrupted {
			t.Errorf("greeting: %+v", got)
		}
		if n := len(r.stt.Streams()[0].PCM()); n != 0 {
			t.Errorf("the recogniser was given %d samples meanwhile", n)
		}
		r.say("hello", 500*ms)
		r.quiet(2)
		if turns := r.model.asked(); len(turns) != 1 || turns[0].WasInterrupted {
			t.Errorf("asked %+v", turns)
		}
	})
}

func TestBR143ANoiseOnlyPausesTheReply(t *testing.T) {
	converse(t, func(r *rig) {
		r.cfg.Turn.Confirm = 500 * ms
		r.model.reply = saying(numbers(20))
	}, func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		r.speaks(2)
		r.wait(time.Second)
		r.sound(200 * ms)
		r.quiet(2)
		cut := r.all(agent.EventAgentStopped)[1]
		if cut.Interrupted || len(r.all(agent.EventFalseBargeIn)) != 1 || len(r.all(agent.EventBargeIn)) != 0 {
			t.Errorf("%s", r.log())
		}
		if wire := strings.Join(r.heard(), " "); wire != "Welcome to Parley. "+strings.TrimSpace(numbers(20)) {
			t.Errorf("wire %q", wire)
		}
	})
}

func TestANoiseThatCutTheReplyLetsItGoOnWhereItWas(t *testing.T) {
	converse(t, func(r *rig) { r.model.reply = saying(numbers(20)) }, func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		r.speaks(2)
		r.wait(1100 * ms)
		r.sound(time.Second) // a fit of coughing; its final transcript is empty
		r.quiet(3)
		stops := r.all(agent.EventAgentStopped)
		if !stops[1].Interrupted || stops[2].Interrupted || stops[2].Heard != strings.TrimSpace(numbers(20)) {
			t.Errorf("%s", r.log())
		}
		if turns := r.model.asked(); len(turns) != 1 {
			t.Errorf("asked %+v", turns)
		}
		// Every word was heard, and the cut one again.
		if wire := strings.Join(r.heard(), " "); wire != "Welcome to Parley. "+strings.TrimSpace(numbers(20)) {
			t.Errorf("wire %q", wire)
		}
		// What was heard of a reply that went on is all of it when it is cut later.
		r.say("thanks", 500*ms)
		r.quiet(4)
		if last := r.model.asked()[1]; last.WasInterrupted {
			t.Errorf("asked %+v", last)
		}
	})
}

func TestBR123ACoughBeforeTheReplyDoesNotKillIt(t *testing.T) {
	for name, script := range map[string]struct {
		delay, after, noise time.Duration
		asked               int
	}{
		"while the model thinks":         {2 * time.Second, 300 * ms, 200 * ms, 1},
		"while the voice prepares":       {0, 300 * ms, 200 * ms, 1},
		"within the voice's end":         {time.Second, 0, 200 * ms, 1},
		"just before the first one":      {0, 700 * ms, 200 * ms, 1},
		"long, while the model thinks":   {2 * time.Second, 300 * ms, time.Second, 2},
		"long, while the voice prepares": {0, 300 * ms, time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			converse(t, func(r *rig) {
				r.model.delay = script.delay
				r.voice.firstByte = 800 * ms
			}, func(r *rig) {
				r.quiet(1)
				r.say("book a table", time.Second)
				r.until("the model is asked", func() bool { return len(r.model.asked()) == 1 })
				r.wait(script.after)
				r.sound(script.noise)
				r.until("the reply is heard", func() bool { return strings.Contains(strings.Join(r.heard(), " "), "Reply number") })
				turns := r.model.asked()
				if len(turns) != script.asked || turns[len(turns)-1] != turns[0] {
					t.Errorf("asked %+v\n%s", turns, r.log())
				}
			})
		})
	}
}

func TestBR131NoFinalTranscript(t *testing.T) {
	converse(t, func(r *rig) {
		r.model.reply = saying(numbers(10))
		r.cfg.STT = deafAfter{r.stt, 1}
	}, func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		r.speaks(2)
		r.sound(600 * ms)
		silence := time.Now().Add(-200 * ms)
		r.speaks(3)
		if d := time.Since(silence); d > 3*time.Second {
			t.Errorf("the agent spoke %v after the noise", d)
		}
		r.quiet(3)
	})
}

func TestATwiceCutReplyIsToldAsAWhole(t *testing.T) {
	converse(t, func(r *rig) { r.model.reply = saying(numbers(30)) }, func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		r.speaks(2)
		r.wait(1100 * ms)
		r.sound(time.Second)
		r.speaks(3)
		r.wait(1100 * ms)
		r.say("stop please", 600*ms)
		r.quiet(4)
		told := r.model.asked()[1].Interrupted
		wire := strings.TrimSuffix(strings.TrimPrefix(strings.Join(r.heard(), " "), "Welcome to Parley. "), " Short2.")
		if told != wire || !strings.Contains(told, "Word8") {
			t.Errorf("told %q\nwire %q", told, wire)
		}
	})
}

func TestAReplyWhoseModelWasCutIsAskedForAgain(t *testing.T) {
	converse(t, func(r *rig) {
		r.model.reply = func(ctx context.Context, n int, _ llm.Turn, out func(llm.Chunk) error) error {
			if n > 1 {
				return out(llm.Chunk{Text: "As I said."})
			}
			for {
				if err := errors.Join(out(llm.Chunk{Text: "On and on. "}), sleep(ctx, 500*ms)); err != nil {
					return err
				}
			}
		}
	}, func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		r.speaks(2)
		r.wait(2 * time.Second)
		r.sound(time.Second)
		r.quiet(3)
		turns := r.model.asked()
		if len(turns) != 2 || turns[1].Text != "go" || !strings.HasPrefix(turns[1].Interrupted, "On and on.") {
			t.Errorf("asked %+v\n%s", turns, r.log())
		}
	})
}

func TestACallerWhoGoesOnWhileTheModelThinks(t *testing.T) {
	converse(t, func(r *rig) { r.model.delay = time.Second }, func(r *rig) {
		r.quiet(1)
		r.say("I would like", time.Second)
		r.until("the model is asked", func() bool { return len(r.model.asked()) == 1 })
		r.say("to book a table", time.Second)
		r.quiet(2)
		turns := r.model.asked()
		if len(turns) != 2 || turns[1].Text != "to book a table" {
			t.Errorf("asked %+v", turns)
		}
		if wire := strings.Join(r.heard(), " "); wire != "Welcome to Parley. Reply number 2." {
			t.Errorf("wire %q", wire)
		}
	})
}

func TestATurnTheModelNeverSawIsJoinedToTheNext(t *testing.T) {
	for _, c := range []struct{ before, next, want llm.Turn }{
		{llm.Turn{Text: "a", Interrupted: "x", WasInterrupted: true}, llm.Turn{Text: "b", WasInterrupted: true}, llm.Turn{Text: "a b", Interrupted: "x", WasInterrupted: true}},
		{llm.Turn{Text: "a"}, llm.Turn{Text: "12", Digits: true}, llm.Turn{Text: "12", Digits: true}},
		{llm.Turn{Text: "12", Digits: true}, llm.Turn{Text: "34", Digits: true}, llm.Turn{Text: "1234", Digits: true}},
		{llm.Turn{Text: "12", Digits: true}, llm.Turn{Text: "hello", Confidence: 0.5}, llm.Turn{Text: "12", Digits: true}},
		{llm.Turn{Text: "a", Confidence: 0.5}, llm.Turn{Nothing: true, Garbled: true}, llm.Turn{Text: "a", Confidence: 0.5}},
	} {
		if got := joined(c.before, c.next); got != c.want {
			t.Errorf("%+v and %+v: %+v", c.before, c.next, got)
		}
	}
}
