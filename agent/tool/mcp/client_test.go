package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"parley/agent/tool"
	"parley/agent/tool/mcp"
	"parley/agent/tool/tooltest"
)

// asServer makes this test binary an MCP server on its standard input and output.
const asServer = "MCP_TEST_SERVER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(asServer); mode != "" {
		serve(mode)
		return
	}
	goleak.VerifyTestMain(m)
}

func serve(mode string) {
	switch mode {
	case "dies":
		fmt.Fprintln(os.Stderr, "no database")
		os.Exit(3)
	case "hangs":
		time.Sleep(time.Hour)
	case "chatty":
		chatter()
		return
	}
	s := server()
	s.AddTool(&sdk.Tool{Name: "environment", Description: "tells it", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(strings.Join(os.Environ(), " ")), nil
	})
	s.AddTool(&sdk.Tool{Name: "crash", Description: "ends the server", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		os.Exit(1)
		return nil, nil
	})
	if err := s.Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func text(s string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
}

// server has the four tools of the conformance suite, and some that answer oddly.
func server() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	type echo struct {
		Text string `json:"text"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "echo", Description: "says it back"}, func(_ context.Context, _ *sdk.CallToolRequest, in echo) (*sdk.CallToolResult, any, error) {
		return text(in.Text), nil, nil
	})
	plain := func(name string, f func(context.Context) (*sdk.CallToolResult, error)) {
		s.AddTool(&sdk.Tool{Name: name, Description: name, InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return f(ctx) })
	}
	plain("wait", func(ctx context.Context) (*sdk.CallToolResult, error) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Second):
			return text("too late"), nil
		}
	})
	plain("fail", func(context.Context) (*sdk.CallToolResult, error) {
		r := text("out of stock")
		r.IsError = true
		return r, nil
	})
	plain("big", func(context.Context) (*sdk.CallToolResult, error) { return text(strings.Repeat("x", 120_000)), nil })
	plain("huge", func(context.Context) (*sdk.CallToolResult, error) { return text(strings.Repeat("x", 5<<20)), nil })
	plain("order", func(context.Context) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{}, StructuredContent: json.RawMessage(`{"order":12345678901234567,"pieces":[{"sum":0.1,"of":"<\"é\u2028>"}]}`)}, nil
	})
	plain("structured", func(context.Context) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{}, StructuredContent: map[string]any{"n": 7}}, nil
	})
	plain("picture", func(context.Context) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "look:"}, &sdk.ImageContent{MIMEType: "image/png", Data: []byte("1234")}}}, nil
	})
	plain("protocol", func(context.Context) (*sdk.CallToolResult, error) { return nil, errors.New("refused\r\nby policy") })
	plain("empty", func(context.Context) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{}}, nil
	})
	return s
}

// overHTTP serves s on loopback.
func overHTTP(t *testing.T, s *sdk.Server) *httptest.Server {
	t.Helper()
	h := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	t.Cleanup(func() { hangUp(s); h.CloseClientConnections(); h.Close() })
	return h
}

// hangUp ends the sessions of a server: clients that are gone leave theirs behind.
func hangUp(s *sdk.Server) {
	for one := range s.Sessions() {
		one.Close()
	}
}

func opened(t *testing.T, cfg mcp.Config) *mcp.Client {
	t.Helper()
	c, err := mcp.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// stdio is this test binary as a server.
func stdio(mode string) mcp.Config {
	return mcp.Config{Name: "stdio", Process: tool.Process{Command: []string{os.Args[0]}, Env: map[string]string{asServer: mode}}, StartTimeout: 5 * time.Second}
}

func TestConformance(t *testing.T) {
	four := []string{"echo", "wait", "fail", "big"}
	t.Run("stdio", func(t *testing.T) {
		tooltest.Run(t, func(t *testing.T) ([]tool.Tool, func()) {
			cfg := stdio("serves")
			cfg.Allow = four
			c := opened(t, cfg)
			return c.Tools(), c.Close
		})
	})
	t.Run("HTTP", func(t *testing.T) {
		tooltest.Run(t, func(t *testing.T) ([]tool.Tool, func()) {
			c := opened(t, mcp.Config{Name: "http", URL: overHTTP(t, server()).URL, Allow: four})
			return c.Tools(), c.Close
		})
	})
}

func registry(t *testing.T, c *mcp.Client) *tool.ToolRegistry {
	t.Helper()
	r := tool.NewRegistry()
	if _, _, err := r.Sync("mcp", c.Tools()); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestResults(t *testing.T) {
	c := opened(t, mcp.Config{URL: overHTTP(t, server()).URL, Prefix: "shop_", Confirm: []string{"empty"}, Interruptible: []string{"wait"}})
	r := registry(t, c)
	for name, want := range map[string]string{
		"shop_structured": "map[n:7] <nil>", "shop_picture": "map[result:look:\n[image, image/png, 4 bytes]] <nil>",
		"shop_protocol": "map[] refused by policy", "shop_fail": "map[] out of stock",
	} {
		got, err := r.Call(t.Context(), name, nil)
		if fmt.Sprint(got, " ", err) != want {
			t.Errorf("%s: %v %v, want %s", name, got, err, want)
		}
	}
	traits := func(name string) tool.Traits {
		one, _ := r.Lookup(name)
		return one.(tool.Traited).Traits()
	}
	if !traits("shop_empty").Confirm || traits("shop_big").Confirm || !traits("shop_wait").Interruptible {
		t.Error("confirm or interruptible is lost")
	}
	one, _ := r.Lookup("shop_empty")
	if got, err := one.Invoke(t.Context(), nil); err != nil || len(got) != 0 {
		t.Error(got, err)
	}
}

// TestListChanged: tools that come and go while connected are seen.
func TestListChanged(t *testing.T) {
	s := server()
	changed := make(chan struct{}, 100)
	c := opened(t, mcp.Config{URL: overHTTP(t, s).URL, Allow: []string{"echo", "late"}, Changed: func() { changed <- struct{}{} }})
	r := registry(t, c)
	s.AddTool(&sdk.Tool{Name: "late", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text("here"), nil
	})
	wait := func(want string) {
		t.Helper()
		late := time.After(20 * time.Second)
		for {
			if added, removed, err := r.Sync("mcp", c.Tools()); err != nil || fmt.Sprint(added, removed) == want {
				return
			}
			select {
			case <-changed:
			case <-late:
				t.Fatalf("never: %s", want)
			}
		}
	}
	wait("[late] []")
	if got, err := r.Call(t.Context(), "late", nil); err != nil || got["result"] != "here" {
		t.Error(got, err)
	}
	s.RemoveTools("echo")
	wait("[] [echo]")
}

func TestProcessIsKeptApart(t *testing.T) {
	t.Setenv("PARLEY_SECRET", "very secret")
	t.Setenv("OTHER_SECRET", "also secret")
	r := registry(t, opened(t, stdio("serves")))
	got, err := r.Call(t.Context(), "environment", nil)
	if err != nil || strings.Contains(fmt.Sprint(got), "secret") || !strings.Contains(fmt.Sprint(got), asServer) {
		t.Error(got, err)
	}
}

// TestCrashAndReconnect: the call in flight fails, the server is started again, and the
// next call waits for it.
func TestCrashAndReconnect(t *testing.T) {
	c := opened(t, stdio("serves"))
	r := registry(t, c)
	if got, err := r.Call(t.Context(), "crash", nil); err == nil {
		t.Error(got)
	}
	for end := time.Now().Add(20 * time.Second); ; {
		got, err := r.Call(t.Context(), "echo", map[string]any{"text": "back"})
		if err == nil && got["result"] == "back" {
			break
		}
		if time.Now().After(end) {
			t.Fatal("not connected again:", err)
		}
	}
	if now, times := c.Connected(); !now || times != 2 {
		t.Errorf("connected %v, %d times", now, times)
	}
}

// TestServiceRestarts: a service over HTTP that was replaced knows no sessions of the
// old one.
func TestServiceRestarts(t *testing.T) {
	var current atomic.Pointer[http.Handler]
	fresh := func() {
		s := server()
		t.Cleanup(func() { hangUp(s) })
		var h http.Handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
		current.Store(&h)
	}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*current.Load()).ServeHTTP(w, r) }))
	t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	fresh()
	c := opened(t, mcp.Config{URL: h.URL})
	r := registry(t, c)
	fresh()
	for end := time.Now().Add(20 * time.Second); ; {
		got, err := r.Call(t.Context(), "echo", map[string]any{"text": "back"})
		if err == nil && got["result"] == "back" {
			break
		}
		if time.Now().After(end) {
			t.Fatal("not connected again:", err)
		}
	}
}

func TestRefusals(t *testing.T) {
	var redirected atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		redirected.Store(r.Header.Get("Authorization") != "")
	}))
	defer elsewhere.Close()
	redirect := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer redirect.Close()
	refuses := httptest.NewServer(http.NotFoundHandler())
	defer refuses.Close()
	hangs := stdio("hangs")
	hangs.StartTimeout = time.Second
	for want, cfg := range map[string]mcp.Config{
		"want a command or a URL":   {},
		"prefix":                    {URL: "http://127.0.0.1:1", Prefix: "a b"},
		"want a URL of http":        {URL: "file:///etc/passwd"},
		"it said: no database":      stdio("dies"),
		"no answer in 1s":           hangs,
		"program not found":         {Process: tool.Process{Command: []string{"no such program"}}},
		"mcp: moved":                {Name: "moved", URL: redirect.URL, Headers: map[string]string{"Authorization": "Bearer secret"}},
		"mcp: gone":                 {Name: "gone", URL: refuses.URL},
		"mcp: nobody":               {Name: "nobody", URL: "http://127.0.0.1:1"},
		"mcp: PARLEY_X: tool: vari": {Name: "PARLEY_X", Process: tool.Process{Command: []string{"sh"}, Pass: []string{"PARLEY_X"}}},
	} {
		c, err := mcp.Open(t.Context(), cfg)
		if err == nil {
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if redirected.Load() {
		t.Error("the secret went elsewhere")
	}
}

func TestHeaders(t *testing.T) {
	s := server()
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
	var missing atomic.Int32
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			missing.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { hangUp(s); h.CloseClientConnections(); h.Close() })
	c := opened(t, mcp.Config{URL: h.URL, Headers: map[string]string{"Authorization": "Bearer secret"}})
	if !slices.ContainsFunc(c.Tools(), func(one tool.Tool) bool { return one.Name() == "echo" }) || missing.Load() != 0 {
		t.Errorf("%d requests without the header", missing.Load())
	}
}

// everyTransport opens a client over each way that answers come.
func everyTransport(t *testing.T, f func(t *testing.T, c *mcp.Client)) {
	t.Run("stdio", func(t *testing.T) { f(t, opened(t, stdio("serves"))) })
	for name, opts := range map[string]*sdk.StreamableHTTPOptions{"events": nil, "documents": {JSONResponse: true}} {
		t.Run(name, func(t *testing.T) {
			s := server()
			h := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, opts))
			t.Cleanup(func() { hangUp(s); h.CloseClientConnections(); h.Close() })
			f(t, opened(t, mcp.Config{URL: h.URL}))
		})
	}
}

// TestHugeAnswer: an answer that is too large fails its call and nothing else.
func TestHugeAnswer(t *testing.T) {
	everyTransport(t, func(t *testing.T, c *mcp.Client) {
		r := registry(t, c)
		for range 2 {
			if got, err := r.Call(t.Context(), "huge", nil); err == nil || !strings.Contains(err.Error(), "the answer is too large: more than 4194304 bytes") {
				t.Fatal(len(got), err)
			}
			if got, err := r.Call(t.Context(), "echo", map[string]any{"text": "here"}); err != nil || got["result"] != "here" {
				t.Fatal(got, err)
			}
		}
		if now, times := c.Connected(); !now || times != 1 {
			t.Errorf("connected %v, %d times", now, times)
		}
	})
}

// TestLargeNumbers: numbers of structured content stay what they are.
func TestLargeNumbers(t *testing.T) {
	everyTransport(t, func(t *testing.T, c *mcp.Client) {
		got, err := registry(t, c).Call(t.Context(), "order", nil)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := json.Marshal(got); err != nil || string(text) != `{"order":12345678901234567,"pieces":[{"of":"\u003c\"é\u2028\u003e","sum":0.1}]}` {
			t.Errorf("%s %v", text, err)
		}
	})
}

// chatter is a server that says that its list changed whenever it was read, and whose
// second list is too large.
func chatter() {
	lists := 0
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var q struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Version string `json:"protocolVersion"`
			} `json:"params"`
		}
		if json.Unmarshal(in.Bytes(), &q) != nil {
			return
		}
		answer := func(result string) { fmt.Printf(`{"result":%s,"jsonrpc":"2.0","id":%s}`+"\n", result, q.ID) }
		switch q.Method {
		case "initialize":
			answer(`{"protocolVersion":"` + q.Params.Version + `","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"chatty","version":"1"}}`)
		case "tools/list":
			lists++
			description := fmt.Sprint("list ", lists)
			if lists == 2 {
				description = strings.Repeat("y", 5<<20)
			}
			answer(`{"tools":[{"name":"one","description":"` + description + `","inputSchema":{"type":"object"}}]}`)
			for range 50 {
				fmt.Println(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			}
		default:
			if q.ID != nil {
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`+"\n", q.ID)
			}
		}
	}
}

// TestListChangedWithoutEnd: however often a server says that its list changed, it is
// read once a second, and one that is too large leaves the last.
func TestListChangedWithoutEnd(t *testing.T) {
	read := make(chan time.Time, 1000)
	c := opened(t, func() mcp.Config {
		cfg := stdio("chatty")
		cfg.StartTimeout = 30 * time.Second // 5 MB are much for the race detector
		cfg.Changed = func() { read <- time.Now() }
		return cfg
	}())
	first := <-read
	// The second was too large and is told to nobody: this is the third.
	third := <-read
	if took := third.Sub(first); took < 1900*time.Millisecond {
		t.Errorf("read three times within %v", took)
	}
	if got := c.Tools()[0].Description(); got != "list 3" {
		t.Error(got)
	}
	if now, times := c.Connected(); !now || times != 1 {
		t.Errorf("connected %v, %d times", now, times)
	}
}
