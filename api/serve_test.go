package api

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent"
)

// wires is a network in memory: a listener, and the way to dial it. Deadlines work
// on it as on sockets, and time is the bubble's.
type wires struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	err    error // what Accept returns instead
}

func newWires() *wires {
	return &wires{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *wires) Accept() (net.Conn, error) {
	if l.err != nil {
		return nil, l.err
	}
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *wires) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

func (l *wires) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }

func (l *wires) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// running is a Server that serves over wires.
type running struct {
	*harness
	client *http.Client
	stop   context.CancelFunc
	served chan error
}

func run(t *testing.T, change func(*Config, *Parts)) *running {
	t.Helper()
	h := newHarness(t, change)
	l := newWires()
	h.server.listener = l
	ctx, stop := context.WithCancel(context.Background())
	r := &running{harness: h, stop: stop, served: make(chan error, 1), client: &http.Client{Transport: &http.Transport{DialContext: l.dial}}}
	go func() { r.served <- h.server.Serve(ctx) }()
	return r
}

// end stops the server and waits for it.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	if err := <-r.served; err != nil {
		r.t.Errorf("Serve: %v", err)
	}
	r.client.CloseIdleConnections()
	synctest.Wait()
}

func (r *running) send(method, path, body string) (*http.Response, error) {
	req := request(method, path, fullKey, body)
	req.RequestURI = ""
	return r.client.Do(req)
}

// A stream outlives the bounds that other requests have, and ends with the server.
func TestStreamOverTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := run(t, nil)
		id := s.up()
		resp, err := s.send("GET", "/calls/"+id+"/events", "")
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(resp.Body)
		await := func(prefix string) string {
			t.Helper()
			for lines.Scan() {
				if strings.HasPrefix(lines.Text(), prefix) {
					return lines.Text()
				}
			}
			t.Fatalf("no %q: %v", prefix, lines.Err())
			return ""
		}
		began := time.Now()
		for time.Since(began) < 10*writeTimeout {
			await(": still here")
		}
		s.calls.happen(id, agent.Event{Type: agent.EventTranscript, Text: "still here"})
		if got := await("data:"); !strings.Contains(got, `"text":"still here"`) {
			t.Error(got)
		}
		s.stop()
		if got := await("data:"); got != `data: {"reason":"shutdown"}` {
			t.Error(got)
		}
		if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 1 {
			t.Errorf("%q %v", rest, err)
		}
		_ = resp.Body.Close()
		s.end()
	})
}

// A client that reads nothing is given up, and its connection closed.
func TestStuckReaderOverTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := run(t, nil)
		id := s.up()
		conn, err := s.client.Transport.(*http.Transport).DialContext(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "GET /calls/"+id+"/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+fullKey+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(sendTimeout + time.Second)
		synctest.Wait()
		if n := s.server.streams.Load(); n != 0 {
			t.Errorf("%d streams", n)
		}
		_ = conn.Close()
		s.end()
	})
}

// What takes longer than an ordinary answer may is answered all the same.
func TestLongActionOverTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := run(t, nil)
		s.calls.wait = func(ctx context.Context) error {
			select {
			case <-time.After(actionTimeout - time.Second):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		resp, err := s.send("POST", "/calls/"+s.up()+"/hold", `{}`)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != 204 {
			t.Error(resp.Status)
		}
		_ = resp.Body.Close()
		s.end()
	})
}

// A slow sender of a request is cut off.
func TestSlowRequestsAreCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := run(t, nil)
		for _, c := range []struct {
			text  string
			limit time.Duration
		}{
			{"GET /calls HTTP/1.1\r\nHost: x\r\n", headerTimeout},
			{"POST /calls HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + fullKey + "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", readTimeout},
			{"GET /calls HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 2*maxHeader) + "\r\n\r\n", 0},
		} {
			conn, err := s.client.Transport.(*http.Transport).DialContext(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			go func() { _, _ = io.WriteString(conn, c.text) }()
			text, _ := io.ReadAll(conn)
			if took := time.Since(began); took > c.limit+2*time.Second || strings.Contains(string(text), " 200 ") || strings.Contains(string(text), " 202 ") {
				t.Errorf("%.30q: after %v: %s", c.text, took, text)
			}
			_ = conn.Close()
		}
		s.end()
	})
}

// Requests that do not end with the server are cut, and waited for.
func TestServeCutsWhatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		s := run(t, func(_ *Config, p *Parts) { p.Ready = func() error { <-leave; return nil } })
		var wg sync.WaitGroup
		wg.Go(func() {
			if resp, err := s.send("GET", "/readyz", ""); err == nil {
				t.Errorf("answered %s", resp.Status)
				_ = resp.Body.Close()
			}
		})
		synctest.Wait()
		s.stop()
		time.Sleep(shutdownTimeout + time.Second)
		synctest.Wait()
		select {
		case err := <-s.served:
			t.Errorf("it did not wait: %v", err)
		default:
		}
		close(leave)
		if err := <-s.served; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		wg.Wait()
		s.client.CloseIdleConnections()
	})
}

func TestServeTellsOfAListenerThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails when a goroutine is left
		h := newHarness(t, nil)
		l := newWires()
		l.err = errors.New("broken")
		h.server.listener = l
		if err := h.server.Serve(context.Background()); err == nil || !strings.Contains(err.Error(), "broken") {
			t.Error(err)
		}
	})
}

func TestNoRequestBeginsAfterTheEnd(t *testing.T) {
	h := newHarness(t, nil)
	u := newUnderWay(h.handler)
	u.wait()
	w := newRecorder()
	if u.ServeHTTP(w, request("GET", "/healthz", "", "")); w.Body.Len() > 0 {
		t.Error(w.Body)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newWires()
		b := bound(l, 2)
		accept := func() net.Conn {
			c, err := b.Accept()
			if err != nil {
				t.Error(err)
			}
			return c
		}
		dial := func() {
			go func() {
				if c, err := l.dial(t.Context(), "", ""); err == nil {
					t.Cleanup(func() { _ = c.Close() })
				}
			}()
		}
		dial()
		dial()
		first, second := accept(), accept()
		dial()
		third := make(chan net.Conn)
		go func() { third <- accept() }()
		synctest.Wait()
		select {
		case <-third:
			t.Error("a third connection")
		default:
		}
		_ = first.Close()
		_ = first.Close() // gives one place back, not two
		c := <-third
		full := make(chan error)
		go func() { _, err := b.Accept(); full <- err }()
		synctest.Wait()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := <-full; !errors.Is(err, net.ErrClosed) {
			t.Errorf("waiting for a place: %v", err)
		}
		_ = second.Close()
		if _, err := b.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		_ = c.Close()
	})
}
