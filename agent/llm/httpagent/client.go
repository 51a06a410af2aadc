package httpagent

import (
	"context"
	"strings"
	"sync"

	"parley/agent/chat"
	"parley/agent/llm"
)

// NewClient opens a conversation with the agent as an llm.Client, for llm.FromClients
// and for programs that want the six methods. The agent keeps the conversation and has
// tools of its own: SetTools and SetToolHandler do nothing. Of its actions a Client can
// only hang up, when c has a Line; it is a TurnTaker, Hearer, Refuser, Prefetcher and
// Closer as well.
func (p *Provider) NewClient(ctx context.Context, c llm.Conversation) (llm.Client, error) {
	m, err := p.open(ctx, c)
	if err != nil {
		return nil, err
	}
	return &client{Model: m}, nil
}

// client is a Model as a Client. Of the Model's methods those of llm.Client, Hearer,
// Refuser, Prefetcher and Closer are its own.
type client struct {
	*Model

	mu   sync.Mutex
	turn *llm.Turn // what was told of the turn that the next Chat answers
}

var (
	_ llm.Client     = (*client)(nil)
	_ llm.TurnTaker  = (*client)(nil)
	_ llm.Hearer     = (*client)(nil)
	_ llm.Refuser    = (*client)(nil)
	_ llm.Prefetcher = (*client)(nil)
	_ llm.Closer     = (*client)(nil)
)

// TakeTurn implements llm.TurnTaker.
func (c *client) TakeTurn(t llm.Turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn = &t
}

// Chat implements llm.Client.
func (c *client) Chat(ctx context.Context, userText string, onChunk, onSentence func(string)) (string, error) {
	c.mu.Lock()
	t := llm.Turn{}
	if c.turn != nil {
		t = *c.turn
	}
	t.Text, c.turn = userText, nil
	c.mu.Unlock()
	var said strings.Builder
	sentences := chat.NewSentences("")
	tell := func(pieces []string) {
		for _, p := range pieces {
			if onSentence != nil {
				onSentence(p)
			}
		}
	}
	err := c.Reply(ctx, t, func(chunk llm.Chunk) error {
		if chunk.Action != nil {
			c.act(*chunk.Action)
		}
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
	return said.String(), err
}

// act does what a Client can do of an action.
func (c *client) act(a llm.Action) {
	if line := c.conversation.Line; a.Kind == llm.Hangup && line != nil {
		line.HangUp()
		return
	}
	c.Refused(string(a.Kind) + " is not possible in this call.")
}

// SetTools implements llm.Client.
func (c *client) SetTools([]llm.ToolDefinition) {}

// SetToolHandler implements llm.Client.
func (c *client) SetToolHandler(func(ctx context.Context, call llm.ToolCall) (string, error)) {}
