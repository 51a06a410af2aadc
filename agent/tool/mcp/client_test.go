package mcp_test

import (
	"context"
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
