// Package answer puts together what a model answers from the bits that services
// send: words, thoughts that are not to be spoken, and tool calls in pieces.
package answer

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"parley/agent/internal/wire"
	"parley/agent/llm"
)

// The bounds of one answer.
const (
	MaxText  = 1 << 20  // bytes of words, and of the arguments of tool calls
	MaxFrame = 1 << 20  // bytes of one event or line
	MaxBody  = 64 << 20 // bytes of a whole stream: its frames may be many times its words
	maxCalls = 64
)

var (
	errText  = errors.New("the answer has more than 1 MiB of words or arguments")
	errCalls = fmt.Errorf("the answer has more than %d tool calls", maxCalls)
)

// Answer is an answer on its way. It belongs to one goroutine.
type Answer struct {
	// PromptTokens and CompletionTokens are what the service tells, if it does.
	PromptTokens, CompletionTokens int

	out    func(llm.Delta) error
	think  thinking
	text   strings.Builder
	size   int
	calls  []*call
	finish llm.FinishReason // empty: the service has not said that it is done
}

// New is an answer whose words go to out.
func New(out func(llm.Delta) error) *Answer { return &Answer{out: out} }

// OutError is an error of whoever takes the words: none of the service's.
type OutError struct{ Err error }

func (e *OutError) Error() string { return e.Err.Error() }

// Unwrap is the error of out.
func (e *OutError) Unwrap() error { return e.Err }

// Text takes the next words. Thoughts at their head, between <think> and </think>, are
// told as such.
func (a *Answer) Text(text string) error {
	words, thought := a.think.write(llm.ValidText(text))
	return a.give(words, thought)
}

// Thought takes text of the model's reasoning.
func (a *Answer) Thought(text string) error { return a.give("", llm.ValidText(text)) }

func (a *Answer) give(words, thought string) error {
	if words == "" && thought == "" {
		return nil
	}
	if a.size += len(words); a.size > MaxText {
		return errText
	}
	a.text.WriteString(words)
	if err := a.out(llm.Delta{Text: words, Thought: thought}); err != nil {
		return &OutError{err}
	}
	return nil
}

// HasContent says whether there are words, or tool calls.
func (a *Answer) HasContent() bool { return a.text.Len() > 0 || len(a.calls) > 0 || a.think.holds() }

// Done says that the service is done, and why in its own word.
func (a *Answer) Done(reason string) {
	switch strings.ToLower(reason) {
	case "length", "max_tokens", "max_output_tokens":
		a.finish = llm.FinishLength
	case "content_filter", "safety", "refusal":
		a.finish = llm.FinishFiltered
	case "tool_calls", "function_call", "tool_use":
		a.finish = llm.FinishToolCalls
	default:
		a.finish = llm.FinishStop
	}
}

// Finished says whether the service has said that it is done.
func (a *Answer) Finished() bool { return a.finish != "" }

// Partial is what there is of an answer that failed.
func (a *Answer) Partial() llm.Completion {
	return llm.Completion{
		Text: a.text.String(), Finish: a.finish,
		PromptTokens: a.PromptTokens, CompletionTokens: a.CompletionTokens,
	}
}

// Close gives the words that are left, and returns the whole answer.
func (a *Answer) Close() (llm.Completion, error) {
	words, thought := a.think.end()
	if err := a.give(words, thought); err != nil {
		return a.Partial(), err
	}
	c := a.Partial()
	for _, call := range a.calls {
		if call.name == "" {
			continue // nobody could run it
		}
		c.ToolCalls = append(c.ToolCalls, llm.ToolCall{ID: call.id, Name: call.name, Arguments: Arguments(call.arguments.String())})
	}
	for i := range c.ToolCalls {
		if c.ToolCalls[i].ID == "" {
			c.ToolCalls[i].ID = "call_" + rand.Text()
		}
	}
	switch {
	case len(c.ToolCalls) > 0 && c.Finish != llm.FinishLength:
		c.Finish = llm.FinishToolCalls // many services say "stop"
	case c.Finish == "", len(c.ToolCalls) == 0 && c.Finish == llm.FinishToolCalls:
		c.Finish = llm.FinishStop
	}
	if strings.TrimSpace(c.Text) == "" && len(c.ToolCalls) == 0 {
		return c, fmt.Errorf("%w (%s)", llm.ErrEmpty, c.Finish)
	}
	return c, nil
}

// call is a tool call on its way.
type call struct {
	index     int
	id, name  string
	arguments strings.Builder
}

// CallPart is a piece of a tool call.
type CallPart struct {
	// Index says which call it belongs to; negative: the service does not say.
	Index     int
	ID, Name  string
	Arguments string
}

// Call takes a piece of a tool call. Services differ: most number the calls and give
// the id and the name with the first piece; some give no number, or the same for all,
// and whole calls; some repeat id and name with each piece.
func (a *Answer) Call(p CallPart) error {
	if a.size += len(p.Name) + len(p.Arguments) + len(p.ID); a.size > MaxText {
		return errText
	}
	c := a.find(p)
	if c == nil {
		if len(a.calls) == maxCalls {
			return errCalls
		}
		c = &call{index: p.Index, id: p.ID}
		a.calls = append(a.calls, c)
	}
	if c.id == "" {
		c.id = p.ID
	}
	if p.Name != c.name {
		c.name += p.Name
	}
	c.arguments.WriteString(llm.ValidText(p.Arguments))
	// A sign of life: arguments can take longer than a model may be silent.
	if err := a.out(llm.Delta{}); err != nil {
		return &OutError{err}
	}
	return nil
}

// find is the call that a piece goes on with; nil: it begins one.
func (a *Answer) find(p CallPart) *call {
	if p.ID != "" {
		for _, c := range a.calls {
			if c.id == p.ID {
				return c
			}
		}
	}
	for i := len(a.calls) - 1; i >= 0; i-- {
		c := a.calls[i]
		if p.Index >= 0 && p.Index != c.index {
			continue
		}
		switch {
		case p.ID != "" && c.id != "": // another one's, with the same number or none
			return nil
		case p.Index < 0 && p.Name != "" && c.name != "":
			return nil
		case p.ID == "" && p.Name != "" && p.Arguments != "" && whole(c):
			return nil // whole calls that all have the number 0
		}
		return c
	}
	return nil
}

// whole says whether a call needs nothing more.
func whole(c *call) bool {
	return c.name != "" && c.arguments.Len() > 0 && json.Valid([]byte(c.arguments.String()))
}

// Arguments are what a model wrote as arguments, as llm.ToolCall has them.
func Arguments(text string) json.RawMessage {
	raw := bytes.TrimSpace([]byte(text))
	if len(raw) == 0 || string(raw) == "null" || string(raw) == `""` {
		return json.RawMessage("{}")
	}
	if isObject(raw) {
		return raw
	}
	var inner string // an object within a text
	if json.Unmarshal(raw, &inner) == nil {
		if inner := bytes.TrimSpace([]byte(inner)); isObject(inner) {
			return inner
		}
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage("{}")
	}
	return quoted
}

func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' && json.Valid(raw) }

// Written is the text of Arguments as the model wrote it.
func Written(arguments json.RawMessage) string {
	var text string
	if json.Unmarshal(arguments, &text) == nil && len(bytes.TrimSpace(arguments)) > 0 {
		return text
	}
	if len(bytes.TrimSpace(arguments)) == 0 {
		return "{}"
	}
	return string(arguments)
}

// Refused is an error of wire.Service.Post as a Completer returns it.
func Refused(err error) error {
	var status *wire.StatusError
	if errors.As(err, &status) && wire.Busy(status.Code) {
		return fmt.Errorf("%w: %w", llm.ErrBusy, err)
	}
	return err
}

// Failed is an error of reading an answer as a Completer returns it: that of out as it
// is, the cause of a ctx that is done, and what the service did wrong with its name.
func Failed(ctx context.Context, s *wire.Service, err error) error {
	var given *OutError
	if errors.As(err, &given) {
		return given.Err
	}
	var said *ServiceError
	switch {
	case errors.Is(err, llm.ErrEmpty):
		return fmt.Errorf("%s: %s: %w", s.Room, s.Address, err)
	case ctx.Err() != nil || !errors.As(err, &said):
		return s.Explain(ctx, err)
	}
	what := "reported an error"
	if said.What != "" {
		what = said.What
	}
	if text := wire.Clean(said.Text, s.Secrets...); text != "" {
		what += ": " + text
	}
	err = fmt.Errorf("%s: %s %s", s.Room, s.Address, what)
	if said.Busy {
		return fmt.Errorf("%w: %w", llm.ErrBusy, err)
	}
	return err
}

// ServiceError is what a service reports in the midst of an answer, or did wrong.
type ServiceError struct {
	// What it did; empty: it reported an error.
	What string
	// Text is the service's own, not to be trusted.
	Text string
	// Busy says that it has no capacity.
	Busy bool
}

func (e *ServiceError) Error() string { return strings.TrimSpace(e.What + " " + e.Text) }
