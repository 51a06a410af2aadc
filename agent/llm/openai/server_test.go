package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"parley/agent/chat"
	"parley/agent/llm"
	"parley/agent/llm/llmtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a service that answers by h.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// open is a Completer for the service at url.
func open(t *testing.T, url string, set func(*Config)) *Completer {
	t.Helper()
	cfg := DefaultConfig()
	cfg.BaseURL, cfg.APIKey, cfg.Model = url, "k3y-1234", "m1"
	if set != nil {
		set(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// wireRequest is a request as the protocol has it; nothing else may be in it.
type wireRequest struct {
	Model         string
	Stream        bool
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxTokens      int `json:"max_tokens"`
	Temperature    *float64
	ResponseFormat *struct{ Type string } `json:"response_format"`
	Tools          []struct {
		Type     string
		Function struct {
			Name, Description string
			Parameters        map[string]any
		}
	}
	Messages []struct {
		Role, Content string
		ToolCallID    string `json:"tool_call_id"`
		ToolCalls     []struct {
			ID, Type string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
}

// received takes a request apart, and says what is wrong with it.
func received(r *http.Request) (llm.Request, error) {
	var w wireRequest
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&w); err != nil {
		return llm.Request{}, err
	}
	var errs []error
	check := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New(what))
		}
	}
	h := r.Header
	check(r.Method == "POST" && r.URL.Path == "/v1/chat/completions", r.Method+" "+r.URL.Path)
	check(h.Get("Authorization") == "Bearer k3y-1234", "Authorization "+h.Get("Authorization"))
	check(h.Get("Content-Type") == "application/json" && h.Get("Accept") == accept, "headers")
	check(w.Model == "m1" && w.Stream && w.StreamOptions.IncludeUsage, "model, stream or stream_options")
	out := llm.Request{MaxTokens: w.MaxTokens, Temperature: w.Temperature}
	if w.ResponseFormat != nil {
		check(w.ResponseFormat.Type == "json_object", "response_format")
		out.JSON = true
	}
	for _, t := range w.Tools {
		check(t.Type == "function" && t.Function.Parameters != nil, "a tool")
		out.Tools = append(out.Tools, llm.ToolDefinition{Name: t.Function.Name, Description: t.Function.Description, Parameters: t.Function.Parameters})
	}
	open := map[string]bool{}
	for _, m := range w.Messages {
		role := chat.Role(m.Role)
		if role == "system" && len(out.Messages) > 0 {
			role = chat.RoleDeveloper // as Config.DeveloperRole has it
		}
		check((role == chat.RoleTool) == (m.ToolCallID != "") && (role != chat.RoleTool || open[m.ToolCallID]), "tool_call_id "+m.ToolCallID)
		msg := chat.Message{Role: role, Content: m.Content}
		for _, call := range m.ToolCalls {
			check(call.Type == "function" && call.ID != "" && role == chat.RoleAssistant, "a tool call")
			open[call.ID] = true
			msg.ToolCalls = append(msg.ToolCalls, llm.ToolCall{ID: call.ID, Name: call.Function.Name, Arguments: json.RawMessage(call.Function.Arguments)})
		}
		out.Messages = append(out.Messages, msg)
	}
	return out, errors.Join(errs...)
}

// dialect is how a service speaks the protocol.
type dialect struct {
	name     string
	thought  string // the field of thoughts; empty: among the words
	whole    bool   // tool calls come in one piece, all with number 0
	reason   string // for tool calls
	noDone   bool
	usage    string // "last" chunk, "own" chunk, "groq"
	lineEnds string
}

var dialects = []dialect{
	{name: "openai", thought: "reasoning_content", reason: "tool_calls", usage: "own", lineEnds: "\n\n"},
	{name: "llama.cpp", thought: "reasoning_content", reason: "tool_calls", noDone: true, usage: "last", lineEnds: "\n\n"},
	{name: "groq", thought: "reasoning", whole: true, reason: "tool_calls", usage: "groq", lineEnds: "\r\n\r\n"},
	{name: "thoughts among the words", whole: true, reason: "stop", usage: "own", lineEnds: "\n"},
}

// speak is a service of a dialect with s behind it.
func (d dialect) speak(t *testing.T, s llmtest.Service) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		request, err := received(r)
		if err != nil {
			t.Errorf("the request: %v", err)
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		out := &stream{w: w, d: d}
		done, err := s(r.Context(), request, out.give)
		switch {
		case r.Context().Err() != nil:
			panic(http.ErrAbortHandler)
		case errors.Is(err, llm.ErrBusy) && !out.begun:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"error":{"message":"slow down","type":"requests"}}`)
		case err != nil && !out.begun:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = fmt.Fprintf(w, `{"error":{"message":%q}}`, err.Error())
		case err != nil:
			_ = out.send(map[string]any{"error": map[string]any{"message": err.Error(), "type": "server_error"}})
		default:
			out.end(done)
		}
	}
}

// stream is an answer on its way.
type stream struct {
	w       http.ResponseWriter
	d       dialect
	begun   bool
	thought bool
}

func (s *stream) send(v any) error {
	text, _ := json.Marshal(v)
	return s.line("data: " + string(text))
}

func (s *stream) line(text string) error {
	if !s.begun {
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.begun = true
		_, _ = io.WriteString(s.w, ": hello"+s.d.lineEnds)
		_ = s.delta(map[string]any{"role": "assistant", "content": nil})
	}
	_, err := io.WriteString(s.w, text+s.d.lineEnds)
	if s.d.lineEnds == "\n" {
		_, _ = io.WriteString(s.w, "\n") // at the end of some lines only: see event
	}
	s.w.(http.Flusher).Flush()
	return err
}

func (s *stream) delta(delta map[string]any) error {
	return s.send(map[string]any{"object": "chat.completion.chunk", "choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": nil}}})
}

func (s *stream) give(p llm.Delta) error {
	if s.d.thought != "" {
		if p.Thought != "" {
			return s.delta(map[string]any{s.d.thought: p.Thought})
		}
		return s.delta(map[string]any{"content": p.Text})
	}
	text := p.Text
	switch {
	case p.Thought != "" && !s.thought:
		s.thought = true
		text = "<think>" + p.Thought
	case p.Thought != "":
		text = p.Thought
	case s.thought:
		s.thought = false
		text = "</think>\n\n" + text
	}
	return s.delta(map[string]any{"content": text})
}

func (s *stream) end(done llm.Completion) {
	for i, call := range done.ToolCalls {
		function := map[string]any{"name": call.Name, "arguments": string(call.Arguments)}
		if s.d.whole {
			_ = s.delta(map[string]any{"tool_calls": []any{map[string]any{"index": 0, "id": call.ID, "type": "function", "function": function}}})
			continue
		}
		function["arguments"] = ""
		_ = s.delta(map[string]any{"tool_calls": []any{map[string]any{"index": i, "id": call.ID, "type": "function", "function": function}}})
		for _, r := range string(call.Arguments) {
			_ = s.delta(map[string]any{"tool_calls": []any{map[string]any{"index": i, "function": map[string]any{"arguments": string(r)}}}})
		}
	}
	reason := string(done.Finish)
	if done.Finish == llm.FinishToolCalls {
		reason = s.d.reason
	}
	last := map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": reason}}}
	usage := map[string]any{"prompt_tokens": done.PromptTokens, "completion_tokens": done.CompletionTokens}
	switch s.d.usage {
	case "last":
		last["usage"] = usage
	case "groq":
		last["x_groq"] = map[string]any{"usage": usage}
	}
	_ = s.send(last)
	if s.d.usage == "own" {
		_ = s.send(map[string]any{"choices": []any{}, "usage": usage})
	}
	if !s.d.noDone {
		_ = s.line("data: [DONE]")
	}
}

func TestSuite(t *testing.T) {
	for _, d := range dialects {
		t.Run(strings.ReplaceAll(d.name, " ", "_"), func(t *testing.T) {
			llmtest.RunCompleter(t, func(t *testing.T, s llmtest.Service) llm.Completer {
				return open(t, serve(t, d.speak(t, s)), nil)
			})
		})
	}
}
