package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"parley/agent/chat"
	"parley/agent/llm"
)

// Service is what stands behind a completer in the suite: it answers the request that
// the scripted server made of what it received, field by field. give writes a piece of
// the answer and sends it at once; it fails once the completer has gone. The
// Completion's tool calls, reason and token counts come after the pieces; its Text is
// not looked at. An error that wraps llm.ErrBusy before the first piece is a 429; any
// other is reported as the protocol reports one, before or in the midst of an answer.
type Service func(ctx context.Context, r llm.Request, give func(llm.Delta) error) (llm.Completion, error)

// OpenCompleter starts a server on loopback that speaks a completer's protocol with s
// behind it, checks the shape of each request, and returns the completer that is
// connected to it. Both end with the test.
type OpenCompleter func(t *testing.T, s Service) llm.Completer

// RunCompleter is the suite that every completer passes.
func RunCompleter(t *testing.T, open OpenCompleter) {
	for name, test := range map[string]func(*testing.T, OpenCompleter){
		"words":          testAnswer,
		"request":        testRequest,
		"tools":          testToolCalls,
		"reasons":        testReasons,
		"empty":          testEmptyAnswer,
		"busy":           testBusy,
		"fails at once":  func(t *testing.T, open OpenCompleter) { testServiceFails(t, open, "") },
		"fails half way": func(t *testing.T, open OpenCompleter) { testServiceFails(t, open, "Half a ") },
		"out fails":      testCompleterOutFails,
		"cancelled":      testCompleterCancelled,
		"one at a time":  testAsItComes,
		"many at once":   testManyAtOnce,
		"slow voice":     testSlowOut,
	} {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

// ask is a request with one turn of the caller.
func ask(text string) llm.Request {
	return llm.Request{Messages: []chat.Message{{Role: chat.RoleUser, Content: text}}}
}

// complete collects an answer.
func complete(ctx context.Context, c llm.Completer, r llm.Request) (got llm.Delta, done llm.Completion, err error) {
	var text, thought strings.Builder
	done, err = c.Complete(ctx, r, func(d llm.Delta) error {
		if !utf8.ValidString(d.Text) || !utf8.ValidString(d.Thought) {
			return errors.New("a rune was split")
		}
		text.WriteString(d.Text)
		thought.WriteString(d.Thought)
		return nil
	})
	return llm.Delta{Text: text.String(), Thought: thought.String()}, done, err
}

func testAnswer(t *testing.T, open OpenCompleter) {
	pieces := []llm.Delta{
		{Thought: "They want "}, {Thought: "a greeting."},
		{Text: "Hello"}, {Text: ", wörld"}, {Text: ". 你好"}, {Text: "。\n"}, {Text: " \"39.99\" <ok> & 😀"},
	}
	c := open(t, func(_ context.Context, _ llm.Request, give func(llm.Delta) error) (llm.Completion, error) {
		for _, p := range pieces {
			if err := give(p); err != nil {
				return llm.Completion{}, err
			}
		}
		return llm.Completion{Finish: llm.FinishStop, PromptTokens: 12, CompletionTokens: 34}, nil
	})
	for range 2 {
		got, done, err := complete(t.Context(), c, ask("hm"))
		want := "Hello, wörld. 你好。\n \"39.99\" <ok> & 😀"
		if err != nil || got.Text != want || done.Text != want || got.Thought != "They want a greeting." {
			t.Errorf("got %q, thought %q, whole %q, %v", got.Text, got.Thought, done.Text, err)
		}
		if done.Finish != llm.FinishStop || done.PromptTokens != 12 || done.CompletionTokens != 34 || len(done.ToolCalls) != 0 {
			t.Errorf("%+v", done)
		}
	}
}

// conversation is one with everything in it that a conversation may hold.
func everything() llm.Request {
	half := 0.5
	return llm.Request{
		Messages: []chat.Message{
			{Role: chat.RoleSystem, Content: "Be brief."},
			{Role: chat.RoleUser, Content: "what's <b>\"39.99\"</b> & ünïcode 😀?"},
			{Role: chat.RoleAssistant, Content: "One moment.", ToolCalls: []llm.ToolCall{
				{ID: "c1", Name: "get_price", Arguments: json.RawMessage(`{"item":"hat","size":{"cm":57}}`)},
				{ID: "c2", Name: "get_time", Arguments: json.RawMessage(`{}`)},
			}},
			{Role: chat.RoleTool, ToolCallID: "c1", Name: "get_price", Content: `{"price":"39.99 €"}`},
			{Role: chat.RoleTool, ToolCallID: "c2", Name: "get_time", Content: "CANCELLED"},
			{Role: chat.RoleAssistant, Content: "It costs", Interrupted: true},
			{Role: chat.RoleDeveloper, Content: "The tools have changed."},
			{Role: chat.RoleUser, Content: "42"},
		},
		Tools: []llm.ToolDefinition{
			{Name: "get_price", Description: "What something costs.", Parameters: map[string]any{
				"type": "object", "required": []any{"item"},
				"properties": map[string]any{"item": map[string]any{"type": "string"}, "size": map[string]any{"type": "object"}},
			}},
			{Name: "get_time"},
		},
		MaxTokens: 77, Temperature: &half, JSON: true,
	}
}

// comparable is r as a server can see it.
func comparable(r llm.Request) llm.Request {
	out := r
	out.Messages = nil
	for _, m := range r.Messages {
		m.Interrupted, m.Name, m.UserID, m.At = false, "", "", time.Time{}
		if m.Role == chat.RoleTool {
			m.ToolCallID = "" // of protocols that go by the order
		}
		calls := m.ToolCalls
		m.ToolCalls = nil
		for _, call := range calls {
			var v any
			_ = json.Unmarshal(call.Arguments, &v)
			call.ID, call.Arguments = "", nil
			call.Arguments, _ = json.Marshal(v)
			m.ToolCalls = append(m.ToolCalls, call)
		}
		out.Messages = append(out.Messages, m)
	}
	out.Tools = nil
	for _, d := range r.Tools {
		if d.Parameters == nil {
			d.Parameters = map[string]any{"type": "object", "properties": map[string]any{}}
		}
		out.Tools = append(out.Tools, d)
	}
	return out
}

func testRequest(t *testing.T, open OpenCompleter) {
	var got []llm.Request
	c := open(t, func(_ context.Context, r llm.Request, give func(llm.Delta) error) (llm.Completion, error) {
		got = append(got, r)
		return llm.Completion{Finish: llm.FinishStop}, give(llm.Delta{Text: "{}"})
	})
	for i, r := range []llm.Request{everything(), ask("plain")} {
		if _, _, err := complete(t.Context(), c, r); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(comparable(r), comparable(got[i])); diff != "" {
			t.Errorf("request %d arrived otherwise (-sent +received):\n%s", i, diff)
		}
	}
}

func testToolCalls(t *testing.T, open OpenCompleter) {
	calls := []llm.ToolCall{
		{ID: "call_1", Name: "get_price", Arguments: json.RawMessage(`{"item":"grüße 😀 \"x\"","n":3,"deep":{"a":[1,2]}}`)},
		{ID: "call_2", Name: "get_time", Arguments: json.RawMessage(`{}`)},
	}
	for _, before := range []string{"", "One moment. "} {
		c := open(t, func(_ context.Context, _ llm.Request, give func(llm.Delta) error) (llm.Completion, error) {
			done := llm.Completion{Finish: llm.FinishToolCalls, ToolCalls: calls}
			if before == "" {
				return done, nil
			}
			return done, give(llm.Delta{Text: before})
		})
		got, done, err := complete(t.Context(), c, everything())
		if err != nil || got.Text != before || done.Finish != llm.FinishToolCalls || len(done.ToolCalls) != len(calls) {
			t.Fatalf("%q, %+v, %v", got.Text, done, err)
		}
		ids := make(map[string]bool)
		for i, call := range done.ToolCalls {
			var is, want any
			if err := errors.Join(json.Unmarshal(call.Arguments, &is), json.Unmarshal(calls[i].Arguments, &want)); err != nil {
				t.Error(err)
			}
			if call.ID == "" || ids[call.ID] || call.Name != calls[i].Name || !cmp.Equal(is, want) {
				t.Errorf("call %d: %q %s %s", i, call.ID, call.Name, call.Arguments)
			}
			ids[call.ID] = true
		}
	}
}

func testReasons(t *testing.T, open OpenCompleter) {
	for _, want := range []llm.FinishReason{llm.FinishStop, llm.FinishLength} {
		c := open(t, func(_ context.Context, _ llm.Request, give func(llm.Delta) error) (llm.Completion, error) {
			return llm.Completion{Finish: want}, give(llm.Delta{Text: "So"})
		})
		if _, done, err := complete(t.Context(), c, ask("hm")); err != nil || done.Finish != want {
			t.Errorf("%s: %+v, %v", want, done, err)
		}
	}
}

// BR-132: an answer without a word and without a tool call is told from silence.
func testEmptyAnswer(t *testing.T, open OpenCompleter) {
	for _, p := range []llm.Delta{{}, {Text: " \n"}, {Thought: "Hm."}} {
		c := open(t, func(_ context.Context, _ llm.Request, give func(llm.Delta) error) (llm.Completion, error) {
			return llm.Completion{Finish: llm.FinishStop, PromptTokens: 1}, give(p)
		})
		if _, _, err := complete(t.Context(), c, ask("hm")); !errors.Is(err, llm.ErrEmpty) {
			t.Errorf("%+v: %v, want ErrEmpty", p, err)
		}
	}
}

// BR-132: 429. The request is sent once more, by the completer.
func testBusy(t *testing.T, open OpenCompleter) {
	var mu sync.Mutex
	tries, busy := 0, 1
	c := open(t, func(_ context.Context, _ llm.Request, give func(llm.Delta) error) (llm.Completion, error) {
		mu.Lock()
		defer mu.Unlock()
		if tries++; tries <= busy {
			return llm.Completion{}, llm.ErrBusy
		}
		return llm.Completion{Finish: llm.FinishStop}, give(llm.Delta{Text: "Now."})
	})
	if got, _, err := complete(t.Context(), c, ask("hm")); got.Text != "Now." || err != nil || tries != 2 {
		t.Errorf("%q, %v after %d requests", got.Text, err, tries)
	}
	tries, busy = 0, 9
	if _, _, err := complete(t.Context(), c, ask("hm")); !errors.Is(err, llm.ErrBusy) || tries != 2 {
		t.Errorf("%v after %d requests, want ErrBusy after 2", err, tries)
	}
}

func testServiceFails(t *testing.T, open OpenCompleter, before string) {
	var mended bool
	var mu sync.Mutex
	c := open(t, func(_ context.Context, _ llm.Request, give func(llm.Delta) error) (llm.Completion, error) {
		mu.Lock()
		defer mu.Unlock()
		if mended {
			return llm.Completion{Finish: llm.FinishStop}, give(llm.Delta{Text: "Fine."})
		}
		if before != "" {
			if err := give(llm.Delta{Text: before}); err != nil {
				return llm.Completion{}, err
			}
		}
		return llm.Completion{}, errors.New("the model fell over")
	})
	got, done, err := complete(t.Context(), c, ask("hm"))
	if err == nil || !strings.Contains(err.Error(), "the model fell over") || got.Text != before || done.Text != before || len(done.ToolCalls) != 0 {
		t.Errorf("got %q, %+v, %v", got.Text, done, err)
	}
	mu.Lock()
	mended = true
	mu.Unlock()
	if got, _, err := complete(t.Context(), c, ask("hm")); got.Text != "Fine." || err != nil {
		t.Errorf("the next one: %q, %v", got.Text, err)
	}
}

// endless answers until the completer has gone.
func endless(gone chan<- struct{}) Service {
	return func(ctx context.Context, _ llm.Request, give func(llm.Delta) error) (llm.Completion, error) {
		_ = give(llm.Delta{Text: "One. "})
		<-ctx.Done()
		gone <- struct{}{}
		return llm.Completion{}, context.Cause(ctx)
	}
}

func testCompleterOutFails(t *testing.T, open OpenCompleter) {
	gone := make(chan struct{}, 1)
	c := open(t, endless(gone))
	stop := errors.New("stop")
	calls := 0
	done, err := c.Complete(t.Context(), ask("hm"), func(llm.Delta) error { calls++; return stop })
	if err != stop || calls != 1 || done.Text != "One. " {
		t.Errorf("%v after %d calls, %q; want the error of out as it is after 1", err, calls, done.Text)
	}
	wait(t, gone, "the service did not see that the answer was given up")
}

func testCompleterCancelled(t *testing.T, open OpenCompleter) {
	gone := make(chan struct{}, 1)
	c := open(t, endless(gone))
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := background(t, func() error {
		_, err := c.Complete(ctx, ask("hm"), func(llm.Delta) error { cancel(stop); return nil })
		return err
	})()
	if !errors.Is(err, stop) {
		t.Errorf("%v, want the cause of the context", err)
	}
	wait(t, gone, "the service did not see the cancel")
	if _, _, err := complete(ctx, c, ask("hm")); !errors.Is(err, stop) {
		t.Errorf("a context that is done: %v", err)
	}
}

// testAsItComes: each piece is there before the next is thought up.
func testAsItComes(t *testing.T, open OpenCompleter) {
	took := make(chan string)
	c := open(t, func(ctx context.Context, _ llm.Request, give func(llm.Delta) error) (llm.Completion, error) {
		for _, text := range []string{"One. ", "Two. ", "Three."} {
			if err := give(llm.Delta{Text: text}); err != nil {
				return llm.Completion{}, err
			}
			select {
			case got := <-took:
				if got != text {
					return llm.Completion{}, errors.New("another piece: " + got)
				}
			case <-ctx.Done():
				return llm.Completion{}, context.Cause(ctx)
			case <-time.After(patience):
				return llm.Completion{}, errors.New("the piece did not arrive by itself")
			}
		}
		return llm.Completion{Finish: llm.FinishStop}, nil
	})
	_, err := c.Complete(t.Context(), ask("hm"), func(d llm.Delta) error {
		select {
		case took <- d.Text:
		case <-time.After(patience):
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func testManyAtOnce(t *testing.T, open OpenCompleter) {
	c := open(t, func(_ context.Context, r llm.Request, give func(llm.Delta) error) (llm.Completion, error) {
		for range 5 {
			if err := give(llm.Delta{Text: r.Messages[0].Content}); err != nil {
				return llm.Completion{}, err
			}
		}
		return llm.Completion{Finish: llm.FinishStop}, nil
	})
	var wg sync.WaitGroup
	for _, word := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		wg.Go(func() {
			for range 5 {
				if got, _, err := complete(t.Context(), c, ask(word)); got.Text != strings.Repeat(word, 5) || err != nil {
					t.Errorf("%s: %q, %v", word, got.Text, err)
				}
			}
		})
	}
	wg.Wait()
}

// testSlowOut: a voice that takes its time loses nothing.
func testSlowOut(t *testing.T, open OpenCompleter) {
	c := open(t, func(_ context.Context, _ llm.Request, give func(llm.Delta) error) (llm.Completion, error) {
		for range 3 {
			if err := give(llm.Delta{Text: "Word. "}); err != nil {
				return llm.Completion{}, err
			}
		}
		return llm.Completion{Finish: llm.FinishStop}, nil
	})
	text := ""
	_, err := c.Complete(t.Context(), ask("hm"), func(d llm.Delta) error {
		text += d.Text
		timer := time.NewTimer(300 * time.Millisecond)
		defer timer.Stop()
		<-timer.C
		return nil
	})
	if err != nil || text != "Word. Word. Word. " {
		t.Errorf("%q, %v", text, err)
	}
}
