package tool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Causes with which the context of a call ends; context.Cause gives them.
var (
	// ErrCancelled: the provider took the call back; nobody waits for the answer.
	ErrCancelled = errors.New("tool: cancelled by the model")
	// ErrInterrupted: the caller spoke, and the tool is interruptible.
	ErrInterrupted = errors.New("tool: cancelled because the caller spoke")
	// ErrTimeout: the call took too long.
	ErrTimeout = errors.New("tool: no result in time")
	// ErrClosed: the conversation is over.
	ErrClosed = errors.New("tool: conversation is over")
)

// ErrDuplicateCall is returned by Dispatch for an id that is under way. The call is
// not made a second time; the first one's answer is the id's answer.
var ErrDuplicateCall = errors.New("tool: a call of this id is under way")

// Hooks let the host see and decide. Each may be nil.
type Hooks struct {
	// AuthorizeToolCall decides about a call of a known tool, on the goroutine of
	// Dispatch and so in the order of arrival; it must be fast. The map it returns is
	// what the tool gets. An error denies the call; its text goes to OnError and never
	// to the model.
	AuthorizeToolCall func(ctx context.Context, call ToolCall) (map[string]any, error)
	// OnToolCall follows, on the call's own goroutine.
	OnToolCall func(ctx context.Context, call ToolCall)
	// OnToolResult sees the answer before it is given.
	OnToolResult func(ctx context.Context, call ToolCall, response ToolResponse)
}

// DispatcherConfig is what a Dispatcher needs to know.
type DispatcherConfig struct {
	// Session is the conversation's id; see SessionFrom.
	Session string
	// Registry has the tools. nil: none.
	Registry *ToolRegistry
	Hooks    Hooks
	// Gate asks for confirmations. Without one, calls that need one are refused.
	Gate *Gate
	// Respond gives an answer to the provider. It is called once for every call that
	// was not taken back, from several goroutines at a time. Its error goes to OnError.
	Respond func(ctx context.Context, r ToolResponse) error
	// OnError is told what models are not: what denied a call, panics, answers that
	// could not be given. It may be nil.
	OnError func(call ToolCall, err error)
	// Thinking is told when a tool that wants it has been at work for ThinkingAfter
	// (true), and when it is answered then (false). It may be nil.
	Thinking      func(call ToolCall, on bool)
	ThinkingAfter time.Duration // 0: 500 ms
	// MaxRunning is how many calls run at a time, MaxCalls how many may wait or run;
	// more are answered at once with an error. 0: 8 and 64.
	MaxRunning, MaxCalls int
	// Timeout bounds a call from its arrival to its answer, unless the tool says
	// otherwise. 0: 30 s.
	Timeout time.Duration
	// MaxResult bounds a result in bytes as JSON. 0: DefaultMaxResult.
	MaxResult int
}

// Dispatcher runs the tool calls of one conversation, each on a goroutine of its own.
//
// For every call: AuthorizeToolCall, OnToolCall, the tool, OnToolResult, Respond. A
// call is answered whatever happens: unknown, denied, invalid, failed, panicked, too
// slow; unless the provider took it back or the conversation is over. A tool that
// ignores its context is answered for when its time is over, and its late result
// dropped.
type Dispatcher struct {
	cfg  DispatcherConfig
	base context.Context
	end  context.CancelCauseFunc
	slot chan struct{} // a place among those that run

	mu      sync.Mutex
	closed  bool
	running map[*underway]struct{}
	byID    map[string]*underway
	left    sync.WaitGroup // added to under mu, and not once closed
}

// underway is one call.
type underway struct {
	call   ToolCall // as the tool is to get it
	tool   *registered
	token  string
	refuse error // an answer that was known at once
	ctx    context.Context
	cancel context.CancelCauseFunc

	settled bool // guarded by Dispatcher.mu: the answer was decided
	ready   bool // guarded by Dispatcher.mu: OnToolCall has been called
}

// NewDispatcher returns a Dispatcher whose calls end when ctx does. Close it.
func NewDispatcher(ctx context.Context, cfg DispatcherConfig) *Dispatcher {
	if cfg.Registry == nil {
		cfg.Registry = NewRegistry()
	}
	orElse(&cfg.MaxRunning, 8)
	orElse(&cfg.MaxCalls, 64)
	orElse(&cfg.Timeout, 30*time.Second)
	orElse(&cfg.ThinkingAfter, 500*time.Millisecond)
	orElse(&cfg.MaxResult, DefaultMaxResult)
	d := &Dispatcher{
		cfg: cfg, slot: make(chan struct{}, cfg.MaxRunning),
		running: map[*underway]struct{}{}, byID: map[string]*underway{},
	}
	d.base, d.end = context.WithCancelCause(WithSession(ctx, cfg.Session))
	return d
}

func orElse[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// Dispatch takes a call and returns without waiting for the tool. Calls that come
// from one goroutine are authorised in their order. It returns ErrClosed, or
// ErrDuplicateCall; in both cases nothing more comes of it.
func (d *Dispatcher) Dispatch(call ToolCall) error {
	call.Args = clone(call.Args)
	if call.Args == nil {
		call.Args = map[string]any{}
	}
	u := &underway{call: call, tool: d.cfg.Registry.find(call.Name)}
	crowded, err := d.enter(u)
	if err != nil {
		return err
	}
	switch {
	case crowded:
		u.refuse = errors.New("too many tool calls at once")
	case u.tool == nil || u.tool.traits.Internal:
		u.tool, u.refuse = nil, unknownTool(call.Name)
	default:
		d.authorise(u)
	}
	if crowded {
		// No goroutine for it: that is the bound.
		d.finish(u, failure(u.refuse))
		d.leave(u)
		return nil
	}
	go d.run(u)
	return nil
}

// enter makes u one of the calls under way.
func (d *Dispatcher) enter(u *underway) (crowded bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false, ErrClosed
	}
	if u.call.ID != "" && d.byID[u.call.ID] != nil {
		return false, ErrDuplicateCall
	}
	timeout := d.cfg.Timeout
	if u.tool != nil && u.tool.traits.Timeout > 0 {
		timeout = u.tool.traits.Timeout
	}
	var stop context.CancelFunc
	ctx, cancel := context.WithCancelCause(d.base)
	u.ctx, stop = context.WithTimeoutCause(ctx, timeout, ErrTimeout)
	u.cancel = func(cause error) { cancel(cause); stop() }
	crowded = len(d.running) >= d.cfg.MaxCalls
	d.running[u] = struct{}{}
	if u.call.ID != "" {
		d.byID[u.call.ID] = u
	}
	d.left.Add(1)
	return crowded, nil
}

// leave ends what enter began.
func (d *Dispatcher) leave(u *underway) {
	u.cancel(ErrCancelled)
	d.mu.Lock()
	delete(d.running, u)
	if d.byID[u.call.ID] == u {
		delete(d.byID, u.call.ID)
	}
	d.mu.Unlock()
	d.left.Done()
}

// authorise asks the host. The token is no argument of the tool and is kept apart.
func (d *Dispatcher) authorise(u *underway) {
	if u.tool.traits.Confirm {
		u.token, _ = u.call.Args[TokenArgument].(string)
		delete(u.call.Args, TokenArgument)
	}
	hook := d.cfg.Hooks.AuthorizeToolCall
	if hook == nil {
		return
	}
	var allowed map[string]any
	err := guarded(func() (err error) {
		allowed, err = hook(u.ctx, u.copy())
		return err
	})
	if err != nil {
		d.fault(u, fmt.Errorf("tool: call denied: %w", err))
		u.tool, u.refuse = nil, errors.New("tool call denied by host policy")
		return
	}
	if u.call.Args = clone(allowed); u.call.Args == nil {
		u.call.Args = map[string]any{}
	}
}

// copy is the call for somebody who may change it.
func (u *underway) copy() ToolCall {
	c := u.call
	c.Args = clone(c.Args)
	return c
}

// Cancel takes calls back, as the provider does when the caller interrupts it: their
// contexts end and no answer is given. Ids that are unknown or answered do nothing.
func (d *Dispatcher) Cancel(ids ...string) {
	for _, id := range ids {
		d.mu.Lock()
		u := d.byID[id]
		if u != nil {
			u.settled = true
		}
		d.mu.Unlock()
		if u != nil {
			u.cancel(ErrCancelled)
		}
	}
}

// Interrupt gives up the calls whose tools are interruptible, because the caller
// speaks. They are answered with an error that says so.
func (d *Dispatcher) Interrupt() {
	d.mu.Lock()
	var stop []*underway
	for u := range d.running {
		if u.tool != nil && u.tool.traits.Interruptible && !u.settled {
			stop = append(stop, u)
		}
	}
	d.mu.Unlock()
	for _, u := range stop {
		u.cancel(ErrInterrupted)
	}
}

// Running is how many calls have not ended, whether answered or not.
func (d *Dispatcher) Running() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.running)
}

// Close ends all calls without answers and waits for their goroutines until ctx is
// done; then it returns an error that names a tool that still runs. Nothing is
// answered after Close began, but for answers that were being given. It may be called
// again.
func (d *Dispatcher) Close(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.end(ErrClosed)
	done := make(chan struct{})
	go func() { d.left.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for u := range d.running {
		return fmt.Errorf("tool: %s does not end: %w", CleanText(u.call.Name, maxToolName), ctx.Err())
	}
	return nil
}
