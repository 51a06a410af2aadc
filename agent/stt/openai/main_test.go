package openai

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/agent/stt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "k3y-that-nobody-sees"

// asked is a request as a service has it.
type asked struct {
	path, key, accept string
	fields            map[string][]string
	rate              int
	pcm               []int16
}

// read takes a request apart, and refuses what is not exactly right.
func read(r *http.Request) (a asked, err error) {
	a = asked{path: r.URL.Path, key: r.Header.Get("Authorization"), accept: r.Header.Get("Accept"), fields: map[string][]string{}}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || r.Method != http.MethodPost {
		return a, fmt.Errorf("%s of %q: %w", r.Method, kind, err)
	}
	parts := multipart.NewReader(r.Body, params["boundary"])
	for {
		part, err := parts.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return a, err
		}
		body, err := io.ReadAll(part)
		if err != nil {
			return a, err
		}
		if part.FormName() != "file" {
			a.fields[part.FormName()] = append(a.fields[part.FormName()], string(body))
			continue
		}
		if part.FileName() != "speech.wav" || part.Header.Get("Content-Type") != "audio/wav" {
			return a, fmt.Errorf("file %q of %q", part.FileName(), part.Header.Get("Content-Type"))
		}
		if a.rate, a.pcm, err = readWAV(body); err != nil {
			return a, err
		}
	}
	if a.pcm == nil {
		return a, fmt.Errorf("no file")
	}
	return a, nil
}

func readWAV(b []byte) (rate int, pcm []int16, err error) {
	le := binary.LittleEndian
	if len(b) < 44 || string(b[:4]) != "RIFF" || string(b[8:16]) != "WAVEfmt " || string(b[36:40]) != "data" ||
		int(le.Uint32(b[4:])) != len(b)-8 || int(le.Uint32(b[40:])) != len(b)-44 ||
		le.Uint32(b[16:]) != 16 || le.Uint16(b[20:]) != 1 || le.Uint16(b[22:]) != 1 || le.Uint16(b[32:]) != 2 || le.Uint16(b[34:]) != 16 ||
		le.Uint32(b[28:]) != 2*le.Uint32(b[24:]) {
		return 0, nil, fmt.Errorf("no WAV of 16 bits and one channel: % x", b[:min(len(b), 44)])
	}
	for b := b[44:]; len(b) > 0; b = b[2:] {
		pcm = append(pcm, int16(le.Uint16(b)))
	}
	return int(le.Uint32(b[24:])), pcm, nil
}

// service is a scripted one: each request takes the next answer, the last again and
// again.
type service struct {
	t       *testing.T
	server  *httptest.Server
	open    atomic.Int64 // connections
	mu      sync.Mutex
	asked   []asked
	answers []func(http.ResponseWriter, *http.Request, asked)
}

type answering = func(http.ResponseWriter, *http.Request, asked)

func serve(t *testing.T, answers ...answering) *service {
	t.Helper()
	s := &service{t: t, answers: answers}
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, err := read(r)
		if r.Context().Err() != nil {
			return // it was given up meanwhile
		}
		if err != nil {
			t.Errorf("a request: %v", err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		s.asked = append(s.asked, a)
		answer := s.answers[0]
		if len(s.answers) > 1 {
			s.answers = s.answers[1:]
		}
		s.mu.Unlock()
		answer(w, r, a)
	}))
	s.server.Listener = counted{s.server.Listener, &s.open}
	s.server.Start()
	t.Cleanup(s.server.Close)
	return s
}

// counted is a listener that counts the connections that are open.
type counted struct {
	net.Listener
	open *atomic.Int64
}

func (c counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return &countedConn{TCPConn: conn.(*net.TCPConn), open: c.open}, nil
}

type countedConn struct {
	*net.TCPConn
	open *atomic.Int64
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.TCPConn.Close()
}

func (s *service) requests() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]asked(nil), s.asked...)
}

// says answers with a body of a media type.
func says(code int, contentType, body string) answering {
	return func(w http.ResponseWriter, _ *http.Request, _ asked) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func text(body string) answering { return says(200, "application/json", body) }

// resets ends the connection by RST after some bytes of an answer.
func resets(head string) answering {
	return func(w http.ResponseWriter, _ *http.Request, _ asked) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, head)
		_ = conn.(*countedConn).SetLinger(0)
		_ = conn.Close()
	}
}

// stalls answers nothing until the request is given up.
func stalls(_ http.ResponseWriter, r *http.Request, _ asked) { <-r.Context().Done() }

func recognizer(t *testing.T, address string, change func(*Config)) *Recognizer {
	t.Helper()
	cfg := DefaultConfig()
	cfg.BaseURL, cfg.APIKey, cfg.Model = address, key, "whisper-1"
	cfg.Transport = &http.Transport{DisableKeepAlives: true}
	if change != nil {
		change(&cfg)
	}
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// tone is ms of a loud one.
func tone(rate, ms int) []int16 {
	pcm := make([]int16, rate*ms/1000)
	for i := range pcm {
		pcm[i] = int16(8000 * math.Sin(2*math.Pi*440*float64(i)/float64(rate)))
	}
	return pcm
}

// speechOf is an utterance with silence around it.
func speechOf(rate int) []int16 {
	quiet := make([]int16, rate*3/10)
	return append(append(append([]int16(nil), quiet...), tone(rate, 500)...), quiet...)
}

// call is a stream with what came of it.
type call struct {
	stt.Stream
	t       *testing.T
	results chan stt.Result
}

func begin(t *testing.T, r *Recognizer, o stt.Options) *call {
	t.Helper()
	c := &call{t: t, results: make(chan stt.Result, 1000)}
	var err error
	if c.Stream, err = r.Open(t.Context(), o, func(x stt.Result) { c.results <- x }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (c *call) write(pcm []int16) {
	c.t.Helper()
	if err := c.Write(pcm); err != nil {
		c.t.Fatal(err)
	}
}

// say is one utterance.
func (c *call) say() {
	c.t.Helper()
	c.Begin()
	c.write(speechOf(16000))
	c.Finalize()
}

// next is the next result.
func (c *call) next() stt.Result {
	c.t.Helper()
	select {
	case r := <-c.results:
		return r
	case <-time.After(20 * time.Second):
		c.t.Fatal("no result")
		return stt.Result{}
	}
}

// nothing says that no result waits.
func (c *call) nothing() {
	c.t.Helper()
	select {
	case r := <-c.results:
		c.t.Errorf("another result: %+v", r)
	default:
	}
}
