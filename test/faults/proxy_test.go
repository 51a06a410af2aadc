package faults

import (
	"bytes"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a service that says back what it is told.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// say sends text and returns what comes back within the time.
func say(t *testing.T, c net.Conn, text string, within time.Duration) (string, error) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	_ = c.SetReadDeadline(time.Now().Add(within))
	b := make([]byte, len(text))
	n, err := io.ReadFull(c, b)
	return string(b[:n]), err
}

func TestFaults(t *testing.T) {
	p := Start(t, echo(t))
	c := dial(t, p)
	if got, err := say(t, c, "hello", 5*time.Second); got != "hello" || err != nil {
		t.Fatalf("passed on: %q, %v", got, err)
	}
	p.Set(Fault{Garble: true})
	if got, err := say(t, c, "hello", 5*time.Second); err != nil || got == "hello" || len(got) != 5 {
		t.Errorf("garbled: %q, %v", got, err)
	}
	p.Set(Fault{Stall: true})
	var late net.Error
	if got, err := say(t, c, "wait", 100*time.Millisecond); got != "" || !errors.As(err, &late) || !late.Timeout() {
		t.Errorf("stalled: %q, %v", got, err)
	}
	p.Set(Fault{})
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	b := make([]byte, 4)
	if _, err := io.ReadFull(c, b); string(b) != "wait" || err != nil {
		t.Errorf("after the stall: %q, %v", b, err)
	}
	p.Set(Fault{Rate: 2000})
	began := time.Now()
	text := string(bytes.Repeat([]byte("x"), 600))
	if got, err := say(t, c, text, 5*time.Second); got != text || err != nil || time.Since(began) < 250*time.Millisecond {
		t.Errorf("600 bytes at 2000 a second took %v: %v", time.Since(began), err)
	}
	p.Set(Fault{Refuse: true})
	refused := dial(t, p)
	if _, err := refused.Read(b); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("refused: %v", err)
	}
	p.Reset()
	if _, err := say(t, c, "gone", 5*time.Second); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("reset: %v", err)
	}
	if p.Opened() != 2 {
		t.Errorf("%d connections came, want 2", p.Opened())
	}
}

func TestACloseGoesThrough(t *testing.T) {
	p := Start(t, echo(t))
	c := dial(t, p)
	if _, err := say(t, c, "x", 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the service's end: %v", err)
	}
	for deadline := time.Now().Add(5 * time.Second); p.Open() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a connection is held")
		}
	}
}
