package httpagent

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/agent/internal/wire"
	"parley/agent/llm"
)

// Nothing of an answer reaches an error as it came: not its status, not a header, not
// what HTTP itself cannot read.
func TestAnOddAnswerIsBoundedAndCleaned(t *testing.T) {
	long := strings.Repeat("é\x1b[31m", 4000)
	for name, answer := range map[string]string{
		"a redirect":    "HTTP/1.1 302 " + long + "\r\nContent-Length: 0\r\n\r\n",
		"a failure":     "HTTP/1.1 503 " + long + "\r\nContent-Length: 0\r\n\r\n",
		"no HTTP":       long + "\r\n\r\n",
		"a Location":    "HTTP/1.1 307 Moved\r\nLocation: http://%zz" + strings.Repeat("x", 4000) + "\r\nContent-Length: 0\r\n\r\n",
		"a media type":  "HTTP/1.1 200 OK\r\nContent-Type: " + strings.Repeat("x/", 4000) + "\r\nContent-Length: 1\r\n\r\nx",
		"a media type ": "HTTP/1.1 200 OK\r\nContent-Type: audio/é\u202e\r\nContent-Length: 1\r\n\r\nx",
	} {
		a := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = conn.Write([]byte(answer))
			_ = conn.Close()
		})
		_, err := say(t, open(t, a.URL, nil), llm.Turn{Text: "hello"})
		text := fmt.Sprint(err)
		if err == nil || len(text) > wire.ErrorBytes+300 || strings.ContainsAny(text, "\x1b\r\n\u202e") {
			t.Errorf("%s: %d bytes: %.700q", name, len(text), text)
		}
	}
}

// What an operator gets who sets the address only: the contract's times, and nothing of
// what is ours alone.
func TestWhatIsSetByDefault(t *testing.T) {
	c := DefaultConfig()
	if c.Timeout != time.Minute || c.OneShotTimeout != 10*time.Second || c.Notify || c.Actions || c.APIKey != "" || len(c.Styles) != 0 {
		t.Errorf("%+v", c)
	}
}

// A redirect to a login page is not followed for a text beside the
// conversation either.
func TestLine13And14ALoginPageBesideTheConversation(t *testing.T) {
	login := serve(t, answer("text/plain", "Please log in."))
	a := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, login.URL, http.StatusFound) })
	got, err := open(t, a.URL, nil).OneShot(t.Context(), "Summarise.", "words")
	if err == nil || got != "" || len(login.requests()) != 0 {
		t.Errorf("%q, %v, %d requests", got, err, len(login.requests()))
	}
}
