package ttstest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/agent/tts"
)

// Service is a voice that asks a service over HTTP for each text, for RunService.
type Service struct {
	// Room begins the voice's errors.
	Room string
	// Key is the voice's key, which must be in none of them.
	Key string
	// New makes a voice of the service at base, http://127.0.0.1:…, that bears Silence of it.
	New func(t *testing.T, base string) tts.Voice
	// Answer checks a request, strictly, and is what a service answers: the Content-Type,
	// and the body in pieces. The first holds at least 300 ms of sound, and is not the last.
	Answer func(t *testing.T, r *http.Request) (contentType string, pieces []string)
}

// Silence is the Timeout of voices that RunService tests.
const Silence = 1500 * time.Millisecond

// Sound is what NewTone says for text at a rate, and where its words lie.
func Sound(text string, rate int) ([]int16, []tts.Word) {
	v := &Tone{SampleRate: rate}
	var pcm []int16
	err := v.Speak(context.Background(), text, func(c tts.Chunk) error { pcm = append(pcm, c.PCM...); return nil })
	if err != nil { // the zero Tone does not fail
		return nil, nil
	}
	return pcm, v.Words(text)
}

// S16LE is samples as bytes.
func S16LE(pcm []int16) string {
	b := make([]byte, 2*len(pcm))
	for i, v := range pcm {
		b[2*i], b[2*i+1] = byte(v), byte(uint16(v)>>8)
	}
	return string(b)
}

// server is a service whose answers to the first requests are those of a script.
type server struct {
	*httptest.Server
	Service
	t        *testing.T
	asked    atomic.Int32
	dialled  atomic.Int32
	ended    chan struct{} // a request whose caller has gone
	finished chan struct{}
	hold     sync.Once
}

// act is what the service does with a request.
type act func(s *server, w http.ResponseWriter, r *http.Request)

func serve(t *testing.T, subject Service, script ...act) (*server, tts.Voice) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	s := &server{Service: subject, t: t, ended: make(chan struct{}, 16), finished: make(chan struct{})}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(s.asked.Add(1)) - 1
		do := well
		if len(script) > 0 {
			do = script[min(n, len(script)-1)]
		}
		do(s, w, r)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.dialled.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	t.Cleanup(func() { s.hold.Do(func() { close(s.finished) }) })
	return s, subject.New(t, s.URL)
}

// well answers as a service should.
func well(s *server, w http.ResponseWriter, r *http.Request) { s.write(w, r, -1) }

// write writes so many pieces of the answer; -1: all.
func (s *server) write(w http.ResponseWriter, r *http.Request, most int) {
	kind, pieces := s.Answer(s.t, r)
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(http.StatusOK)
	for i, p := range pieces {
		if i == most {
			break
		}
		_, _ = w.Write([]byte(p))
		_ = http.NewResponseController(w).Flush()
	}
	_ = http.NewResponseController(w).Flush()
}

// broken drops the connection after so many pieces; -1: without an answer.
func broken(pieces int) act {
	return func(s *server, w http.ResponseWriter, r *http.Request) {
		if pieces >= 0 {
			s.write(w, r, pieces)
			time.Sleep(20 * time.Millisecond) // what was sent is read before the connection is seen to end
		} else {
			s.Answer(s.t, r)
		}
		if conn, _, err := http.NewResponseController(w).Hijack(); err != nil {
			s.t.Errorf("the connection cannot be dropped: %v", err)
		} else {
			_ = conn.Close()
		}
	}
}

// stalled sends nothing after so many pieces; -1: nothing at all.
func stalled(pieces int) act {
	return func(s *server, w http.ResponseWriter, r *http.Request) {
		if pieces >= 0 {
			s.write(w, r, pieces)
		} else {
			s.Answer(s.t, r)
		}
		select {
		case <-r.Context().Done():
			s.ended <- struct{}{}
		case <-s.finished:
		}
	}
}

// status answers with an HTTP status and a text.
func status(code int, kind, text string, header ...string) act {
	return func(s *server, w http.ResponseWriter, r *http.Request) {
		s.Answer(s.t, r)
		w.Header().Set("Content-Type", kind)
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte(text))
	}
}

// RunService tests what Run cannot: a service that fails in every way that services do.
func RunService(t *testing.T, subject Service) {
	t.Run("faults", func(t *testing.T) { testFaults(t, subject) })
	t.Run("cancelled", func(t *testing.T) { testCancelledService(t, subject) })
	t.Run("in a row", func(t *testing.T) { testInARow(t, subject) })
	t.Run("nobody there", func(t *testing.T) { testNobody(t, subject) })
}

const sentence = "Good morning, we are open today from nine to five."

func testFaults(t *testing.T, subject Service) {
	said := `{"error":{"message":"no, ` + subject.Key + ` is no key"}}`
	for _, c := range []struct {
		name   string
		script []act
		// want is in the error; empty: there is none.
		want string
		// requests that are made, and whether something is heard.
		requests int
		heard    bool
	}{
		{"401", []act{status(401, "application/json", said)}, "answered 401 Unauthorized", 1, false},
		{"402", []act{status(402, "application/json", said)}, "answered 402 Payment Required", 1, false},
		{"400", []act{status(400, "application/json", said)}, "answered 400 Bad Request", 1, false},
		{"500", []act{status(500, "text/html", "<html>"+subject.Key+"</html>")}, "answered 500 Internal Server Error", 1, false},
		{"429 and room again", []act{status(429, "application/json", said), well}, "", 2, true},
		{"429", []act{status(429, "application/json", said)}, "answered 429 Too Many Requests", 2, false},
		{"429 for long", []act{status(429, "text/plain", "later", "Retry-After", "60")}, "asks to be left alone for 1m0s", 1, false},
		{"503 and well again", []act{status(503, "text/plain", "starting"), well}, "", 2, true},
		{"a redirect elsewhere", []act{status(302, "text/html", "", "Location", "http://127.0.0.1:1/")}, "a redirect that does not keep the request", 1, false},
		{"HTML with 200", []act{status(200, "text/html", "<html>sign in with "+subject.Key+"</html>")}, "it said: <html>sign in with", 1, false},
		{"an error with 200", []act{status(200, "application/json", said)}, "is no key", 1, false},
		{"MP3", []act{status(200, "audio/mpeg", strings.Repeat("\xff\xfb\x90\x64"+strings.Repeat("\x00", 413), 4))}, "", 1, false},
		{"nothing with 200", []act{status(200, "audio/pcm", "")}, "without any sound", 1, false},
		{"dropped, then well", []act{broken(-1), well}, "", 2, true},
		{"dropped before the first sound, then well", []act{broken(0), well}, "", 2, true},
		{"dropped before the first sound", []act{broken(0)}, "closed the connection before the answer was complete", 2, false},
		{"dropped after some sound", []act{broken(1), well}, "closed the connection before the answer was complete", 1, true},
		{"no answer", []act{stalled(-1)}, "sent nothing for 1.5s", 1, false},
		{"no sound", []act{stalled(0)}, "sent nothing for 1.5s", 1, false},
		{"it stalls after some sound", []act{stalled(1)}, "sent nothing for 1.5s", 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, v := serve(t, subject, c.script...)
			got, err := speak(t.Context(), v, sentence)
			switch {
			case c.name == "MP3":
				if err == nil {
					t.Error("MP3 is no error")
				}
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want %q", err, c.want)
			}
			if err != nil && !strings.HasPrefix(err.Error(), subject.Room+": ") {
				t.Errorf("error %q does not begin with %q", err, subject.Room)
			}
			if err != nil && strings.Contains(err.Error(), subject.Key) {
				t.Errorf("the key is in %q", err)
			}
			if got.samples > 0 != c.heard {
				t.Errorf("%d samples were heard", got.samples)
			}
			if n := int(s.asked.Load()); n != c.requests {
				t.Errorf("%d requests, want %d", n, c.requests)
			}
			if whole, _ := Sound(sentence, v.Rate()); got.samples > len(whole)+v.Rate()/50 {
				t.Errorf("%d samples of %d: some were heard twice", got.samples, len(whole))
			}
		})
	}
}

// testCancelledService: a cancelled text ends its request at that moment, whatever it waits
// for, and nothing of it is heard afterwards (BR-120, BR-135).
func testCancelledService(t *testing.T, subject Service) {
	for name, c := range map[string]struct {
		act   act
		heard bool // cancelled when something is
	}{"before the answer": {stalled(-1), false}, "before the first sound": {stalled(0), false}, "after some sound": {stalled(1), true}} {
		t.Run(name, func(t *testing.T) {
			s, v := serve(t, subject, c.act, well)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var over atomic.Bool
			stop := func() { over.Store(true); cancel() }
			if !c.heard {
				go func() {
					for s.asked.Load() == 0 {
						time.Sleep(time.Millisecond)
					}
					time.Sleep(20 * time.Millisecond)
					stop()
				}()
			}
			err := v.Speak(ctx, sentence, func(tts.Chunk) error {
				if over.Load() {
					t.Error("sound after the cancellation")
				}
				if c.heard {
					stop()
				}
				return nil
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want context.Canceled", err)
			}
			select {
			case <-s.ended:
			case <-time.After(time.Second):
				t.Error("the service still works for a text that nobody wants")
			}
			if got, err := speak(t.Context(), v, sentence); err != nil || got.samples == 0 {
				t.Errorf("afterwards: %d samples, %v", got.samples, err)
			}
		})
	}
}

// testInARow: sentences in a row share one connection.
func testInARow(t *testing.T, subject Service) {
	s, v := serve(t, subject)
	for i := range 5 {
		if got, err := speak(t.Context(), v, fmt.Sprintf("This is sentence number %d.", i)); err != nil || got.samples == 0 {
			t.Fatalf("%d samples, %v", got.samples, err)
		}
	}
	if n := s.dialled.Load(); n != 1 {
		t.Errorf("%d connections for sentences in a row, want 1", n)
	}
	asked := s.asked.Load()
	for _, text := range []string{"", "...", "🎉"} {
		if got, err := speak(t.Context(), v, text); err != nil || got.samples > 0 {
			t.Errorf("%q: %d samples, %v", text, got.samples, err)
		}
	}
	if s.asked.Load() != asked {
		t.Error("the service was asked for nothing")
	}
	if _, err := speak(t.Context(), v, strings.Repeat("a", 5000)); err == nil {
		t.Error("a text without end is no error")
	}
}

func testNobody(t *testing.T, subject Service) {
	lost := subject.New(t, "http://127.0.0.1:1")
	got, err := speak(t.Context(), lost, sentence)
	if err == nil || !strings.Contains(err.Error(), "cannot reach") || strings.Contains(err.Error(), subject.Key) || got.samples > 0 {
		t.Errorf("%d samples, %v", got.samples, err)
	}
}
