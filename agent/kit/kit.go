// Package kit holds conversations with realtime models: AgentSession is one
// conversation through a live.LiveProvider, with tools, hooks and a memory, for any
// program; New makes an agent for telephone calls of it.
//
//	             ┌───────────────────────── AgentSession ──────────────────────────┐
//	SendAudio ──>│ live.Session ──> live.LiveProvider ══> the service              │
//	OnAudio  <───│   states, messages, new connections, silence                    │
//	             │   └─ tool calls ─> tool.Dispatcher ─> ToolRegistry              │
//	hooks    <───│      authorise, OnToolCall, Invoke, OnToolResult, response      │
//	             └─────────────────────────────────────────────────────────────────┘
package kit

import (
	"context"

	"parley/agent/live"
	"parley/agent/tool"
)

// The names of agent/live and agent/tool that a program needs, so that it can do with
// this package.
type (
	// Callbacks are told what happens in a session.
	Callbacks = live.Callbacks
	// LiveProvider is the connection to a realtime model.
	LiveProvider = live.LiveProvider
	// LiveConfig is how a session is set up.
	LiveConfig = live.LiveConfig
	// IdleConfig says what becomes of a session in which nobody speaks.
	IdleConfig = live.IdleConfig
	// State is where a session is.
	State = live.State

	// Tool is a function that the model may call.
	Tool = tool.Tool
	// FuncTool makes a Tool of a function.
	FuncTool = tool.FuncTool
	// ToolRegistry holds tools by name.
	ToolRegistry = tool.ToolRegistry
	// ToolCall is a model's wish to call a tool.
	ToolCall = live.ToolCall
	// ToolResponse is the answer to a ToolCall.
	ToolResponse = live.ToolResponse
	// ToolDefinition is a tool as models are told of it.
	ToolDefinition = live.ToolDefinition
	// ToolBehavior says whether the model waits for a result.
	ToolBehavior = live.ToolBehavior
	// Schema is a JSON Schema of a tool's arguments.
	Schema = tool.Schema
)

// What ToolRegistry.Register returns.
var (
	// ErrNilTool is returned for a tool that is nil or has no name.
	ErrNilTool = tool.ErrNilTool
	// ErrDuplicateTool is wrapped when a name is taken; the first tool stays.
	ErrDuplicateTool = tool.ErrDuplicateTool
)

// NewRegistry returns an empty registry.
func NewRegistry() *ToolRegistry { return tool.NewRegistry() }

// SessionContext is what hooks are told of the session they are called for.
type SessionContext struct {
	SessionID string
	Memory    Memory
	Registry  *ToolRegistry
}

// LifecycleHooks are told what happens in a session, and decide about tool calls. Each
// may be nil. ctx ends with the session, but for OnSessionEnd, whose ctx is not done.
// A hook that panics is told to Callbacks.OnError; a call whose AuthorizeToolCall
// panicked is denied.
//
// OnSessionStart, OnUserMessage, OnAgentMessage and OnSessionEnd are called like
// Callbacks: one at a time and in order. OnToolCall, OnToolThinking and OnToolResult are called on
// goroutines of the call, beside the others.
type LifecycleHooks struct {
	// OnSessionStart is called once for every Start that succeeded.
	OnSessionStart func(ctx context.Context, sc SessionContext)
	// OnUserMessage takes each whole message of the caller's once.
	OnUserMessage func(ctx context.Context, sc SessionContext, text string)
	// AuthorizeToolCall decides about a call of a known tool, in the order in which the
	// calls arrive and before anything else comes of them. It must be fast: it keeps
	// the session from receiving. The map that it returns is what the tool gets. An
	// error denies the call: nothing else fires, and the model is told that the host's
	// policy denies it, but not why.
	AuthorizeToolCall func(ctx context.Context, sc SessionContext, call ToolCall) (map[string]any, error)
	// OnToolCall follows when the call is allowed.
	OnToolCall func(ctx context.Context, sc SessionContext, call ToolCall)
	// OnToolResult sees the answer before the model does. It has the call's id.
	OnToolResult func(ctx context.Context, sc SessionContext, call ToolCall, response ToolResponse)
	// OnToolThinking is told when a call of a tool that asks for it
	// (Traits.ThinkingSound) has been at work for half a second, and of its end: the
	// silence is to be filled meanwhile. Called like OnToolCall.
	OnToolThinking func(ctx context.Context, sc SessionContext, call ToolCall, on bool)
	// OnAgentMessage takes each whole message of the agent's once: what was heard of
	// it, when it was cut.
	OnAgentMessage func(ctx context.Context, sc SessionContext, text string)
	// OnSessionEnd is called once for every OnSessionStart, on every way out.
	OnSessionEnd func(ctx context.Context, sc SessionContext)
}
