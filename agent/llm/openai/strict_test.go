package openai

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"parley/agent/chat"
	"parley/agent/llm"
)

// template is a service whose model's chat template takes one order of messages only.
type template struct {
	system    bool   // it knows the role
	code      int    // of a refusal
	refusal   string // what it says then; "" the template's own words
	requests  int
	last      []chat.Message
	lastTools int
}

// check is what the templates of Mistral and Gemma check, in their words.
func (s *template) check(messages []chat.Message) string {
	if len(messages) > 0 && messages[0].Role == chat.RoleSystem {
		if !s.system {
			return "System role not supported"
		}
		messages = messages[1:]
	}
	turn := 0
	for i, m := range messages {
		switch m.Role {
		case chat.RoleUser, chat.RoleAssistant:
			if len(m.ToolCalls) > 0 {
				if i == 0 {
					return "the first message must be of the role user"
				}
				continue
			}
			if (m.Role == chat.RoleUser) != (turn%2 == 0) {
				return "After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."
			}
			turn++
		case chat.RoleTool:
		default:
			return fmt.Sprintf("Only user, assistant and tool roles are supported after the beginning, got %s.", m.Role)
		}
	}
	if n := len(messages); n == 0 || messages[n-1].Role == chat.RoleAssistant {
		return "Expected last role User or Tool for serving but got assistant"
	}
	return ""
}

func (s *template) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests++
	var got struct {
		Messages []struct {
			Role       chat.Role
			Content    string
			ToolCallID string          `json:"tool_call_id"`
			ToolCalls  json.RawMessage `json:"tool_calls"`
		}
		Tools []json.RawMessage
	}
	if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	s.last, s.lastTools = nil, len(got.Tools)
	for _, m := range got.Messages {
		c := chat.Message{Role: m.Role, Content: m.Content, ToolCallID: m.ToolCallID}
		if len(m.ToolCalls) > 0 {
			c.ToolCalls = []chat.ToolCall{{ID: "x"}}
		}
		s.last = append(s.last, c)
	}
	why := s.check(s.last)
	if why == "" {
		answers(sse, data(text("Hi."), stopped, "[DONE]"))(w, r)
		return
	}
	if s.refusal != "" {
		why = s.refusal
	}
	w.WriteHeader(s.code)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": why}})
}

// phoneCall is a conversation as a call makes it: a greeting before the caller says a
// word, a summary, notices between, tools, a caller who comes between.
func phoneCall() []chat.Message {
	return []chat.Message{
		{Role: chat.RoleSystem, Content: "Be kind."},
		{Role: chat.RoleDeveloper, Content: chat.SummaryLead + "They called."},
		{Role: chat.RoleAssistant, Content: "Welcome."},
		{Role: chat.RoleUser, Content: "One."},
		{Role: chat.RoleUser, Content: "Two."},
		{Role: chat.RoleAssistant, Content: "Let me look.", ToolCalls: []chat.ToolCall{{ID: "c1", Name: "look", Arguments: json.RawMessage(`{}`)}}},
		{Role: chat.RoleTool, Content: "found", ToolCallID: "c1"},
		{Role: chat.RoleDeveloper, Content: "A late answer came."},
		{Role: chat.RoleUser, Content: "Wait."},
		{Role: chat.RoleAssistant, Content: "Yes?"},
		{Role: chat.RoleAssistant, Content: "Are you there?"},
		{Role: chat.RoleDeveloper, Content: "They pressed 1."},
	}
}

// A service with a strict template answers a call: by the setting at once, else after it
// refused, once, whatever it says of roles and with which status.
func TestStrictTemplates(t *testing.T) {
	for name, c := range map[string]struct {
		service  template
		role     string
		requests int // for two turns
	}{
		"set":               {template{system: true, code: 400}, "merge", 2},
		"found out":         {template{system: true, code: 400}, "", 3},
		"found out by user": {template{system: true, code: 400}, "user", 3},
		"llama.cpp":         {template{system: true, code: 500}, "", 3},
		"no system":         {template{code: 400}, "", 4},
		"no system, set":    {template{code: 400}, "merge", 3},
		"its own words":     {template{system: true, code: 422, refusal: "System message must be at the beginning."}, "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.service
			cm := open(t, serve(t, s.ServeHTTP), func(cfg *Config) { cfg.DeveloperRole = c.role })
			for range 2 {
				var got strings.Builder
				_, err := cm.Complete(t.Context(), llm.Request{Messages: phoneCall(), Tools: []llm.ToolDefinition{{Name: "look"}}},
					func(d llm.Delta) error { got.WriteString(d.Text); return nil })
				if err != nil || got.String() != "Hi." {
					t.Fatalf("%q, %v", got.String(), err)
				}
			}
			if s.requests != c.requests || s.lastTools != 1 {
				t.Errorf("%d requests, %d tools", s.requests, s.lastTools)
			}
			all := flat(s.last)
			at := 0
			for _, m := range phoneCall() { // every text, in its order
				i := strings.Index(all[at:], m.Content)
				if i < 0 {
					t.Fatalf("%q is missing or out of order in\n%s", m.Content, all)
				}
				at += i
			}
			if !strings.Contains(all, "[Note of the gateway, not of the caller: They pressed 1.]") {
				t.Errorf("a notice looks like the caller's words:\n%s", all)
			}
		})
	}
}

func flat(messages []chat.Message) string {
	var lines []string
	for _, m := range messages {
		lines = append(lines, string(m.Role)+": "+m.Content)
	}
	return strings.Join(lines, "\n")
}

// What is refused for another reason, or in every shape, is told as it was first, and
// changes nothing for the requests after it.
func TestRefusalsThatAreNotForRoles(t *testing.T) {
	for name, c := range map[string]struct {
		code     int
		said     string
		requests int
	}{
		"another reason":    {400, "max_tokens is too large", 1},
		"a key":             {401, "your role does not support this", 1},
		"a role elsewhere":  {400, "the role of your account", 1},
		"whatever is asked": {400, "roles must alternate", 3},
	} {
		requests := 0
		cm := open(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			requests++
			w.WriteHeader(c.code)
			_, _ = io.WriteString(w, `{"error":{"message":"`+c.said+fmt.Sprint(" #", requests)+`"}}`)
		}), nil)
		_, err := cm.Complete(t.Context(), llm.Request{Messages: phoneCall()}, func(llm.Delta) error { return nil })
		if err == nil || !strings.Contains(err.Error(), c.said+" #1") || requests != c.requests || cm.shape.Load() != int32(asTheyAre) {
			t.Errorf("%s: %v after %d requests, shape %d", name, err, requests, cm.shape.Load())
		}
	}
}

// Whatever a conversation looks like, a strict template takes what strict makes of it,
// and no text is lost.
func TestStrictAlways(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 2))
		c := chat.NewContext([]string{"", "Be kind."}[r.IntN(2)])
		var texts []string
		word := func() string {
			texts = append(texts, fmt.Sprintf("<%d>", len(texts)))
			return texts[len(texts)-1]
		}
		for range r.IntN(12) {
			switch r.IntN(5) {
			case 0:
				_, _ = c.Append(chat.Message{Role: chat.RoleDeveloper, Content: word()})
			case 1, 2:
				_, _ = c.Append(chat.Message{Role: chat.RoleUser, Content: word()})
			case 3:
				_, _ = c.Append(chat.Message{Role: chat.RoleAssistant, Content: word()})
			case 4:
				c.AppendCalls(chat.Message{Content: word()}, make([]chat.ToolCall, 1+r.IntN(2)))
			}
		}
		messages := c.Snapshot().Messages
		before := flat(messages)
		for _, as := range []shape{merged, folded} {
			got := strict(messages, as)
			s := template{system: as == merged}
			if why := s.check(got); why != "" || chat.Valid(got) != nil {
				t.Fatalf("seed %d: %s, %v of\n%s\nfrom\n%s", seed, why, chat.Valid(got), flat(got), before)
			}
			for _, text := range texts {
				if strings.Count(flat(got), text) != 1 {
					t.Fatalf("seed %d: %s is not there once:\n%s", seed, text, flat(got))
				}
			}
		}
		if flat(messages) != before {
			t.Fatalf("seed %d: the conversation was changed", seed)
		}
	}
}
