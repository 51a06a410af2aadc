package ollama

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"parley/agent/chat"
	"parley/agent/llm"
	"parley/agent/llm/internal/answer"
	"parley/agent/llm/llmtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

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
	Model   string
	Stream  bool
	Format  string
	Options struct {
		NumPredict  int `json:"num_predict"`
		Temperature *float64
	}
	Tools []struct {
		Type     string
		Function struct {
			Name, Description string
			Parameters        map[string]any
		}
	}
	Messages []struct {
		Role, Content string
		ToolName      string `json:"tool_name"`
		ToolCallID    string `json:"tool_call_id"`
		ToolCalls     []struct {
			ID       string
			Function struct {
				Name      string
				Arguments map[string]any
			}
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
	check(r.Method == "POST" && r.URL.Path == "/api/chat", r.Method+" "+r.URL.Path)
	check(h.Get("Authorization") == "Bearer k3y-1234" && h.Get("Content-Type") == "application/json" && h.Get("Accept") == accept, "headers")
	check(w.Model == "m1" && w.Stream && (w.Format == "" || w.Format == "json"), "model, stream or format")
	out := llm.Request{MaxTokens: w.Options.NumPredict, Temperature: w.Options.Temperature, JSON: w.Format == "json"}
	for _, t := range w.Tools {
		check(t.Type == "function" && t.Function.Parameters != nil, "a tool")
		out.Tools = append(out.Tools, llm.ToolDefinition{Name: t.Function.Name, Description: t.Function.Description, Parameters: t.Function.Parameters})
	}
	for _, m := range w.Messages {
		role := chat.Role(m.Role)
		if role == chat.RoleSystem && len(out.Messages) > 0 {
			role = chat.RoleDeveloper
		}
		check((role == chat.RoleTool) == (m.ToolName != ""), "tool_name "+m.ToolName)
		msg := chat.Message{Role: role, Content: m.Content}
		for _, call := range m.ToolCalls {
			check(role == chat.RoleAssistant && call.Function.Arguments != nil, "a tool call")
			arguments, _ := json.Marshal(call.Function.Arguments)
			msg.ToolCalls = append(msg.ToolCalls, llm.ToolCall{ID: call.ID, Name: call.Function.Name, Arguments: arguments})
		}
		out.Messages = append(out.Messages, msg)
	}
	return out, errors.Join(errs...)
}

// speak is a service with s behind it. ids tells whether its tool calls have some.
func speak(t *testing.T, ids bool, s llmtest.Service) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		request, err := received(r)
		if err != nil {
			t.Errorf("the request: %v", err)
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		begun := false
		send := func(v any) error {
			if !begun {
				w.Header().Set("Content-Type", "application/x-ndjson")
				begun = true
			}
			text, _ := json.Marshal(v)
			_, err := w.Write(append(text, '\n'))
			w.(http.Flusher).Flush()
			return err
		}
		message := func(fields map[string]any) error {
			fields["role"] = "assistant"
			return send(map[string]any{"model": "m1", "created_at": "2026-01-02T03:04:05Z", "message": fields, "done": false})
		}
		done, err := s(r.Context(), request, func(d llm.Delta) error {
			return message(map[string]any{"content": d.Text, "thinking": d.Thought})
		})
		switch {
		case r.Context().Err() != nil:
			panic(http.ErrAbortHandler)
		case errors.Is(err, llm.ErrBusy) && !begun:
			http.Error(w, `{"error":"server busy, please try again"}`, http.StatusServiceUnavailable)
		case err != nil && !begun:
			http.Error(w, fmt.Sprintf(`{"error":%q}`, err.Error()), http.StatusInternalServerError)
		case err != nil:
			_ = send(map[string]any{"error": err.Error()})
		default:
			for i, call := range done.ToolCalls {
				fields := map[string]any{"function": map[string]any{"index": i, "name": call.Name, "arguments": call.Arguments}}
				if ids {
					fields["id"] = call.ID
				}
				_ = message(map[string]any{"content": "", "tool_calls": []any{fields}})
			}
			reason := "stop"
			if done.Finish == llm.FinishLength {
				reason = "length"
			}
			_ = send(map[string]any{
				"model": "m1", "message": map[string]any{"role": "assistant", "content": ""}, "done": true, "done_reason": reason,
				"prompt_eval_count": done.PromptTokens, "eval_count": done.CompletionTokens, "total_duration": 5,
			})
		}
	}
}

func TestSuite(t *testing.T) {
	for _, ids := range []bool{false, true} {
		t.Run(fmt.Sprintf("ids_%v", ids), func(t *testing.T) {
			llmtest.RunCompleter(t, func(t *testing.T, s llmtest.Service) llm.Completer {
				return open(t, serve(t, speak(t, ids, s)), nil)
			})
		})
	}
}

func answers(parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		for _, part := range parts {
			_, _ = io.WriteString(w, part)
			w.(http.Flusher).Flush()
		}
	}
}

func text(s string) string { return fmt.Sprintf(`{"message":{"content":%q},"done":false}`, s) + "\n" }

const finished = `{"message":{"content":""},"done":true,"done_reason":"stop"}` + "\n"

// run asks and gives the words, "(thoughts)" and "<name arguments>" of tool calls.
func run(t *testing.T, c *Completer) (string, error) {
	t.Helper()
	var b strings.Builder
	done, err := c.Complete(t.Context(), llm.Request{Messages: []chat.Message{{Role: chat.RoleUser, Content: "hm"}}}, func(d llm.Delta) error {
		b.WriteString(d.Text)
		if d.Thought != "" {
			fmt.Fprintf(&b, "(%s)", d.Thought)
		}
		return nil
	})
	for _, call := range done.ToolCalls {
		fmt.Fprintf(&b, "<%s %s>", call.Name, call.Arguments)
	}
	return b.String(), err
}

func TestAnswers(t *testing.T) {
	abort := func(part string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			answers(part)(w, r)
			panic(http.ErrAbortHandler)
		}
	}
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   string
		fails  string
	}{
		{"in bits", answers(`{"message":{"con`, "tent\":\"gr\xc3", "\xbc\xc3\x9fe\"}}\r", "\n\n"+finished), "grüße", ""},
		{"no line end at the end", answers(text("Hi.") + strings.TrimSpace(finished)), "Hi.", ""},
		{"all in one", answers(`{"message":{"content":"Hi.","thinking":"Hm."},"done":true,"done_reason":"stop"}`), "(Hm.)Hi.", ""},
		{"thoughts among the words", answers(text("<think>Hm."), text("</think>\n\nHi."), finished), "(Hm.)Hi.", ""},
		{"no reason", answers(text("Hi."), `{"done":true}`), "Hi.", ""},
		{"after the end", answers(text("Hi."), finished, text(" No.")), "Hi.", ""},
		{"fields of another kind", answers(`{"message":{"content":"Hi.","images":7},"done":false,"eval_count":"x"}`+"\n", finished), "Hi.", ""},
		{"arguments within a text", answers(`{"message":{"tool_calls":[{"function":{"name":"f","arguments":"{\"x\":1}"}},{"function":{"name":"f","arguments":null}}]}}`+"\n", finished), `<f {"x":1}><f {}>`, ""},
		{"broken off", abort(text("Half a") + `{"mess`), "Half a", "closed the connection before the answer was complete"},
		{"an end that is none", answers(text("Half a")), "Half a", "closed the connection before the answer was complete"},
		{"a call that broke off", answers(`{"message":{"tool_calls":[{"function":{"name":"f","arguments":{}}}]}}` + "\n"), "", "before the answer was complete"},
		{"an error in the stream", answers(text("Half "), `{"error":"an error\u0007 k3y-1234"}`), "Half ", "reported an error: an error [secret]"},
		{"no JSON", answers("<html>"), "", `sent a line that is no JSON ("application/x-ndjson"); is it another service?: <html>`},
		{"an endless line", answers(strings.Repeat("x", answer.MaxFrame+1)), "", "larger than allowed"},
		{"BR-132 loaded, and nothing said", answers(`{"message":{"content":""},"done":true,"done_reason":"load"}`), "", "the model answered nothing"},
		{"no such model", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(404)
			_, _ = io.WriteString(w, `{"error":"model 'm1' not found"}`)
		}, "", "404 Not Found: check base_url, and that the model is there (ollama pull); it said: model 'm1' not found"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := run(t, open(t, serve(t, tt.answer), nil))
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("error %v, want %q", err, tt.fails)
			}
			if err != nil && (strings.Contains(err.Error(), "k3y") || !strings.Contains(err.Error(), "ollama: http://127.0.0.1:")) {
				t.Errorf("error %q", err)
			}
		})
	}
}

func TestBusyInTheStream(t *testing.T) {
	if _, err := run(t, open(t, serve(t, answers(`{"error":"server busy"}`)), nil)); !errors.Is(err, llm.ErrBusy) {
		t.Error(err)
	}
}

func TestBR132AServiceThatHangs(t *testing.T) {
	late := errors.New("no word in time")
	for _, before := range []string{"", text("Half ")} {
		c := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
			answers(before)(w, r)
			<-r.Context().Done()
		}), nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(late) })
		if _, err := c.Complete(ctx, llm.Request{}, func(llm.Delta) error { return nil }); !errors.Is(err, late) {
			t.Error(err)
		}
	}
}

func TestOptions(t *testing.T) {
	var got map[string]any
	sent := func(set func(*Config), r llm.Request) map[string]any {
		t.Helper()
		got = nil
		c := open(t, serve(t, func(w http.ResponseWriter, req *http.Request) {
			_ = json.NewDecoder(req.Body).Decode(&got)
			answers(text("x"), finished)(w, req)
		}), set)
		if _, err := c.Complete(t.Context(), r, func(llm.Delta) error { return nil }); err != nil {
			t.Fatal(err)
		}
		return got
	}
	warm, cold := 1.0, 0.0
	if g := sent(nil, llm.Request{}); g["options"] != nil || g["keep_alive"] != nil || g["think"] != nil || g["tools"] != nil || g["format"] != nil {
		t.Errorf("%v", g)
	}
	set := func(c *Config) {
		c.MaxTokens, c.Temperature, c.KeepAlive, c.Think = 50, &warm, -1, "off"
		c.Options = map[string]any{"num_ctx": 8192}
	}
	if g := sent(set, llm.Request{}); fmt.Sprint(g["options"], g["keep_alive"], g["think"]) != "map[num_ctx:8192 num_predict:50 temperature:1] -1 false" {
		t.Errorf("%v", g)
	}
	if g := sent(set, llm.Request{MaxTokens: 7, Temperature: &cold}); fmt.Sprint(g["options"]) != "map[num_ctx:8192 num_predict:7 temperature:0]" {
		t.Errorf("%v", g)
	}
	for think, want := range map[string]string{"on": "true", "high": "high"} {
		if g := sent(func(c *Config) { c.Think, c.KeepAlive = think, 10*time.Minute }, llm.Request{}); fmt.Sprintf("%v %v", g["think"], g["keep_alive"]) != want+" 600" {
			t.Errorf("%v", g)
		}
	}
	broken := llm.Request{Messages: []chat.Message{{Role: chat.RoleAssistant, ToolCalls: []llm.ToolCall{{ID: "a", Name: "f", Arguments: answer.Arguments("{broken")}}}}}
	calls := sent(nil, broken)["messages"].([]any)[0].(map[string]any)["tool_calls"]
	if fmt.Sprint(calls) != "[map[function:map[arguments:map[] name:f] id:a]]" {
		t.Errorf("%v", calls)
	}
	c, err := New(Config{BaseURL: "http://127.0.0.1:1", EmbeddingModel: "e"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Complete(t.Context(), llm.Request{}, nil); err == nil || !strings.Contains(err.Error(), "model: is not set") {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	hot := 3.0
	tests := []struct {
		name string
		set  func(*Config)
		want string
	}{
		{"good", func(*Config) {}, ""},
		{"no address", func(c *Config) { c.BaseURL = "" }, "base_url: must be set"},
		{"no address at all", func(c *Config) { c.BaseURL = "http://a b/%zz?k=hush" }, "base_url: is no address"},
		{"no scheme", func(c *Config) { c.BaseURL = "localhost:11434" }, "base_url: must begin with http:// or https://"},
		{"password", func(c *Config) { c.BaseURL = "http://me:hush@host/" }, "must not hold a user or password"},
		{"no model", func(c *Config) { c.Model = "" }, "model: must be set"},
		{"key of a file", func(c *Config) { c.APIKey = "hush\n" }, "api_key: holds white space"},
		{"header", func(c *Config) { c.Header = map[string]string{"X-A": "hush\n"} }, "header: \"X-A\""},
		{"bound", func(c *Config) { c.MaxTokens = -1 }, "max_tokens: -1"},
		{"temperature", func(c *Config) { c.Temperature = &hot }, "temperature: 3"},
		{"think", func(c *Config) { c.Think = "yes" }, "think: \"yes\""},
		{"options", func(c *Config) { c.Options = map[string]any{"num_predict": 1} }, "options: num_predict has a setting of its own"},
	}
	for _, tt := range tests {
		cfg := DefaultConfig()
		cfg.Model = "m1"
		tt.set(&cfg)
		_, err := New(cfg)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) || strings.Contains(fmt.Sprint(err), "hush") {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	for base, want := range map[string]string{
		"http://h:11434":               "http://h:11434/api/chat http://h:11434/api/embed",
		"http://h/":                    "http://h/api/chat http://h/api/embed",
		"https://h/models/ollama/":     "https://h/models/ollama/api/chat https://h/models/ollama/api/embed",
		"http://h/api":                 "http://h/api/chat http://h/api/embed",
		"http://h/x/api/chat?tenant=1": "http://h/x/api/chat?tenant=1 http://h/x/api/embed?tenant=1",
	} {
		c, err := New(Config{BaseURL: base, Model: "m"})
		if err != nil || c.chat+" "+c.embed != want {
			t.Errorf("%s: %v, %v", base, c, err)
		}
	}
}

func TestEmbed(t *testing.T) {
	var requests atomic.Int64
	c := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		var in struct {
			Model     string
			Input     []string
			KeepAlive int `json:"keep_alive"`
		}
		dec := json.NewDecoder(r.Body)
		dec.DisallowUnknownFields()
		if err := dec.Decode(&in); err != nil || r.URL.Path != "/api/embed" || in.Model != "e1" || in.KeepAlive != 60 {
			t.Errorf("%s %+v, %v", r.URL.Path, in, err)
		}
		var list []string
		for _, text := range in.Input {
			list = append(list, fmt.Sprintf("[%d,0.5]", len(text)))
		}
		answers(`{"model":"e1","embeddings":[`+strings.Join(list, ",")+`]}`)(w, r)
	}), func(c *Config) { c.EmbeddingModel, c.KeepAlive = "e1", time.Minute })
	var texts []string
	for i := range 300 {
		texts = append(texts, strings.Repeat("ü", i%7))
	}
	got, err := c.Embed(t.Context(), texts)
	if err != nil || len(got) != 300 || requests.Load() != 3 {
		t.Fatalf("%d vectors in %d requests, %v", len(got), requests.Load(), err)
	}
	for i, v := range got {
		if len(v) != 2 || v[0] != float32(len(texts[i])) {
			t.Fatalf("vector %d: %v", i, v)
		}
	}
	for body, want := range map[string]string{
		`{"embeddings":[[1]]}`:       "gave 1 vectors for 2 texts",
		`{"embeddings":[[1],[1,2]]}`: "differ in length",
		`{"embeddings":[[],[]]}`:     "empty",
		`{"error":"no k3y-1234"}`:    "reported an error: no [secret]",
		`{"embeddings":`:             "cannot be read",
	} {
		c := open(t, serve(t, answers(body)), func(c *Config) { c.EmbeddingModel = "e1" })
		if _, err := c.Embed(t.Context(), []string{"a", "b"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
	c = open(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }), func(c *Config) { c.EmbeddingModel = "e1" })
	if _, err := c.Embed(t.Context(), []string{"a"}); !errors.Is(err, llm.ErrBusy) {
		t.Error(err)
	}
	if _, err := open(t, "http://127.0.0.1:1", nil).Embed(t.Context(), []string{"a"}); err == nil || !strings.Contains(err.Error(), "embedding_model: is not set") {
		t.Error(err)
	}
}

// FuzzLines: what services send never panics; words come out as valid text, tool calls
// with arguments that are JSON.
func FuzzLines(f *testing.F) {
	for _, seed := range []string{
		text("Hi.") + finished, `{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"x":1}}}]},"done":true}`,
		`{"error":"x"}`, "\n\n{}", "<html>", "{\"message\":{\"content\":\"\xff\"},\"done\":true}", `{"message":7,"done":true}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		a := answer.New(func(d llm.Delta) error {
			if !utf8.ValidString(d.Text) || !utf8.ValidString(d.Thought) {
				t.Fatalf("%q", d)
			}
			return nil
		})
		if read(&http.Response{Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}}, a) != nil {
			return
		}
		done, err := a.Close()
		if err != nil && !errors.Is(err, llm.ErrEmpty) {
			t.Fatal(err)
		}
		for _, call := range done.ToolCalls {
			if call.ID == "" || call.Name == "" || !json.Valid(call.Arguments) {
				t.Fatalf("%+v", call)
			}
		}
	})
}
