package ollama

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"parley/agent/chat"
	"parley/agent/internal/wire"
	"parley/agent/llm"
	"parley/agent/llm/internal/answer"
)

// Completer runs one model of one service. Its pool of connections is shared by all
// calls. It is safe for concurrent use.
type Completer struct {
	cfg         Config
	service     *wire.Service
	chat, embed string // addresses
}

var (
	_ llm.Completer = (*Completer)(nil)
	_ llm.Embedder  = (*Completer)(nil)
)

// New returns a Completer, or everything that is wrong with cfg. It does not connect.
func New(cfg Config) (*Completer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("ollama: %w", err)
	}
	at, err := cfg.address()
	if err != nil {
		return nil, fmt.Errorf("ollama: %w", err)
	}
	c := &Completer{cfg: cfg, chat: at.JoinPath("chat").String(), embed: at.JoinPath("embed").String()}
	c.service = wire.NewService("ollama", at, cfg.APIKey, cfg.Header, cfg.Transport)
	c.service.Hint = hint
	return c, nil
}

// Close drops the idle connections of the pool.
func (c *Completer) Close() { c.service.Client.CloseIdleConnections() }

// hint says what the operator is to look at.
func hint(code int) string {
	switch {
	case code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusProxyAuthRequired:
		return "check api_key"
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		return "check base_url, and that the model is there (ollama pull)"
	case code == http.StatusBadRequest:
		return "it does not take the request; not every model takes tools, or think"
	case code >= 500:
		return "look into the service's own log"
	}
	return ""
}

const accept = "application/x-ndjson, application/json"

// Complete runs the model over r. See llm.Completer.
func (c *Completer) Complete(ctx context.Context, r llm.Request, out func(llm.Delta) error) (llm.Completion, error) {
	if c.cfg.Model == "" {
		return llm.Completion{}, errors.New("ollama: model: is not set")
	}
	resp, err := c.service.Post(ctx, c.chat, c.body(r), accept)
	if err != nil {
		return llm.Completion{}, answer.Refused(err)
	}
	defer resp.Body.Close()
	a := answer.New(out)
	if err := read(resp, a); err != nil {
		return a.Partial(), answer.Failed(ctx, c.service, err)
	}
	done, err := a.Close()
	if err != nil {
		return done, answer.Failed(ctx, c.service, err)
	}
	wire.Settle(ctx, resp.Body)
	return done, nil
}

// errDone ends the reading: the service is done.
var errDone = errors.New("done")

// read takes the lines of an answer. Its last says that it is done; without it the
// answer has broken off.
func read(resp *http.Response, a *answer.Answer) error {
	err := wire.Lines(resp.Body, answer.MaxFrame, answer.MaxBody, func(text []byte) error {
		var l line
		var odd *json.UnmarshalTypeError
		if err := json.Unmarshal(text, &l); err != nil && !errors.As(err, &odd) {
			return &answer.ServiceError{
				What: fmt.Sprintf("sent a line that is no JSON (%q); is it another service?", wire.Clean(resp.Header.Get("Content-Type"))),
				Text: string(text),
			}
		}
		return l.take(a)
	})
	switch {
	case errors.Is(err, errDone):
		return nil
	case err != nil:
		return err
	}
	return io.ErrUnexpectedEOF
}

// line is a piece of an answer.
type line struct {
	Message struct {
		Content   string     `json:"content"`
		Thinking  string     `json:"thinking"`
		ToolCalls []toolCall `json:"tool_calls"`
	} `json:"message"`
	Done       bool            `json:"done"`
	Reason     string          `json:"done_reason"`
	Prompt     int             `json:"prompt_eval_count"`
	Completion int             `json:"eval_count"`
	Error      json.RawMessage `json:"error"`
}

type toolCall struct {
	ID       string   `json:"id,omitempty"`
	Function function `json:"function"`
}

type function struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // an object; of some models a text
}

func (l *line) take(a *answer.Answer) error {
	if said := wire.FailureText(l.Error); said != "" {
		lower := strings.ToLower(said)
		return &answer.ServiceError{Text: said, Busy: strings.Contains(lower, "busy") || strings.Contains(lower, "overloaded")}
	}
	if err := a.Thought(l.Message.Thinking); err != nil {
		return err
	}
	if err := a.Text(l.Message.Content); err != nil {
		return err
	}
	for _, call := range l.Message.ToolCalls {
		// Calls come whole; their numbers, where there are some, tell nothing.
		if err := a.Call(answer.CallPart{Index: -1, ID: call.ID, Name: call.Function.Name, Arguments: string(call.Function.Arguments)}); err != nil {
			return err
		}
	}
	if !l.Done {
		return nil
	}
	a.PromptTokens, a.CompletionTokens = max(l.Prompt, 0), max(l.Completion, 0)
	a.Done(l.Reason)
	return errDone
}

// body is the request for an answer to r.
func (c *Completer) body(r llm.Request) map[string]any {
	options := make(map[string]any, len(c.cfg.Options)+2)
	for name, value := range c.cfg.Options {
		options[name] = value
	}
	if n := r.MaxTokens; n > 0 {
		options["num_predict"] = n
	} else if c.cfg.MaxTokens > 0 {
		options["num_predict"] = c.cfg.MaxTokens
	}
	if r.Temperature != nil {
		options["temperature"] = *r.Temperature
	} else if c.cfg.Temperature != nil {
		options["temperature"] = *c.cfg.Temperature
	}
	body := map[string]any{"model": c.cfg.Model, "stream": true, "messages": messages(r.Messages)}
	if len(options) > 0 {
		body["options"] = options
	}
	if r.JSON {
		body["format"] = "json"
	}
	switch c.cfg.Think {
	case "":
	case "on", "off":
		body["think"] = c.cfg.Think == "on"
	default:
		body["think"] = c.cfg.Think
	}
	c.keepAlive(body)
	if len(r.Tools) > 0 {
		tools := make([]any, 0, len(r.Tools))
		for _, t := range r.Tools {
			parameters := t.Parameters
			if parameters == nil {
				parameters = map[string]any{"type": "object", "properties": map[string]any{}}
			}
			tools = append(tools, map[string]any{"type": "function", "function": map[string]any{
				"name": t.Name, "description": t.Description, "parameters": parameters,
			}})
		}
		body["tools"] = tools
	}
	return body
}

func (c *Completer) keepAlive(body map[string]any) {
	switch keep := c.cfg.KeepAlive; {
	case keep < 0:
		body["keep_alive"] = -1
	case keep > 0:
		body["keep_alive"] = int(max(keep, time.Second) / time.Second)
	}
}

// message is one of a conversation.
type message struct {
	Role      string     `json:"role"`
	Content   string     `json:"content"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
	// ToolName says whose answer a message of the role "tool" is; services of today
	// know ToolCallID too.
	ToolName   string `json:"tool_name,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`
}

func messages(in []chat.Message) []message {
	out := make([]message, 0, len(in))
	for _, m := range in {
		to := message{Role: string(m.Role), Content: m.Content}
		switch m.Role {
		case chat.RoleDeveloper:
			to.Role = string(chat.RoleSystem) // templates of models drop roles they do not know
		case chat.RoleTool:
			to.ToolName, to.ToolCallID = m.Name, m.ToolCallID
		}
		for _, call := range m.ToolCalls {
			to.ToolCalls = append(to.ToolCalls, toolCall{ID: call.ID, Function: function{Name: call.Name, Arguments: object(call.Arguments)}})
		}
		out = append(out, to)
	}
	return out
}

// object is arguments as an object, which is all that the service takes.
func object(arguments json.RawMessage) json.RawMessage {
	var o map[string]json.RawMessage
	if json.Unmarshal(arguments, &o) != nil || o == nil {
		return json.RawMessage("{}")
	}
	return arguments
}
