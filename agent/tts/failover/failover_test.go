package failover

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"parley/agent/tts"
	"parley/agent/tts/ttstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSuite(t *testing.T) {
	ttstest.Run(t, ttstest.Subject{New: func(t *testing.T) tts.Voice {
		broken := &ttstest.Tone{Err: ttstest.ErrTone}
		v, err := New(DefaultConfig(), Choice{"broken", broken}, Choice{"tone", ttstest.NewTone()})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}, Words: true})
}

// spoken is what came of one text.
func say(ctx context.Context, v *Voice, text string) (length time.Duration, words []string, err error) {
	samples := 0
	err = v.Speak(ctx, text, func(c tts.Chunk) error {
		samples += len(c.PCM)
		for _, w := range c.Words {
			words = append(words, w.Text)
		}
		return nil
	})
	return time.Duration(samples) * time.Second / time.Duration(v.Rate()), words, err
}

func make2(t *testing.T, switched *[]string, first, second tts.Voice) *Voice {
	t.Helper()
	cfg := DefaultConfig()
	cfg.OnSwitch = func(failed, next string, _ error) { *switched = append(*switched, failed+">"+next) }
	v, err := New(cfg, Choice{"first", first}, Choice{"second", second})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTheNextVoiceSpeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var switched []string
		first, second := &ttstest.Tone{Err: ttstest.ErrTone}, ttstest.NewTone()
		v := make2(t, &switched, first, second)
		length, words, err := say(t.Context(), v, "one two")
		if err != nil || length != 500*time.Millisecond || !slices.Equal(words, []string{"one", "two"}) {
			t.Errorf("%v %v %v", length, words, err)
		}
		if _, _, err := say(t.Context(), v, "three"); err != nil || len(first.Spoken()) != 1 {
			t.Errorf("a voice that is down was asked again: %v, %v", first.Spoken(), err)
		}
		time.Sleep(31 * time.Second)
		if _, _, err := say(t.Context(), v, "four"); err != nil || len(first.Spoken()) != 2 {
			t.Errorf("after its time it is asked again: %v, %v", first.Spoken(), err)
		}
		if !slices.Equal(switched, []string{"first>second", "first>second"}) {
			t.Errorf("switched %v", switched)
		}
	})
}

// BR-149: partial audio is not said again; what comes next is another voice's.
func TestASentenceThatBrokeOffIsNotSaidAgain(t *testing.T) {
	var switched []string
	first, second := &ttstest.Tone{FailAfter: 1}, ttstest.NewTone()
	v := make2(t, &switched, first, second)
	length, words, err := say(t.Context(), v, "one two three")
	if !errors.Is(err, ttstest.ErrTone) || length != 250*time.Millisecond || !slices.Equal(words, []string{"one"}) || len(second.Spoken()) != 0 {
		t.Errorf("%v %v %v, the second said %v", length, words, err, second.Spoken())
	}
	if _, words, err := say(t.Context(), v, "four"); err != nil || !slices.Equal(words, []string{"four"}) || len(second.Spoken()) != 1 {
		t.Errorf("the next sentence: %v, %v", words, err)
	}
}

// BR-149: no text is no failure.
func TestSilenceIsNoFailure(t *testing.T) {
	var switched []string
	v := make2(t, &switched, ttstest.NewTone(), ttstest.NewTone())
	if length, _, err := say(t.Context(), v, "  "); err != nil || length != 0 || len(switched) != 0 {
		t.Errorf("%v %v %v", length, err, switched)
	}
}

func TestASilentVoiceIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var switched []string
		slow := &ttstest.Tone{FirstByte: 10 * time.Second}
		v := make2(t, &switched, slow, ttstest.NewTone())
		began := time.Now()
		if _, words, err := say(t.Context(), v, "one"); err != nil || len(words) != 1 || time.Since(began) != 1500*time.Millisecond {
			t.Errorf("%v after %v, %v", words, time.Since(began), err)
		}
		// The last one is waited for: there is nobody else.
		v = make2(t, &switched, &ttstest.Tone{Err: ttstest.ErrTone}, slow)
		if _, words, err := say(t.Context(), v, "one"); err != nil || len(words) != 1 {
			t.Errorf("%v, %v", words, err)
		}
	})
}

// Back-pressure is not the voice's fault.
func TestASlowListenerIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var switched []string
		v := make2(t, &switched, ttstest.NewTone(), ttstest.NewTone())
		err := v.Speak(t.Context(), "one", func(tts.Chunk) error {
			time.Sleep(5 * time.Second)
			return nil
		})
		if err != nil || len(switched) != 0 {
			t.Errorf("%v, %v", err, switched)
		}
	})
}

func TestAListenerWhoLeavesIsNoFailure(t *testing.T) {
	var switched []string
	second := ttstest.NewTone()
	v := make2(t, &switched, ttstest.NewTone(), second)
	gone := errors.New("gone")
	if err := v.Speak(t.Context(), "one", func(tts.Chunk) error { return gone }); !errors.Is(err, gone) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := v.Speak(ctx, "one", func(tts.Chunk) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if len(switched) != 0 || len(second.Spoken()) != 0 {
		t.Errorf("switched %v", switched)
	}
}

func TestAllFail(t *testing.T) {
	var switched []string
	other := errors.New("other")
	v := make2(t, &switched, &ttstest.Tone{Err: ttstest.ErrTone}, &ttstest.Tone{Err: other})
	for range 2 { // down or not, they are asked
		if _, _, err := say(t.Context(), v, "one"); !errors.Is(err, ttstest.ErrTone) || !errors.Is(err, other) || !strings.Contains(err.Error(), "second: ") {
			t.Errorf("%v", err)
		}
	}
	if want := []string{"first>second", "second>", "first>second", "second>"}; !slices.Equal(switched, want) {
		t.Errorf("switched %v", switched)
	}
}

// BR-155: another voice's rate becomes the first one's.
func TestOneRate(t *testing.T) {
	var switched []string
	v := make2(t, &switched, &ttstest.Tone{SampleRate: 8000, Err: ttstest.ErrTone}, &ttstest.Tone{SampleRate: 24000})
	length, words, err := say(t.Context(), v, "one two three four")
	if v.Rate() != 8000 || err != nil || len(words) != 4 || length < time.Second || length > time.Second+20*time.Millisecond {
		t.Errorf("%v of %v at %d Hz, %v", length, words, v.Rate(), err)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{{}, {FirstSound: time.Second, Cooldown: -1}, {FirstSound: time.Hour}} {
		if _, err := New(c, Choice{"x", ttstest.NewTone()}); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	if _, err := New(DefaultConfig()); !errors.Is(err, errNone) {
		t.Error(err)
	}
	if _, err := New(DefaultConfig(), Choice{"x", nil}); err == nil {
		t.Error("no voice is taken")
	}
	if _, err := New(DefaultConfig(), Choice{"x", ttstest.NewTone()}, Choice{"odd", &ttstest.Tone{SampleRate: 12345}}); err == nil || !strings.Contains(err.Error(), "odd") {
		t.Errorf("a rate that cannot be changed: %v", err)
	}
}
