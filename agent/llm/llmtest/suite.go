package llmtest

import (
	"context"
	"errors"
	"slices"
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
		"the model is slow": func(t *testing.T, open Open) { testSlowModel(t, open, long) },
		"what was heard":    func(t *testing.T, open Open) { testHearer(t, open, long) },
		"woken":             func(t *testing.T, open Open) { testWoken(t, open, long) },
		"tentative":         func(t *testing.T, open Open) { testTentative(t, open, long) },
		"what goes with it": func(t *testing.T, open Open) { testTurnNotes(t, open, long) },
	} {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

// conversation opens one conversation; the test's end closes it.
func conversation(t *testing.T, p llm.Provider) llm.Model {
	t.Helper()
	m, err := p.Open(t.Context(), llm.Conversation{
		CallID: "c1", SessionID: "s1", ResourceID: "+15550100", Direction: "inbound",
		Memory: &memory{}, Line: noLine{}, Wake: func() {}, Emit: func(llm.Happening) {},
	})
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
	return replyTo(ctx, m, llm.Turn{Text: heard})
}

// replyTo collects a whole reply to a turn. It fails when its chunks are not as
// llm.Chunk has them.
func replyTo(ctx context.Context, m llm.Model, t llm.Turn) (string, error) {
	var text strings.Builder
	n, incomplete := 0, false
	err := m.Reply(ctx, t, func(c llm.Chunk) error {
		n++
		incomplete = incomplete || c.Incomplete > 0
		text.WriteString(c.Text)
		return checkChunk(c, n, incomplete, t)
	})
	return text.String(), err
}

// checkChunk says what is wrong with the n-th chunk of a reply.
func checkChunk(c llm.Chunk, n int, incomplete bool, t llm.Turn) error {
	switch {
	case !utf8.ValidString(c.Text):
		return errors.New("a rune was split")
	case c.Thinking && (c.Text != "" || c.Action != nil || c.Expect != nil):
		return errors.New("a chunk that fills the silence holds something")
	case incomplete && !t.Tentative:
		return errors.New("a turn that is over was found to be incomplete")
	case incomplete && (n > 1 || c.Text != "" || c.Action != nil):
		return errors.New("something was given besides that the turn is incomplete")
	}
	return nil
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

// testSlowModel: a model that takes its time may have the silence filled, and loses no
// word for it.
func testSlowModel(t *testing.T, open Open, l Limits) {
	m := conversation(t, open(t, l, func(ctx context.Context, _ string, say func(string) error) error {
		for _, words := range []string{"One. ", "Two."} {
			timer := time.NewTimer(700 * time.Millisecond)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if err := say(words); err != nil {
				return err
			}
		}
		return nil
	}))
	if got, err := reply(t.Context(), m, "hm"); got != "One. Two." || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// testHearer: a model that is told what was heard does not hold the telling up, and
// says to the server what it said before.
func testHearer(t *testing.T, open Open, l Limits) {
	reached := make(chan struct{}, 8)
	m := conversation(t, open(t, l, func(ctx context.Context, heard string, say func(string) error) error {
		if heard != "hang" {
			return say("You said " + heard + ".")
		}
		reached <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx)
	}))
	hearer, ok := m.(closeOnce).Model.(llm.Hearer)
	if !ok {
		t.Skip("the models of this provider are no llm.Hearer")
	}
	hearer.Heard(llm.Heard{Text: "Welcome to us.", Heard: "Welcome", Interrupted: true, Own: true, Played: time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hanging := background(t, func() error { _, err := reply(ctx, m, "hang"); return err })
	wait(t, reached, "the server was not asked")
	if err := background(t, func() error {
		hearer.CallerSpeaks()
		hearer.Heard(llm.Heard{Text: "One moment.", Heard: "One moment.", Own: true})
		return nil
	})(); err != nil {
		t.Error(err)
	}
	cancel()
	if err := hanging(); err == nil {
		t.Error("a reply that was cut off succeeded")
	}
	hearer.Heard(llm.Heard{Interrupted: true})
	for _, text := range []string{"one", "two"} {
		want := "You said " + text + "."
		got, err := replyTo(t.Context(), m, llm.Turn{Text: text, WasInterrupted: text == "one", Interrupted: ""})
		if got != want || err != nil {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
		hearer.Heard(llm.Heard{Text: want, Heard: "You said", Interrupted: true, Played: time.Second})
	}
	m.Close(t.Context(), llm.End{})
	hearer.Heard(llm.Heard{Text: "Late."}) // of a call that is over
	hearer.CallerSpeaks()
}

// testWoken: a model that is asked though it has nothing to say gives nothing.
func testWoken(t *testing.T, open Open, l Limits) {
	var asked atomic.Int64
	m := conversation(t, open(t, l, func(_ context.Context, heard string, say func(string) error) error {
		asked.Add(1)
		return say("You said " + heard + ".")
	}))
	for range 2 {
		if got, err := replyTo(t.Context(), m, llm.Turn{Woken: true}); got != "" || err != nil {
			t.Errorf("got %q, %v; want nothing", got, err)
		}
		if got, err := reply(t.Context(), m, "hm"); got != "You said hm." || err != nil {
			t.Errorf("the next turn: %q, %v", got, err)
		}
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("the server was asked %d times for 2 turns", n)
	}
}

// testTentative: a turn that may not be over is answered, or found to be incomplete;
// when it comes again it is heard as it then is.
func testTentative(t *testing.T, open Open, l Limits) {
	m := conversation(t, open(t, l, func(_ context.Context, heard string, say func(string) error) error {
		return say("You said " + heard + ".")
	}))
	got, err := replyTo(t.Context(), m, llm.Turn{Text: "and then I", Tentative: true})
	if err != nil || got != "" && got != "You said and then I." {
		t.Errorf("got %q, %v", got, err)
	}
	got, err = replyTo(t.Context(), m, llm.Turn{Text: "and then I left"})
	if got != "You said and then I left." || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// testTurnNotes: what goes with a turn is no part of what the caller said.
func testTurnNotes(t *testing.T, open Open, l Limits) {
	m := conversation(t, open(t, l, func(_ context.Context, heard string, say func(string) error) error {
		return say(heard)
	}))
	for _, turn := range []llm.Turn{
		{Text: "wait", WasInterrupted: true, Interrupted: "Our hours are"},
		{Text: "42", Digits: true},
		{Text: "maybe", Confidence: 0.9},
	} {
		if got, err := replyTo(t.Context(), m, turn); got != turn.Text || err != nil {
			t.Errorf("%+v: the server heard %q, %v", turn, got, err)
		}
	}
}

// memory is a Memory of one conversation.
type memory struct {
	mu sync.Mutex
	kv map[string]any
}

func (m *memory) Get(key string) (any, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.kv[key]
	return v, ok
}

func (m *memory) Set(key string, value any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kv == nil {
		m.kv = make(map[string]any)
	}
	if m.kv[key] = value; value == nil {
		delete(m.kv, key)
	}
}

func (m *memory) Keys(prefix string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []string
	for key := range m.kv {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// noLine is a call on which nothing can be done.
type noLine struct{}

var errNoLine = errors.New("llmtest: not possible in this call")

func (noLine) Transfer(context.Context, string, bool) error { return errNoLine }
func (noLine) SendDigits(context.Context, string) error     { return errNoLine }
func (noLine) Hold(context.Context) error                   { return errNoLine }
func (noLine) Resume(context.Context) error                 { return errNoLine }
func (noLine) HangUp()                                      {}

func wait(t *testing.T, c <-chan struct{}, otherwise string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal(otherwise)
	}
}
