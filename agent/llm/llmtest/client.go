package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/agent/chat"
	"parley/agent/llm"
)

// Asked is what a client asked its server, as far as the protocol tells.
type Asked struct {
	// Session is the conversation's id, of servers that keep the conversation.
	Session string
	// System is the instructions.
	System string
	// History are the texts of the caller and of the model before Text, of clients that
	// keep the conversation.
	History []string
	// Text is what the caller said.
	Text string
	// Tools are the names of those that the model may call.
	Tools []string
	// Results are the answers to the tools that it called for Text, in order.
	Results []string
}

// ClientBackend is what stands behind a client in the suite. say sends words at once,
// and fails when the client has gone. The tool calls it returns come after them; once
// answered, it is asked again with Asked.Results.
type ClientBackend func(ctx context.Context, a Asked, say func(words string) error) ([]llm.ToolCall, error)

// OpenClient starts a server on loopback with b behind it and returns a client of it in
// a conversation that has just begun. Both end with the test.
type OpenClient func(t *testing.T, b ClientBackend) llm.Client

// Service has b answer the requests of a completer, for clients that are made over one.
func (b ClientBackend) Service() Service {
	return func(ctx context.Context, r llm.Request, give func(llm.Delta) error) (llm.Completion, error) {
		calls, err := b(ctx, askedOf(r), func(words string) error { return give(llm.Delta{Text: words}) })
		done := llm.Completion{Finish: llm.FinishStop, ToolCalls: calls}
		if len(calls) > 0 {
			done.Finish = llm.FinishToolCalls
		}
		return done, err
	}
}

func askedOf(r llm.Request) Asked {
	var a Asked
	var system []string
	for _, m := range r.Messages {
		switch m.Role {
		case chat.RoleSystem, chat.RoleDeveloper:
			system = append(system, m.Content)
		case chat.RoleUser:
			if a.Text != "" {
				a.History = append(a.History, a.Text)
			}
			a.Text, a.Results = m.Content, nil
		case chat.RoleAssistant:
			if a.Text != "" && m.Content != "" {
				a.History = append(a.History, m.Content)
			}
		case chat.RoleTool:
			a.Results = append(a.Results, m.Content)
		}
	}
	a.System = strings.Join(system, "\n\n")
	for _, t := range r.Tools {
		a.Tools = append(a.Tools, t.Name)
	}
	return a
}

// RunClient is the suite that every llm.Client passes.
func RunClient(t *testing.T, open OpenClient) {
	for name, test := range map[string]func(*testing.T, OpenClient){
		"words":         testChatWords,
		"as it comes":   testChatAsItComes,
		"one shot":      testClientOneShot,
		"instructions":  testInstructions,
		"reset":         testReset,
		"cancelled":     testChatCancelled,
		"fails":         testChatFails,
		"at once":       testClientAtOnce,
		"interruptions": testChatInterrupted,
	} {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

// RunClientTools is the suite that clients pass whose tools are the gateway's.
func RunClientTools(t *testing.T, open OpenClient) {
	for name, test := range map[string]func(*testing.T, OpenClient){
		"offered": testToolsOffered,
		"called":  testToolsCalled,
	} {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

// log is what a backend was asked.
type log struct {
	mu    sync.Mutex
	asked []Asked
}

func (l *log) note(a Asked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, a)
}

// last is what was asked last.
func (l *log) last() Asked {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.asked) == 0 {
		return Asked{}
	}
	return l.asked[len(l.asked)-1]
}

// echoes answers with words, and notes what it was asked.
func (l *log) echoes(words ...string) ClientBackend {
	return func(_ context.Context, a Asked, say func(string) error) ([]llm.ToolCall, error) {
		l.note(a)
		for _, w := range words {
			if err := say(w); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
}

func testChatWords(t *testing.T, open OpenClient) {
	var l log
	c := open(t, l.echoes("It is 39.99 ", "in Rom", "e. Wörld 😀", " is fine"))
	whole := "It is 39.99 in Rome. Wörld 😀 is fine"
	for _, heard := range []string{"hm", "what's <b>\"39.99\"</b> & ünïcode 😀?"} {
		chunks, sentences := "", []string(nil)
		got, err := c.Chat(t.Context(), heard, func(s string) { chunks += s }, func(s string) { sentences = append(sentences, s) })
		if err != nil || got != whole || chunks != whole {
			t.Errorf("returned %q, chunks %q, %v; want %q", got, chunks, err, whole)
		}
		if squeeze(sentences...) != squeeze(whole) || len(sentences) < 2 {
			t.Errorf("sentences %q", sentences)
		}
		if l.last().Text != heard {
			t.Errorf("the server heard %q, want exactly %q", l.last().Text, heard)
		}
	}
	if got, err := c.Chat(t.Context(), "hm", nil, nil); got != whole || err != nil {
		t.Errorf("without callbacks: %q, %v", got, err)
	}
}

// squeeze is texts without white space.
func squeeze(texts ...string) string {
	return strings.Join(strings.Fields(strings.Join(texts, " ")), "")
}

// testChatAsItComes: a sentence is there before the next is thought up, and callbacks
// that block hold nothing back but the words.
func testChatAsItComes(t *testing.T, open OpenClient) {
	took := make(chan string, 8)
	c := open(t, func(ctx context.Context, _ Asked, say func(string) error) ([]llm.ToolCall, error) {
		if err := say("This is the first sentence. And "); err != nil {
			return nil, err
		}
		select {
		case <-took:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(patience):
			return nil, errors.New("the sentence did not arrive by itself")
		}
		return nil, say("a second.")
	})
	got, err := c.Chat(t.Context(), "hm", nil, func(s string) {
		took <- s
		timer := time.NewTimer(100 * time.Millisecond)
		defer timer.Stop()
		<-timer.C
	})
	if err != nil || got != "This is the first sentence. And a second." {
		t.Errorf("%q, %v", got, err)
	}
}

func testClientOneShot(t *testing.T, open OpenClient) {
	var l log
	c := open(t, l.echoes("Fine."))
	c.AppendSystemPrompt("Sell hats.")
	if _, err := c.Chat(t.Context(), "first turn", nil, nil); err != nil {
		t.Fatal(err)
	}
	first := l.last()
	got, err := c.OneShot(t.Context(), "Sum this up.", "words to sum up")
	a := l.last()
	if got != "Fine." || err != nil || a.Text != "words to sum up" || strings.TrimSpace(a.System) != "Sum this up." || len(a.History)+len(a.Tools) != 0 {
		t.Errorf("%q, %v; the server was asked %+v", got, err, a)
	}
	if _, err := c.Chat(t.Context(), "second turn", nil, nil); err != nil {
		t.Fatal(err)
	}
	second := l.last()
	if strings.Contains(strings.Join(second.History, " ")+second.System, "sum") || second.Session != first.Session {
		t.Errorf("it has changed the conversation: %+v", second)
	}
	knows(t, second, "first turn", true)
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := c.OneShot(ctx, "", "x"); !errors.Is(err, stop) {
		t.Errorf("a context that is done: %v", err)
	}
}

// knows checks whether a request is of a conversation in which text was said.
func knows(t *testing.T, a Asked, text string, want bool) {
	t.Helper()
	if a.Session != "" {
		return // the server knows
	}
	if got := strings.Contains(strings.Join(a.History, "|"), text); got != want {
		t.Errorf("%q in the conversation: %v, want %v: %q", text, got, want, a.History)
	}
}

func testInstructions(t *testing.T, open OpenClient) {
	var l log
	c := open(t, l.echoes("Fine."))
	for _, text := range []string{"Be brief.", "Sell hats.", "Be brief.", " "} {
		c.AppendSystemPrompt(text)
	}
	for i := range 2 {
		if _, err := c.Chat(t.Context(), "hm", nil, nil); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"Be brief.", "Sell hats."} {
			if n := strings.Count(l.last().System, text); n != 1 {
				t.Errorf("%d: %q stands %d times in %q, want once", i, text, n, l.last().System)
			}
		}
		c.Reset()
		c.AppendSystemPrompt("Sell hats.")
	}
}

func testReset(t *testing.T, open OpenClient) {
	var l log
	c := open(t, l.echoes("Fine."))
	chat := func(text string) Asked {
		t.Helper()
		if _, err := c.Chat(t.Context(), text, nil, nil); err != nil {
			t.Fatal(err)
		}
		return l.last()
	}
	first, second := chat("my name is Ann"), chat("so?")
	if first.Session != second.Session {
		t.Errorf("the conversation %q became %q", first.Session, second.Session)
	}
	knows(t, second, "my name is Ann", true)
	c.Reset()
	third := chat("who am I?")
	if third.Session != "" && third.Session == first.Session {
		t.Errorf("the conversation is still %q", third.Session)
	}
	knows(t, third, "Ann", false)
}

func testChatCancelled(t *testing.T, open OpenClient) {
	gone := make(chan struct{}, 1)
	c := open(t, func(ctx context.Context, a Asked, say func(string) error) ([]llm.ToolCall, error) {
		if a.Text == "again" {
			return nil, say("Yes.")
		}
		_ = say("One sentence. ")
		<-ctx.Done()
		gone <- struct{}{}
		return nil, context.Cause(ctx)
	})
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	got := ""
	err := background(t, func() (err error) {
		got, err = c.Chat(ctx, "hm", func(string) { cancel(stop) }, nil)
		return err
	})()
	if !errors.Is(err, stop) && !errors.Is(err, context.Canceled) || strings.TrimSpace(got) != "One sentence." {
		t.Errorf("%q, %v; want what was generated and the error of the context", got, err)
	}
	wait(t, gone, "the server did not see the cancel")
	if got, err := c.Chat(t.Context(), "again", nil, nil); got != "Yes." || err != nil {
		t.Errorf("the next turn: %q, %v", got, err)
	}
}

func testChatFails(t *testing.T, open OpenClient) {
	var mended atomic.Bool
	c := open(t, func(_ context.Context, _ Asked, say func(string) error) ([]llm.ToolCall, error) {
		if mended.Load() {
			return nil, say("Fine.")
		}
		if err := say("Half a "); err != nil {
			return nil, err
		}
		return nil, errors.New("the model fell over")
	})
	if got, err := c.Chat(t.Context(), "hm", nil, nil); err == nil || strings.TrimSpace(got) != "Half a" {
		t.Errorf("%q, %v; want what was generated and an error", got, err)
	}
	mended.Store(true)
	if got, err := c.Chat(t.Context(), "hm", nil, nil); got != "Fine." || err != nil {
		t.Errorf("the next turn: %q, %v", got, err)
	}
}

// testClientAtOnce: everything but Chat may be called while a Chat runs.
func testClientAtOnce(t *testing.T, open OpenClient) {
	reached, release := make(chan struct{}), make(chan struct{})
	c := open(t, func(ctx context.Context, a Asked, say func(string) error) ([]llm.ToolCall, error) {
		if a.Text != "slow" {
			return nil, say("Quick.")
		}
		close(reached)
		select {
		case <-release:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		return nil, say("Slow.")
	})
	done := background(t, func() error {
		got, err := c.Chat(t.Context(), "slow", nil, nil)
		if err == nil && got != "Slow." {
			err = errors.New("got " + got)
		}
		return err
	})
	wait(t, reached, "the server was not asked")
	if got, err := c.OneShot(t.Context(), "Sum up.", "words"); got != "Quick." || err != nil {
		t.Errorf("one shot: %q, %v", got, err)
	}
	c.AppendSystemPrompt("Be brief.")
	c.SetTools(nil)
	c.SetToolHandler(nil)
	close(release)
	if err := done(); err != nil {
		t.Error(err)
	}
}

// testChatInterrupted: what was heard of a reply that was cut off is no part of what
// the caller said.
func testChatInterrupted(t *testing.T, open OpenClient) {
	var l log
	c := open(t, l.echoes("Fine."))
	if taker, ok := c.(llm.TurnTaker); ok {
		taker.TakeTurn(llm.Turn{Text: "wait", WasInterrupted: true, Interrupted: "Our hours are"})
	}
	if _, err := c.Chat(t.Context(), "wait", nil, nil); err != nil || l.last().Text != "wait" {
		t.Errorf("the server heard %q, %v", l.last().Text, err)
	}
	for _, name := range []string{"Our hours", "nterrupted"} {
		if strings.Contains(l.last().Text, name) {
			t.Errorf("%q stands in %q", name, l.last().Text)
		}
	}
}

var aTool = llm.ToolDefinition{Name: "get_price", Description: "What something costs.", Parameters: map[string]any{
	"type": "object", "properties": map[string]any{"item": map[string]any{"type": "string"}}, "required": []any{"item"},
}}

func testToolsOffered(t *testing.T, open OpenClient) {
	var l log
	c := open(t, l.echoes("Fine."))
	offered := func(want string) {
		t.Helper()
		if _, err := c.Chat(t.Context(), "hm", nil, nil); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(l.last().Tools, " "); got != want {
			t.Errorf("tools %q, want %q", got, want)
		}
	}
	c.SetTools([]llm.ToolDefinition{aTool})
	offered("") // nobody would run it
	c.SetToolHandler(func(context.Context, llm.ToolCall) (string, error) { return "{}", nil })
	offered("get_price")
	other := aTool
	other.Name = "get_time"
	c.SetTools([]llm.ToolDefinition{other})
	c.Reset()
	offered("get_time")
	c.SetTools(nil)
	offered("")
}

func testToolsCalled(t *testing.T, open OpenClient) {
	var l log
	c := open(t, func(_ context.Context, a Asked, say func(string) error) ([]llm.ToolCall, error) {
		l.note(a)
		if len(a.Results) > 0 {
			return nil, say("Done.")
		}
		return []llm.ToolCall{
			{ID: "a", Name: "get_price", Arguments: json.RawMessage(`{"item":"hat"}`)},
			{ID: "b", Name: "get_price", Arguments: json.RawMessage(`{"item":"gold"}`)},
		}, nil
	})
	c.SetTools([]llm.ToolDefinition{aTool})
	var mu sync.Mutex
	var ran []string
	c.SetToolHandler(func(_ context.Context, call llm.ToolCall) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		ran = append(ran, call.Name+string(call.Arguments))
		if strings.Contains(string(call.Arguments), "gold") {
			return "", errors.New("no gold here")
		}
		return `{"price": "39.99"}`, nil
	})
	got, err := c.Chat(t.Context(), "what is a hat?", nil, nil)
	if got != "Done." || err != nil || len(ran) != 2 {
		t.Fatalf("%q, %v, ran %q", got, err, ran)
	}
	results := l.last().Results
	if len(results) != 2 || results[0] != `{"price": "39.99"}` {
		t.Fatalf("results %q, want them as they are", results)
	}
	var failed struct{ Error string }
	if json.Unmarshal([]byte(results[1]), &failed) != nil || failed.Error == "" {
		t.Errorf("the error is told as %q, want {\"error\": …}", results[1])
	}
}
