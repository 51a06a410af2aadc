package httpagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/agent/internal/wire"
	"parley/agent/llm"
	"parley/agent/llm/llmtest"
)

// status answers with a code and a body.
func status(code int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// bits writes a body in bits that are flushed one by one.
func bits(kind string, parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		for _, part := range parts {
			_, _ = io.WriteString(w, part)
			w.(http.Flusher).Flush()
		}
	}
}

// cutOff writes a part of a body and breaks the connection.
func cutOff(kind, part string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, part)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

func TestReplies(t *testing.T) {
	sse := "text/event-stream"
	big := strings.Repeat("x", 1<<20)
	tests := []struct {
		line   string
		answer http.HandlerFunc
		want   string // joined
		fails  string // part of the error; empty: none
	}{
		{"12 any 2xx", status(201, "text/plain", "Hi."), "Hi.", ""},
		{"12 204", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, "", ""},
		{"12 empty body of any type", status(200, "text/html", ""), "", ""},
		{"12 500", status(500, "text/plain", "boom"), "", "500 Internal Server Error: look into the agent's own log; it said: boom"},
		{"12 401", status(401, "text/plain", ""), "", "check [agent] api_key"},
		{"12 404", status(404, "text/plain", "no"), "", "check the path in [agent] url"},
		{"12 429", status(429, "text/plain", ""), "", "429 Too Many Requests: the agent is overloaded"},
		{"13 any case, with parameters", answer(`Text/PLAIN; Charset="utf-8"`, "Hi."), "Hi.", ""},
		{"13 a parameter is broken", answer("text/plain; charset=", "Hi."), "Hi.", ""},
		{"13 HTML", answer("text/html; charset=utf-8", "<h1>Log in</h1>"), "", "a page of HTML, which is never spoken"},
		{"13 problem", answer("application/problem+json", `{"text":"no"}`), "", `never spoken (it must be application/json, text/plain or text/event-stream): "application/problem+json"`},
		{"13 no type at all", answer("/", "Hi."), "", "never spoken"},
		{"15 text", answer("application/json", ` {"text":"Hi.","response":"no"}`+"\n"), "Hi.", ""},
		{"15 response", answer("application/json", `{"text":null,"response":"Hi."}`), "Hi.", ""},
		{"15 neither", answer("application/json", `{"foo":1,"text":5}`), "", ""},
		{"15 trailing bytes", answer("application/json", `{"text":"Hi."} x`), "", `is not one object such as {"text": "…"}, with nothing after it: {"text":"Hi."} x`},
		{"15 array", answer("application/json", `[{"text":"Hi."}]`), "", "not one object"},
		{"15 broken", answer("application/json", `{"text":"Hi.`), "", "not one object"},
		{"15 an error in it", answer("application/json", `{"error":{"message":"no model"}}`), "", "reported an error: no model"},
		{"15 too large", answer("application/json", `{"text":"`+big+`"}`), "", "larger than 1 MiB"},
		{"16 plain", bits("text/plain", "It is ", "22 degrees."), "It is 22 degrees.", ""},
		{"16 runes split", bits("text/plain", "\ufeffgr\xc3", "\xbc\xc3\x9fe \xf0\x9f", "\x98", "\x80"), "grüße 😀", ""},
		{"16 invalid", bits("text/plain", "a\xff", "b\xe4\xbd", "c\xe4\xbd"), "a\ufffdb\ufffd\ufffdc\ufffd\ufffd", ""},
		{"16 too many words", answer("text/plain", big+"x"), "", "more than 1 MiB of words"},
		{"17 deltas", bits(sse, "data: {\"delta\": \"It is \"}\n", "\ndata: {\"delta\":", " \"22.\"}\n\ndata: [DONE]\n\n"), "It is 22.", ""},
		{"17 line ends, comments, fields", bits(sse, "\ufeff: hi\r", "\nid: 1\r\nretry: 5\rdata: a\r\r", ":\n\ndata:b\n\nfoo\n\n"), "ab", ""},
		{"17 lines of one event", answer(sse, "data: one\ndata: two\n\n"), "one\ntwo", ""},
		{"17 JSON over lines", answer(sse, "data: {\ndata: \"delta\": \"x\"}\n\n"), "x", ""},
		{"17 error event", answer(sse, "data: One.\n\nevent: error\ndata: no\x07 credit\n\n"), "One.", "reported an error: no credit"},
		{"17 done, trimmed", answer(sse, "data: a\n\ndata:  [DONE] \n\ndata: b\n\n"), "a", ""},
		{"17 no blank line at the end", answer(sse, "data: a\n\ndata: b"), "ab", ""},
		{"17 one newline between", answer(sse, "data: {\"delta\":\"a\"}\ndata: {\"delta\":\"b\"}\ndata: [DONE]\n"), "ab", ""},
		{"17 endless event", answer(sse, "data: "+big+"\n\n"), "", "an event of the stream is larger than allowed, 1048576 bytes"},
		{"17 broken off", cutOff(sse, "data: One.\n\ndata: Two"), "One.", "closed the connection before the reply was complete"},
		{"16 broken off", cutOff("text/plain", "Half a"), "Half a", "closed the connection before the reply was complete"},
		{"15 broken off", cutOff("application/json", `{"text":"Half`), "", "closed the connection"},
		{"18 delta first", answer(sse, "data: {\"response\":\"c\",\"text\":\"b\",\"delta\":\"a\"}\n\n"), "a", ""},
		{"18 text, response, openai", answer(sse, "data: {\"text\":\"a\"}\n\ndata: {\"response\":\"b\"}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"c\"}}]}\n\n"), "abc", ""},
		{"18 error object", answer(sse, "data: {\"delta\":\"One.\"}\n\ndata: {\"error\":\"quota\"}\n\n"), "One.", "reported an error: quota"},
		{"18 no error", answer(sse, "data: {\"delta\":\"One.\",\"error\":null}\n\n"), "One.", ""},
		{"18 skipped", answer(sse, "data: {\"usage\":1}\n\ndata: {\"choices\":[]}\n\ndata: {\"delta\":\"\"}\n\ndata: {\"delta\":{\"x\":1}}\n\n"), "", ""},
		{"18 raw words", answer(sse, "data: Say \"hi\" \n\ndata: [1, 2] {x\n\ndata: {broken\n\n"), `Say "hi" [1, 2] {x{broken`, ""},
		{"18 invalid bytes", answer(sse, "data: a\xffb\n\n"), "a\ufffdb", ""},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			a := serve(t, tt.answer)
			got, err := say(t, open(t, a.URL, nil), llm.Turn{Text: "x"})
			if joined := strings.ReplaceAll(got, "|", ""); joined != tt.want && !(strings.Contains(tt.fails, "words") && len(joined) <= maxReply) {
				t.Errorf("words %.200q, want %q", joined, tt.want)
			}
			if tt.fails == "" && err != nil || tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) {
				t.Errorf("error %v, want %q", err, tt.fails)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "httpagent: ") {
				t.Errorf("error %q does not say whose it is", err)
			}
		})
	}
}

func TestLine18SkippedAreCounted(t *testing.T) {
	a := serve(t, answer("text/event-stream", "data: {\"usage\":1}\n\ndata: {\"choices\":[]}\n\ndata: {\"delta\":\"\"}\n\n"))
	m := open(t, a.URL, nil)
	must(t, m, llm.Turn{Text: "x"})
	if got := m.provider.Stats().Skipped; got != 2 {
		t.Errorf("%d skipped, want 2", got)
	}
}

func TestLine12BodyOfAnError(t *testing.T) {
	body := "secret is k3y-1234\x1b[31m\r\nInjected: line\x00 " + strings.Repeat("ü", 400)
	a := serve(t, status(500, "text/plain", body))
	m := open(t, a.URL+"/agent?token=hidden", func(c *Config) { c.APIKey = "k3y-1234" })
	_, err := say(t, m, llm.Turn{Text: "x"})
	text := fmt.Sprint(err)
	for _, bad := range []string{"k3y", "hidden", "\x1b", "\n", "\r", "\x00"} {
		if strings.Contains(text, bad) {
			t.Errorf("%q holds %q", text, bad)
		}
	}
	_, said, _ := strings.Cut(text, "it said: ")
	if len(said) > 512 || len(said) < 500 || strings.ContainsRune(said, '\ufffd') {
		t.Errorf("%d bytes of the body: %q", len(said), said)
	}
}

func TestLine14Redirects(t *testing.T) {
	target := serve(t, answer("text/plain", "Hi."))
	for _, tt := range []struct {
		code int
		ok   bool
	}{{301, false}, {302, false}, {303, false}, {307, true}, {308, true}} {
		a := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target.URL, tt.code) })
		before := len(target.requests())
		got, err := say(t, open(t, a.URL, nil), llm.Turn{Text: "hello"})
		if tt.ok {
			r := target.requests()
			if err != nil || got != "Hi." || r[len(r)-1].method != "POST" || r[len(r)-1].body["text"] != "hello" {
				t.Errorf("%d: %q, %v", tt.code, got, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "a redirect that does not keep the request") || len(target.requests()) != before {
			t.Errorf("%d: %q, %v", tt.code, got, err)
		}
	}
	var loop *agent
	loop = serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, loop.URL, 307) })
	if _, err := say(t, open(t, loop.URL, nil), llm.Turn{Text: "x"}); err == nil || len(loop.requests()) > wire.Redirects+1 {
		t.Errorf("a loop: %v after %d", err, len(loop.requests()))
	}
}

func TestTooSlow(t *testing.T) {
	hang := func(before string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, before)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}
	tests := []struct {
		name   string
		answer http.HandlerFunc
		set    func(*Config)
		want   string
	}{
		{"headers and nothing", hang(""), func(c *Config) { c.FirstTokenTimeout = 50 * time.Millisecond }, "(first_token_timeout_ms), 50ms, ran out"},
		{"not even headers", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, func(c *Config) { c.FirstTokenTimeout = 50 * time.Millisecond }, "first_token_timeout_ms"},
		{"half a sentence", hang("Half a"), func(c *Config) { c.Timeout = 50 * time.Millisecond }, "(timeout_ms), 50ms, ran out"},
		{"no first bound", hang(""), func(c *Config) { c.FirstTokenTimeout, c.Timeout = 0, 50*time.Millisecond }, "(timeout_ms), 50ms"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := serve(t, tt.answer)
			_, err := say(t, open(t, a.URL, tt.set), llm.Turn{Text: "x"})
			var late interface{ Timeout() bool }
			if err == nil || !strings.Contains(err.Error(), tt.want) || !errors.As(err, &late) || !late.Timeout() {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	_, err = say(t, open(t, "http://"+addr+"/agent?token=hidden", nil), llm.Turn{Text: "x"})
	if err == nil || !strings.Contains(err.Error(), "cannot reach http://"+addr+"/agent: is the agent running") || strings.Contains(err.Error(), "hidden") {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := open(t, "http://"+addr, nil).Reply(ctx, llm.Turn{}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	plain := serve(t, answer("text/plain", "Hi."))
	tls := strings.Replace(plain.URL, "http:", "https:", 1)
	if _, err := open(t, tls, nil).OneShot(t.Context(), "", "x"); err == nil || !strings.Contains(err.Error(), "HTTP response to HTTPS client") {
		t.Error(err)
	}
}

// The agent had no time for the first request, or closed the idle connection just
// as the request was written: it is sent once more.
func TestOneRetry(t *testing.T) {
	busyOnce := 0
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if busyOnce++; busyOnce == 1 {
			w.WriteHeader(503)
			return
		}
		answer("text/plain", "Hi.")(w, r)
	})
	m := open(t, a.URL, nil)
	if got := must(t, m, llm.Turn{Text: "x"}); got != "Hi." || m.provider.Stats().Retries != 1 {
		t.Errorf("%q after %d retries", got, m.provider.Stats().Retries)
	}

	n := 0
	b := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n++; n == 2 {
			panic(http.ErrAbortHandler)
		}
		answer("text/plain", "Hi.")(w, r)
	})
	m = open(t, b.URL, nil)
	must(t, m, llm.Turn{Text: "x"})
	if got := must(t, m, llm.Turn{Text: "y"}); got != "Hi." || len(b.requests()) != 3 {
		t.Errorf("%q after %d requests", got, len(b.requests()))
	}

	c := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if _, err := say(t, open(t, c.URL, nil), llm.Turn{Text: "x"}); err == nil || len(c.requests()) != 1 {
		t.Errorf("%v after %d requests: an agent that dies of a request is not asked again", err, len(c.requests()))
	}
}

func TestLine23Actions(t *testing.T) {
	object := `{"text":"Bye.","actions":[{"type":"transfer","to":" +15550199 "},"hangup",{"type":"dtmf","digits":"1"},{"type":"dance"},{"type":"dtmf","digits":"1 2"},{"type":"transfer"},7]}`
	sse := "data: {\"delta\":\"Bye.\"}\n\ndata: {\"actions\":[{\"type\":\"hangup\"}]}\n\ndata: {\"actions\":{}}\n\n"
	kind, body := "application/json", object
	a := serve(t, func(w http.ResponseWriter, r *http.Request) { answer(kind, body)(w, r) })
	m := open(t, a.URL, func(c *Config) { c.Actions = true })
	if got := must(t, m, llm.Turn{Text: "x"}); got != "Bye.|<transfer +15550199>|<hangup >|<dtmf >" {
		t.Errorf("%q", got)
	}
	m.Refused("+15550199 is not on the list.")
	kind, body = "text/event-stream", sse
	if got := must(t, m, llm.Turn{Text: "x"}); got != "Bye.|<hangup >" {
		t.Errorf("%q", got)
	}
	kind, body = "text/plain", "Hi."
	must(t, m, llm.Turn{Text: "x"})
	must(t, m, llm.Turn{Text: "x"})
	refusals := strings.Join([]string{"this gateway knows hangup, transfer, dtmf, hold and resume only.", `dtmf needs "digits" of 0-9, *, #, A-D and commas.`, `a transfer needs a target "to".`, "it was not understood.", "+15550199 is not on the list."}, "|")
	system := fmt.Sprint(a.requests()[1].body["system"])
	if got := strings.ReplaceAll(strings.ReplaceAll(system, "An action of your last reply was not done: ", ""), "\n\n", "|"); got != refusals {
		t.Errorf("system %q", system)
	}
	if got := a.requests()[2].body["system"]; got != `An action of your last reply was not done: "actions" must be a list.` {
		t.Errorf("system %q", got)
	}
	if got := a.requests()[3].body["system"]; got != nil {
		t.Errorf("told twice: %q", got)
	}

	kind, body = "application/json", object
	off := open(t, a.URL, nil)
	if got := must(t, off, llm.Turn{Text: "x"}); got != "Bye." {
		t.Errorf("switched off: %q", got)
	}
	must(t, off, llm.Turn{Text: "x"})
	r := a.requests()
	if got := fmt.Sprint(r[len(r)-1].body["system"]); !strings.Contains(got, "switched off") {
		t.Errorf("system %q", got)
	}
	stop := errors.New("stop")
	err := m.Reply(t.Context(), llm.Turn{}, func(c llm.Chunk) error {
		if c.Action != nil {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) {
		t.Error(err)
	}
}

func TestSuite(t *testing.T) {
	for _, kind := range []string{"text/plain", "text/event-stream", "openai"} {
		t.Run(kind, func(t *testing.T) {
			llmtest.Run(t, func(t *testing.T, l llmtest.Limits, backend llmtest.Backend) llm.Provider {
				a := serve(t, nil)
				a.Config.Handler = speak(kind, backend)
				return provider(t, a.URL, func(c *Config) { c.FirstTokenTimeout, c.Timeout = l.First, l.Total })
			})
		})
	}
}

// speak is an agent with backend behind it.
func speak(kind string, backend llmtest.Backend) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var asked request
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			http.Error(w, err.Error(), 400)
			return
		}
		wrote := false
		err := backend(r.Context(), asked.Text, func(words string) error {
			if !wrote {
				w.Header().Set("Content-Type", strings.Replace(kind, "openai", "text/event-stream", 1))
				wrote = true
			}
			var err error
			switch quoted, _ := json.Marshal(words); kind {
			case "text/plain":
				_, err = io.WriteString(w, words)
			case "openai":
				_, err = fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%s}}]}\n\n", quoted)
			default:
				_, err = fmt.Fprintf(w, "data: {\"delta\":%s}\n\n", quoted)
			}
			w.(http.Flusher).Flush()
			return err
		})
		switch {
		case err != nil && wrote:
			panic(http.ErrAbortHandler)
		case err != nil:
			http.Error(w, err.Error(), 500)
		}
	}
}

// speakTo is an agent with a backend of the suite of clients behind it.
func speakTo(kind string, b llmtest.ClientBackend) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var asked request
		dec := json.NewDecoder(r.Body)
		dec.DisallowUnknownFields()
		if err := dec.Decode(&asked); err != nil {
			http.Error(w, err.Error(), 400)
			return
		}
		was := llmtest.Asked{Session: asked.SessionID, System: asked.System, Text: asked.Text}
		speak(kind, func(ctx context.Context, _ string, say func(string) error) error {
			_, err := b(ctx, was, say)
			return err
		})(w, withBody(r, asked))
	}
}

// withBody is r with a request in it again.
func withBody(r *http.Request, body request) *http.Request {
	text, _ := json.Marshal(body)
	out := r.WithContext(r.Context())
	out.Body = io.NopCloser(strings.NewReader(string(text)))
	return out
}
