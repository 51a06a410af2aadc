package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service is the Service of a server that answers by h.
func service(t *testing.T, h http.HandlerFunc) (*Service, string) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return serviceAt(t, srv.URL), srv.URL
}

func serviceAt(t *testing.T, address string) *Service {
	t.Helper()
	u, err := url.Parse(address + "/v1?code=a-secret-in-the-query")
	if err != nil {
		t.Fatal(err)
	}
	pool := Pool()
	t.Cleanup(pool.CloseIdleConnections)
	s := NewService("room", u, "k3y-1234", map[string]string{"X-Extra": "hush-hush"}, pool)
	s.Hint = func(code int) string {
		if code == http.StatusUnauthorized {
			return "check the key"
		}
		return ""
	}
	return s
}

func TestAnAnswerIsTaken(t *testing.T) {
	var got *http.Request
	var body string
	s, address := service(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got, body = r, string(b)
		_, _ = io.WriteString(w, "fine")
	})
	resp, err := s.Post(t.Context(), address+"/x", map[string]string{"q": "<&>"}, "text/event-stream")
	if err != nil {
		t.Fatal(err)
	}
	Settle(t.Context(), resp.Body)
	_ = resp.Body.Close()
	if body != `{"q":"<&>"}`+"\n" || got.Method != "POST" || got.URL.Path != "/x" {
		t.Errorf("%s %s %q", got.Method, got.URL.Path, body)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer k3y-1234", "X-Extra": "hush-hush", "Content-Type": "application/json",
		"Accept": "text/event-stream", "User-Agent": "parley",
	} {
		if got.Header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.Header.Get(name), want)
		}
	}
	if s.Client.Transport.(*http.Transport).Proxy == nil {
		t.Error("proxies of the environment are not honoured")
	}
}

func TestAnErrorSaysEnoughAndNoSecret(t *testing.T) {
	tests := []struct {
		name, body, want string
		code             int
	}{
		{"json", `{"error":{"message":"no such model","code":"x"}}`, "it said: no such model", 404},
		{"text in error", `{"error":"model 'x' not found"}`, "it said: model 'x' not found", 404},
		{"message", `{"object":"error","message":"too long"}`, "it said: too long", 400},
		{"detail", `{"detail":"Not here"}`, "it said: Not here", 404},
		{"plain", "bad key", "answered 401 Unauthorized: check the key; it said: bad key", 401},
		{"nothing", "", "answered 500 Internal Server Error", 500},
		{"redirect", "", "a redirect that does not keep the request", 302},
		{"secrets", "k3y-1234 hush-hush a-secret-in-the-query\x1b[31m\r\nInjected", "it said: [secret] [secret] [secret] [31m Injected", 400},
		{"long", strings.Repeat("ü", 3000), "it said: " + strings.Repeat("ü", 256), 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, address := service(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.code)
				_, _ = io.WriteString(w, tt.body)
			})
			_, err := s.Post(t.Context(), address+"?code=a-secret-in-the-query", nil, "*/*")
			var status *StatusError
			if !errors.As(err, &status) || status.Code != tt.code {
				t.Fatalf("%v", err)
			}
			text := err.Error()
			if !strings.HasPrefix(text, "room: "+address+"/v1 answered ") || !strings.HasSuffix(text, tt.want) && tt.code != 302 || !strings.Contains(text, tt.want) {
				t.Errorf("%q, want %q", text, tt.want)
			}
			for _, bad := range []string{"k3y", "hush", "a-secret", "\n", "\r", "\x1b"} {
				if strings.Contains(text, bad) {
					t.Errorf("%q holds %q", text, bad)
				}
			}
			if _, said, _ := strings.Cut(text, "it said: "); len(said) > ErrorBytes {
				t.Errorf("%d bytes of the body", len(said))
			}
		})
	}
}

func TestOneMoreTry(t *testing.T) {
	tests := []struct {
		name   string
		code   int
		header map[string]string
		tries  int64
		after  time.Duration // what the error tells
	}{
		{"429 at once", 429, nil, 2, 0},
		{"503 soon", 503, map[string]string{"Retry-After": "1"}, 2, time.Second},
		{"529 soon", 529, map[string]string{"Retry-After-Ms": "300"}, 2, 300 * time.Millisecond},
		{"429 later", 429, map[string]string{"Retry-After": "30"}, 1, 30 * time.Second},
		{"500", 500, nil, 1, 0},
		{"401", 401, nil, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var tries atomic.Int64
			s, address := service(t, func(w http.ResponseWriter, _ *http.Request) {
				tries.Add(1)
				for name, value := range tt.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(tt.code)
			})
			began := time.Now()
			_, err := s.Post(t.Context(), address, nil, "*/*")
			var status *StatusError
			if !errors.As(err, &status) || status.RetryAfter != tt.after || tries.Load() != tt.tries {
				t.Errorf("%v after %d tries", err, tries.Load())
			}
			if took := time.Since(began); tt.tries > 1 && took < max(tt.after, retryAfter) {
				t.Errorf("tried again after %v", took)
			}
		})
	}
	t.Run("a kept connection that was closed", func(t *testing.T) {
		var n atomic.Int64
		s, address := service(t, func(http.ResponseWriter, *http.Request) {
			if n.Add(1) == 2 {
				panic(http.ErrAbortHandler)
			}
		})
		for range 2 {
			resp, err := s.Post(t.Context(), address, nil, "*/*")
			if err != nil {
				t.Fatal(err)
			}
			Drain(resp.Body)
		}
		if n.Load() != 3 {
			t.Errorf("%d requests", n.Load())
		}
	})
	t.Run("a service that dies of it", func(t *testing.T) {
		var n atomic.Int64
		s, address := service(t, func(http.ResponseWriter, *http.Request) { n.Add(1); panic(http.ErrAbortHandler) })
		if _, err := s.Post(t.Context(), address, nil, "*/*"); err == nil || !strings.Contains(err.Error(), "closed the connection") || n.Load() != 1 {
			t.Errorf("%v after %d", err, n.Load())
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		srv := httptest.NewServer(nil)
		srv.Close()
		s := serviceAt(t, srv.URL)
		if _, err := s.Post(t.Context(), srv.URL, nil, "*/*"); err == nil || !strings.Contains(err.Error(), "cannot reach "+srv.URL+"/v1: is it running") {
			t.Error(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("stop")
		time.AfterFunc(20*time.Millisecond, func() { cancel(stop) })
		if _, err := s.Post(ctx, srv.URL, nil, "*/*"); !errors.Is(err, stop) {
			t.Error(err)
		}
	})
	t.Run("what JSON cannot hold", func(t *testing.T) {
		if _, err := serviceAt(t, "http://127.0.0.1:1").Post(t.Context(), "http://127.0.0.1:1", func() {}, "*/*"); err == nil {
			t.Error("sent")
		}
	})
}

// Send tries once, whatever the answer, and says what body it sends.
func TestSend(t *testing.T) {
	var tries atomic.Int64
	s, address := service(t, func(w http.ResponseWriter, r *http.Request) {
		tries.Add(1)
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Content-Type") != "audio/wav" || string(body) != "RIFF" || r.Header.Get("Accept") != "text/plain" {
			t.Errorf("%q %q", r.Header, body)
		}
		if r.URL.Path == "/busy" {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(503)
			return
		}
		_, _ = io.WriteString(w, "yes")
	})
	resp, err := s.Send(t.Context(), address+"/", "audio/wav", []byte("RIFF"), "text/plain")
	if err != nil {
		t.Fatal(err)
	}
	Drain(resp.Body)
	var status *StatusError
	if _, err := s.Send(t.Context(), address+"/busy", "audio/wav", []byte("RIFF"), "text/plain"); !errors.As(err, &status) || status.RetryAfter != time.Second || tries.Load() != 2 {
		t.Errorf("%v after %d", err, tries.Load())
	}
	s, address = service(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if _, err := s.Send(t.Context(), address, "audio/wav", []byte("RIFF"), "text/plain"); !Dropped(err) {
		t.Error(err)
	}
}

func TestRedirects(t *testing.T) {
	var got http.Header
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Clone() }))
	t.Cleanup(target.Close)
	for _, tt := range []struct {
		code int
		ok   bool
	}{{301, false}, {302, false}, {303, false}, {307, true}, {308, true}} {
		got = nil
		s, address := service(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/here" {
				got = r.Header.Clone()
				return
			}
			to := target.URL
			if r.URL.Path == "/local" {
				to = "/here"
			}
			http.Redirect(w, r, to, tt.code)
		})
		resp, err := s.Post(t.Context(), address+"?code=hidden", nil, "*/*")
		if ok := err == nil; ok != tt.ok || ok != (got != nil) {
			t.Fatalf("%d: %v", tt.code, err)
		}
		if !tt.ok {
			continue
		}
		Drain(resp.Body)
		for _, name := range []string{"Authorization", "X-Extra", "Referer"} {
			if value := got.Get(name); value != "" {
				t.Errorf("%d: another host got %s %q", tt.code, name, value)
			}
		}
		if resp, err = s.Post(t.Context(), address+"/local", nil, "*/*"); err != nil {
			t.Fatal(err)
		}
		Drain(resp.Body)
		if got.Get("Authorization") == "" || got.Get("X-Extra") == "" {
			t.Errorf("%d: the same host got no key", tt.code)
		}
	}
	plain := httptest.NewRequest("POST", "http://x", nil)
	plain.Response = &http.Response{StatusCode: 307}
	if err := Redirect()(plain, []*http.Request{httptest.NewRequest("POST", "https://x", nil)}); !errors.Is(err, http.ErrUseLastResponse) {
		t.Error("followed from https to http")
	}
	if err := Redirect()(plain, slices.Repeat([]*http.Request{plain}, Redirects+1)); !errors.Is(err, http.ErrUseLastResponse) {
		t.Error("a loop has no end")
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "2", 2 * time.Second},
		{"Retry-After", " 0.5 ", 500 * time.Millisecond},
		{"Retry-After", "Fri, 02 Jan 2026 03:04:10 GMT", 5 * time.Second},
		{"Retry-After", "Fri, 02 Jan 2026 03:04:00 GMT", 0},
		{"Retry-After", "soon", 0},
		{"Retry-After", "-3", 0},
		{"Retry-After", "1e30", 24 * time.Hour},
		{"Retry-After", "NaN", 0},
		{"Retry-After-Ms", "1500", 1500 * time.Millisecond},
		{"X", "1", 0},
	} {
		h := http.Header{}
		h.Set(tt.name, tt.value)
		if got := RetryAfter(h, now); got != tt.want {
			t.Errorf("%s %q: %v, want %v", tt.name, tt.value, got, tt.want)
		}
	}
}

func TestHeaderText(t *testing.T) {
	for in, want := range map[string]string{"": "", "abc-1": "abc-1", "a\r\nb ü": "a%0D%0Ab%20%C3%BC"} {
		if got := HeaderText(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
	if n := len(HeaderText(strings.Repeat("x", 9000))); n != 4096 {
		t.Error(n)
	}
}

func TestFailureText(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "null": "", "false": "", `""`: "", "{}": "", `"x"`: "x", `{"message":"m"}`: "m", ` {"code":1} `: `{"code":1}`, "7": "7",
	} {
		if got := FailureText([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// lines reads a body that comes in bits of n bytes.
func lines(text string, n, bound, most int) (got []string, err error) {
	var parts []io.Reader
	for len(text) > 0 {
		cut := min(max(n, 1), len(text))
		parts = append(parts, strings.NewReader(text[:cut]))
		text = text[cut:]
	}
	err = Lines(io.MultiReader(parts...), bound, most, func(line []byte) error { got = append(got, string(line)); return nil })
	return got, err
}

func TestLines(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"plain", "a\nb\n", "a|b"},
		{"CRLF", "a\r\nb\r\n", "a|b"},
		{"no end", "a\nb", "a|b"},
		{"blank ones", "\n\na\n \n\nb\n\n", "a|b"},
		{"BOM", "\ufeffa\nb", "a|b"},
		{"empty", "", ""},
	} {
		for n := 1; n < 9; n++ {
			if got, err := lines(tt.in, n, 100, 1000); strings.Join(got, "|") != tt.want || err != nil {
				t.Errorf("%s, in bits of %d: %q, %v", tt.name, n, got, err)
			}
		}
	}
	if _, err := lines(strings.Repeat("x", 101), 7, 100, 1000); !errors.Is(err, ErrEventSize) {
		t.Error(err)
	}
	if _, err := lines(strings.Repeat("x\n", 501), 7, 100, 1000); !errors.Is(err, ErrEventSize) {
		t.Error(err)
	}
	stop := errors.New("stop")
	for _, body := range []string{"a\nb", "a"} {
		if err := Lines(strings.NewReader(body), 9, 9, func([]byte) error { return stop }); !errors.Is(err, stop) {
			t.Error(err)
		}
	}
	if err := Lines(io.MultiReader(strings.NewReader("a\nb"), broken{}), 9, 9, func([]byte) error { return nil }); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if err := Events(io.MultiReader(strings.NewReader("data: a\n\n"), broken{}), 99, 99, func(Event) error { return nil }); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func FuzzLines(f *testing.F) {
	f.Add("{\"a\":1}\r\n\n{\"done\":true}", uint8(3))
	f.Add("\ufeff\n\xff\n", uint8(1))
	f.Fuzz(func(t *testing.T, text string, n uint8) {
		want, err := lines(text, len(text), 1<<20, 1<<20)
		got, err2 := lines(text, int(n), 1<<20, 1<<20)
		if strings.Join(got, "\n") != strings.Join(want, "\n") || err != nil || err2 != nil {
			t.Fatalf("in bits of %d %q, at once %q", n, got, want)
		}
	})
}
