package llm

import (
	"context"
	"errors"

	"parley/agent/chat"
)

// Completer runs a language model once over a conversation that somebody else
// keeps: an OpenAI-compatible service, Ollama. It is stateless and safe for
// concurrent use.
type Completer interface {
	// Complete gives the model's answer to r, piece by piece and in order, to out,
	// which may block. It returns when the answer is complete. An error of out ends
	// the run and is returned. ctx ends it at once; the service sees the connection
	// or stream close.
	Complete(ctx context.Context, r Request, out func(Delta) error) (Completion, error)
}

// Request is what a model is run over.
type Request struct {
	Messages []chat.Message
	// Tools are what the model may call; none: it may only talk.
	Tools []ToolDefinition
	// MaxTokens bounds the answer; 0: the service's own bound.
	MaxTokens int
	// Temperature; nil: the service's own.
	Temperature *float64
	// JSON asks for an answer that is one JSON object.
	JSON bool
}

// ToolDefinition is a tool as a model is told of it.
type ToolDefinition struct {
	Name, Description string
	// Parameters is the JSON Schema of the arguments; nil: none.
	Parameters map[string]any
}

// ToolCall is a model's wish to call a tool.
type ToolCall = chat.ToolCall

// Delta is a piece of an answer.
type Delta struct {
	// Text is words to speak, of any length; a rune is never split.
	Text string
	// Thought is text of the model's reasoning, which is never spoken.
	Thought string
}

// FinishReason says why a model stopped.
type FinishReason string

// The reasons.
const (
	FinishStop      FinishReason = "stop"
	FinishLength    FinishReason = "length" // MaxTokens, or the service's bound
	FinishToolCalls FinishReason = "tool_calls"
	FinishFiltered  FinishReason = "filtered" // the service refused the content
)

// Completion is a whole answer.
type Completion struct {
	Text      string
	ToolCalls []ToolCall // whole, in the model's order
	Finish    FinishReason
	// Tokens of the request and of the answer; 0 where the service does not tell.
	PromptTokens, CompletionTokens int
}

// ErrEmpty is wrapped when a model ended its answer without a word and without a
// tool call.
var ErrEmpty = errors.New("llm: the model answered nothing")

// ErrBusy is wrapped when a service has no capacity or limits the rate (429, 503).
var ErrBusy = errors.New("llm: the service is busy")
