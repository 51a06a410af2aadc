package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEndpoints(t *testing.T) {
	var why error
	s, url := serve(t, func() error { return why })
	_ = s
	for _, c := range []struct {
		name, method, path string
		why                error
		code               int
		body               string
	}{
		{"alive", "GET", "/healthz", nil, 200, "ok\n"},
		{"alive while draining", "GET", "/healthz", errors.New("draining"), 200, "ok\n"},
		{"ready", "GET", "/readyz", nil, 200, "ready\n"},
		{"not ready says why", "GET", "/readyz", errors.New("draining"), 503, "not ready: draining\n"},
		{"head", "HEAD", "/readyz", nil, 200, ""},
		{"metrics", "GET", "/metrics", nil, 200, ""},
		{"no other method", "POST", "/readyz", nil, 405, ""},
		{"no other path", "GET", "/debug/pprof/", nil, 404, ""},
	} {
		why = c.why
		req, err := http.NewRequestWithContext(t.Context(), c.method, url+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.code || c.body != "" && string(body) != c.body {
			t.Errorf("%s: %d %q, want %d %q", c.name, resp.StatusCode, body, c.code, c.body)
		}
		if strings.HasSuffix(c.path, "z") && c.code != 405 && resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: may be cached", c.name)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestServeFinishesRequestsUnderWay(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	s, err := New(listening("127.0.0.1:0"), Parts{Ready: func() error { close(entered); <-leave; return nil }, Metrics: NewMetrics(Sources{})})
	if err != nil {
		t.Fatal(err)
	}
	addr, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()

	answered := make(chan string, 1)
	go func() {
		resp, err := http.Get(fmt.Sprintf("http://%s/readyz", addr))
		if err != nil {
			answered <- err.Error()
			return
		}
		_ = resp.Body.Close()
		answered <- resp.Status
	}()
	<-entered
	stop()
	close(leave)
	if got := <-answered; got != "200 OK" {
		t.Errorf("the request under way got %s", got)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestListenSaysWhatToDoWhenThePortIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	s, err := New(listening(l.Addr().String()), Parts{Ready: func() error { return nil }, Metrics: NewMetrics(Sources{})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Listen(); err == nil || !strings.Contains(err.Error(), "api.listen") {
		t.Errorf("%v", err)
	}
}

func TestOff(t *testing.T) {
	s, err := New(Config{}, Parts{Ready: func() error { return nil }, Metrics: NewMetrics(Sources{})})
	if err != nil {
		t.Fatal(err)
	}
	if addr, err := s.Listen(); addr != nil || err != nil {
		t.Errorf("%v %v", addr, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := s.Serve(ctx); err != nil {
		t.Error(err)
	}
}

func TestValidate(t *testing.T) {
	for listen, ok := range map[string]bool{"": true, "127.0.0.1:8080": true, ":0": false, "[::1]:1": true, "localhost:80": true, "8080": false, "127.0.0.1:http": false, "x:70000": false} {
		if err := listening(listen).Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", listen, err)
		}
	}
}

// listening is the default configuration on another address.
func listening(addr string) Config {
	c := DefaultConfig()
	c.Listen = addr
	return c
}

// serve runs a Server for the time of the test.
func serve(t *testing.T, ready func() error) (*Server, string) {
	t.Helper()
	s, err := New(listening("127.0.0.1:0"), Parts{Ready: ready, Metrics: NewMetrics(Sources{})})
	if err != nil {
		t.Fatal(err)
	}
	addr, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("Serve does not return")
		}
	})
	return s, "http://" + addr.String()
}
