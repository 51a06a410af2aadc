package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"parley/agent/chat"
	"parley/agent/llm"
)

const (
	// maxCalls is how many tools one answer of a model may call; more are left out.
	maxCalls = 16
	// unsureHold is how long tools wait when the caller may not be done: a reply that
	// is taken back must have done nothing.
	unsureHold = 700 * time.Millisecond
)

// reply runs the model, then the tools it calls, then the model again, until it has
// answered.
func (c *core) reply(ctx context.Context, x *exchange) error {
	defer c.leave(x)
	err := c.rounds(ctx, x)
	if errors.Is(err, errIncomplete) && ctx.Err() == nil {
		c.pair.User().Retract()
		x.incomplete = true
		return nil
	}
	c.mu.Lock()
	over := x.over
	if !over && err != nil && ctx.Err() == nil {
		c.write(x) // it failed, and what the caller said stands
	}
	c.mu.Unlock()
	if !over {
		c.pair.Assistant().End(err == nil)
		c.out.deliver()
	}
	if err == nil || !errors.Is(err, errSuperseded) {
		return err
	}
	return firstOf(context.Cause(ctx), err)
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func (c *core) rounds(ctx context.Context, x *exchange) error {
	for round := 0; ; round++ {
		last := round >= c.cfg.MaxRounds
		done, err := c.answer(ctx, x, c.request(x, last))
		if err != nil {
			return err
		}
		if len(done.ToolCalls) == 0 || last {
			c.mu.Lock()
			if !x.over {
				c.write(x)
			}
			c.mu.Unlock()
			return nil
		}
		if x.unsure {
			if err := c.sure(ctx, x); err != nil {
				return err
			}
		}
		calls, err := c.call(ctx, x, done.ToolCalls[:min(len(done.ToolCalls), maxCalls)])
		if err != nil {
			return err
		}
		if err := c.await(ctx, x); err != nil {
			return err
		}
		if finished, err := c.finished(ctx, x, calls); finished || err != nil {
			return err
		}
	}
}

// sure waits before tools do something about a turn that may not be over.
func (c *core) sure(ctx context.Context, x *exchange) error {
	t := time.NewTimer(unsureHold)
	defer t.Stop()
	select {
	case <-t.C:
		x.unsure = false
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// call writes tool calls into the conversation and begins them.
func (c *core) call(ctx context.Context, x *exchange, calls []llm.ToolCall) ([]chat.ToolCall, error) {
	calls = slices.Clone(calls)
	for i := range calls {
		calls[i].Arguments = wholeArguments(calls[i].Arguments)
	}
	c.mu.Lock()
	if x.over {
		c.mu.Unlock()
		return nil, errSuperseded
	}
	c.write(x)
	as := c.pair.Assistant().Calls(calls)
	x.waiting = map[string]bool{}
	for _, call := range as {
		x.waiting[call.ID] = c.hands.waits(call.Name)
	}
	c.mu.Unlock()
	for _, call := range as {
		c.report(llm.Happening{Kind: "tool_call", ID: call.ID, Name: call.Name, Text: shownArguments(call.Arguments)})
	}
	for _, call := range as {
		c.hands.start(ctx, call)
	}
	return as, nil
}

// await waits until the calls that x waits for are answered, or have taken too long.
func (c *core) await(ctx context.Context, x *exchange) error {
	limit := time.NewTimer(c.cfg.ToolWait)
	defer limit.Stop()
	think, stop := c.thinkTimer()
	defer stop()
	for c.waitsFor(x) {
		select {
		case <-c.news:
			if c.thinks(x) {
				if err := x.out(llm.Chunk{Thinking: true}); err != nil {
					return err
				}
				think = nil
			}
		case <-think:
			think = nil
			if err := x.out(llm.Chunk{Thinking: true}); err != nil {
				return err
			}
		case <-limit.C:
			c.leave(x)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	c.leave(x)
	return context.Cause(ctx)
}

// waitsFor says whether a call that x waits for has no answer.
func (c *core) waitsFor(x *exchange) bool {
	open := c.pair.Context().CallsInProgress()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(open, func(id string) bool { return x.waiting[id] })
}

// thinks says, once, whether a tool of x wants the silence filled.
func (c *core) thinks(x *exchange) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	wants := x.think
	x.think = false
	return wants
}

// finished says whether the reply is complete without another run of the model: the
// question of a confirmation is spoken as it stands, and who has said goodbye before
// hanging up need not say it twice.
func (c *core) finished(ctx context.Context, x *exchange, calls []chat.ToolCall) (bool, error) {
	c.mu.Lock()
	question := x.asking
	x.asking = ""
	c.mu.Unlock()
	if question != "" && c.cfg.SpeakQuestions {
		if x.said {
			question = " " + question
		}
		return true, c.give(ctx, x, llm.Chunk{Text: question})
	}
	hangsUp := func(call chat.ToolCall) bool { return call.Name == "hang_up" }
	return x.said && len(calls) == 1 && hangsUp(calls[0]), nil
}

// answered puts the result of a tool in its place. It reports whether nobody waited for
// it, so that the model is to be woken.
func (c *core) answered(id, name, content, question string) (late bool) {
	c.mu.Lock()
	x := c.current
	waited := x != nil && !x.over && x.waiting[id]
	done := c.pair.Assistant().Result(id, content)
	if done && waited && question != "" {
		x.asking = question
	}
	if done && !waited {
		c.late = append(c.late, name)
		c.version++
	}
	c.mu.Unlock()
	if !done {
		return false
	}
	c.report(llm.Happening{Kind: "tool_result", ID: id, Name: name, Text: content})
	c.token()
	return !waited
}

func (c *core) token() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// wholeArguments makes one JSON object of a model's arguments: an empty one of none.
// What is no object stays, as JSON, for the schema to refuse.
func wholeArguments(text json.RawMessage) json.RawMessage {
	switch {
	case len(text) == 0:
		return json.RawMessage("{}")
	case len(text) > maxArguments || !json.Valid(text):
		quoted, err := json.Marshal(bounded(string(text), 500))
		if err != nil {
			return json.RawMessage(`""`)
		}
		return quoted
	}
	return text
}
