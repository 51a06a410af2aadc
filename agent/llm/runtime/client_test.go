package runtime

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/llm"
	"parley/agent/llm/llmtest"
	"parley/agent/tool"
)

// behind is a Completer with a backend of the suite behind it: it hears the last words.
func behind(backend llmtest.Backend) llm.Completer { return suiteModel{backend} }

type suiteModel struct{ backend llmtest.Backend }

func (s suiteModel) Complete(ctx context.Context, r llm.Request, out func(llm.Delta) error) (llm.Completion, error) {
	heard := ""
	for _, m := range r.Messages {
		if m.Role == "user" {
			heard = m.Content
		}
	}
	var text strings.Builder
	err := s.backend(ctx, heard, func(words string) error {
		text.WriteString(words)
		return out(llm.Delta{Text: words})
	})
	return llm.Completion{Text: text.String(), Finish: llm.FinishStop}, err
}

func suiteConfig(l llmtest.Limits) Config {
	cfg := rigConfig()
	cfg.FirstToken, cfg.Silence = l.First, l.Total
	return cfg
}

// The agent passes what all providers pass.
func TestProviderSuite(t *testing.T) {
	llmtest.Run(t, func(t *testing.T, l llmtest.Limits, backend llmtest.Backend) llm.Provider {
		p, err := New(suiteConfig(l), behind(backend), Parts{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	})
}

// byo-agent.md d: a Client answers calls as well, with all that a call tells it.
func TestClientSuite(t *testing.T) {
	llmtest.Run(t, func(t *testing.T, l llmtest.Limits, backend llmtest.Backend) llm.Provider {
		return llm.FromClients(func(context.Context, llm.Conversation) (llm.Client, error) {
			return NewClient(behind(backend), suiteConfig(l))
		})
	})
}

// served is a Completer without a network.
type served struct{ llmtest.Service }

func (s served) Complete(ctx context.Context, r llm.Request, out func(llm.Delta) error) (llm.Completion, error) {
	text := ""
	done, err := s.Service(ctx, r, func(d llm.Delta) error { text += d.Text; return out(d) })
	done.Text = text
	return done, err
}

func TestClientMethodsSuite(t *testing.T) {
	open := func(t *testing.T, b llmtest.ClientBackend) llm.Client {
		c, err := NewClient(served{b.Service()}, rigConfig())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if closer, ok := c.(llm.Closer); ok {
				closer.Close(context.Background(), llm.End{})
			}
		})
		return c
	}
	llmtest.RunClient(t, open)
	llmtest.RunClientTools(t, open)
}

func newClient(t *testing.T, script ...run) (llm.Client, *fake) {
	t.Helper()
	f := &fake{t: t, script: script}
	c, err := NewClient(f, rigConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if closer, ok := c.(llm.Closer); ok {
			closer.Close(context.Background(), llm.End{})
		}
	})
	return c, f
}

// byo-agent.md d: the six methods.
func TestClientChats(t *testing.T) {
	c, f := newClient(t, says("Hello there. How are"), says("Two."), says("Transformed."), says("Three."))
	var chunks, sentences []string
	text, err := c.Chat(t.Context(), "hello", func(s string) { chunks = append(chunks, s) }, func(s string) { sentences = append(sentences, s) })
	if text != "Hello there. How are" || err != nil || strings.Join(chunks, "") != text {
		t.Errorf("%q, %v, %q", text, err, chunks)
	}
	equal(t, "sentences", sentences, []string{"Hello there.", "How are"})
	c.AppendSystemPrompt("Be brief.")
	c.AppendSystemPrompt("Be exact.")
	c.AppendSystemPrompt("Be brief.")
	_, _ = c.Chat(t.Context(), "next", nil, nil)
	if got := system(f.asked(1)); got != "Be kind.\n\nBe brief.\n\nBe exact." {
		t.Errorf("%q", got)
	}
	if got := shown(f.asked(1).Messages); got != "user: hello\nassistant: Hello there. How are\nuser: next" {
		t.Error(got)
	}
	if text, err := c.OneShot(t.Context(), "Translate.", "hola"); text != "Transformed." || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if got := f.asked(2).Messages; len(got) != 2 || got[0].Content != "Translate." || got[1].Content != "hola" {
		t.Errorf("%v", got)
	}
	c.Reset()
	_, _ = c.Chat(t.Context(), "again", nil, nil)
	if got := shown(f.asked(3).Messages); got != "user: again" || system(f.asked(3)) != "Be kind.\n\nBe brief.\n\nBe exact." {
		t.Errorf("after a reset: %q, %q", got, system(f.asked(3)))
	}
}

func TestClientTools(t *testing.T) {
	c, f := newClient(t, calls("", "a"), says("No tool."), calls("Wait.", `a {"x":1}`, "b", "panics", "nope"), says(" Done."))
	c.SetTools([]llm.ToolDefinition{{Name: "a"}, {Name: "b"}, {Name: "panics"}})
	_, _ = c.Chat(t.Context(), "hm", nil, nil)
	if len(f.asked(0).Tools) != 0 {
		t.Error("tools are offered without a handler")
	}
	c.SetToolHandler(func(_ context.Context, call llm.ToolCall) (string, error) {
		switch call.Name {
		case "b":
			return "", errors.New("boom")
		case "panics":
			panic("x")
		}
		return "as it is " + string(call.Arguments), nil
	})
	if text, err := c.Chat(t.Context(), "do it", nil, nil); text != "Wait. Done." || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	got := shown(f.asked(3).Messages)
	for _, want := range []string{`a = as it is {"x":1}`, `b = {"error":"boom"}`, `panics = {"error":"` + tool.ErrPanicked.Error() + `"}`, `nope = {"error":"unknown tool: \"nope\""}`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	c.SetTools(nil)
	_, _ = c.Chat(t.Context(), "and now", nil, nil)
	if n := notes(f.asked(-1)); !strings.Contains(n, "gone, do not call them: a, b, panics.") {
		t.Error(n)
	}
}

// A Chat that is cancelled ends at once, with its tools, and what was generated by then
// counts as heard unless somebody knows better.
func TestClientIsCancelled(t *testing.T) {
	for _, known := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ended := false
			c, f := newClient(t, calls("One two three.", "slow"))
			c.SetTools([]llm.ToolDefinition{{Name: "slow"}})
			c.SetToolHandler(func(ctx context.Context, _ llm.ToolCall) (string, error) {
				<-ctx.Done()
				ended = true
				return "", context.Cause(ctx)
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			text, err := c.Chat(ctx, "count", nil, nil)
			if text != "One two three." || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%q, %v", text, err)
			}
			synctest.Wait()
			if !ended {
				t.Error("the tool goes on")
			}
			want := "One two three."
			if h, ok := c.(llm.Hearer); ok && known {
				want = "One two"
				h.Heard(llm.Heard{Text: "One two three.", Heard: want, Interrupted: true})
			}
			_, _ = c.Chat(t.Context(), "go on", nil, nil)
			if got := shown(f.asked(1).Messages); !strings.Contains(got, "assistant: "+want+" <slow {}> [cut]\n") {
				t.Error(got)
			}
		})
	}
}

// A Client that is told of the turn tells the model.
func TestClientTakesTurns(t *testing.T) {
	c, f := newClient(t)
	taker, ok := c.(llm.TurnTaker)
	if !ok {
		t.Fatal("no TurnTaker")
	}
	taker.TakeTurn(llm.Turn{Text: "42", Digits: true})
	_, _ = c.Chat(t.Context(), "42", nil, nil)
	if !strings.Contains(notes(f.asked(0)), "keypad") {
		t.Error(notes(f.asked(0)))
	}
	taker.TakeTurn(llm.Turn{Nothing: true, Garbled: true})
	_, _ = c.Chat(t.Context(), "", nil, nil)
	if !strings.Contains(notes(f.asked(1)), "not one word was understood") {
		t.Error(notes(f.asked(1)))
	}
	_, _ = c.Chat(t.Context(), "hello", nil, nil)
	if got := shown(f.asked(2).Messages); !slices.Contains(strings.Split(got, "\n"), "user: hello") || strings.Contains(got, "keypad") {
		t.Error(got)
	}
}
