package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"parley/agent/chat"
	"parley/agent/llm"
	"parley/agent/llm/internal/answer"
)

// answers writes parts one by one.
func answers(kind string, parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		for _, part := range parts {
			_, _ = io.WriteString(w, part)
			w.(http.Flusher).Flush()
		}
	}
}

// breaksOff writes a part and breaks the connection.
func breaksOff(part string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, part)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// unframed answers as servers of HTTP/1.0 do: the end of the connection is the end.
func unframed(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = buf.WriteString("HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + body)
		_ = buf.Flush()
	}
}

const sse = "text/event-stream"

func data(objects ...string) string {
	return "data: " + strings.Join(objects, "\n\ndata: ") + "\n\n"
}

func text(s string) string { return fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%q}}]}`, s) }

const stopped = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`

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

func TestOddServices(t *testing.T) {
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   string
		fails  string // part of the error; empty: none
	}{
		{"no DONE", answers(sse, data(text("Hi."), stopped)), "Hi.", ""},
		{"no DONE and no reason", answers(sse, data(text("Hi."))), "Hi.", ""},
		{"no blank line at the end", answers(sse, "data: "+text("Hi.")), "Hi.", ""},
		{"one newline between", answers(sse, "data: "+text("Hi ")+"\ndata: "+text("you.")+"\ndata: [DONE]\n"), "Hi you.", ""},
		{"in bits", answers(sse, "da", "ta: {\"choices\":[{\"delta\":{\"con", "tent\":\"gr\xc3", "\xbc\xc3\x9fe\"}}]}\r", "\n\r\ndata: [DO", "NE]\n\n"), "grüße", ""},
		{"the whole answer though a stream was asked for", answers("application/json", ` {"choices":[{"index":0,"message":{"role":"assistant","content":"Hi.","reasoning_content":"Hm."},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}`), "(Hm.)Hi.", ""},
		{"a stream with another type", answers("application/json", data(text("Hi."), "[DONE]")), "Hi.", ""},
		{"a stream without a type", answers("", "\ufeff\n"+data(text("Hi."), "[DONE]")), "Hi.", ""},
		{"comments", answers(sse, ": PROCESSING\n\n", data(text("Hi."), "[DONE]")), "Hi.", ""},
		{"a message after the deltas", answers(sse, data(text("Hi."), `{"choices":[{"message":{"content":"Hi."},"finish_reason":"stop"}]}`)), "Hi.", ""},
		{"only a message", answers(sse, data(`{"choices":[{"message":{"content":"Hi."},"finish_reason":"stop"}]}`)), "Hi.", ""},
		{"other choices", answers(sse, data(text("Hi."), `{"choices":[{"index":1,"delta":{"content":"no"}}]}`, "[DONE]")), "Hi.", ""},
		{"content in parts", answers(sse, data(`{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]},{"type":"text","text":"Hi."},{"type":"image"}]}}]}`, "[DONE]")), "(Hm.)Hi.", ""},
		{"both names of thoughts", answers(sse, data(`{"choices":[{"delta":{"reasoning":"Hm.","reasoning_content":"Hm."}}]}`, text("Hi."), "[DONE]")), "(Hm.)Hi.", ""},
		{"a refusal", answers(sse, data(`{"choices":[{"delta":{"content":null,"refusal":"I cannot."}}]}`, stopped)), "I cannot.", ""},
		{"fields of another kind", answers(sse, data(`{"choices":[{"delta":{"content":"Hi.","role":7},"finish_reason":null}],"usage":"none","id":5}`, stopped)), "Hi.", ""},
		{"arguments that are an object", answers(sse, data(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":null,"function":{"name":"f","arguments":{"x":1}}}]}}]}`, stopped)), `<f {"x":1}>`, ""},
		{"a function call of old", answers(sse, data(`{"choices":[{"delta":{"function_call":{"name":"f","arguments":"{\"x\""}}}]}`, `{"choices":[{"delta":{"function_call":{"arguments":":1}"}},"finish_reason":"function_call"}]}`)), `<f {"x":1}>`, ""},
		{"calls without a number", answers(sse, data(`{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"stop"}]}`)), "<f {}><g {}>", ""},
		{"it goes on after the end", answers(sse, data(text("Hi."), "[DONE]", text(" No."))), "Hi.", ""},
		{"garbage after the end", answers(sse, data(text("Hi."), stopped), strings.Repeat("x", 100)), "Hi.", ""},
		{"HTTP/1.0", unframed(data(text("Hi."), stopped)), "Hi.", ""},

		{"HTTP/1.0, broken off", unframed(data(text("Hi."))), "Hi.", "closed the connection before the answer was complete"},
		{"broken off", breaksOff(data(text("Half a")) + "data: {\"choi"), "Half a", "closed the connection before the answer was complete"},
		{"a call that broke off", breaksOff(data(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}}]}`)), "", "closed the connection"},
		{"an error in the stream", answers(sse, data(text("Half "), `{"error":{"message":"no\u0007 memory k3y-1234","code":500}}`)), "Half ", "reported an error: no memory [secret]"},
		{"an error as a text", answers(sse, data(`{"error":"no memory"}`)), "", "reported an error: no memory"},
		{"an error event", answers(sse, "event: error\ndata: {\"message\":\"no memory\"}\n\n"), "", "reported an error: no memory"},
		{"vLLM's error", answers(sse, data(`{"object":"error","message":"no memory","code":400}`)), "", "reported an error: no memory"},
		{"an error of OpenRouter", answers(sse, data(text("Half"), `{"choices":[{"finish_reason":"error"}]}`)), "Half", "broke the answer off"},
		{"no JSON", answers(sse, data(text("Half"), "{broken")), "Half", "sent an event that is no JSON: {broken"},
		{"a login page", answers("text/html", "\n<html>Log in"), "", `sent no answer but "text/html"; is it another service's page?: <html>Log in`},
		{"a list", answers("application/json", `[1]`), "", "sent no answer"},
		{"an endless event", answers(sse, "data: "+strings.Repeat("x", answer.MaxFrame+1)), "", "larger than allowed"},
		{"an endless object", answers("application/json", `{"x":"`+strings.Repeat("x", answer.MaxText*4)+`"}`), "", "larger than 4 MiB"},
		{"BR-132 nothing", answers(sse), "", "the model answered nothing"},
		{"BR-132 the count of tokens only", answers(sse, data(`{"choices":[],"usage":{"prompt_tokens":9}}`, "[DONE]")), "", "the model answered nothing (stop)"},
		{"filtered", answers(sse, data(`{"choices":[{"delta":{},"finish_reason":"content_filter"}]}`)), "", "the model answered nothing (filtered)"},
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
			if err != nil && (strings.Contains(err.Error(), "k3y") || !strings.Contains(err.Error(), "openai: http://127.0.0.1:")) {
				t.Errorf("error %q", err)
			}
		})
	}
}

func TestBusyInTheStream(t *testing.T) {
	for object, busy := range map[string]bool{
		`{"error":{"message":"slow down","type":"rate_limit_exceeded"}}`: true,
		`{"error":{"message":"later","code":503}}`:                       true,
		`{"object":"error","message":"later","code":429}`:                true,
		`{"error":{"message":"no","status_code":400}}`:                   false,
	} {
		_, err := run(t, open(t, serve(t, answers(sse, data(object))), nil))
		if err == nil || errors.Is(err, llm.ErrBusy) != busy {
			t.Errorf("%s: %v", object, err)
		}
	}
}

// BR-132: 429 with Retry-After. A short one is waited for, a long one is told.
func TestRetryAfter(t *testing.T) {
	var tries atomic.Int64
	c := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if tries.Add(1) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		answers(sse, data(text("Now."), stopped))(w, r)
	}), nil)
	began := time.Now()
	if got, err := run(t, c); got != "Now." || err != nil || time.Since(began) < time.Second {
		t.Errorf("%q, %v after %v", got, err, time.Since(began))
	}
	tries.Store(0)
	c = open(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		tries.Add(1)
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusTooManyRequests)
	}), nil)
	if _, err := run(t, c); !errors.Is(err, llm.ErrBusy) || tries.Load() != 1 || !strings.Contains(err.Error(), "left alone for 1m0s") {
		t.Errorf("%v after %d", err, tries.Load())
	}
}

// A service that says why it is over and keeps the stream open is not waited for.
func TestAStreamThatStaysOpen(t *testing.T) {
	c := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		answers(sse, data(text("Hi."), stopped))(w, r)
		<-r.Context().Done()
	}), nil)
	began := time.Now()
	if got, err := run(t, c); got != "Hi." || err != nil || time.Since(began) > 3*time.Second {
		t.Errorf("%q, %v after %v", got, err, time.Since(began))
	}
}

// The watchdogs are the caller's: what ends ctx is told as it is, before the first word
// and after it.
func TestBR132AServiceThatHangs(t *testing.T) {
	late := errors.New("no word in time")
	for _, before := range []string{"", data(text("Half "))} {
		c := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
			answers(sse, before)(w, r)
			<-r.Context().Done()
		}), nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(late) })
		if _, err := c.Complete(ctx, llm.Request{}, func(llm.Delta) error { return nil }); !errors.Is(err, late) {
			t.Error(err)
		}
	}
}

func TestConnectionsServeAgain(t *testing.T) {
	var made atomic.Int64
	srv := httptest.NewUnstartedServer(answers(sse, data(text("Hi."), stopped, "[DONE]")))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			made.Add(1)
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	c := open(t, srv.URL, nil)
	for range 5 {
		if _, err := run(t, c); err != nil {
			t.Fatal(err)
		}
	}
	if made.Load() != 1 {
		t.Errorf("%d connections", made.Load())
	}
	if c.service.Client.Transport.(*http.Transport).Proxy == nil {
		t.Error("proxies of the environment are not honoured")
	}
}

func TestErrorsOfTheService(t *testing.T) {
	for code, want := range map[int]string{
		401: "401 Unauthorized: check api_key; it said: no: [secret]",
		404: "404 Not Found: check base_url and model",
		422: "422 Unprocessable Entity: it does not take the request; some services need another developer_role",
		500: "500 Internal Server Error: the service is down or overloaded",
		418: "418 I'm a teapot; it said",
		302: "302 Found: a redirect that does not keep the request",
	} {
		c := open(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, `{"error":{"message":"no: k3y-1234"}}`)
		}), nil)
		if _, err := run(t, c); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "k3y") {
			t.Errorf("%d: %v", code, err)
		}
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
		{"no scheme", func(c *Config) { c.BaseURL = "localhost:8080" }, "base_url: must begin with http:// or https://"},
		{"password", func(c *Config) { c.BaseURL = "http://me:hush@host/" }, "must not hold a user or password"},
		{"no model", func(c *Config) { c.Model = "" }, "model: must be set"},
		{"embeddings only", func(c *Config) { c.Model, c.EmbeddingModel = "", "e1" }, ""},
		{"key of a file", func(c *Config) { c.APIKey = "hush\n" }, "api_key: holds white space"},
		{"header", func(c *Config) { c.Header = map[string]string{"X-A": "hush\r\nX-B: c"} }, `header: "X-A" or its value`},
		{"numbers", func(c *Config) { c.MaxTokens, c.EmbeddingDimensions, c.Temperature = -1, -1, &hot }, "embedding_dimensions: -1"},
		{"temperature", func(c *Config) { c.Temperature = &hot }, "temperature: 3, must be between 0 and 2"},
		{"role", func(c *Config) { c.DeveloperRole = "boss" }, "developer_role: \"boss\""},
		{"field", func(c *Config) { c.MaxTokensField = "n" }, "max_tokens_field: \"n\""},
		{"extra", func(c *Config) { c.Extra = map[string]any{"messages": 1} }, "extra: messages is set by the gateway"},
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
}

func TestAddresses(t *testing.T) {
	for base, want := range map[string]string{
		"http://h:8080":                           "http://h:8080/v1/chat/completions http://h:8080/v1/embeddings",
		"http://h:8080/":                          "http://h:8080/v1/chat/completions http://h:8080/v1/embeddings",
		"https://api.openai.com/v1":               "https://api.openai.com/v1/chat/completions https://api.openai.com/v1/embeddings",
		"https://h/openai/v1/":                    "https://h/openai/v1/chat/completions https://h/openai/v1/embeddings",
		"https://h/chat/completions":              "https://h/chat/completions https://h/embeddings",
		"https://h/v2/chat/completions/":          "https://h/v2/chat/completions https://h/v2/embeddings",
		"https://h/deployments/d?api-version=2#x": "https://h/deployments/d/chat/completions?api-version=2 https://h/deployments/d/embeddings?api-version=2",
		"http://[::1]:1/v1":                       "http://[::1]:1/v1/chat/completions http://[::1]:1/v1/embeddings",
	} {
		at, err := Config{BaseURL: base}.endpoints()
		if got := at.chat + " " + at.embeddings; got != want || err != nil {
			t.Errorf("%s: %s, %v", base, got, err)
		}
	}
}

// sent is the request that a Config and a Request make.
func sent(t *testing.T, set func(*Config), r llm.Request) map[string]any {
	t.Helper()
	var got map[string]any
	c := open(t, serve(t, func(w http.ResponseWriter, req *http.Request) {
		_ = json.NewDecoder(req.Body).Decode(&got)
		answers(sse, data(text("x"), stopped))(w, req)
	}), set)
	if _, err := c.Complete(t.Context(), r, func(llm.Delta) error { return nil }); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestOptions(t *testing.T) {
	warm, cold := 1.0, 0.0
	notice := llm.Request{Messages: []chat.Message{{Role: chat.RoleDeveloper, Content: "n"}}}
	role := func(got map[string]any) any { return got["messages"].([]any)[0].(map[string]any)["role"] }
	got := sent(t, nil, notice)
	if role(got) != "system" || got["max_tokens"] != nil || got["temperature"] != nil || got["tools"] != nil {
		t.Errorf("%v", got)
	}
	got = sent(t, func(c *Config) {
		c.DeveloperRole, c.MaxTokensField, c.MaxTokens, c.Temperature, c.NoUsage = "developer", "max_completion_tokens", 50, &warm, true
		c.Extra = map[string]any{"reasoning_effort": "low", "temperature": 0.1}
	}, notice)
	if role(got) != "developer" || got["max_completion_tokens"] != 50.0 || got["temperature"] != 1.0 || got["stream_options"] != nil || got["reasoning_effort"] != "low" {
		t.Errorf("%v", got)
	}
	notice.MaxTokens, notice.Temperature = 7, &cold
	got = sent(t, func(c *Config) { c.DeveloperRole, c.MaxTokens, c.Temperature = "user", 50, &warm }, notice)
	if role(got) != "user" || got["max_tokens"] != 7.0 || got["temperature"] != 0.0 {
		t.Errorf("%v", got)
	}
	c, err := New(Config{BaseURL: "https://api.openai.com/v1", Model: "m"})
	if err != nil || c.cfg.DeveloperRole != "developer" || c.cfg.MaxTokensField != "max_completion_tokens" {
		t.Errorf("OpenAI's own: %+v, %v", c.cfg, err)
	}
	c, _ = New(Config{BaseURL: "http://127.0.0.1:1", EmbeddingModel: "e"})
	if _, err := c.Complete(t.Context(), llm.Request{}, nil); err == nil || !strings.Contains(err.Error(), "model: is not set") {
		t.Error(err)
	}
}

// Tools have names that the protocol does not take.
func TestNamesOfTools(t *testing.T) {
	odd := []string{"crm.find:customer", "crm_find_customer", strings.Repeat("long", 30), strings.Repeat("long", 30) + "er", "fine-1"}
	var their []string
	c := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		request, err := received(r)
		if err != nil {
			t.Error(err)
		}
		var calls []string
		for i, tool := range request.Tools {
			their = append(their, tool.Name)
			calls = append(calls, fmt.Sprintf(`{"index":%d,"id":"c%d","function":{"name":%q,"arguments":"{}"}}`, i, i, tool.Name))
		}
		if got := request.Messages[0].ToolCalls[0].Name; got != their[0] {
			t.Errorf("the conversation has %q, the tools %q", got, their[0])
		}
		answers(sse, data(`{"choices":[{"delta":{"tool_calls":[`+strings.Join(calls, ",")+`]},"finish_reason":"tool_calls"}]}`))(w, r)
	}), nil)
	r := llm.Request{Messages: []chat.Message{
		{Role: chat.RoleAssistant, ToolCalls: []llm.ToolCall{{ID: "a", Name: odd[0], Arguments: answer.Arguments("{broken")}}},
		{Role: chat.RoleTool, ToolCallID: "a", Content: "{}"},
	}}
	for _, name := range odd {
		r.Tools = append(r.Tools, llm.ToolDefinition{Name: name})
	}
	done, err := c.Complete(t.Context(), r, func(llm.Delta) error { return nil })
	if err != nil || len(done.ToolCalls) != len(odd) {
		t.Fatalf("%+v, %v", done, err)
	}
	seen := map[string]bool{}
	for i, name := range odd {
		if done.ToolCalls[i].Name != name {
			t.Errorf("%q came back as %q", name, done.ToolCalls[i].Name)
		}
		if !taken(their[i]) || seen[their[i]] {
			t.Errorf("%q went out as %q", name, their[i])
		}
		seen[their[i]] = true
	}
	if their[1] != odd[1] || their[4] != odd[4] {
		t.Errorf("names that are fine were changed: %q", their)
	}
}

func TestEmbed(t *testing.T) {
	var requests atomic.Int64
	c := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		var in struct {
			Model          string
			Input          []string
			EncodingFormat string `json:"encoding_format"`
			Dimensions     int
		}
		dec := json.NewDecoder(r.Body)
		dec.DisallowUnknownFields()
		if err := dec.Decode(&in); err != nil || r.URL.Path != "/v1/embeddings" || in.Model != "e1" || in.EncodingFormat != "float" || in.Dimensions != 2 {
			t.Errorf("%s %+v, %v", r.URL.Path, in, err)
		}
		var list []string
		for i, text := range in.Input { // last first: the numbers count
			list = append([]string{fmt.Sprintf(`{"index":%d,"embedding":[%d,0.5]}`, i, len(text))}, list...)
		}
		answers("application/json", `{"data":[`+strings.Join(list, ",")+`]}`)(w, r)
	}), func(c *Config) { c.EmbeddingModel, c.EmbeddingDimensions = "e1", 2 })
	var texts []string
	for i := range 300 {
		texts = append(texts, strings.Repeat("ü", i%7))
	}
	got, err := c.Embed(t.Context(), texts)
	if err != nil || len(got) != 300 || requests.Load() != 3 {
		t.Fatalf("%d vectors in %d requests, %v", len(got), requests.Load(), err)
	}
	for i, v := range got {
		if len(v) != 2 || v[0] != float32(len(texts[i])) || v[1] != 0.5 {
			t.Fatalf("vector %d: %v", i, v)
		}
	}
	if got, err := c.Embed(t.Context(), nil); len(got) != 0 || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

func TestEmbedFails(t *testing.T) {
	for body, want := range map[string]string{
		`{"data":[{"embedding":[1]}]}`:                                       "gave 1 vectors for 2 texts",
		`{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[2]}]}`: "has the number 0",
		`{"data":[{"index":7,"embedding":[1]},{"index":1,"embedding":[2]}]}`: "has the number 7",
		`{"data":[{"embedding":[1]},{"embedding":[1,2]}]}`:                   "differ in length",
		`{"data":[{"embedding":[]},{"embedding":[]}]}`:                       "empty",
		`{"error":{"message":"no k3y-1234"}}`:                                "reported an error: no [secret]",
		`{"data":[`:                                                          "cannot be read",
		`<html>`:                                                             "cannot be read",
	} {
		c := open(t, serve(t, answers("application/json", body)), func(c *Config) { c.EmbeddingModel = "e1" })
		if _, err := c.Embed(t.Context(), []string{"a", "b"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
	c := open(t, serve(t, breaksOff(`{"data":[`)), func(c *Config) { c.EmbeddingModel = "e1" })
	if _, err := c.Embed(t.Context(), []string{"a"}); err == nil || !strings.Contains(err.Error(), "closed the connection") {
		t.Error(err)
	}
	c = open(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }), func(c *Config) { c.EmbeddingModel = "e1" })
	if _, err := c.Embed(t.Context(), []string{"a"}); !errors.Is(err, llm.ErrBusy) {
		t.Error(err)
	}
	if _, err := open(t, "http://127.0.0.1:1", nil).Embed(t.Context(), []string{"a"}); err == nil || !strings.Contains(err.Error(), "embedding_model: is not set") {
		t.Error(err)
	}
}

// The key stays with its host.
func TestARedirectTakesNoKey(t *testing.T) {
	var key string
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		key = r.Header.Get("Authorization") + r.Header.Get("Api-Key") + r.Header.Get("Referer")
		answers(sse, data(text("Hi."), stopped))(w, r)
	})
	c := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target+r.URL.Path, http.StatusTemporaryRedirect)
	}), func(c *Config) { c.Header = map[string]string{"api-key": "hush"} })
	if _, err := run(t, c); err != nil || key != "" {
		t.Errorf("%v, another host got %q", err, key)
	}
}

// FuzzStream: what services send never panics; words come out as valid text, tool calls
// with arguments that are JSON.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		data(text("Hi."), stopped, "[DONE]"),
		data(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x"}}]}}]}`, `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\":1}"}}]}}]}`),
		data(`{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"text":"x"}]}]}}]}`),
		data(`{"error":{"message":"m","code":429}}`), "event: error\ndata: x\n\n", "data: {\ndata: }\n\n",
		`{"choices":[{"message":{"content":"<think>a</think>b"}}]}`, "<html>", "\xef\xbb\xbfdata: \xff\n\n", "",
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
		resp := &http.Response{Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Header: http.Header{}}
		if read(resp, a) != nil {
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
