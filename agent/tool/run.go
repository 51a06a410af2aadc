package tool

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// run is the goroutine of a call.
func (d *Dispatcher) run(u *underway) {
	defer d.leave(u)
	if u.refuse != nil {
		d.finish(u, failure(u.refuse))
		return
	}
	// Whoever ignores its context is answered for.
	given := make(chan struct{})
	stop := context.AfterFunc(u.ctx, func() {
		defer close(given)
		d.giveUp(u)
	})
	defer func() {
		switch {
		case !stop():
			<-given
		case u.ctx.Err() != nil:
			// Stopped in the moment between the end of the context and its being told.
			d.giveUp(u)
		}
	}()
	select {
	case d.slot <- struct{}{}:
		defer func() { <-d.slot }()
	case <-u.ctx.Done():
		return
	}
	if u.ctx.Err() != nil {
		return
	}
	if hook := d.cfg.Hooks.OnToolCall; hook != nil {
		d.observe(u, func() { hook(u.ctx, u.copy()) })
	}
	d.mu.Lock()
	u.ready = true
	d.mu.Unlock()
	defer d.thinking(u)()
	response, err := d.work(u)
	switch {
	case err == nil:
		d.finish(u, response)
	case u.ctx.Err() != nil:
		// The context ended first: its cause says more than what the tool made of it.
	default:
		if p, ok := errors.AsType[*panicError](err); ok {
			d.fault(u, fmt.Errorf("%w: %s", ErrPanicked, p.text))
		}
		d.finish(u, failure(err))
	}
}

// work validates, asks for the confirmation where one is needed, and invokes.
func (d *Dispatcher) work(u *underway) (map[string]any, error) {
	args, err := u.tool.schema.check(u.call.Args)
	if err != nil {
		return nil, err
	}
	if u.tool.traits.Confirm {
		asked, err := d.confirm(u, args)
		if asked != nil || err != nil {
			return asked, err
		}
	}
	result, err := u.tool.run(u.ctx, args)
	if err != nil {
		return nil, err
	}
	return normalise(result, d.cfg.MaxResult)
}

// confirm is nil, nil when the caller has agreed to the call.
func (d *Dispatcher) confirm(u *underway, args map[string]any) (map[string]any, error) {
	if d.cfg.Gate == nil {
		return nil, errors.New("this needs the caller's confirmation, which cannot be taken here")
	}
	if u.token != "" {
		return nil, d.cfg.Gate.Redeem(d.cfg.Session, u.token, u.call.Name, args)
	}
	var prompt string
	if p, ok := u.tool.tool.(Prompter); ok {
		err := guarded(func() (err error) {
			prompt, err = p.ConfirmationPrompt(u.ctx, clone(args))
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if prompt = CleanText(prompt, maxErrorText); prompt == "" {
		prompt = "Shall I do this: " + CleanText(u.tool.tool.Description(), 200) + "?"
	}
	token, err := d.cfg.Gate.Ask(d.cfg.Session, u.call.Name, args, prompt)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"status": "confirmation_required", "prompt": prompt, TokenArgument: token,
		"next": "Nothing was done. Ask the caller this question. After the caller has said yes, call again with the same arguments and the token.",
	}, nil
}

// giveUp answers for a call whose context is done.
func (d *Dispatcher) giveUp(u *underway) {
	cause := context.Cause(u.ctx)
	switch {
	case errors.Is(cause, ErrTimeout):
		d.finish(u, map[string]any{"error": "no result in time"})
	case errors.Is(cause, ErrInterrupted):
		d.finish(u, map[string]any{"error": "cancelled because the caller spoke"})
	default: // taken back, or over: nobody waits
	}
}

// finish gives the answer of a call, once. The first to come decides.
func (d *Dispatcher) finish(u *underway, response map[string]any) {
	d.mu.Lock()
	if u.settled || d.closed || d.base.Err() != nil {
		u.settled = true
		d.mu.Unlock()
		return
	}
	u.settled = true
	observed := u.ready
	d.mu.Unlock()
	answer := ToolResponse{ID: u.call.ID, Name: u.call.Name, Response: response}
	if u.tool != nil {
		answer.Scheduling = u.tool.traits.Scheduling
	}
	// The call's context may be done, as after a timeout: the answer is to be given
	// all the same.
	if hook := d.cfg.Hooks.OnToolResult; hook != nil && observed {
		shown := answer
		shown.Response = clone(response)
		d.observe(u, func() { hook(d.base, u.copy(), shown) })
	}
	if d.cfg.Respond == nil || d.taken(u) {
		return
	}
	if err := guarded(func() error { return d.cfg.Respond(d.base, answer) }); err != nil {
		d.fault(u, fmt.Errorf("tool: answer not given: %w", err))
	}
}

// taken says whether the provider took the call back while the host looked at its
// result.
func (d *Dispatcher) taken(u *underway) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed || errors.Is(context.Cause(u.ctx), ErrCancelled)
}

// thinking tells the host when the call takes long; the returned function ends it.
func (d *Dispatcher) thinking(u *underway) func() {
	if d.cfg.Thinking == nil || !u.tool.traits.ThinkingSound {
		return func() {}
	}
	told := make(chan struct{})
	t := time.AfterFunc(d.cfg.ThinkingAfter, func() {
		defer close(told)
		if u.ctx.Err() == nil {
			d.observe(u, func() { d.cfg.Thinking(u.copy(), true) })
		}
	})
	return func() {
		if t.Stop() {
			return
		}
		<-told
		d.observe(u, func() { d.cfg.Thinking(u.copy(), false) })
	}
}

// observe calls a hook whose failure is the host's and not the call's.
func (d *Dispatcher) observe(u *underway, hook func()) {
	if err := guarded(func() error { hook(); return nil }); err != nil {
		d.fault(u, err)
	}
}

// fault tells the host.
func (d *Dispatcher) fault(u *underway, err error) {
	if d.cfg.OnError != nil {
		d.cfg.OnError(u.copy(), err)
	}
}

// guarded turns a panic of f into an error.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("tool: panic in a hook: %s", CleanText(fmt.Sprint(p), maxErrorText))
		}
	}()
	return f()
}
