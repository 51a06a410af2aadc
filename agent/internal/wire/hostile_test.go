package wire

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
)

// raw is a server that answers every request with the bytes of text.
func raw(t *testing.T, text string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_ = r.Body.Close()
				_, _ = conn.Write([]byte(text))
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return "http://" + l.Addr().String()
}

// Nothing of an answer reaches an error as it came, whatever part of it is odd.
func TestWhatAnAnswerHoldsIsBoundedAndCleaned(t *testing.T) {
	long := strings.Repeat("é\x1b[31m", 4000)
	for name, answer := range map[string]string{
		"the status":          "HTTP/1.1 302 " + long + "\r\nContent-Length: 0\r\n\r\n",
		"a status that fails": "HTTP/1.1 500 " + long + "\r\nContent-Length: 0\r\n\r\n",
		"the first line":      long + "\r\n\r\n",
		"the status code":     "HTTP/1.1 " + long + "\r\n\r\n",
		"a redirect's target": "HTTP/1.1 307 Moved\r\nLocation: http://%zz" + strings.Repeat("x", 4000) + "\r\nContent-Length: 0\r\n\r\n",
		"a header":            "HTTP/1.1 200 OK\r\nA\x1bB" + long + "\r\n\r\n",
		"the length":          "HTTP/1.1 200 OK\r\nContent-Length: " + strings.Repeat("9", 4000) + "\r\n\r\n",
	} {
		at := raw(t, answer)
		_, err := serviceAt(t, at).Post(t.Context(), at, map[string]any{}, "text/plain")
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		text := err.Error()
		if len(text) > ErrorBytes+300 || Clean(text) != text && len(text) <= ErrorBytes || strings.ContainsAny(text, "\x1b\r\n") {
			t.Errorf("%s: %d bytes: %.700q", name, len(text), text)
		}
	}
}

func TestBareKeepsTheCause(t *testing.T) {
	inner := errors.New("a\nb")
	if err := Bare(inner); err.Error() != "a b" || !errors.Is(err, inner) {
		t.Errorf("%q", err)
	}
	if plain := errors.New("a b"); Bare(plain) != plain || Bare(nil) != nil {
		t.Error("what is clean is not left as it is")
	}
}
