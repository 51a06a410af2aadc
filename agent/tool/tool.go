// Package tool is what an agent may do besides talking: functions that a model
// calls by name. A ToolRegistry holds them, a Dispatcher runs the calls of one
// conversation, a Gate keeps those that need it until the caller has said yes.
//
// Model and caller are not trusted here. Arguments are held against the tool's
// schema before the tool sees them, results are bounded, and whether a call is
// allowed is decided by the host and never by what was said.
//
// The package knows neither calls nor models. Tools that are processes are in
// plugin, those of MCP servers in mcp, and tooltest shows that a tool behaves.
package tool

import (
	"context"
	"errors"
	"time"
)

// Schema is a JSON Schema (2020-12) of a tool's arguments or of its result.
type Schema = map[string]any

// Tool is a function that an agent may call. Implementations must be safe for
// concurrent calls.
type Tool interface {
	// Name is what the model calls it by, 1 to 128 of A-Z, a-z, 0-9, '_', '-', '.', ':'.
	Name() string
	// Description tells the model when to call it.
	Description() string
	// InputSchema is the schema of the arguments; nil for a tool without any.
	InputSchema() Schema
	// Invoke does the work. args are the tool's own to change. It should return soon
	// after ctx is done; whoever waits has been answered by then. The result must be
	// something JSON can hold; nil counts as empty. The text of an error is told to
	// the model, so it must not hold secrets.
	Invoke(ctx context.Context, args map[string]any) (map[string]any, error)
}

// ToolBehavior says whether the model waits for a result.
type ToolBehavior string

// The behaviours. Unspecified leaves it to the provider, which means blocking.
const (
	ToolBehaviorUnspecified ToolBehavior = ""
	ToolBehaviorBlocking    ToolBehavior = "blocking"
	ToolBehaviorNonBlocking ToolBehavior = "non_blocking"
)

// ToolResponseScheduling says what the result of a non-blocking tool does to a model
// that is speaking by then.
type ToolResponseScheduling string

// The ways a late result comes back.
const (
	ToolResponseSchedulingUnspecified ToolResponseScheduling = ""
	ToolResponseSchedulingSilent      ToolResponseScheduling = "silent"
	ToolResponseSchedulingWhenIdle    ToolResponseScheduling = "when_idle"
	ToolResponseSchedulingInterrupt   ToolResponseScheduling = "interrupt"
)

// Traits are what there is to know of a tool besides its arguments. The zero value
// is an ordinary tool.
type Traits struct {
	Behavior   ToolBehavior
	Scheduling ToolResponseScheduling
	// Response is the schema of the result, told to models that take one.
	Response Schema
	// Timeout bounds one call; 0 leaves it to the Dispatcher.
	Timeout time.Duration
	// Confirm keeps calls back until the caller has agreed; see Gate.
	Confirm bool
	// Interruptible calls are given up when the caller starts to speak.
	Interruptible bool
	// Internal tools are not shown to the model and not called by it, only by other
	// tools.
	Internal bool
	// ThinkingSound asks for a soft tone while a call takes long.
	ThinkingSound bool
}

// Traited is what a Tool may be as well. Traits is asked once, when it is registered.
type Traited interface{ Traits() Traits }

// Prompter is what a Tool with Traits.Confirm may be as well.
type Prompter interface {
	// ConfirmationPrompt is the question to put to the caller before the tool is
	// called with args.
	ConfirmationPrompt(ctx context.Context, args map[string]any) (string, error)
}

// ToolDefinition is a tool as models are told of it.
type ToolDefinition struct {
	Name                 string
	Description          string
	ParametersJSONSchema Schema
	ResponseJSONSchema   Schema
	Behavior             ToolBehavior
}

// ToolCall is a model's wish to call a tool.
type ToolCall struct {
	// ID is the provider's name for the call; its answer carries the same.
	ID   string
	Name string
	Args map[string]any
}

// ToolResponse is the answer to a ToolCall.
type ToolResponse struct {
	ID   string
	Name string
	// Response is what the model is told; never nil. A failure has the key "error".
	Response   map[string]any
	Scheduling ToolResponseScheduling
}

// FuncTool makes a Tool of a function.
type FuncTool struct {
	ToolName        string
	ToolDescription string
	ToolSchema      Schema
	Fn              func(ctx context.Context, args map[string]any) (map[string]any, error)
	// ToolTraits are its Traits.
	ToolTraits Traits
	// Prompt is the question that a tool with ToolTraits.Confirm needs a yes to.
	// Empty: one is made of the description.
	Prompt string
}

// Name implements Tool.
func (f *FuncTool) Name() string {
	if f == nil {
		return "" // so that a nil *FuncTool in a Tool is refused like a nil Tool
	}
	return f.ToolName
}

// Description implements Tool.
func (f *FuncTool) Description() string { return f.ToolDescription }

// InputSchema implements Tool.
func (f *FuncTool) InputSchema() Schema { return f.ToolSchema }

// Traits implements Traited.
func (f *FuncTool) Traits() Traits { return f.ToolTraits }

// ConfirmationPrompt implements Prompter.
func (f *FuncTool) ConfirmationPrompt(context.Context, map[string]any) (string, error) {
	return f.Prompt, nil
}

// Invoke implements Tool.
func (f *FuncTool) Invoke(ctx context.Context, args map[string]any) (map[string]any, error) {
	if f.Fn == nil {
		return nil, errors.New("tool: " + f.ToolName + " does nothing")
	}
	return f.Fn(ctx, args)
}

// sessionKey is where a context carries the conversation's id.
type sessionKey struct{}

// WithSession returns a context for calls on behalf of the conversation id.
func WithSession(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, sessionKey{}, id)
}

// SessionFrom returns the id of the conversation that a call is made for, or "".
func SessionFrom(ctx context.Context) string {
	id, _ := ctx.Value(sessionKey{}).(string)
	return id
}
