package llm

import (
	"context"
	"errors"

	"parley/agent/chat"
)

// Completer runs a language model once over a conversation that somebody else
// keeps: an OpenAI-compatible service, Ollama. It is stateless and safe for
// concurrent use. llmtest.RunCompleter is the suite that all of them pass.
type Completer interface {
	// Complete gives the model's answer to r, piece by piece and in order, to out,
	// which may block. It returns when the answer is complete. An error of out ends
	// the run and is returned. ctx ends it at once, with its cause; the service sees
	// the connection or stream close. How long a service may be silent is for whoever
	// owns ctx to say: out is called for each sign of life, with an empty Delta for one
	// without words and thoughts, such as a piece of a tool call.
	//
	// A request that did not reach the service, or that it had no room for, is sent once
	// more by the Completer itself, after what the service asks for when that is short.
	// On failure what was given before stands, and the Completion holds it.
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

// ToolCall is a model's wish to call a tool. Its ID is never empty, and made up where
// a service gives none. What a model wrote as Arguments that is no JSON object is here
// as a JSON string, which the schema of no tool takes; empty Arguments are "{}".
type ToolCall = chat.ToolCall

// Delta is a piece of an answer; an empty one says that the model is at work.
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

// Embedder turns texts into vectors, for retrieval. Safe for concurrent use.
type Embedder interface {
	// Embed gives one vector for each text, in order and all of the same length.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// ErrEmpty is wrapped when a model ended its answer without a word and without a
// tool call.
var ErrEmpty = errors.New("llm: the model answered nothing")

// ErrBusy is wrapped when a service has no capacity or limits the rate (429, 503).
var ErrBusy = errors.New("llm: the service is busy")
