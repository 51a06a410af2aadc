package openai

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/agent/stt"
)

// TestFailures: whatever a service does, an utterance has its final result, the stream
// goes on, and no error shows a secret.
func TestFailures(t *testing.T) {
	const page = "<!DOCTYPE html><html><title>Bad gateway</title></html>"
	for _, tt := range []struct {
		name     string
		answers  []answering
		stream   bool
		want     string // the error
		heard    string // the final text
		requests int
		lost     bool
	}{
		{"401", []answering{says(401, "application/json", `{"error":{"message":"Incorrect API key: `+key+`"}}`)}, false, "401 Unauthorized: check api_key; it said: Incorrect API key: [secret]", "", 1, true},
		{"404", []answering{says(404, "text/plain", "404 page not found")}, false, "check base_url and model", "", 1, true},
		{"302", []answering{says(302, "text/plain", "")}, false, "redirect", "", 1, true},
		{"400", []answering{says(400, "application/json", `{"error":{"message":"response_format 'verbose_json' is not compatible"}}`)}, false, `some models need format "json"; it said: response_format`, "", 1, false},
		{"422", []answering{says(422, "application/json", `{"detail":"no"}`)}, false, "it said: no", "", 1, false},
		{"429, then well", []answering{says(429, "application/json", `{}`), text(`{"text":"yes"}`)}, false, "", "yes", 2, false},
		{"429 twice", []answering{says(429, "application/json", `{}`)}, false, "429 Too Many Requests: it limits the rate", "", 2, false},
		{"429 for too long", []answering{func(w http.ResponseWriter, r *http.Request, a asked) {
			w.Header().Set("Retry-After", "60")
			says(429, "application/json", `{}`)(w, r, a)
		}}, false, "left alone for 1m0s", "", 1, false},
		{"500, then well", []answering{says(500, "text/plain", "oops"), text(`{"text":"yes"}`)}, false, "", "yes", 2, false},
		{"502 with a page", []answering{says(502, "text/html", page)}, false, "502 Bad Gateway: it is in trouble", "", 2, false},
		{"200 with a page", []answering{says(200, "text/html", page)}, false, "no transcript (is base_url right?); it begins with: <!DOCTYPE html>", "", 1, false},
		{"200 with an error", []answering{text(`{"error":"failed to read audio ` + key + `"}`)}, false, "reports: failed to read audio [secret]", "", 1, false},
		{"no text", []answering{text(`{"object":"x"}`)}, false, "no transcript", "", 1, false},
		{"garbage", []answering{text("{\x00\xff")}, false, "no transcript", "", 1, false},
		{"nothing at all", []answering{text("")}, false, "no transcript", "", 1, false},
		{"endless", []answering{text(`{"text":"` + strings.Repeat("x", maxAnswer) + `"}`)}, false, "larger than allowed", "", 1, false},
		{"RST, then well", []answering{resets(""), text(`{"text":"yes"}`)}, false, "", "yes", 2, false},
		{"RST twice", []answering{resets("")}, false, "closed the connection", "", 2, false},
		{"RST in an answer", []answering{resets("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"te"), text(`{"text":"yes"}`)}, false, "", "yes", 2, false},
		{"no HTTP", []answering{resets("SSH-2.0-x\r\n")}, false, "malformed HTTP", "", 1, false},
		{"stall", []answering{stalls}, false, "no transcript in time", "", 1, false},
		{"stall in an answer", []answering{func(w http.ResponseWriter, r *http.Request, a asked) {
			_, _ = w.Write([]byte(`{"text":`))
			w.(http.Flusher).Flush()
			stalls(w, r, a)
		}}, false, "no transcript in time", "", 1, false},
		{"stream: error", []answering{says(200, "text/event-stream", "data: {\"type\":\"error\",\"error\":{\"message\":\"overloaded\"}}\n\n")}, true, "reports: overloaded", "", 1, false},
		{"stream: error without a word", []answering{says(200, "text/event-stream", "data: {\"type\":\"error\"}\n\n")}, true, "an error without a word", "", 1, false},
		{"stream: garbage", []answering{says(200, "text/event-stream", "data: {\"type\n\n")}, true, "cannot be read", "", 1, false},
		{"stream: nothing", []answering{says(200, "text/event-stream", "\n\n"), text(`{"text":"yes"}`)}, true, "", "yes", 2, false},
		{"stream: not done", []answering{resets("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 999\r\n\r\ndata: {\"type\":\"transcript.text.delta\",\"delta\":\"ye\"}\n\n"), text(`{"text":"yes"}`)}, true, "", "yes", 2, false},
		{"stream: stall", []answering{func(w http.ResponseWriter, r *http.Request, a asked) {
			says(200, "text/event-stream", "data: {\"type\":\"transcript.text.delta\",\"delta\":\"y\"}\n\n")(w, r, a)
			w.(http.Flusher).Flush()
			stalls(w, r, a)
		}}, true, "no transcript in time", "", 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tt.answers...)
			c := begin(t, recognizer(t, s.server.URL, func(c *Config) {
				c.Stream, c.Timeout = tt.stream, 20*time.Second
				if strings.Contains(tt.name, "stall") {
					c.Timeout = 300 * time.Millisecond
				}
			}), stt.Options{})
			c.say()
			r := c.next()
			for r.Text != "" && !r.Final {
				r = c.next()
			}
			if tt.want != "" {
				if r.Err == nil || !strings.HasPrefix(strings.TrimPrefix(r.Err.Error(), "stt: stream lost: "), "stt/openai: ") || !strings.Contains(r.Err.Error(), tt.want) || errors.Is(r.Err, stt.ErrLost) != tt.lost {
					t.Fatalf("%+v, want %q", r, tt.want)
				}
				if strings.Contains(r.Err.Error(), key) {
					t.Errorf("a secret: %v", r.Err)
				}
				if !tt.lost {
					r = c.next()
				}
			}
			if !tt.lost && (!r.Final || r.Text != tt.heard || r.Err != nil) {
				t.Errorf("%+v, want %q", r, tt.heard)
			}
			if n := len(s.requests()); n != tt.requests {
				t.Errorf("%d requests, want %d", n, tt.requests)
			}
			c.nothing()
		})
	}
}

// BR-125: RST within the utterance at 10 s, again within that at 20 s, refused from then
// on: each is told, the turn has its end, and after the limit the stream is lost, so
// that another recogniser hears the utterance.
func TestDropsInMidCall(t *testing.T) {
	s := serve(t, resets(""), text(`{"text":"one"}`), resets(""), text(`{"text":"two"}`))
	c := begin(t, recognizer(t, s.server.URL, nil), stt.Options{})
	for _, want := range []string{"one", "two"} {
		c.write(make([]int16, 160000))
		c.say()
		if r := c.next(); !r.Final || r.Text != want {
			t.Errorf("%+v, want %s", r, want)
		}
	}
	s.server.Close()
	c.say()
	if r := c.next(); r.Err == nil || errors.Is(r.Err, stt.ErrLost) || !strings.Contains(r.Err.Error(), "cannot reach") {
		t.Errorf("%+v", r)
	}
	if r := c.next(); !r.Final || r.Text != "" || r.Err != nil {
		t.Errorf("%+v", r)
	}
	c.say()
	if r := c.next(); !errors.Is(r.Err, stt.ErrLost) {
		t.Errorf("%+v", r)
	}
	c.nothing()
	for c.Write(nil) == nil { // the stream is over soon
		time.Sleep(time.Millisecond)
	}
	if err := c.Write(nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A success between two failures: they were none in a row.
func TestFailuresInARow(t *testing.T) {
	bad := says(400, "text/plain", "no")
	s := serve(t, bad, text(`{"text":"yes"}`), bad, bad)
	c := begin(t, recognizer(t, s.server.URL, nil), stt.Options{})
	for i, want := range []bool{false, true, false} {
		c.say()
		r := c.next()
		if (r.Err == nil) != want || errors.Is(r.Err, stt.ErrLost) {
			t.Errorf("%d: %+v", i, r)
		}
		if !want {
			c.next()
		}
	}
	c.say()
	if r := c.next(); !errors.Is(r.Err, stt.ErrLost) {
		t.Errorf("%+v", r)
	}
}

// Utterances behind a slow one wait their turn; too many of them lose their audio, not
// their results.
func TestSlowService(t *testing.T) {
	release := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request, a asked) {
		select {
		case <-release:
			text(`{"text":"yes"}`)(w, r, a)
		case <-r.Context().Done():
		}
	})
	c := begin(t, recognizer(t, s.server.URL, func(c *Config) { c.Timeout = 20 * time.Second }), stt.Options{})
	c.say()
	for len(s.requests()) == 0 {
		time.Sleep(time.Millisecond)
	}
	for range 7 {
		c.say()
	}
	close(release)
	finals, texts, dropped := 0, 0, 0
	for finals < 8 {
		switch r := c.next(); {
		case r.Err == ErrDropped:
			dropped++
		case r.Final:
			finals++
			if r.Text != "" {
				texts++
			}
		}
	}
	if texts != 5 || dropped != 3 {
		t.Errorf("%d texts of %d, %d dropped", texts, finals, dropped)
	}
}

// BR-135: closed at 200 random instants, whatever is under way; nothing of it stays.
func TestNothingIsLeft(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s := serve(t,
		func(w http.ResponseWriter, r *http.Request, a asked) {
			switch len(a.pcm) % 4 {
			case 0:
				stalls(w, r, a)
			case 1:
				resets("")(w, r, a)
			default:
				hears(false)(w, r, a)
			}
		})
	r := recognizer(t, s.server.URL, func(c *Config) { c.Interims = 100 * time.Millisecond; c.Transport = nil })
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		st, err := r.Open(ctx, stt.Options{}, func(stt.Result) {})
		if err != nil {
			t.Fatal(err)
		}
		for range random.IntN(4) {
			st.Begin()
			_ = st.Write(tone(16000, 1200)[:17600+random.IntN(4)])
			if random.IntN(3) > 0 {
				st.Finalize()
			}
			time.Sleep(time.Duration(random.IntN(2000)) * time.Microsecond)
		}
		if random.IntN(2) == 0 {
			cancel()
		}
		began := time.Now()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d > time.Second {
			t.Errorf("Close took %v", d)
		}
		cancel()
	}
	r.Close()
	for deadline := time.Now().Add(time.Second); s.open.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are open a second later", s.open.Load())
		}
	}
	asked := len(s.requests())
	s.server.Close()
	if n := len(s.requests()); n > asked {
		t.Errorf("%d requests after the end", n-asked)
	}
	goleak.VerifyNone(t, before)
}
