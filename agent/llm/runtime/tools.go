package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"parley/agent/chat"
	"parley/agent/llm"
	"parley/agent/tool"
)

const (
	// maxArguments bounds the arguments of a call, in bytes.
	maxArguments = 64 << 10
	// shared is the source of tools that all calls have.
	shared = "shared"
)

// callTools are the tools of one call: those that all calls have, those on the call
// itself, on the caller's memory, on skills.
type callTools struct {
	m          *model
	registry   *tool.ToolRegistry
	dispatcher *tool.Dispatcher

	mu   sync.Mutex
	last []tool.Tool // of the shared ones
	owed bool        // the model is to be woken after the last call
}

func newCallTools(m *model) (hands, error) {
	t := &callTools{m: m, registry: tool.NewRegistry()}
	parts := m.p.parts
	var own []tool.Tool
	if parts.Calls != nil && m.c.Line != nil {
		calls, err := tool.CallTools(m.c.Line, *parts.Calls)
		if err != nil {
			return nil, err
		}
		own = append(own, calls...)
	}
	if m.p.cfg.Memory.Tools && m.p.cfg.Memory.of(m.c) {
		own = append(own, memoryTools(m)...)
	}
	if hasTriggers(parts.Skills) {
		own = append(own, skillTool(m))
	}
	for _, o := range own {
		if err := t.registry.Register(o); err != nil {
			return nil, err
		}
	}
	t.dispatcher = tool.NewDispatcher(m.life, tool.DispatcherConfig{
		Session: m.c.SessionID, Registry: t.registry, Hooks: parts.Hooks, Gate: parts.Gate,
		Respond: t.respond, Thinking: t.thinking, Timeout: m.p.cfg.ToolTimeout,
		OnError: func(call tool.ToolCall, err error) { m.fault(fmt.Errorf("runtime: tool %s: %w", call.Name, err)) },
	})
	return t, nil
}

// definitions are what the model is told, with the shared tools as they are now.
func (t *callTools) definitions() []llm.ToolDefinition {
	t.follow()
	var out []llm.ToolDefinition
	for _, d := range t.registry.Definitions() {
		out = append(out, llm.ToolDefinition{Name: d.Name, Description: d.Description, Parameters: d.ParametersJSONSchema})
	}
	return out
}

// follow takes over changes of the shared tools.
func (t *callTools) follow() {
	if t.m.p.parts.Tools == nil {
		return
	}
	now := t.m.p.parts.Tools.All()
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.EqualFunc(now, t.last, same) {
		return
	}
	t.last = now
	if _, _, err := t.registry.Sync(shared, now); err != nil {
		t.m.fault(fmt.Errorf("runtime: %w", err))
	}
}

// same says whether two tools are one; of some kinds that cannot be told.
func same(a, b tool.Tool) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}

// start implements hands. Calls may outlast the reply: their results are told later.
func (t *callTools) start(_ context.Context, call chat.ToolCall) {
	args, err := tool.Object(call.Arguments)
	if err != nil {
		t.answer(call.ID, call.Name, map[string]any{"error": "invalid arguments: want one JSON object"}, tool.ToolResponseSchedulingUnspecified)
		return
	}
	if err := t.dispatcher.Dispatch(tool.ToolCall{ID: call.ID, Name: call.Name, Args: args}); err != nil {
		t.answer(call.ID, call.Name, map[string]any{"error": "the call is over"}, tool.ToolResponseSchedulingSilent)
	}
}

func (t *callTools) respond(_ context.Context, r tool.ToolResponse) error {
	t.answer(r.ID, r.Name, r.Response, r.Scheduling)
	return nil
}

// answer puts a result in its place, and wakes the model when no reply waits for it.
func (t *callTools) answer(id, name string, response map[string]any, scheduling tool.ToolResponseScheduling) {
	content := ""
	if len(response) > 0 {
		text, err := json.Marshal(response)
		if err != nil {
			text = []byte(`{"error":"the result cannot be told"}`)
		}
		content = string(text)
	}
	question := ""
	if response["status"] == "confirmation_required" {
		question, _ = response["prompt"].(string)
	}
	late := t.m.answered(id, tool.CleanText(name, 128), content, question)
	t.mu.Lock()
	t.owed = t.owed || late && scheduling != tool.ToolResponseSchedulingSilent
	wake := t.owed && !t.m.pair.Assistant().HasFunctionCallsInProgress() && t.m.life.Err() == nil
	t.owed = t.owed && !wake
	t.mu.Unlock()
	if wake {
		t.m.c.Wake()
	}
}

// thinking is told when a tool that wants the silence filled takes long.
func (t *callTools) thinking(call tool.ToolCall, on bool) {
	t.m.mu.Lock()
	x := t.m.current
	wanted := on && x != nil && x.waiting[call.ID]
	if wanted {
		x.think = true
	}
	t.m.mu.Unlock()
	if wanted {
		t.m.token()
	}
}

// traits are what is known of a tool.
func (t *callTools) traits(name string) tool.Traits {
	found, ok := t.registry.Lookup(name)
	if traited, is := found.(tool.Traited); ok && is {
		return traited.Traits()
	}
	return tool.Traits{}
}

// waits implements hands.
func (t *callTools) waits(name string) bool {
	return t.traits(name).Behavior != tool.ToolBehaviorNonBlocking
}

// interrupt gives up the calls that may be interrupted, because the caller speaks.
func (t *callTools) interrupt() {
	for _, m := range t.m.pair.Context().Snapshot().Messages {
		if m.Role == chat.RoleTool && m.Content == chat.InProgress && t.traits(m.Name).Interruptible && t.m.pair.Assistant().Cancel(m.ToolCallID) {
			t.m.report(llm.Happening{Kind: "tool_result", ID: m.ToolCallID, Name: m.Name, Text: `"` + chat.Cancelled + `"`})
		}
	}
	t.dispatcher.Interrupt()
	t.m.token()
}

// close ends all calls and waits for them.
func (t *callTools) close(ctx context.Context) error { return t.dispatcher.Close(ctx) }

// shownArguments are arguments for events, without the proof of a confirmation.
func shownArguments(text json.RawMessage) string {
	var args map[string]any
	if json.Unmarshal(text, &args) != nil {
		return string(text)
	}
	if _, has := args[tool.TokenArgument]; !has {
		return string(text)
	}
	delete(args, tool.TokenArgument)
	shown, err := json.Marshal(args)
	if err != nil {
		return "{}"
	}
	return string(shown)
}
