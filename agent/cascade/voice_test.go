package cascade

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/agent"
	"parley/agent/llm"
	"parley/agent/tts"
)

// styled is a voice that notes in what style it is to speak.
type styled struct {
	*words
	mu    sync.Mutex
	notes []string
}

func (v *styled) SpeakStyled(ctx context.Context, text, style string, out func(tts.Chunk) error) error {
	v.mu.Lock()
	v.notes = append(v.notes, style+": "+text)
	v.mu.Unlock()
	return v.Speak(ctx, text, out)
}

func TestTheVoiceIsToldHowToSpeak(t *testing.T) {
	voice := &styled{}
	chunks := []llm.Chunk{
		{Text: "Plainly said. "}, {Text: "Oh, I am ", Style: "sad"}, {Text: "sorry. Really"}, {Text: "Now then.", Style: "warm"},
	}
	converse(t, func(r *rig) {
		voice.words = r.voice
		r.cfg.TTS = voice
		r.model.reply = acts(chunks...)
	}, func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		r.quiet(2)
		if got := strings.Join(voice.notes, " | "); got != "sad: Oh, I am sorry. | sad: Really | warm: Now then." {
			t.Errorf("told %q", got)
		}
		if wire := strings.Join(r.heard(), " "); wire != "Welcome to Parley. Plainly said. Oh, I am sorry. Really Now then." {
			t.Errorf("wire %q", wire)
		}
	})
	converse(t, func(r *rig) { r.model.reply = acts(chunks...) }, func(r *rig) { // a voice that cannot
		r.quiet(1)
		r.say("go", time.Second)
		r.quiet(2)
		if wire := strings.Join(r.heard(), " "); wire != "Welcome to Parley. Plainly said. Oh, I am sorry. Really Now then." {
			t.Errorf("wire %q", wire)
		}
	})
}

func TestAStyleGoesOnAfterANoise(t *testing.T) {
	voice := &styled{}
	converse(t, func(r *rig) {
		voice.words = r.voice
		r.cfg.TTS = voice
		r.model.reply = acts(llm.Chunk{Text: "One two three four five six seven eight nine ten.", Style: "warm"})
	}, func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		r.speaks(2)
		r.wait(510 * ms)
		r.sound(time.Second)
		r.quiet(3)
		if n := len(voice.notes); n != 2 || voice.notes[1] != "warm: three four five six seven eight nine ten." {
			t.Errorf("told %q", voice.notes)
		}
	})
}

// TestBR149: what was heard the beginning of is not said again, what nobody heard is, once;
// and a reply without words is no failure of the voice.
func TestBR149OnlyUnsentSentencesAreSaidAgain(t *testing.T) {
	for _, c := range []struct {
		name      string
		failAfter int // words
		times     int // that it fails
		wire      string
		errs      int
	}{
		{"before its first sound, once", 0, 1, "One two three. Four five six.", 0},
		{"before its first sound, and again", 0, 2, "Four five six.", 1},
		{"within a sentence", 2, 1, "One two Four five six.", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			converse(t, func(r *rig) {
				r.model.reply = saying("One two three. Four five six.")
				failed := 0
				r.voice.failAfter = c.failAfter
				words := 0
				r.voice.fails = func(text string) error {
					if !strings.HasPrefix(text, "One") || failed == c.times {
						return nil
					}
					if words++; words > c.failAfter {
						failed, words = failed+1, 0
						return errBroken
					}
					return nil
				}
			}, func(r *rig) {
				r.quiet(1)
				r.say("go", time.Second)
				r.quiet(2)
				if wire := strings.Join(r.heard(), " "); wire != "Welcome to Parley. "+c.wire {
					t.Errorf("wire %q", wire)
				}
				if got := r.all(agent.EventAgentStopped)[1]; got.Heard != c.wire {
					t.Errorf("%+v", got)
				}
				if n := len(r.all(agent.EventError)); n != c.errs {
					t.Errorf("%d errors", n)
				}
			})
		})
	}
}

func TestBR149AToolOnlyTurnIsNoFailureOfTheVoice(t *testing.T) {
	converse(t, func(r *rig) {
		r.cfg.VoiceTries = 1
		r.model.reply = func(ctx context.Context, _ int, _ llm.Turn, out func(llm.Chunk) error) error {
			r.model.opened.Emit(llm.Happening{Kind: "tool_call", ID: "1", Name: "note", Text: "{}"})
			r.model.opened.Emit(llm.Happening{Kind: "tool_result", ID: "1", Name: "note", Text: "{}"})
			return errors.Join(out(llm.Chunk{Thinking: true}), sleep(ctx, time.Second), out(llm.Chunk{Text: " \n "}))
		}
	}, func(r *rig) {
		r.quiet(1)
		spoken := len(r.voice.texts)
		for range 3 {
			r.say("note this", time.Second)
			r.wait(3 * time.Second)
		}
		if n := len(r.voice.texts) - spoken; n != 0 {
			t.Errorf("the voice was given %q", r.voice.texts[spoken:])
		}
		if e := r.all(agent.EventError); len(e) != 0 || len(r.model.asked()) != 3 {
			t.Errorf("%s", r.log())
		}
	})
}

func TestAVoiceThatIsGoneEndsTheCall(t *testing.T) {
	converse(t, func(r *rig) {
		r.model.reply = saying(numbers(100))
		r.voice.fails = func(text string) error {
			if strings.HasPrefix(text, "Word") {
				return errBroken
			}
			return nil
		}
	}, func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		r.ends()
		if !errors.Is(r.err, errBroken) {
			t.Errorf("run returned %v", r.err)
		}
		if n := len(r.all(agent.EventError)); n != r.cfg.VoiceTries {
			t.Errorf("%d errors", n)
		}
	})
}

// TestABrokenReplyIsApologisedFor: whose reply the voice could not speak to its end hears
// a phrase that it can, which is no part of the reply. The voice is not well because it can.
func TestABrokenReplyIsApologisedFor(t *testing.T) {
	for name, c := range map[string]struct {
		fails func(text string) bool
		hangs bool
		wire  string // of the first turn
	}{
		"all of it":           {func(text string) bool { return strings.HasPrefix(text, "Word") || strings.HasPrefix(text, "Short") }, false, fallback},
		"its end":             {func(text string) bool { return strings.HasPrefix(text, "Word5") }, false, "Word0 Word1 Word2 Word3 Word4. " + fallback},
		"its beginning":       {func(text string) bool { return strings.HasPrefix(text, "Word0") }, false, "Word5 Word6 Word7 Word8 Word9."},
		"it gives no sound":   {func(text string) bool { return strings.HasPrefix(text, "Word") }, true, fallback},
		"nothing can be said": {func(text string) bool { return text != "Welcome to Parley." }, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			converse(t, func(r *rig) {
				r.model.reply = saying(strings.TrimSpace(numbers(10)))
				r.cfg.TTS = failing{r.voice, c.fails, c.hangs}
				r.cfg.VoiceTries = 7
			}, func(r *rig) {
				r.quiet(1)
				r.say("go", time.Second)
				r.wait(9 * time.Second)
				if c.hangs {
					r.wait(4 * time.Second)
				}
				if wire := strings.Join(r.heard()[3:], " "); wire != c.wire {
					t.Errorf("wire %q", wire)
				}
				for _, got := range r.all(agent.EventAgentStopped) {
					if strings.Contains(got.Heard+got.Text, "Sorry") {
						t.Errorf("the apology is in the record: %+v", got)
					}
				}
				if name != "all of it" {
					return
				}
				for range 3 {
					r.say("again", time.Second)
					r.wait(4 * time.Second)
				}
				r.ends()
				if !errors.Is(r.err, errBroken) || !strings.HasSuffix(strings.Join(r.heard(), " "), r.cfg.Apology) {
					t.Errorf("%v after %q", r.err, r.heard())
				}
			})
		})
	}
}

// failing is a voice that cannot speak some texts.
type failing struct {
	tts.Voice
	fails func(text string) bool
	hangs bool
}

func (v failing) Speak(ctx context.Context, text string, out func(tts.Chunk) error) error {
	switch {
	case !v.fails(text):
		return v.Voice.Speak(ctx, text, out)
	case v.hangs:
		<-ctx.Done()
		return ctx.Err()
	}
	return errBroken
}

// TestPhrases: what is to be had ready is what the voice is given.
func TestPhrases(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Greeting, cfg.Reprompts, cfg.Misheard = "Welcome to Parley. How can I help?", []string{"Still there?"}, []string{"Pardon?"}
	got := cfg.Phrases()
	for _, want := range []string{"Welcome to Parley.", cfg.Fallback, cfg.Apology, cfg.Deaf, cfg.Goodbye, cfg.TransferFailed, "Still there?", "Pardon?"} {
		if !slices.ContainsFunc(got, func(p string) bool { return strings.TrimSpace(p) == want }) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
}

func TestAVoiceThatFailsNowAndThenIsNot(t *testing.T) {
	converse(t, func(r *rig) {
		r.cfg.VoiceTries = 2
		r.model.reply = saying(numbers(50))
		r.voice.fails = func(text string) error {
			if strings.HasPrefix(text, "Word0") || strings.HasPrefix(text, "Word10") || strings.HasPrefix(text, "Word20") {
				return errBroken
			}
			return nil
		}
	}, func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		r.quiet(2)
		if n := len(r.all(agent.EventError)); n != 3 || r.err != nil {
			t.Errorf("%d errors, %v", n, r.err)
		}
	})
}

// formats is a voice at another rate than the call's, whose chunks are of any length.
type formats struct{ rate int }

func (v formats) Rate() int { return v.rate }

func (v formats) Speak(_ context.Context, _ string, out func(tts.Chunk) error) error {
	pcm := make([]int16, v.rate)
	for len(pcm) > 0 {
		n := min(333, len(pcm))
		if err := out(tts.Chunk{PCM: pcm[:n]}); err != nil {
			return err
		}
		pcm = pcm[n:]
	}
	return nil
}

// TestBR155: the call is told the voice's rate and gets its samples as they are; rates are
// changed once, where speech is coded.
func TestBR155TheCallGetsTheVoicesOwnRate(t *testing.T) {
	for _, hz := range []int{8000, 22050, 24000, 44100} {
		converse(t, func(r *rig) { r.cfg.TTS = formats{hz} }, func(r *rig) {
			opener, err := New(r.cfg)
			if err != nil || opener.Format().SayRate != hz {
				t.Errorf("%v, %v", opener.Format(), err)
			}
			r.wait(20 * time.Second)
			total := 0
			for _, s := range r.wire() {
				total += s.samples
			}
			if total%hz != 0 || total < hz { // every reply is a second of it
				t.Errorf("%d samples of %d", total, hz)
			}
		})
	}
}
