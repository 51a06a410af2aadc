package llm

import "context"

// Client is a model that keeps its own conversation: the interface for agents written
// in Go against the six methods below. FromClients makes a Provider of it, and
// llmtest.RunClient is the suite that clients pass. A Client belongs to one
// conversation; Chat runs at most once at a time, the other methods may be called
// from any goroutine.
//
// A Client may be a TurnTaker, Hearer, Refuser, Prefetcher and Closer as well.
type Client interface {
	// Chat gives the reply to one turn of the caller and returns all of it. onChunk
	// takes the text as it streams, onSentence each sentence as soon as it is
	// complete, the rest at the end; either may be nil, may block, and is not called
	// after Chat returned. Tool calls are run by the handler on the way. When ctx is
	// done Chat returns its error, and what was generated so far.
	Chat(ctx context.Context, userText string, onChunk func(string), onSentence func(string)) (string, error)
	// OneShot is a single run outside of the conversation, which it neither reads nor
	// changes.
	OneShot(ctx context.Context, system, user string) (string, error)
	// SetTools replaces the tools that the model may call, from the next run on.
	SetTools(tools []ToolDefinition)
	// SetToolHandler sets who runs them. The result is told to the model as it is; an
	// error as {"error": …}. Without a handler tools are not offered.
	SetToolHandler(handler func(ctx context.Context, call ToolCall) (string, error))
	// AppendSystemPrompt adds instructions. Each text counts once, however often it is
	// appended, and stays across a Reset.
	AppendSystemPrompt(text string)
	// Reset begins a new conversation; instructions and tools stay.
	Reset()
}

// TurnTaker is what a Client may be as well: it is told what goes with the text of a
// turn, which is exactly what the caller said and has no room for it. A Client that
// is none is asked only when there are words.
type TurnTaker interface {
	// TakeTurn comes right before the Chat that answers t, on the same goroutine:
	// what was heard of a reply that the turn cut off, that the text was keyed in, that
	// nothing was said or understood.
	TakeTurn(t Turn)
}

// Closer is what a Client may be as well.
type Closer interface {
	// Close ends the conversation, once, when no Chat runs any more.
	Close(ctx context.Context, e End)
}
