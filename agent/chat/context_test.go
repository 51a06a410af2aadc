package chat

import (
	"errors"
	"slices"
	"testing"
)

func assistantCalls(calls ...ToolCall) Message {
	return Message{Role: RoleAssistant, ToolCalls: calls}
}

func answer(id string) Message { return Message{Role: RoleTool, ToolCallID: id, Content: "{}"} }

// conversation.md line 12: a call and its answer stand together, always.
func TestValid(t *testing.T) {
	user := Message{Role: RoleUser, Content: "hi"}
	for name, c := range map[string]struct {
		messages []Message
		want     error
	}{
		"nothing":              {nil, nil},
		"words":                {[]Message{user, {Role: RoleAssistant, Content: "yes"}}, nil},
		"a call":               {[]Message{user, assistantCalls(call("1", "a")), answer("1"), user}, nil},
		"two, any order":       {[]Message{assistantCalls(call("1", "a"), call("2", "b")), answer("2"), answer("1")}, nil},
		"no answer":            {[]Message{assistantCalls(call("1", "a"))}, ErrUnanswered},
		"one of two":           {[]Message{assistantCalls(call("1", "a"), call("2", "b")), answer("1")}, ErrUnanswered},
		"something between":    {[]Message{assistantCalls(call("1", "a")), user, answer("1")}, ErrUnanswered},
		"no call":              {[]Message{user, answer("1")}, ErrOrphan},
		"another's answer":     {[]Message{assistantCalls(call("1", "a")), answer("2")}, ErrOrphan},
		"answered twice":       {[]Message{assistantCalls(call("1", "a")), answer("1"), answer("1")}, ErrOrphan},
		"an id twice":          {[]Message{assistantCalls(call("1", "a")), answer("1"), assistantCalls(call("1", "a")), answer("1")}, ErrCallID},
		"no id":                {[]Message{assistantCalls(call("", "a")), answer("")}, ErrCallID},
		"the caller calls one": {[]Message{{Role: RoleUser, ToolCalls: []ToolCall{call("1", "a")}}, answer("1")}, ErrUnanswered},
	} {
		if got := Valid(c.messages); !errors.Is(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if _, err := NewContext("s").Append(c.messages...); !errors.Is(err, c.want) {
			t.Errorf("%s: Append: %v, want %v", name, err, c.want)
		}
	}
}

func TestContextRefusesWhatWouldBreakIt(t *testing.T) {
	c := NewContext("be kind")
	if _, err := c.Append(assistantCalls(call("1", "a")), answer("1")); err != nil {
		t.Fatal(err)
	}
	before := c.Snapshot()
	if _, err := c.Append(assistantCalls(call("1", "a")), answer("1")); !errors.Is(err, ErrCallID) {
		t.Errorf("an id that is taken: %v", err)
	}
	if err := c.Replace(before.Revision, []Message{answer("1")}); !errors.Is(err, ErrOrphan) {
		t.Errorf("Replace: %v", err)
	}
	if _, err := c.Fold(before.Revision, 1, 2, Message{Role: RoleDeveloper}); !errors.Is(err, ErrOrphan) {
		t.Errorf("Fold of a call without its answer: %v", err)
	}
	if _, err := c.Fold(before.Revision, 2, 3, Message{Role: RoleDeveloper}); !errors.Is(err, ErrUnanswered) {
		t.Errorf("Fold of an answer without its call: %v", err)
	}
	if c.Revision() != before.Revision {
		t.Error("a refusal changed something")
	}
	if err := c.Replace(before.Revision, []Message{{Role: RoleSystem, Content: "be brief"}}); err != nil {
		t.Error(err)
	}
	if err := c.Replace(before.Revision, nil); !errors.Is(err, ErrStale) {
		t.Errorf("Replace of an old revision: %v", err)
	}
}

// What was looked at is not what stands at its place by now.
func TestFoldOfWhatHasMoved(t *testing.T) {
	c := NewContext("")
	for _, text := range []string{"a", "b", "c", "d", "e", "f"} {
		_, _ = c.Append(Message{Role: RoleUser, Content: text})
	}
	s := c.Snapshot()
	if before, err := c.Fold(s.Revision, 0, 2, Message{Role: RoleDeveloper, Content: "ab"}); before != 6 || err != nil {
		t.Error(before, err)
	}
	if _, err := c.Fold(s.Revision, 2, 4, Message{Role: RoleDeveloper, Content: "cd"}); !errors.Is(err, ErrStale) {
		t.Errorf("%v: %s", err, told(c.Snapshot().Messages))
	}
}

func TestCallIDs(t *testing.T) {
	c := NewContext("")
	_, as := c.AppendCalls(Message{}, []ToolCall{call("x", "a"), call("x", "b"), call("", "c")})
	_, again := c.AppendCalls(Message{}, []ToolCall{call("x", "a"), call("call_1", "a")})
	seen := map[string]bool{}
	for _, call := range slices.Concat(as, again) {
		if call.ID == "" || seen[call.ID] {
			t.Errorf("id %q twice", call.ID)
		}
		seen[call.ID] = true
	}
	if as[0].ID != "x" {
		t.Error("an id that was free has changed")
	}
	if err := Valid(c.Snapshot().Messages); err != nil {
		t.Error(err)
	}
}

func TestSnapshotIsACopy(t *testing.T) {
	c := NewContext("s")
	c.AppendCalls(Message{}, []ToolCall{{ID: "1", Name: "a", Arguments: []byte(`{"x":1}`)}})
	s := c.Snapshot()
	s.Messages[0].Content = "changed"
	s.Messages[1].ToolCalls[0].Arguments[0] = '['
	if again := c.Snapshot(); again.Messages[0].Content != "s" || string(again.Messages[1].ToolCalls[0].Arguments) != `{"x":1}` {
		t.Errorf("changed from outside: %+v", again.Messages)
	}
}

func TestSystemStaysFirst(t *testing.T) {
	c := NewContext("")
	_, _ = c.Append(Message{Role: RoleUser, Content: "hi"})
	c.SetSystem("one")
	c.SetSystem("two")
	if got := told(c.Snapshot().Messages); got != "system: two\nuser: hi" {
		t.Error(got)
	}
	c.Reset()
	if got := told(c.Snapshot().Messages); got != "system: two" {
		t.Errorf("after a reset: %s", got)
	}
	if n, tokens := c.Size(); n != 1 || tokens != EstimateTokens(Message{Content: "two"}) {
		t.Errorf("%d messages, %d tokens", n, tokens)
	}
	c.SetSystem("")
	if n, tokens := c.Size(); n != 0 || tokens != 0 {
		t.Errorf("%d messages, %d tokens", n, tokens)
	}
}

// conversation.md line 14.
func TestToolChanges(t *testing.T) {
	tools := func(names ...string) (out []ToolDefinition) {
		for _, n := range names {
			out = append(out, ToolDefinition{Name: n})
		}
		return out
	}
	c := NewContext("")
	c.SetTools(tools("b", "a"))
	for _, step := range []struct {
		now  []ToolDefinition
		want string
	}{
		{tools("a", "b"), ""},
		{tools("a", "d", "c"), "developer: You can call these tools now: c, d. These tools are gone, do not call them: b."},
		{tools("c", "d", "a"), ""},
		{nil, "developer: These tools are gone, do not call them: a, c, d."},
		{tools("z"), "developer: You can call these tools now: z."},
	} {
		c.Reset()
		c.ChangeTools(step.now)
		s := c.Snapshot()
		if got := told(s.Messages); got != step.want {
			t.Errorf("%v: %q, want %q", step.now, got, step.want)
		}
		if len(s.Tools) != len(step.now) {
			t.Errorf("%v are told", s.Tools)
		}
	}
}

func TestEstimateTokens(t *testing.T) {
	for text, want := range map[string]int{"": 4, "word": 5, "four words are here": 9, "你好": 6, "é": 5} {
		if got := EstimateTokens(Message{Content: text}); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
