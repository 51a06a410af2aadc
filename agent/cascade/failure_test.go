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
	"parley/agent/stt"
	"parley/agent/stt/stttest"
)

var errBroken = errors.New("broken")

const fallback = "Sorry, I did not get that. Could you say it again?"

func TestBR132TheModelFails(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]struct {
		reply  func(ctx context.Context, out func(llm.Chunk) error) error
		wire   string        // after the greeting
		within time.Duration // of the turn's end
		reason string
	}{
		"hangs without a word": {
			func(ctx context.Context, _ func(llm.Chunk) error) error { return hang(ctx) },
			fallback, 9 * time.Second, "no word in time",
		},
		"gives chunks without words": {
			func(ctx context.Context, out func(llm.Chunk) error) error {
				for {
					if err := errors.Join(out(llm.Chunk{}), sleep(ctx, time.Second)); err != nil {
						return err
					}
				}
			},
			fallback, 9 * time.Second, "no word in time",
		},
		"ignores that it was given up": {
			func(_ context.Context, out func(llm.Chunk) error) error {
				time.Sleep(20 * time.Second)
				return out(llm.Chunk{Text: "Too late."})
			},
			fallback, 9 * time.Second, "no word in time",
		},
		"answers nothing at all": {
			func(context.Context, func(llm.Chunk) error) error { return fmt.Errorf("completion: %w", llm.ErrEmpty) },
			fallback, time.Second, "answered nothing",
		},
		"is busy, and stays so": {
			func(context.Context, func(llm.Chunk) error) error { return fmt.Errorf("429: %w", llm.ErrBusy) },
			fallback, time.Second, "busy",
		},
		"fails at once": {
			func(context.Context, func(llm.Chunk) error) error { return errBroken },
			fallback, time.Second, "broken",
		},
		"fails after a sentence": {
			func(_ context.Context, out func(llm.Chunk) error) error {
				return errors.Join(out(llm.Chunk{Text: "It is sunny today. And tomor"}), errBroken)
			},
			"It is sunny today. " + fallback, time.Second, "broken",
		},
		"hangs after a sentence": {
			func(ctx context.Context, out func(llm.Chunk) error) error {
				return errors.Join(out(llm.Chunk{Text: "It is sunny today. And tomor"}), hang(ctx))
			},
			"It is sunny today. " + fallback, time.Second, "no word in time",
		},
	} {
		t.Run(name, func(t *testing.T) {
			converse(t, func(r *rig) {
				r.model.reply = func(ctx context.Context, n int, _ llm.Turn, out func(llm.Chunk) error) error {
					if n == 1 {
						return c.reply(ctx, out)
					}
					return out(llm.Chunk{Text: "Fine."})
				}
			}, func(r *rig) {
				r.quiet(1)
				r.say("how is the weather", time.Second)
				r.until("the turn is closed", func() bool { return len(r.all(agent.EventUserStopped)) == 1 })
				closed := time.Now()
				r.speaks(2)
				if d := time.Since(closed); d > c.within {
					t.Errorf("silent for %v", d)
				}
				r.quiet(2)
				if wire := strings.Join(r.heard(), " "); wire != "Welcome to Parley. "+c.wire {
					t.Errorf("wire %q", wire)
				}
				stopped := r.all(agent.EventAgentStopped)[1]
				if strings.Contains(stopped.Heard, "Sorry") {
					t.Errorf("the fallback is in the record: %q", stopped.Heard)
				}
				if errs := r.all(agent.EventError); len(errs) != 1 || !strings.Contains(errs[0].Reason, c.reason) {
					t.Errorf("errors: %+v", errs)
				}
				if name == "ignores that it was given up" {
					r.wait(20 * time.Second)
				}
				r.say("and now", time.Second)
				r.until("the conversation goes on", func() bool { return strings.HasSuffix(strings.Join(r.heard(), " "), "Fine.") })
			})
		})
	}
}

func TestAnEmptyReplyIsSilence(t *testing.T) {
	converse(t, func(r *rig) {
		r.model.reply = func(_ context.Context, n int, t llm.Turn, out func(llm.Chunk) error) error {
			if t.Nothing {
				return out(llm.Chunk{Text: "Still there?"})
			}
			return nil
		}
	}, func(r *rig) {
		r.quiet(1)
		r.say("never mind", time.Second)
		closed := time.Now()
		r.speaks(2)
		if d := time.Since(closed); d < 10*time.Second || d > 11*time.Second {
			t.Errorf("prompted after %v", d)
		}
		if errs := r.all(agent.EventError); len(errs) != 0 {
			t.Errorf("%+v", errs)
		}
	})
}

func TestASlowVoiceDoesNotEatTheModelsTime(t *testing.T) {
	converse(t, func(r *rig) {
		r.cfg.FirstToken = time.Second
		r.cfg.Turn.MaxTurn = time.Hour
		r.model.reply = func(_ context.Context, _ int, _ llm.Turn, out func(llm.Chunk) error) error {
			for range 100 { // 60 s of speech, made as fast as the voice takes it
				if err := out(llm.Chunk{Text: "One two three. "}); err != nil {
					return err
				}
			}
			return nil
		}
	}, func(r *rig) {
		r.quiet(1)
		r.say("tell me", time.Second)
		r.quiet(2)
		if errs := r.all(agent.EventError); len(errs) != 0 {
			t.Errorf("%+v", errs)
		}
		if n := len(r.heard()); n != 303 {
			t.Errorf("%d words heard", n)
		}
	})
}

func TestTheNextSentenceIsMadeWhileTheFormerPlays(t *testing.T) {
	converse(t, func(r *rig) {
		r.voice.firstByte = 400 * ms
		r.model.reply = saying("One two three four five. Six seven eight nine ten.")
	}, func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		r.quiet(2)
		wire := r.wire()
		for i := 1; i < len(wire); i++ {
			if gap := wire[i].at.Sub(wire[i-1].at); gap > packet && wire[i].value > firstWord+4 {
				t.Fatalf("a gap of %v within the reply", gap)
			}
		}
	})
}

func TestASentenceIsSpokenThoughTheModelPauses(t *testing.T) {
	converse(t, func(r *rig) {
		r.model.reply = func(ctx context.Context, _ int, _ llm.Turn, out func(llm.Chunk) error) error {
			return errors.Join(out(llm.Chunk{Text: "One moment."}), sleep(ctx, 4*time.Second), out(llm.Chunk{Text: " Done."}))
		}
	}, func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		began := time.Now()
		r.speaks(2)
		if d := time.Since(began); d > time.Second {
			t.Errorf("spoke after %v", d)
		}
		r.quiet(2)
		if got := r.all(agent.EventAgentStopped)[1]; got.Heard != "One moment. Done." {
			t.Errorf("%+v", got)
		}
	})
}

func TestAFillerIsSpokenForASlowModel(t *testing.T) {
	converse(t, func(r *rig) {
		r.cfg.Filler, r.cfg.FillerAfter = "Let me see.", time.Second
		r.model.delay = 3 * time.Second
	}, func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		r.quiet(2)
		if wire := strings.Join(r.heard(), " "); wire != "Welcome to Parley. Let me see. Reply number 1." {
			t.Errorf("wire %q", wire)
		}
		if got := r.all(agent.EventAgentStopped)[1]; got.Heard != "Reply number 1." {
			t.Errorf("the filler is in the record: %+v", got)
		}
	})
}

func TestBR149TheVoiceFails(t *testing.T) {
	converse(t, func(r *rig) {
		r.model.reply = saying("One two three. Four five six.")
		r.voice.failAfter = 2
		r.voice.fails = func(text string) error {
			if strings.HasPrefix(text, "One") {
				return errBroken
			}
			return nil
		}
	}, func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		r.quiet(2)
		if wire := strings.Join(r.heard(), " "); wire != "Welcome to Parley. One two Four five six." {
			t.Errorf("wire %q", wire)
		}
		if got := r.all(agent.EventAgentStopped)[1]; got.Heard != "One two Four five six." {
			t.Errorf("%+v", got)
		}
		if errs := r.all(agent.EventError); len(errs) != 1 || errs[0].Reason != "broken" {
			t.Errorf("%+v", errs)
		}
	})
}

func TestAVoiceThatHangsIsGivenUp(t *testing.T) {
	converse(t, func(r *rig) { r.voice.hang = true }, func(r *rig) {
		r.until("an error", func() bool { return len(r.all(agent.EventError)) > 0 })
		if d := time.Since(r.began); d < 8*time.Second || d > 9*time.Second {
			t.Errorf("after %v", d)
		}
		r.ends() // nobody hears anything: goodbye
		if r.err != nil {
			t.Error(r.err)
		}
	})
}

func TestBR134SpeechThatDoesNotLeaveIsReported(t *testing.T) {
	for name, text := range map[string]string{"queued whole": "One two.", "more than the queue": numbers(60)} {
		t.Run(name, func(t *testing.T) {
			converse(t, func(r *rig) {
				r.line.dead = true
				r.cfg.Greeting = text
			}, func(r *rig) {
				r.until("an error", func() bool { return len(r.all(agent.EventError)) > 0 })
				if e := r.all(agent.EventError)[0]; e.Reason != errStuck.Error() {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}

func TestAProviderThatPanicsEndsItsCallOnly(t *testing.T) {
	converse(t, func(r *rig) {
		r.model.reply = func(context.Context, int, llm.Turn, func(llm.Chunk) error) error { panic("oh") }
	}, func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		r.ends()
		if r.err == nil || !strings.Contains(r.err.Error(), "oh") {
			t.Errorf("got %v", r.err)
		}
	})
}

func TestAudioLostByTheRecogniserIsReported(t *testing.T) {
	converse(t, nil, func(r *rig) {
		r.stt.Streams()[0].Emit(stt.Result{Err: errBroken})
		r.wait(time.Second)
		if errs := r.all(agent.EventError); len(errs) != 1 || len(r.stt.Streams()) != 1 {
			t.Errorf("%+v", errs)
		}
	})
}

func TestHearAndNoticeNeverBlock(t *testing.T) {
	cfg := DefaultConfig()
	cfg.STT, cfg.TTS, cfg.LLM = newFakeSTT(), &words{}, &mind{}
	opener, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var events []agent.Event
	s, err := opener.Open(t.Context(), agent.Call{Speaker: newLine(), Emit: func(e agent.Event) { events = append(events, e) }})
	if err != nil {
		t.Fatal(err)
	}
	frame := make([]int16, 320)
	for i := range 1000 { // nobody runs the session
		frame[0] = int16(i)
		s.Hear(frame)
		s.Notice(agent.Notice{Kind: agent.VoiceOn})
	}
	if n := testing.AllocsPerRun(100, func() { s.Hear(frame) }); n != 0 {
		t.Errorf("Hear allocates %v times", n)
	}
	session := s.(*session)
	if session.lostFrames.Load() < 900 || session.lostEvents.Load() < 800 {
		t.Errorf("%d frames, %d events", session.lostFrames.Load(), session.lostEvents.Load())
	}
	session.results(0)(stt.Result{Text: "interim"})
	ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
	defer cancel()
	_ = s.Run(ctx)
	// It is the oldest that were dropped.
	if pcm := cfg.STT.(*stttest.Fake).Streams()[0].PCM(); len(pcm) != 320*frameQueue || pcm[0] != 999 {
		t.Errorf("%d samples, of frames from %d", len(pcm), pcm[0])
	}
	for _, e := range events {
		if e.Type == agent.EventError && strings.Contains(e.Reason, "fell behind") {
			return
		}
	}
	t.Errorf("the loss is not reported: %+v", events)
}

func TestAHangUpWithinAReplyIsNoFault(t *testing.T) {
	converse(t, func(r *rig) { r.model.reply = saying(numbers(150)) }, func(r *rig) {
		r.quiet(1)
		r.say("tell me all", time.Second)
		r.speaks(2)
		r.wait(time.Second)
		r.line.Stop() // the call does so as it ends, and Run may hear of it later
		r.wait(10 * ms)
		r.hangUpOnce()
		if errs := r.all(agent.EventError); len(errs) > 0 {
			t.Errorf("complaints: %+v", errs)
		}
	})
}
