package openai

import (
	"fmt"
	"hash/fnv"
	"strings"

	"parley/agent/chat"
	"parley/agent/llm"
	"parley/agent/llm/internal/answer"
)

// body is the request for an answer to r.
func (c *Completer) body(r llm.Request, names *names, as shape) map[string]any {
	body := make(map[string]any, len(c.cfg.Extra)+8)
	for name, value := range c.cfg.Extra {
		body[name] = value
	}
	body["model"] = c.cfg.Model
	body["stream"] = true
	if !c.cfg.NoUsage {
		body["stream_options"] = map[string]any{"include_usage": true}
	}
	if n := firstSet(r.MaxTokens, c.cfg.MaxTokens); n > 0 {
		body[c.cfg.MaxTokensField] = n
	}
	if r.Temperature != nil {
		body["temperature"] = *r.Temperature
	} else if c.cfg.Temperature != nil {
		body["temperature"] = *c.cfg.Temperature
	}
	if r.JSON {
		body["response_format"] = map[string]any{"type": "json_object"}
	}
	if len(r.Tools) > 0 {
		tools := make([]any, 0, len(r.Tools))
		for _, t := range r.Tools {
			tools = append(tools, tool(t, names))
		}
		body["tools"] = tools
	}
	given := r.Messages
	if as != asTheyAre {
		given = strict(given, as)
	}
	messages := make([]message, 0, len(given))
	for _, m := range given {
		messages = append(messages, c.message(m, names))
	}
	body["messages"] = messages
	return body
}

func firstSet(a, b int) int {
	if a > 0 {
		return a
	}
	return b
}

// message is one of a conversation.
type message struct {
	Role       string       `json:"role"`
	Content    string       `json:"content"`
	ToolCalls  []calledTool `json:"tool_calls,omitempty"`
	ToolCallID string       `json:"tool_call_id,omitempty"`
}

type calledTool struct {
	ID       string         `json:"id"`
	Type     string         `json:"type"`
	Function calledFunction `json:"function"`
}

type calledFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

func (c *Completer) message(m chat.Message, names *names) message {
	out := message{Role: string(m.Role), Content: m.Content, ToolCallID: m.ToolCallID}
	if m.Role == chat.RoleDeveloper {
		out.Role = c.cfg.DeveloperRole
	}
	for _, call := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, calledTool{
			ID: call.ID, Type: "function",
			Function: calledFunction{Name: names.theirs(call.Name), Arguments: answer.Written(call.Arguments)},
		})
	}
	return out
}

// tool is a tool as the service is told of it.
func tool(t llm.ToolDefinition, names *names) map[string]any {
	parameters := t.Parameters
	if parameters == nil {
		parameters = map[string]any{"type": "object", "properties": map[string]any{}}
	}
	function := map[string]any{"name": names.theirs(t.Name), "parameters": parameters}
	if t.Description != "" {
		function["description"] = t.Description
	}
	return map[string]any{"type": "function", "function": function}
}

// names gives tools names that the protocol takes: 1 to 64 of letters, digits, '_' and
// '-'. It belongs to one request.
type names struct{ back map[string]string }

func newNames() *names { return &names{make(map[string]string)} }

const maxName = 64

// theirs is the service's name for one of our tools, the same in every request.
func (n *names) theirs(name string) string {
	their := name
	if !taken(name) {
		clean := strings.Map(func(r rune) rune {
			if nameRune(r) {
				return r
			}
			return '_'
		}, name)
		h := fnv.New32a()
		_, _ = h.Write([]byte(name)) // never fails
		end := fmt.Sprintf("_%08x", h.Sum32())
		their = clean[:min(len(clean), maxName-len(end))] + end
	}
	n.back[their] = name
	return their
}

// ours is our name for one of the service's.
func (n *names) ours(name string) string {
	if own, ok := n.back[name]; ok {
		return own
	}
	return name
}

// taken says whether services take a name as it is.
func taken(name string) bool {
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, func(r rune) bool { return !nameRune(r) })
}

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}
