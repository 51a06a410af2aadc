package llmtest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"parley/agent/llm"
)

// Backend is what stands behind a provider in the suite: it thinks up the words
// for what was heard. ctx is done when the provider has let go of the request. An
// error is reported as the provider's protocol reports one; before the first word
// that may be a status, after it whatever breaks off a stream. say blocks while
// the provider does not take the words, and fails once it has gone.
type Backend func(ctx context.Context, heard string, say func(words string) error) error

// Limits are the time bounds to configure a provider with.
type Limits struct {
	// First bounds the time to the first word, Total a whole turn.
	First, Total time.Duration
}

// Open starts a server that speaks a provider's protocol with backend behind it,
// and returns the provider that is connected to it. Both end with the test.
type Open func(t *testing.T, l Limits, backend Backend) llm.Provider

// patience bounds what must come at once, on a machine that is busy.
const patience = 5 * time.Second

// Run is the suite that every provider of models behind a server passes.
func Run(t *testing.T, open Open) {
	long := Limits{First: time.Minute, Total: time.Minute}
	for name, test := range map[string]func(*testing.T, Open){
		"words":          func(t *testing.T, open Open) { testWords(t, open, long) },
		"nothing to say": func(t *testing.T, open Open) { testNothing(t, open, long) },
		"out fails":      func(t *testing.T, open Open) { testOutFails(t, open, long) },
		"cancelled":      func(t *testing.T, open Open) { testCancelled(t, open, long) },
		"closed":         func(t *testing.T, open Open) { testClosed(t, open, long) },
		"fails at once":  func(t *testing.T, open Open) { testFails(t, open, long, "") },
		"fails half way": func(t *testing.T, open Open) { testFails(t, open, long, "Half a ") },
		"conversations":  func(t *testing.T, open Open) { testConversations(t, open, long) },
		"says nothing":   func(t *testing.T, open Open) { testHangs(t, open, "", Limits{100 * time.Millisecond, time.Minute}) },
		"stops half way": func(t *testing.T, open Open) {
			testHangs(t, open, "Half a ", Limits{time.Minute, 300 * time.Millisecond})
		},
		"the voice is slow": testSlowVoice,
	} {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

// conversation opens one conversation; the test's end closes it.
func conversation(t *testing.T, p llm.Provider) llm.Model {
	t.Helper()
	m, err := p.Open(t.Context(), llm.Conversation{CallID: "c1", SessionID: "s1", ResourceID: "+15550100", Direction: "inbound"})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	var once sync.Once
	closing := func() { once.Do(func() { m.Close(context.WithoutCancel(t.Context()), llm.End{Cause: "test"}) }) }
	t.Cleanup(closing)
	return closeOnce{m, closing}
}

type closeOnce struct {
	llm.Model
	close func()
}

func (c closeOnce) Close(context.Context, llm.End) { c.close() }

// reply collects a whole reply.
func reply(ctx context.Context, m llm.Model, heard string) (string, error) {
	var text strings.Builder
	err := m.Reply(ctx, llm.Turn{Text: heard}, func(c llm.Chunk) error {
		if !utf8.ValidString(c.Text) {
			return errors.New("a rune was split")
		}
		text.WriteString(c.Text)
		return nil
	})
	return text.String(), err
}

// background runs f and gives its error in time, or fails the test.
func background(t *testing.T, f func() error) func() error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	return func() error {
		t.Helper()
		select {
		case err := <-done:
			return err
		case <-time.After(patience):
			t.Fatal("did not return in time")
			return nil
		}
	}
}

func testWords(t *testing.T, open Open, l Limits) {
	said := []string{"Hello", ", wörld", ". 你好", "。\n", " \"39.99\" <ok> & 😀"}
	m := conversation(t, open(t, l, func(_ context.Context, heard string, say func(string) error) error {
		for _, words := range said {
			if err := say(words); err != nil {
				return err
			}
		}
		return say(" " + heard)
	}))
	for _, heard := range []string{"one", "what's <b>\"39.99\"</b> & ünïcode 😀?"} {
		got, err := reply(t.Context(), m, heard)
		if want := strings.Join(said, "") + " " + heard; err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
}

func testNothing(t *testing.T, open Open, l Limits) {
	m := conversation(t, open(t, l, func(context.Context, string, func(string) error) error { return nil }))
	// Some say so: the conversation has the caller repeat it then.
	if got, err := reply(t.Context(), m, "hm"); got != "" || err != nil && !errors.Is(err, llm.ErrEmpty) {
		t.Errorf("got %q, %v", got, err)
	}
}

func testOutFails(t *testing.T, open Open, l Limits) {
	gone := make(chan struct{})
	m := conversation(t, open(t, l, func(ctx context.Context, _ string, say func(string) error) error {
		defer close(gone)
		if err := say("One. "); err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}))
	stop := errors.New("stop")
	calls := 0
	err := m.Reply(t.Context(), llm.Turn{Text: "hm"}, func(llm.Chunk) error { calls++; return stop })
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("%v after %d calls, want the error of out after 1", err, calls)
	}
	wait(t, gone, "the server did not see that the reply was given up")
}

func testCancelled(t *testing.T, open Open, l Limits) {
	gone := make(chan struct{}, 1)
	m := conversation(t, open(t, l, func(ctx context.Context, heard string, say func(string) error) error {
		if heard == "again" {
			return say("Yes.")
		}
		_ = say("One. ")
		<-ctx.Done()
		gone <- struct{}{}
		return context.Cause(ctx)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	err := background(t, func() error {
		return m.Reply(ctx, llm.Turn{Text: "hm"}, func(llm.Chunk) error { cancel(); return nil })
	})()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
	wait(t, gone, "the server did not see the cancel")
	if got, err := reply(t.Context(), m, "again"); got != "Yes." || err != nil {
		t.Errorf("the next turn: %q, %v", got, err)
	}
}

func testClosed(t *testing.T, open Open, l Limits) {
	reached, gone := make(chan struct{}), make(chan struct{})
	m := conversation(t, open(t, l, func(ctx context.Context, _ string, _ func(string) error) error {
		close(reached)
		<-ctx.Done()
		close(gone)
		return context.Cause(ctx)
	}))
	result := background(t, func() error { _, err := reply(t.Context(), m, "hm"); return err })
	wait(t, reached, "the server was not asked")
	m.Close(t.Context(), llm.End{})
	if err := result(); err == nil {
		t.Error("a reply of a closed conversation succeeded")
	}
	wait(t, gone, "the server did not see the end of the call")
}

func testFails(t *testing.T, open Open, l Limits, before string) {
	var mended atomic.Bool
	m := conversation(t, open(t, l, func(_ context.Context, _ string, say func(string) error) error {
		if mended.Load() {
			return say("Fine.")
		}
		if before != "" {
			if err := say(before); err != nil {
				return err
			}
		}
		return errors.New("the model fell over")
	}))
	got, err := reply(t.Context(), m, "hm")
	if err == nil || got != before {
		t.Errorf("got %q, %v; want %q and an error", got, err, before)
	}
	mended.Store(true)
	if got, err := reply(t.Context(), m, "hm"); got != "Fine." || err != nil {
		t.Errorf("the next turn: %q, %v", got, err)
	}
}

func testHangs(t *testing.T, open Open, before string, l Limits) {
	m := conversation(t, open(t, l, func(ctx context.Context, _ string, say func(string) error) error {
		if before != "" {
			_ = say(before)
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}))
	var got string
	err := background(t, func() (err error) { got, err = reply(t.Context(), m, "hm"); return err })()
	if err == nil || got != before {
		t.Errorf("got %q, %v; want %q and an error", got, err, before)
	}
	if t.Context().Err() != nil {
		t.Error("the caller's context was done")
	}
}

// testSlowVoice: what the voice needs is not the model's time.
func testSlowVoice(t *testing.T, open Open) {
	l := Limits{First: 400 * time.Millisecond, Total: 400 * time.Millisecond}
	m := conversation(t, open(t, l, func(_ context.Context, _ string, say func(string) error) error {
		if err := say("One. "); err != nil {
			return err
		}
		return say("Two.")
	}))
	text := ""
	err := m.Reply(t.Context(), llm.Turn{Text: "hm"}, func(c llm.Chunk) error {
		text += c.Text
		timer := time.NewTimer(600 * time.Millisecond)
		defer timer.Stop()
		<-timer.C
		return nil
	})
	if err != nil || text != "One. Two." {
		t.Errorf("got %q, %v", text, err)
	}
}

// testConversations: what one caller says is answered to them alone.
func testConversations(t *testing.T, open Open, l Limits) {
	p := open(t, l, func(_ context.Context, heard string, say func(string) error) error {
		for range 10 {
			if err := say(heard); err != nil {
				return err
			}
		}
		return nil
	})
	var wg sync.WaitGroup
	for _, word := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		m := conversation(t, p)
		wg.Go(func() {
			for range 5 {
				if got, err := reply(t.Context(), m, word); got != strings.Repeat(word, 10) || err != nil {
					t.Errorf("%s: %q, %v", word, got, err)
				}
			}
		})
	}
	wg.Wait()
}

func wait(t *testing.T, c <-chan struct{}, otherwise string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal(otherwise)
	}
}
