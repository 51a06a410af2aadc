package llm_test

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
	"unicode/utf8"

	"go.uber.org/goleak"

	"parley/agent/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plain is a Client of nothing but the six methods.
type plain struct {
	chat  func(ctx context.Context, text string, onChunk, onSentence func(string)) (string, error)
	heard []string
}

func (c *plain) Chat(ctx context.Context, text string, onChunk, onSentence func(string)) (string, error) {
	c.heard = append(c.heard, text)
	return c.chat(ctx, text, onChunk, onSentence)
}
func (c *plain) OneShot(context.Context, string, string) (string, error) { return "", nil }
func (c *plain) SetTools([]llm.ToolDefinition)                           {}
func (c *plain) SetToolHandler(func(context.Context, llm.ToolCall) (string, error)) {
}
func (c *plain) AppendSystemPrompt(string) {}
func (c *plain) Reset()                    {}

// full is a Client that wants to know everything.
type full struct {
	plain
	mu   sync.Mutex
	told []string
}

func (c *full) note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, what)
}

func (c *full) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.told)
}

func (c *full) TakeTurn(t llm.Turn)  { c.note(fmt.Sprintf("turn %q", t.Interrupted)) }
func (c *full) Heard(h llm.Heard)    { c.note("heard " + h.Heard) }
func (c *full) CallerSpeaks()        { c.note("speaks") }
func (c *full) Refused(why string)   { c.note("refused " + why) }
func (c *full) Prefetch(text string) { c.note("prefetch " + text) }
func (c *full) Close(context.Context, llm.End) {
	c.note("closed")
}

func model(t *testing.T, c llm.Client) llm.Model {
	t.Helper()
	m, err := llm.FromClients(func(context.Context, llm.Conversation) (llm.Client, error) { return c, nil }).Open(t.Context(), llm.Conversation{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func collect(to *[]string) func(llm.Chunk) error {
	return func(c llm.Chunk) error {
		if !utf8.ValidString(c.Text) {
			return errors.New("a rune was split")
		}
		*to = append(*to, c.Text)
		return nil
	}
}

// The words come from whichever callback a Client uses, once.
func TestAClientsWords(t *testing.T) {
	tests := []struct {
		name string
		chat func(ctx context.Context, text string, onChunk, onSentence func(string)) (string, error)
		want string
	}{
		{"chunks", func(_ context.Context, _ string, chunk, sentence func(string)) (string, error) {
			chunk("One. ")
			sentence("One.")
			chunk("Two.")
			sentence("Two.")
			return "One. Two.", nil
		}, "One. |Two."},
		{"sentences first", func(_ context.Context, _ string, chunk, sentence func(string)) (string, error) {
			sentence("One. ")
			chunk("One. ")
			sentence("Two.")
			chunk("Two.")
			return "One. Two.", nil
		}, "One.| Two."},
		{"sentences only", func(_ context.Context, _ string, _, sentence func(string)) (string, error) {
			sentence("One.")
			sentence("")
			sentence("Two.")
			return "One. Two.", nil
		}, "One.| Two."},
		{"neither", func(context.Context, string, func(string), func(string)) (string, error) { return "One.", nil }, "One."},
		{"the rest is returned", func(_ context.Context, _ string, chunk, _ func(string)) (string, error) {
			chunk("One. ")
			return "One. Two.", nil
		}, "One. |Two."},
		{"runes divided", func(_ context.Context, _ string, chunk, _ func(string)) (string, error) {
			for _, b := range []byte("grüß 😀") {
				chunk(string([]byte{b}))
			}
			return "grüß 😀", nil
		}, "g|r|ü|ß| |😀"},
		{"a rune that never ends", func(_ context.Context, _ string, chunk, _ func(string)) (string, error) {
			chunk("a\xf0\x9f")
			return "a\xf0\x9f", nil
		}, "a|\ufffd\ufffd"},
		{"nothing", func(context.Context, string, func(string), func(string)) (string, error) { return "", nil }, ""},
		{"late callbacks", func(_ context.Context, _ string, chunk, _ func(string)) (string, error) {
			defer func() { time.AfterFunc(time.Second, func() { chunk("late") }) }()
			chunk("One.")
			return "One.", nil
		}, "One."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &plain{chat: tt.chat}
				m := model(t, c)
				var got []string
				text := `exactly <this> & "that"`
				if err := m.Reply(t.Context(), llm.Turn{Text: text, Interrupted: "half", WasInterrupted: true}, collect(&got)); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				if joined := strings.Join(got, "|"); joined != tt.want {
					t.Errorf("%q, want %q", joined, tt.want)
				}
				if len(c.heard) != 1 || c.heard[0] != text {
					t.Errorf("the client was asked %q", c.heard)
				}
				m.Close(t.Context(), llm.End{})
			})
		})
	}
}

// A Client that takes only words is asked only when there are some.
func TestAClientWithoutWords(t *testing.T) {
	c := &plain{chat: func(context.Context, string, func(string), func(string)) (string, error) { return "?", nil }}
	m := model(t, c)
	var got []string
	if err := m.Greet(t.Context(), collect(&got)); err != nil {
		t.Error(err)
	}
	for _, turn := range []llm.Turn{{Nothing: true}, {Woken: true}} {
		if err := m.Reply(t.Context(), turn, collect(&got)); err != nil {
			t.Error(err)
		}
	}
	if err := m.Reply(t.Context(), llm.Turn{Nothing: true, Garbled: true}, collect(&got)); !errors.Is(err, llm.ErrEmpty) {
		t.Errorf("garbled: %v", err)
	}
	if len(got)+len(c.heard) != 0 {
		t.Errorf("said %q to %q", got, c.heard)
	}
	m.Close(t.Context(), llm.End{})
}

func TestAClientIsTold(t *testing.T) {
	c := &full{plain: plain{chat: func(context.Context, string, func(string), func(string)) (string, error) { return "", nil }}}
	m := model(t, c)
	m.(llm.Hearer).Heard(llm.Heard{Heard: "half"})
	m.(llm.Hearer).CallerSpeaks()
	m.(llm.Prefetcher).Prefetch("so")
	m.(llm.Refuser).Refused("no")
	for _, turn := range []llm.Turn{{Text: "x", Interrupted: "half"}, {Nothing: true, Garbled: true}} {
		if err := m.Reply(t.Context(), turn, nil); err != nil {
			t.Error(err)
		}
	}
	m.Close(t.Context(), llm.End{})
	want := []string{"heard half", "speaks", "prefetch so", "refused no", `turn "half"`, `turn ""`, "closed"}
	if !slices.Equal(c.all(), want) || !slices.Equal(c.heard, []string{"x", ""}) {
		t.Errorf("told %q, asked %q", c.all(), c.heard)
	}
	other := model(t, &plain{})
	other.(llm.Hearer).Heard(llm.Heard{})
	other.(llm.Hearer).CallerSpeaks()
	other.(llm.Prefetcher).Prefetch("")
	other.(llm.Refuser).Refused("")
	other.Close(t.Context(), llm.End{})
	if err := other.Reply(t.Context(), llm.Turn{Text: "x"}, nil); err == nil {
		t.Error("answered after the call")
	}
}

func TestAClientIsCutOff(t *testing.T) {
	hangs := func(swallow bool) *full {
		return &full{plain: plain{chat: func(ctx context.Context, _ string, chunk, _ func(string)) (string, error) {
			chunk("One. ")
			<-ctx.Done()
			chunk("Two.")
			if swallow {
				return "One. Two.", nil
			}
			return "One. ", ctx.Err()
		}}}
	}
	stop := errors.New("stop")
	for _, swallow := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := hangs(swallow)
			m := model(t, c)
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(stop) })
			var got []string
			if err := m.Reply(ctx, llm.Turn{Text: "x"}, collect(&got)); !errors.Is(err, stop) {
				t.Errorf("a barge-in: %v", err)
			}
			n := 0
			err := m.Reply(t.Context(), llm.Turn{Text: "x"}, func(llm.Chunk) error { n++; return stop })
			if !errors.Is(err, stop) || n != 1 {
				t.Errorf("out failed: %v after %d", err, n)
			}
			done := make(chan error, 1)
			go func() { done <- m.Reply(t.Context(), llm.Turn{Text: "x"}, collect(&got)) }()
			synctest.Wait()
			m.Close(t.Context(), llm.End{})
			if err := <-done; err == nil || !slices.Contains(c.all(), "closed") {
				t.Errorf("the end of the call: %v, %q", err, c.all())
			}
		})
	}
}

// A Client that does not heed its context is closed when it can be.
func TestAClientThatDoesNotListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &full{plain: plain{chat: func(context.Context, string, func(string), func(string)) (string, error) {
			time.Sleep(time.Hour)
			return "", nil
		}}}
		m := model(t, c)
		done := make(chan error, 1)
		go func() { done <- m.Reply(t.Context(), llm.Turn{Text: "x"}, nil) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		m.Close(ctx, llm.End{})
		if took := time.Since(began); took != time.Second || slices.Contains(c.all(), "closed") {
			t.Errorf("Close took %v, told %q", took, c.all())
		}
		if err := <-done; err == nil {
			t.Error("a reply after the call")
		}
		if !slices.Contains(c.all(), "closed") {
			t.Error("never closed")
		}
	})
}

func TestAClientThatCannotBeMade(t *testing.T) {
	no := errors.New("no")
	p := llm.FromClients(func(context.Context, llm.Conversation) (llm.Client, error) { return nil, no })
	if _, err := p.Open(t.Context(), llm.Conversation{}); !errors.Is(err, no) {
		t.Error(err)
	}
	p = llm.FromClients(func(context.Context, llm.Conversation) (llm.Client, error) { return nil, nil })
	if _, err := p.Open(t.Context(), llm.Conversation{}); err == nil {
		t.Error("no client, no error")
	}
}
