package ttstest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/agent/tts"
)

// Subject is what Run tests.
type Subject struct {
	// New makes the voice; it is closed, if it needs to be, by t.Cleanup.
	New func(t *testing.T) tts.Voice
	// Words says that the voice reports the words of its text with their times.
	Words bool
	// Text is a sentence of at least six words; empty means an English one.
	Text string
	// Patience is how long anything may take; 0 means 30 s.
	Patience time.Duration
}

// spoken is what one Speak gave.
type spoken struct {
	samples int
	chunks  int
	words   []tts.Word
}

// Run tests that a voice keeps the contract of tts.Voice.
func Run(t *testing.T, s Subject) {
	if s.Text == "" {
		s.Text = "Good morning, we are open today from nine to five."
	}
	if s.Patience == 0 {
		s.Patience = 30 * time.Second
	}
	for _, c := range []struct {
		name string
		test func(*testing.T, Subject, tts.Voice)
	}{
		{"sound", testSound}, {"repeat", testRepeat}, {"silent texts", testSilent}, {"odd texts", testOdd},
		{"cancelled before", testCancelledBefore}, {"cancelled midway", testCancelled},
		{"refused", testRefused}, {"concurrent", testConcurrent}, {"blocked", testBlocked},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			t.Cleanup(func() { goleak.VerifyNone(t, before) }) // after the voice was closed
			v := s.New(t)
			c.test(t, s, v)
		})
	}
}

func speak(ctx context.Context, v tts.Voice, text string) (spoken, error) {
	var got spoken
	err := v.Speak(ctx, text, func(c tts.Chunk) error {
		got.samples += len(c.PCM)
		got.chunks++
		got.words = append(got.words, c.Words...)
		for i := range c.PCM { // the voice must not count on its sound staying as it was
			c.PCM[i] = 0
		}
		return nil
	})
	return got, err
}

func (s Subject) context(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), s.Patience)
	t.Cleanup(cancel)
	return ctx
}

func testSound(t *testing.T, s Subject, v tts.Voice) {
	rate := v.Rate()
	if rate < 8000 || rate > 48000 {
		t.Fatalf("Rate() = %d", rate)
	}
	at := 0
	var words []tts.Word
	loud := false
	err := v.Speak(s.context(t), s.Text, func(c tts.Chunk) error {
		if len(c.PCM) == 0 && len(c.Words) == 0 {
			t.Error("a chunk with nothing in it")
		}
		for _, w := range c.Words {
			if begins := duration(at, rate); w.Start < begins-time.Millisecond {
				t.Errorf("word %q begins at %v, before its chunk at %v", w.Text, w.Start, begins)
			}
		}
		for _, x := range c.PCM {
			loud = loud || x > 1000 || x < -1000
		}
		at += len(c.PCM)
		words = append(words, c.Words...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !loud {
		t.Error("no sound above 1000 of 32767")
	}
	checkWords(t, s, words, duration(at, rate))
}

func checkWords(t *testing.T, s Subject, words []tts.Word, length time.Duration) {
	t.Helper()
	if !s.Words {
		return
	}
	want := strings.Fields(s.Text)
	if len(words) != len(want) {
		t.Fatalf("%d words, want %d: %v", len(words), len(want), words)
	}
	var last time.Duration
	for i, w := range words {
		switch {
		case w.Text != want[i]:
			t.Errorf("word %d is %q, want %q", i, w.Text, want[i])
		case w.Start < last || w.End < w.Start:
			t.Errorf("word %q at %v to %v after %v", w.Text, w.Start, w.End, last)
		case w.End > length+time.Millisecond:
			t.Errorf("word %q ends at %v of %v", w.Text, w.End, length)
		}
		last = w.Start
	}
}

func testRepeat(t *testing.T, s Subject, v tts.Voice) {
	a, err := speak(s.context(t), v, s.Text)
	if err != nil {
		t.Fatal(err)
	}
	b, err := speak(s.context(t), v, s.Text)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.words) != len(b.words) {
		t.Errorf("%d words, then %d", len(a.words), len(b.words))
	}
	if a.samples == 0 || b.samples < a.samples/2 || b.samples > a.samples*2 {
		t.Errorf("%d samples, then %d", a.samples, b.samples)
	}
}

func testSilent(t *testing.T, s Subject, v tts.Voice) {
	for _, text := range []string{"", " ", "\n\t\r", "\u00a0\u2003"} {
		got, err := speak(s.context(t), v, text)
		if err != nil || got.samples > 0 || len(got.words) > 0 {
			t.Errorf("%q: %d samples, %d words, %v", text, got.samples, len(got.words), err)
		}
	}
}

// testOdd demands nothing but survival: what a model writes reaches the voice.
func testOdd(t *testing.T, s Subject, v tts.Voice) {
	for _, text := range []string{
		"...", "🎉", "a\x00b", "caf\xe9 caf\u00e9", "\xff\xfe", "<speak>hello</speak>", `%s %n {"a":1} \n`,
		"—", "1234567890123456789012345678901234567890", "3.14159 -40 $1,000,000.00 50% a@b.com",
		"你好", strings.Repeat("a", 300), strings.Repeat("no ", 100), "`'\"(*&^", "- - -",
	} {
		if _, err := speak(s.context(t), v, text); errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%.40q took more than %v", text, s.Patience)
		}
	}
	if got, err := speak(s.context(t), v, s.Text); err != nil || got.samples == 0 {
		t.Errorf("afterwards: %d samples, %v", got.samples, err)
	}
}

func testCancelledBefore(t *testing.T, s Subject, v tts.Voice) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got, err := speak(ctx, v, s.Text)
	if !errors.Is(err, context.Canceled) || got.chunks > 0 {
		t.Errorf("%d chunks, %v; want none and context.Canceled", got.chunks, err)
	}
}

func testCancelled(t *testing.T, s Subject, v tts.Voice) {
	whole, err := speak(s.context(t), v, s.Text)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.context(t))
	defer cancel()
	var mu sync.Mutex
	over, samples := false, 0
	err = v.Speak(ctx, s.Text, func(c tts.Chunk) error {
		mu.Lock()
		defer mu.Unlock()
		if over {
			t.Error("out was called after Speak returned")
		}
		samples += len(c.PCM)
		cancel()
		return nil
	})
	mu.Lock()
	over = true
	mu.Unlock()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if samples >= whole.samples {
		t.Errorf("all %d samples were given after the cancellation", samples)
	}
	if got, err := speak(s.context(t), v, s.Text); err != nil || got.samples == 0 {
		t.Errorf("afterwards: %d samples, %v", got.samples, err)
	}
}

func testRefused(t *testing.T, s Subject, v tts.Voice) {
	refusal := errors.New("no more")
	calls := 0
	err := v.Speak(s.context(t), s.Text, func(tts.Chunk) error {
		calls++
		if calls == 2 {
			return refusal
		}
		return nil
	})
	if !errors.Is(err, refusal) {
		t.Errorf("error %v, want the one of out", err)
	}
	if calls != 2 {
		t.Errorf("out was called %d times, want 2", calls)
	}
}

func testConcurrent(t *testing.T, s Subject, v tts.Voice) {
	ctx := s.context(t)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			text := strings.Repeat(fmt.Sprintf("number %d ", i+1), i+1)
			want := len(strings.Fields(text))
			got, err := speak(ctx, v, text)
			switch {
			case err != nil:
				t.Errorf("%d: %v", i, err)
			case got.samples == 0:
				t.Errorf("%d: no sound", i)
			case s.Words && len(got.words) != want:
				t.Errorf("%d: %d words, want %d", i, len(got.words), want)
			}
		})
	}
	wg.Wait()
}

// testBlocked has one listener that does not listen: others may have to wait for
// the voice, but no longer than their contexts.
func testBlocked(t *testing.T, s Subject, v tts.Voice) {
	entered, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		var once sync.Once
		err := v.Speak(s.context(t), s.Text, func(tts.Chunk) error {
			once.Do(func() { close(entered); <-release })
			return nil
		})
		if err != nil {
			t.Errorf("the blocked one: %v", err)
		}
	})
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	wg.Go(func() {
		if err := v.Speak(ctx, s.Text, func(tts.Chunk) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("the waiting one: %v", err)
		}
	})
	cancel()
	close(release)
	wg.Wait()
}

func duration(samples, rate int) time.Duration {
	return time.Duration(samples) * time.Second / time.Duration(rate)
}
