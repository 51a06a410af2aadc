package cascade

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/agent"
	"parley/agent/llm"
	"parley/agent/turn"
)

// conversation is what the model may know and do.
func (s *session) conversation() llm.Conversation {
	c := s.call
	memory := llm.Memory(c.Memory)
	if c.Memory == nil {
		memory = &memoryOfCall{kept: map[string]any{}}
	}
	return llm.Conversation{
		CallID: c.ID, SessionID: c.SessionID, ResourceID: c.Caller.ResourceID, Verified: c.Caller.Verified,
		CallerName: c.Caller.Name, Called: c.Called, Direction: c.Direction, Agent: c.Agent,
		Headers: c.Headers, Context: c.Context,
		Memory: memory, Line: callLine{s}, Wake: s.wishes.wake, Emit: s.happened,
	}
}

// memoryOfCall is the memory of a call that has none that lasts.
type memoryOfCall struct {
	mu   sync.Mutex
	kept map[string]any
}

// Get implements llm.Memory.
func (m *memoryOfCall) Get(key string) (any, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok := m.kept[key]
	return value, ok
}

// Set implements llm.Memory. What is no JSON is not kept: it would not be by a memory
// that lasts either.
func (m *memoryOfCall) Set(key string, value any) {
	var copied any
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &copied)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil || copied == nil {
		delete(m.kept, key)
		return
	}
	m.kept[key] = copied
}

// Keys implements llm.Memory.
func (m *memoryOfCall) Keys(prefix string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []string
	for key := range m.kept {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// happened reports what the model does. It is called from any goroutine.
func (s *session) happened(h llm.Happening) {
	s.tools.note(h)
	if h.Kind == "tool_call" || h.Kind == "tool_result" {
		s.wishes.nudge() // whether tools are at work may have changed
	}
	failed := ""
	if h.Err != nil {
		failed = clean(h.Err.Error(), maxName)
	}
	e := agent.Event{ID: clean(h.ID, maxName)}
	switch h.Kind {
	case "tool_call":
		e.Type, e.Reason, e.Text = agent.EventToolCall, clean(h.Name, maxName), cleanJSON(h.Text)
	case "tool_result":
		e.Type, e.Reason, e.Text = agent.EventToolResult, clean(h.Name, maxName), cleanJSON(h.Text)
		if text, err := json.Marshal(map[string]string{"error": failed}); h.Text == "" && failed != "" && err == nil {
			e.Text = string(text)
		}
	case "thought":
		e.Type, e.Text = agent.EventThought, clean(h.Text, maxThought)
	case "summary":
		e.Type, e.Text, e.Before, e.Messages = agent.EventSummary, clean(h.Text, maxThought), h.Before, h.Messages
		switch {
		case failed != "":
			e.Reason = "failed"
		case h.Text == "":
			e.Reason = "requested"
		default:
			e.Reason = "applied"
		}
	case "completion":
		e.Type, e.Text, e.Reason = agent.EventCompletion, clean(h.Text, maxThought), failed
	case "retrieval":
		e.Type, e.Text, e.Reason = agent.EventRetrieval, clean(h.Text, maxThought), failed
	default:
		return
	}
	s.emit(e)
}

// toolsAtWork are the tool calls that are not answered.
type toolsAtWork struct {
	mu    sync.Mutex
	calls map[string]time.Time
}

// maxTools bounds the calls that are looked at.
const maxTools = 64

func (t *toolsAtWork) note(h llm.Happening) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case h.Kind == "tool_call" && len(t.calls) < maxTools:
		if t.calls == nil {
			t.calls = map[string]time.Time{}
		}
		t.calls[h.ID] = time.Now()
	case h.Kind == "tool_result":
		delete(t.calls, h.ID)
	}
}

// at says how many are at work and when the first of them stops to count, so long after
// it began; zero: there is none.
func (t *toolsAtWork) at(now time.Time, limit time.Duration) (next time.Time, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, began := range t.calls {
		switch end := began.Add(limit); {
		case !end.After(now):
			delete(t.calls, id)
		case next.IsZero() || end.Before(next):
			next = end
		}
	}
	return next, len(t.calls)
}

// watchTools tells the turn taking how many tools are at work. A model that does not tell
// of its tools may have said that it waits for one.
func (s *session) watchTools(now time.Time) {
	if s.closing || s.over || s.screens() {
		return
	}
	_, run := s.tools.at(now, s.cfg.ToolTime)
	if run == 0 && s.reply != nil && s.reply.working() {
		run = 1
	}
	for ; s.toolsRun < run; s.toolsRun++ {
		s.decide(turn.Input{Kind: turn.ToolsBegan, At: now})
	}
	for ; s.toolsRun > run; s.toolsRun-- {
		s.decide(turn.Input{Kind: turn.ToolsEnded, At: now})
	}
}

// secrets are what callers keyed in and events must not hold.
type secrets struct {
	mu   sync.Mutex
	kept []string
}

// shortestSecret is how many keys make a code: fewer are a choice in a menu.
const shortestSecret = 3

func (k *secrets) keep(keys string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(keys) >= shortestSecret && !slices.Contains(k.kept, keys) && len(k.kept) < maxTools {
		k.kept = append(k.kept, keys)
	}
}

// hide takes them out of text.
func (k *secrets) hide(text string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, keys := range k.kept {
		text = strings.ReplaceAll(text, keys, "***")
	}
	return text
}
