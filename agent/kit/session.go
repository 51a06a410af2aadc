package kit

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"parley/agent/live"
	"parley/agent/tool"
)

// AgentSession is a conversation with a realtime model: a live.Session with tools,
// hooks and a memory. It holds one conversation at a time and may be started again when
// that is over. Its methods may be called from any goroutine.
type AgentSession struct {
	id        string
	live      *live.Session
	callbacks Callbacks
	hooks     LifecycleHooks
	registry  *ToolRegistry
	memory    Memory
	gate      *tool.Gate
	answered  func(ToolResponse) // nil, or sees every answer, also those of no tool

	starting sync.Mutex // one Start at a time
	current  atomic.Pointer[held]
}

// held is a conversation that was started.
type held struct {
	ctx    context.Context
	cancel context.CancelFunc
	tools  *tool.Dispatcher
	own    map[string]bool // tools that the host answers itself
}

// NewAgentSession returns an inactive session. A nil registry is an empty one, a nil
// memory one that lasts as long as the session.
func NewAgentSession(provider LiveProvider, userCallbacks Callbacks, registry *ToolRegistry, hooks LifecycleHooks, memory Memory) *AgentSession {
	return newSession(provider, userCallbacks, registry, hooks, memory, "", false)
}

// newSession makes a session with an id, or one of its own.
func newSession(provider LiveProvider, callbacks Callbacks, registry *ToolRegistry, hooks LifecycleHooks, memory Memory, id string, hears bool) *AgentSession {
	if registry == nil {
		registry = NewRegistry()
	}
	if memory == nil {
		memory = NewInMemory()
	}
	if id == "" {
		id = rand.Text()
	}
	a := &AgentSession{id: id, callbacks: callbacks, hooks: hooks, registry: registry, memory: memory}
	a.live = live.NewSession(provider, a.wrapped(), live.Options{HostHears: hears, Ending: a.ending})
	return a
}

// wrapped are the callbacks, with the hooks behind them.
func (a *AgentSession) wrapped() Callbacks {
	cb := a.callbacks
	cb.OnSessionStart = func() {
		both(a.callbacks.OnSessionStart, a.hooks.OnSessionStart, a)
	}
	cb.OnSessionEnd = func() {
		both(a.callbacks.OnSessionEnd, a.hooks.OnSessionEnd, a)
	}
	cb.OnUserMessage = func(text string) { withText(a.callbacks.OnUserMessage, a.hooks.OnUserMessage, a, text) }
	cb.OnAgentMessage = func(text string) { withText(a.callbacks.OnAgentMessage, a.hooks.OnAgentMessage, a, text) }
	cb.OnToolCall = a.toolCall
	cb.OnToolCancelled = func(ids []string) {
		if h := a.current.Load(); h != nil {
			h.tools.Cancel(ids...)
		}
		if f := a.callbacks.OnToolCancelled; f != nil {
			f(ids)
		}
	}
	return cb
}

// both calls a callback and a hook.
func both(callback func(), hook func(context.Context, SessionContext), a *AgentSession) {
	if callback != nil {
		defer callback() // though the hook panics
	}
	if hook != nil {
		hook(a.ctx(), a.context())
	}
}

// withText calls a callback and a hook with a text.
func withText(callback func(string), hook func(context.Context, SessionContext, string), a *AgentSession, text string) {
	if callback != nil {
		defer callback(text)
	}
	if hook != nil {
		hook(a.ctx(), a.context(), text)
	}
}

// ctx is the context of the conversation; when that is over, one that is not done.
func (a *AgentSession) ctx() context.Context {
	h := a.current.Load()
	switch {
	case h == nil:
		return context.Background()
	case h.ctx.Err() != nil:
		return context.WithoutCancel(h.ctx)
	}
	return h.ctx
}

func (a *AgentSession) context() SessionContext {
	return SessionContext{SessionID: a.id, Memory: a.memory, Registry: a.registry}
}

// Start connects the provider and begins the conversation, which lasts until Stop, the
// end of ctx, an error of the provider, or a silence of idle.DeactivateAfter. The
// model is told of the registry's tools after those of cfg, sorted by name; cfg is not
// changed. Calls of a tool that is in cfg only are given to Callbacks.OnToolCall and
// answered by Respond.
//
// The error is live.ErrActive when a conversation is under way, which is not touched,
// or wraps why the provider could not connect; then Start may be tried again.
func (a *AgentSession) Start(ctx context.Context, cfg LiveConfig, idle IdleConfig) error {
	if !a.starting.TryLock() {
		return live.ErrActive
	}
	defer a.starting.Unlock()
	if a.State() != live.StateInactive {
		return live.ErrActive
	}
	h := &held{own: map[string]bool{}}
	tools := slices.Clone(cfg.Tools)
	for _, d := range cfg.Tools {
		h.own[d.Name] = true
	}
	for _, d := range a.registry.Definitions() {
		if !h.own[d.Name] {
			tools = append(tools, d)
		}
		delete(h.own, d.Name)
	}
	cfg.Tools = tools
	h.ctx, h.cancel = context.WithCancel(ctx)
	h.tools = tool.NewDispatcher(h.ctx, tool.DispatcherConfig{
		Session: a.id, Registry: a.registry, Gate: a.gate,
		Hooks: a.toolHooks(), Thinking: a.toolThinking(),
		Respond: func(_ context.Context, r ToolResponse) error { return a.Respond(r) },
		OnError: func(call ToolCall, err error) {
			a.live.Report(fmt.Errorf("kit: tool %s: %w", tool.CleanText(call.Name, 64), err))
		},
	})
	before := a.current.Swap(h)
	if err := a.live.Start(ctx, cfg, idle); err != nil {
		a.current.Store(before)
		_ = h.tools.Close(ctx) // it has no calls
		h.cancel()
		return fmt.Errorf("kit: %w", err)
	}
	return nil
}

// ending ends the tools of a conversation that ends.
func (a *AgentSession) ending(ctx context.Context) {
	h := a.current.Load()
	if err := h.tools.Close(ctx); err != nil {
		a.live.Report(fmt.Errorf("kit: %w", err))
	}
	h.cancel()
}

// toolHooks are the hooks as a Dispatcher calls them.
func (a *AgentSession) toolHooks() tool.Hooks {
	var t tool.Hooks
	if f := a.hooks.AuthorizeToolCall; f != nil {
		t.AuthorizeToolCall = func(ctx context.Context, call ToolCall) (map[string]any, error) {
			return f(ctx, a.context(), call)
		}
	}
	t.OnToolCall = func(ctx context.Context, call ToolCall) {
		if f := a.callbacks.OnToolCall; f != nil {
			f(call)
		}
		if f := a.hooks.OnToolCall; f != nil {
			f(ctx, a.context(), call)
		}
	}
	if f := a.hooks.OnToolResult; f != nil {
		t.OnToolResult = func(ctx context.Context, call ToolCall, response ToolResponse) {
			f(ctx, a.context(), call, response)
		}
	}
	return t
}

// toolThinking passes on that a tool takes long; nil when nobody wants to know.
func (a *AgentSession) toolThinking() func(call ToolCall, on bool) {
	f := a.hooks.OnToolThinking
	if f == nil {
		return nil
	}
	return func(call ToolCall, on bool) { f(a.ctx(), a.context(), call, on) }
}

// toolCall takes a call of the model's, on the goroutine that receives.
func (a *AgentSession) toolCall(call ToolCall) {
	h := a.current.Load()
	if _, known := a.registry.Lookup(call.Name); !known && h.own[call.Name] && a.callbacks.OnToolCall != nil {
		a.callbacks.OnToolCall(call)
		return
	}
	if err := h.tools.Dispatch(call); err != nil && a.State() != live.StateDeactivating {
		a.live.Report(fmt.Errorf("kit: tool %s: %w", tool.CleanText(call.Name, 64), err))
	}
}

// Respond answers calls of tools that are the host's own; see Start.
func (a *AgentSession) Respond(responses ...ToolResponse) error {
	if a.answered != nil {
		for _, r := range responses {
			a.answered(r)
		}
	}
	return a.live.SendToolResponse(responses...)
}

// Interrupt gives up the tool calls that may be, because the caller speaks: those of
// tools with Traits.Interruptible.
func (a *AgentSession) Interrupt() {
	if h := a.current.Load(); h != nil {
		h.tools.Interrupt()
	}
}

// Running is how many tool calls have not ended.
func (a *AgentSession) Running() int {
	if h := a.current.Load(); h != nil {
		return h.tools.Running()
	}
	return 0
}

// Stop ends the conversation and waits for all of it, tools that run included, for 5 s
// at most. Nothing is sent once it was called. It may be called again, and when nothing
// is under way; from a callback, a hook or a tool only on a goroutine of its own.
func (a *AgentSession) Stop() { a.live.Stop() }

// SendAudio sends what the caller says, S16LE mono at 16 kHz. Like the other Send
// methods it does nothing unless a conversation is held, and what is sent while the
// provider connects anew is delivered after. It does not keep chunk.
func (a *AgentSession) SendAudio(chunk []byte) error { return a.live.SendAudio(chunk) }

// SendText gives the model a text of the user's to answer.
func (a *AgentSession) SendText(text string) error { return a.live.SendText(text) }

// EndAudioStream says that no more audio comes for now.
func (a *AgentSession) EndAudioStream() error { return a.live.EndAudioStream() }

// Instruct has the model speak as instructions say, without words of the user's.
func (a *AgentSession) Instruct(instructions string) error { return a.live.Instruct(instructions) }

// State is where the session is.
func (a *AgentSession) State() State { return a.live.State() }

// SessionID is the session's id: unique, never empty, the same for its life.
func (a *AgentSession) SessionID() string { return a.id }

// Memory is the session's memory, never nil.
func (a *AgentSession) Memory() Memory { return a.memory }

// Registry is the session's tools, never nil.
func (a *AgentSession) Registry() *ToolRegistry { return a.registry }
