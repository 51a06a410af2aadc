package prepared_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"parley/agent/tts"
	"parley/agent/tts/prepared"
	"parley/agent/tts/ttstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDead = errors.New("dead")

// voice is a Tone that can be dead.
type voice struct {
	*ttstest.Tone
	mu     sync.Mutex
	dead   bool
	half   bool // it breaks off after the first chunk
	styles []string
}

func (v *voice) set(dead bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dead = dead
}

func (v *voice) Speak(ctx context.Context, text string, out func(tts.Chunk) error) error {
	v.mu.Lock()
	dead, half := v.dead, v.half
	v.mu.Unlock()
	if dead {
		return errDead
	}
	return v.Tone.Speak(ctx, text, func(c tts.Chunk) error {
		if err := out(c); err != nil || half {
			return errors.Join(err, errDead)
		}
		return nil
	})
}

func (v *voice) SpeakStyled(ctx context.Context, text, style string, out func(tts.Chunk) error) error {
	v.styles = append(v.styles, style)
	return v.Speak(ctx, text, out)
}

// said is what a voice says: its samples and its words.
func said(t *testing.T, v tts.Voice, text string) (samples int, words []tts.Word, err error) {
	t.Helper()
	err = v.Speak(t.Context(), text, func(c tts.Chunk) error {
		samples += len(c.PCM)
		words = append(words, c.Words...)
		return nil
	})
	return samples, words, err
}

const sorry = "Sorry, say it again."

// TestPhrasesOutliveTheVoice: what was made when the voice worked is spoken when it does
// not, with its words, and nothing else is.
func TestPhrasesOutliveTheVoice(t *testing.T) {
	of := &voice{Tone: ttstest.NewTone()}
	v := prepared.New(of, sorry, " Goodbye. ", "", sorry)
	if err := v.Prepare(t.Context()); err != nil || len(v.Missing()) != 0 {
		t.Fatalf("%v, missing %q", err, v.Missing())
	}
	of.set(true)
	for text, want := range map[string]int{sorry: 4, "Goodbye.": 1, "\n" + sorry: 4} {
		samples, words, err := said(t, v, text)
		if err != nil || samples != want*v.Rate()/4 || len(words) != want {
			t.Errorf("%q: %d samples, %d words, %v", text, samples, len(words), err)
		}
	}
	if _, _, err := said(t, v, "Anything else"); !errors.Is(err, errDead) {
		t.Errorf("%v", err)
	}
	if got := of.Spoken(); !slices.Equal(got, []string{"Goodbye.", sorry}) {
		t.Errorf("the voice was asked for %q", got)
	}
}

// TestAPhraseIsMadeWhenItIsFirstSpoken: without Prepare, and not of one that broke off or
// that nobody heard to its end.
func TestAPhraseIsMadeWhenItIsFirstSpoken(t *testing.T) {
	of := &voice{Tone: ttstest.NewTone(), half: true}
	v := prepared.New(of, sorry)
	if _, _, err := said(t, v, sorry); !errors.Is(err, errDead) || len(v.Missing()) != 1 {
		t.Fatalf("%v, missing %q", err, v.Missing())
	}
	of.half = false
	enough := errors.New("enough")
	if err := v.Speak(t.Context(), sorry, func(tts.Chunk) error { return enough }); !errors.Is(err, enough) || len(v.Missing()) != 1 {
		t.Fatalf("%v, missing %q", err, v.Missing())
	}
	if _, _, err := said(t, v, sorry); err != nil || len(v.Missing()) != 0 {
		t.Fatalf("%v, missing %q", err, v.Missing())
	}
	of.set(true)
	if samples, _, err := said(t, v, sorry); err != nil || samples != v.Rate() {
		t.Errorf("%d samples, %v", samples, err)
	}
	if err := v.Speak(t.Context(), sorry, func(tts.Chunk) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := v.Speak(done, sorry, func(tts.Chunk) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestStylesAreTheVoicesOwn: a text with a style is not spoken from memory.
func TestStylesAreTheVoicesOwn(t *testing.T) {
	of := &voice{Tone: ttstest.NewTone()}
	v := prepared.New(of, sorry)
	for _, style := range []string{"warm", ""} {
		if err := v.SpeakStyled(t.Context(), sorry, style, func(tts.Chunk) error { return nil }); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(of.styles, []string{"warm"}) {
		t.Errorf("styles %q", of.styles)
	}
	plain := prepared.New(ttstest.NewTone(), sorry)
	if err := plain.SpeakStyled(t.Context(), sorry, "warm", func(tts.Chunk) error { return nil }); err != nil || len(plain.Missing()) > 0 {
		t.Errorf("%v, missing %q", err, plain.Missing())
	}
}

// TestBounds: what is too long, or too much, is not kept, and spoken all the same.
func TestBounds(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("word ", 200)) // 50 s
	v := prepared.New(ttstest.NewTone(), long)
	if err := v.Prepare(t.Context()); err == nil || len(v.Missing()) != 1 {
		t.Errorf("%v, missing %d", err, len(v.Missing()))
	}
	if samples, _, err := said(t, v, long); err != nil || samples != 50*v.Rate() {
		t.Errorf("%d samples, %v", samples, err)
	}
	var many []string
	for i := range 50 {
		many = append(many, fmt.Sprint("phrase ", i))
	}
	if n := len(prepared.New(ttstest.NewTone(), many...).Missing()); n != 32 {
		t.Errorf("%d phrases are kept", n)
	}
}

// TestKeep: a voice that does not work at first is tried until it does, ever more seldom,
// and no longer than wanted.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := &voice{Tone: ttstest.NewTone(), dead: true}
		v := prepared.New(of, sorry, "Goodbye.")
		var reported []error
		done := make(chan struct{})
		go func() {
			defer close(done)
			v.Keep(t.Context(), func(err error) { reported = append(reported, err) })
		}()
		time.Sleep(20 * time.Second)
		of.set(false)
		<-done
		if len(v.Missing()) > 0 || len(reported) != 1 || !errors.Is(reported[0], errDead) {
			t.Errorf("missing %q, reported %v", v.Missing(), reported)
		}
		ctx, cancel := context.WithCancel(t.Context())
		never := prepared.New(&voice{Tone: ttstest.NewTone(), dead: true}, sorry)
		time.AfterFunc(5*time.Minute, cancel)
		began := time.Now()
		never.Keep(ctx, func(error) {})
		if took := time.Since(began); took != 5*time.Minute {
			t.Errorf("it went on for %v", took)
		}
	})
}

func TestSuite(t *testing.T) {
	const text = "Good morning, we are open today from nine to five."
	for name, phrases := range map[string][]string{"from memory": {text}, "any text": nil} {
		t.Run(name, func(t *testing.T) {
			ttstest.Run(t, ttstest.Subject{Text: text, Words: true, New: func(t *testing.T) tts.Voice {
				v := prepared.New(ttstest.NewTone(), phrases...)
				if err := v.Prepare(t.Context()); err != nil {
					t.Fatal(err)
				}
				return v
			}})
		})
	}
}
