package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"parley/agent/chat"
	"parley/agent/llm"
	"parley/agent/tool"
)

// oneShotTime bounds a run outside of the conversation.
const oneShotTime = 10 * time.Second

// NewClient makes an llm.Client of a model: the same conversation as New has, with
// tools that the client's owner runs. Of cfg, what is about the memory of callers,
// retrieval and acting on calls is not used. The Client is a TurnTaker, a Hearer and a
// Closer as well; without being told what was heard it takes what was generated, up to
// where a Chat was cancelled, for it.
func NewClient(completer llm.Completer, cfg Config) (llm.Client, error) {
	cfg.Memory, cfg.Greeting = MemoryConfig{}, ""
	p, err := New(cfg, completer, Parts{})
	if err != nil {
		return nil, err
	}
	own, ok := p.(*provider)
	if !ok {
		return nil, errors.New("runtime: no provider of its own")
	}
	c := &client{completer: completer, cfg: cfg}
	c.m, err = newModel(context.Background(), own, whole(llm.Conversation{}), func(m *model) (hands, error) {
		c.hands = &clientTools{m: m, timeout: cfg.ToolTimeout}
		return c.hands, nil
	})
	return c, err
}

// client is a conversation whose tools somebody else runs.
type client struct {
	m         *model
	hands     *clientTools
	completer llm.Completer
	cfg       Config

	mu   sync.Mutex
	turn *llm.Turn // what was told of the turn that the next Chat answers
	cut  bool      // the last Chat was cancelled
}

// Chat implements llm.Client.
func (c *client) Chat(ctx context.Context, userText string, onChunk, onSentence func(string)) (string, error) {
	c.mu.Lock()
	t := llm.Turn{Text: userText}
	if c.turn != nil {
		t = *c.turn
		t.Text = userText
	}
	c.turn = nil
	cut := c.cut && !t.WasInterrupted
	c.mu.Unlock()
	if cut {
		c.m.pair.Assistant().Stop(chat.Uttered{Heard: chat.Plain(c.m.pair.Assistant().Generated()), Interrupted: true})
	}
	var said strings.Builder
	sentences := chat.NewSentences("")
	tell := func(pieces []string) {
		for _, p := range pieces {
			if onSentence != nil {
				onSentence(p)
			}
		}
	}
	err := c.m.Reply(ctx, t, func(chunk llm.Chunk) error {
		said.WriteString(chunk.Text)
		if onChunk != nil && chunk.Text != "" {
			onChunk(chunk.Text)
		}
		tell(sentences.Write(chunk.Text, true))
		return context.Cause(ctx)
	})
	if err == nil {
		tell(sentences.Flush())
	}
	c.mu.Lock()
	c.cut = ctx.Err() != nil
	c.mu.Unlock()
	return said.String(), err
}

// TakeTurn implements llm.TurnTaker.
func (c *client) TakeTurn(t llm.Turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A Client has no way to say that a turn is not complete.
	t.Tentative = false
	c.turn = &t
}

// OneShot implements llm.Client.
func (c *client) OneShot(ctx context.Context, system, user string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, oneShotTime)
	defer cancel()
	var messages []chat.Message
	for _, m := range []chat.Message{{Role: chat.RoleSystem, Content: system}, {Role: chat.RoleUser, Content: user}} {
		if m.Content != "" {
			messages = append(messages, m)
		}
	}
	done, err := c.completer.Complete(ctx, llm.Request{Messages: messages, MaxTokens: c.cfg.MaxTokens, Temperature: c.cfg.Temperature}, func(llm.Delta) error { return nil })
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case err == nil && strings.TrimSpace(done.Text) == "":
		err = llm.ErrEmpty
	}
	return done.Text, err
}

// SetTools implements llm.Client.
func (c *client) SetTools(tools []llm.ToolDefinition) {
	c.hands.mu.Lock()
	defer c.hands.mu.Unlock()
	c.hands.tools = append([]llm.ToolDefinition(nil), tools...)
}

// SetToolHandler implements llm.Client.
func (c *client) SetToolHandler(handler func(ctx context.Context, call llm.ToolCall) (string, error)) {
	c.hands.mu.Lock()
	defer c.hands.mu.Unlock()
	c.hands.handler = handler
}

// AppendSystemPrompt implements llm.Client.
func (c *client) AppendSystemPrompt(text string) {
	if c.m.prompt.add(text) {
		c.m.pair.Context().SetSystem(c.m.prompt.text())
	}
}

// Reset implements llm.Client.
func (c *client) Reset() {
	c.mu.Lock()
	c.turn, c.cut = nil, false
	c.mu.Unlock()
	c.m.reset()
}

// Heard implements llm.Hearer.
func (c *client) Heard(h llm.Heard) { c.m.Heard(h) }

// CallerSpeaks implements llm.Hearer.
func (c *client) CallerSpeaks() { c.m.CallerSpeaks() }

// Close implements llm.Closer.
func (c *client) Close(ctx context.Context, e llm.End) { c.m.Close(ctx, e) }

// clientTools are the tools of a Client, which its owner runs.
type clientTools struct {
	m       *model
	timeout time.Duration
	tasks   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	tools   []llm.ToolDefinition
	handler func(context.Context, llm.ToolCall) (string, error)
}

// definitions implements hands.
func (h *clientTools) definitions() []llm.ToolDefinition {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.handler == nil {
		return nil
	}
	return h.tools
}

// start implements hands. A call ends with the Chat that it was made in.
func (h *clientTools) start(ctx context.Context, call chat.ToolCall) {
	h.mu.Lock()
	handler := h.handler
	known := false
	for _, d := range h.tools {
		known = known || d.Name == call.Name
	}
	if h.closed || handler == nil || !known {
		h.mu.Unlock()
		h.answer(call, "", fmt.Errorf("unknown tool: %q", tool.CleanText(call.Name, 128)))
		return
	}
	h.tasks.Add(1)
	h.mu.Unlock()
	go func() {
		defer h.tasks.Done()
		if h.timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, h.timeout)
			defer cancel()
		}
		result, err := guarded(ctx, handler, call)
		h.answer(call, result, err)
	}()
}

// guarded runs a handler; a panic of it becomes an error.
func guarded(ctx context.Context, handler func(context.Context, llm.ToolCall) (string, error), call llm.ToolCall) (result string, err error) {
	defer func() {
		if recover() != nil {
			result, err = "", tool.ErrPanicked
		}
	}()
	return handler(ctx, call)
}

func (h *clientTools) answer(call chat.ToolCall, result string, err error) {
	if err != nil {
		text, _ := json.Marshal(map[string]string{"error": tool.CleanText(err.Error(), 600)}) // strings can be told
		result = string(text)
	}
	h.m.answered(call.ID, call.Name, bounded(result, tool.DefaultMaxResult), "")
}

// waits implements hands.
func (h *clientTools) waits(string) bool { return true }

// interrupt implements hands: a Client's calls end with its Chat.
func (h *clientTools) interrupt() {}

// close implements hands.
func (h *clientTools) close(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	ended := make(chan struct{})
	go func() { h.tasks.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("runtime: a tool does not end: %w", context.Cause(ctx))
	}
}

var (
	_ llm.TurnTaker = (*client)(nil)
	_ llm.Hearer    = (*client)(nil)
	_ llm.Closer    = (*client)(nil)
)
