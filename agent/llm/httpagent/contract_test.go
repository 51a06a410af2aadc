package httpagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/agent/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// received is a request as the agent got it.
type received struct {
	method string
	header http.Header
	body   map[string]any
	raw    string
}

// agent is an HTTP agent that notes what it gets.
type agent struct {
	*httptest.Server
	mu   sync.Mutex
	reqs []received
	conn map[net.Conn]bool
}

// serve starts an agent that answers by h.
func serve(t *testing.T, h http.HandlerFunc) *agent {
	t.Helper()
	a := &agent{conn: make(map[net.Conn]bool)}
	a.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		rec := received{method: r.Method, header: r.Header.Clone(), raw: string(raw)}
		_ = json.Unmarshal(raw, &rec.body)
		a.mu.Lock()
		a.reqs = append(a.reqs, rec)
		a.mu.Unlock()
		h(w, r)
	}))
	a.Config.ConnState = func(c net.Conn, s http.ConnState) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if s == http.StateNew {
			a.conn[c] = true
		}
	}
	a.Start()
	t.Cleanup(a.Close)
	return a
}

func (a *agent) requests() []received {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.reqs)
}

func (a *agent) connections() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.conn)
}

func answer(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		_, _ = io.WriteString(w, body)
	}
}

var caller = llm.Conversation{CallID: "00112233aabbccdd", SessionID: "sess-1", ResourceID: "+15550100", CallerName: "Ann", Called: "100", Direction: "inbound"}

// provider is one for the agent at url.
func provider(t *testing.T, url string, set func(*Config)) *Provider {
	t.Helper()
	cfg := DefaultConfig()
	cfg.URL = url
	if set != nil {
		set(&cfg)
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// open is a conversation with the agent at url.
func open(t *testing.T, url string, set func(*Config)) *Model {
	t.Helper()
	return opened(t, provider(t, url, set), caller)
}

func opened(t *testing.T, p *Provider, c llm.Conversation) *Model {
	t.Helper()
	m, err := p.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.(*Model).end(errClosed) })
	return m.(*Model)
}

// say is the text of a reply, with "|" between its chunks.
func say(t *testing.T, m *Model, turn llm.Turn) (string, error) {
	t.Helper()
	var chunks []string
	err := m.Reply(t.Context(), turn, func(c llm.Chunk) error {
		if c.Text != "" {
			chunks = append(chunks, c.Text)
		}
		if c.Action != nil {
			chunks = append(chunks, fmt.Sprintf("<%s %s>", c.Action.Kind, c.Action.To))
		}
		return nil
	})
	return strings.Join(chunks, "|"), err
}

func must(t *testing.T, m *Model, turn llm.Turn) string {
	t.Helper()
	got, err := say(t, m, turn)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestLine1Post(t *testing.T) {
	a := serve(t, answer("text/plain", "Hi."))
	must(t, open(t, a.URL, nil), llm.Turn{Text: "hello"})
	must(t, open(t, a.URL, func(c *Config) { c.APIKey = "k3y" }), llm.Turn{Text: "hello"})
	r := a.requests()
	want := map[string]string{
		"Content-Type": "application/json", "Authorization": "",
		"Accept": "text/event-stream, text/plain, application/json",
	}
	for name, value := range want {
		if got := r[0].header.Get(name); got != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
	if r[0].method != "POST" || r[1].header.Get("Authorization") != "Bearer k3y" {
		t.Errorf("%s, %q", r[0].method, r[1].header.Get("Authorization"))
	}
}

func TestLine2And3Fields(t *testing.T) {
	a := serve(t, answer("text/plain", "Hi."))
	m := open(t, a.URL, nil)
	must(t, m, llm.Turn{Text: `is <b> & "x" < 3? ünï 😀`})
	if want := `{"session_id":"sess-1","resource_id":"+15550100","type":"chat","text":"is <b> & \"x\" < 3? ünï 😀"}` + "\n"; a.requests()[0].raw != want {
		t.Errorf("got  %swant %s", a.requests()[0].raw, want)
	}
	anonymous := caller
	anonymous.ResourceID, anonymous.SessionID = "", ""
	m = opened(t, provider(t, a.URL, nil), anonymous)
	must(t, m, llm.Turn{Text: ""})
	must(t, m, llm.Turn{Text: "x"})
	m.Reset()
	must(t, m, llm.Turn{Text: "y"})
	r := a.requests()
	if _, there := r[1].body["resource_id"]; there || r[1].body["text"] != "" {
		t.Errorf("anonymous: %s", r[1].raw)
	}
	one, two, three := r[1].body["session_id"], r[2].body["session_id"], r[3].body["session_id"]
	if one == "" || one != two || two == three {
		t.Errorf("session ids %v %v %v", one, two, three)
	}
}

func TestLine4System(t *testing.T) {
	a := serve(t, answer("text/plain", "Hi."))
	m := open(t, a.URL, func(c *Config) { c.System = "Be brief.\n" })
	m.AppendSystemPrompt("Sell hats.")
	m.AppendSystemPrompt("Be brief.")
	m.AppendSystemPrompt(" ")
	for _, turn := range []llm.Turn{{Text: "x"}, {Garbled: true, Nothing: true}, {Nothing: true}} {
		must(t, m, turn)
	}
	m.Reset()
	m.AppendSystemPrompt("Sell hats.")
	must(t, m, llm.Turn{Text: "x"})
	base := "Be brief.\n\nSell hats."
	for i, want := range []string{base, base + "\n\n" + garbledNote, base + "\n\n" + silentNote, base} {
		if got := a.requests()[i].body["system"]; got != want {
			t.Errorf("%d: system %q, want %q", i, got, want)
		}
	}
}

func TestLine5Interrupted(t *testing.T) {
	a := serve(t, answer("text/plain", "Hi."))
	m := open(t, a.URL, nil)
	must(t, m, llm.Turn{Text: "wait", WasInterrupted: true, Interrupted: "Our hours are"})
	must(t, m, llm.Turn{Text: "wait", WasInterrupted: true})
	if got := a.requests()[0].body["interrupted_text"]; got != "Our hours are" {
		t.Errorf("%q", got)
	}
	if _, there := a.requests()[1].body["interrupted_text"]; there {
		t.Error("nothing was heard, and it is there")
	}
}

func TestLine6And7ContextAndSummary(t *testing.T) {
	a := serve(t, answer("text/plain", "Hi."))
	fail := false
	m := open(t, a.URL, func(c *Config) {
		c.Retrieve = func(_ context.Context, c llm.Conversation, text string) ([]string, error) {
			if fail {
				return []string{"half"}, errors.New("the index is gone")
			}
			return []string{c.ResourceID, text}, nil
		}
	})
	must(t, m, llm.Turn{Text: "hours"})
	m.SetSummary("They asked for hours.")
	fail = true
	must(t, m, llm.Turn{Text: "price"})
	must(t, m, llm.Turn{Text: "so?"})
	r := a.requests()
	if got := fmt.Sprint(r[0].body["context"]); got != "[+15550100 hours]" || r[0].body["summary"] != nil {
		t.Errorf("first: %s", r[0].raw)
	}
	for _, later := range r[1:] {
		if later.body["context"] != nil || later.body["summary"] != "They asked for hours." {
			t.Errorf("later: %s", later.raw)
		}
	}
}

func TestLine8OneShot(t *testing.T) {
	hang := make(chan struct{})
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Call-Id") == "hang" {
			close(hang)
			<-r.Context().Done()
			return
		}
		answer("application/json", `{"text":"short"}`)(w, r)
	})
	m := open(t, a.URL, nil)
	m.Reset()
	ctx, barge := context.WithCancel(t.Context())
	barge() // cancels a turn, not this
	_ = m.Reply(ctx, llm.Turn{Text: "x"}, nil)
	got, err := m.OneShot(t.Context(), "Summarise.", "words")
	if got != "short" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	r := a.requests()[len(a.requests())-1]
	if r.body["type"] != "oneshot" || r.body["resource_id"] != "+15550100" || r.body["system"] != "Summarise." || r.body["text"] != "words" || r.body["session_id"] == "sess-1" {
		t.Errorf("%s", r.raw)
	}

	// The end of the call cancels it.
	c := caller
	c.CallID = "hang"
	m = opened(t, provider(t, a.URL, nil), c)
	done := make(chan error)
	go func() { _, err := m.OneShot(t.Context(), "", "x"); done <- err }()
	<-hang
	m.Close(t.Context(), llm.End{})
	if err := <-done; !errors.Is(err, errClosed) {
		t.Error(err)
	}

	// It has a bound of its own.
	hang = make(chan struct{})
	m = opened(t, provider(t, a.URL, func(c *Config) { c.OneShotTimeout = 50 * time.Millisecond }), c)
	if _, err := m.OneShot(t.Context(), "", "x"); err == nil || !strings.Contains(err.Error(), "beside the conversation") {
		t.Error(err)
	}
}

func TestLine9ANewerTurnCancels(t *testing.T) {
	var once atomic.Bool
	began, gone := make(chan struct{}), make(chan struct{})
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		answer("text/plain", "Hi.")(w, r)
		w.(http.Flusher).Flush()
		if once.CompareAndSwap(false, true) {
			close(began)
			<-r.Context().Done()
			close(gone)
		}
	})
	m := open(t, a.URL, nil)
	first := make(chan error)
	go func() { _, err := say(t, m, llm.Turn{Text: "one"}); first <- err }()
	<-began
	if got, err := say(t, m, llm.Turn{Text: "two"}); got != "Hi." || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := <-first; !errors.Is(err, errSuperseded) {
		t.Error(err)
	}
	select {
	case <-gone:
	case <-time.After(5 * time.Second):
		t.Error("the agent did not see the cancel")
	}
}

func TestLine10Notify(t *testing.T) {
	a := serve(t, answer("text/plain", "Never spoken."))
	m := open(t, a.URL, func(c *Config) { c.Notify, c.Greeting = true, "Hello!" })
	if err := m.Greet(t.Context(), func(c llm.Chunk) error { return fmt.Errorf("spoke %v", c) }); err != nil {
		t.Error(err)
	}
	m.Close(t.Context(), llm.End{Cause: "caller hung up", Duration: 1500 * time.Millisecond})
	r := a.requests()
	if len(r) != 2 {
		t.Fatalf("%d requests", len(r))
	}
	want := []string{
		`{"session_id":"sess-1","resource_id":"+15550100","type":"start","text":"","caller":"+15550100","caller_name":"Ann","called":"100","direction":"inbound","greeting":"Hello!"}`,
		`{"session_id":"sess-1","resource_id":"+15550100","type":"end","text":"","cause":"caller hung up","duration_seconds":1.5}`,
	}
	for i := range want {
		if got := strings.TrimSpace(r[i].raw); got != want[i] {
			t.Errorf("got  %s\nwant %s", got, want[i])
		}
		if r[i].header.Get("X-Call-Id") != caller.CallID {
			t.Errorf("X-Call-Id %q", r[i].header.Get("X-Call-Id"))
		}
	}
	off := open(t, a.URL, nil)
	off.Close(t.Context(), llm.End{})
	if n := len(a.requests()); n != 2 {
		t.Errorf("notify is off, and %d requests came", n-2)
	}
}

func TestLine10NotifyOfAnAgentThatHangs(t *testing.T) {
	a := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	m := open(t, a.URL, func(c *Config) { c.Notify = true })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	m.Close(ctx, llm.End{})
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("Close took %v", took)
	}
}

func TestLine10CallIDIsNoHeaderBreaker(t *testing.T) {
	a := serve(t, answer("text/plain", "Hi."))
	c := caller
	c.CallID = "a\r\nX-Evil: ü" + strings.Repeat("x", 9000)
	must(t, opened(t, provider(t, a.URL, nil), c), llm.Turn{Text: "x"})
	h := a.requests()[0].header
	if id := h.Get("X-Call-Id"); !strings.HasPrefix(id, "a%0D%0AX-Evil") || len(id) > 4096 || h.Get("X-Evil") != "" {
		t.Errorf("%.60q", id)
	}
}

func TestLine11SharedPoolAndIdentity(t *testing.T) {
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		answer("text/event-stream", "data: Hi.\n\ndata: [DONE]\n\n")(w, r)
	})
	p := provider(t, a.URL, func(c *Config) {
		c.Identity = func(c llm.Conversation) (string, error) { return "jwt-of-" + c.ResourceID, nil }
	})
	for range 3 {
		m := opened(t, p, caller)
		must(t, m, llm.Turn{Text: "x"})
		must(t, m, llm.Turn{Text: "y"})
	}
	if n := a.connections(); n != 1 {
		t.Errorf("%d connections, want 1 for all calls", n)
	}
	if got := a.requests()[0].header.Get("X-Identity-Token"); got != "jwt-of-+15550100" {
		t.Errorf("%q", got)
	}
	if p.client.Transport.(*http.Transport).Proxy == nil {
		t.Error("proxies of the environment are not honoured")
	}
	bad := provider(t, a.URL, func(c *Config) {
		c.Identity = func(llm.Conversation) (string, error) { return "", errors.New("no signer") }
	})
	if _, err := bad.Open(t.Context(), caller); err == nil || !strings.Contains(err.Error(), "no signer") {
		t.Error(err)
	}
}
