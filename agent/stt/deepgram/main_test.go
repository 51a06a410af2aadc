package deepgram

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/agent/live/socket/sockettest"
	"parley/agent/stt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "k3y-that-nobody-sees"

// ears is a service that hears what is loud as "hello", and keeps the protocol.
type ears struct {
	p    *sockettest.Peer
	rate int
	// mute leaves out the answer to Finalize when nothing was heard.
	mute bool
	// endpoints gives a final transcript by itself after so many samples of silence.
	endpoints int

	pcm   []int16
	final int // samples that have a final transcript
	told  int // samples that have any
	ended bool
}

const loud = 4000

// heard is whether there is anything in the audio behind a sample.
func (e *ears) heard(from int) (start, end int) {
	start = -1
	for i, x := range e.pcm[from:] {
		if x > loud {
			if start < 0 {
				start = from + i
			}
			end = from + i
		}
	}
	return start, end
}

func (e *ears) results(final, speechFinal, fromFinalize bool) {
	start, end := e.heard(e.final)
	text, words := "", "[]"
	at := func(n int) float64 { return float64(n) / float64(e.rate) }
	if start >= 0 {
		text = "hello"
		words = fmt.Sprintf(`[{"word":"hello","start":%f,"end":%f,"confidence":0.97,"punctuated_word":"hello"}]`, at(start), at(end))
	}
	m := fmt.Sprintf(`{"type":"Results","channel_index":[0,1],"duration":%f,"start":%f,"is_final":%v,"speech_final":%v,"from_finalize":%v,
		"channel":{"alternatives":[{"transcript":%q,"confidence":0.97,"words":%s}]},"metadata":{"request_id":"r"}}`,
		at(len(e.pcm)-e.final), at(e.final), final, speechFinal, fromFinalize, text, words)
	e.told = len(e.pcm)
	if final {
		e.final = len(e.pcm)
	}
	e.p.TrySend(m)
}

// take takes one message; false at the end.
func (e *ears) take() bool {
	kind, b, err := e.p.ReadAny()
	if err != nil {
		return false
	}
	if kind == "binary" {
		if len(b) == 0 || len(b)%2 != 0 || e.ended {
			e.p.T.Errorf("%d bytes of audio, at the end: %v", len(b), e.ended)
		}
		for ; len(b) > 1; b = b[2:] {
			e.pcm = append(e.pcm, int16(b[0])|int16(b[1])<<8)
		}
		if _, end := e.heard(e.final); e.endpoints > 0 && end > 0 && len(e.pcm)-end > e.endpoints {
			e.results(true, true, false)
		}
		if len(e.pcm)-e.told >= e.rate {
			start, _ := e.heard(e.final) // a word is not cut in two
			e.results(start < 0 && len(e.pcm)-e.final >= 4*e.rate, false, false)
		}
		return true
	}
	switch string(b) {
	case finalizeMessage:
		if start, _ := e.heard(e.final); start >= 0 || !e.mute {
			e.results(true, false, true)
		}
	case keepAliveMessage:
	case closeStreamMessage:
		e.ended = true
		e.p.TrySend(`{"type":"Metadata","transaction_key":"deprecated","request_id":"r","duration":1.0,"channels":1}`)
	default:
		e.p.T.Errorf("a message of no known kind: %s", b)
	}
	return true
}

func (e *ears) listen() {
	for e.take() {
	}
}

// checked accepts a connection that asks as it should.
func checked(p *sockettest.Peer, rate int) *ears {
	q := p.Request.URL.Query()
	for name, want := range map[string]string{
		"encoding": "linear16", "sample_rate": fmt.Sprint(rate), "channels": "1", "model": "nova-3", "punctuate": "true", "smart_format": "true",
	} {
		if q.Get(name) != want || len(q[name]) != 1 {
			p.T.Errorf("%s: %q, want %q", name, q[name], want)
		}
	}
	if p.Request.URL.Path != "/v1/listen" || p.Request.Header.Get("Authorization") != "Token "+key {
		p.T.Errorf("%s with %q", p.Request.URL.Path, p.Request.Header.Get("Authorization"))
	}
	p.Accept()
	return &ears{p: p, rate: rate}
}

func recognizer(t testing.TB, s *sockettest.Server, change func(*Config)) *Recognizer {
	t.Helper()
	cfg := DefaultConfig()
	cfg.BaseURL, cfg.APIKey, cfg.Transport = s.URL, key, s.Transport
	if change != nil {
		change(&cfg)
	}
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
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

func speechOf(rate int) []int16 {
	quiet := make([]int16, rate*3/10)
	return append(append(append([]int16(nil), quiet...), tone(rate, 500)...), quiet...)
}

// call is a stream in a bubble of synctest, with what came of it.
type call struct {
	stt.Stream
	t     *testing.T
	began time.Time

	mu  sync.Mutex
	got []stt.Result
	at  []time.Duration
}

func begin(t *testing.T, r *Recognizer, o stt.Options) *call {
	t.Helper()
	c := &call{t: t, began: time.Now()}
	var err error
	c.Stream, err = r.Open(t.Context(), o, func(x stt.Result) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.got = append(c.got, x)
		c.at = append(c.at, time.Since(c.began))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// play writes pcm in real time, in frames of 20 ms.
func (c *call) play(pcm []int16) {
	c.t.Helper()
	for len(pcm) > 0 {
		n := min(len(pcm), 320)
		if err := c.Write(pcm[:n]); err != nil {
			c.t.Fatal(err)
		}
		pcm = pcm[n:]
		time.Sleep(20 * time.Millisecond)
	}
}

func (c *call) silence(d time.Duration) { c.play(make([]int16, int(d.Seconds()*16000))) }

// results are those that came since the last time: finals as "text!", interims as
// "text", errors as "(error)".
func (c *call) results() (short string, all []stt.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b []string
	for _, r := range c.got {
		switch {
		case r.Err != nil:
			b = append(b, "("+r.Err.Error()+")")
		case r.Final:
			b = append(b, r.Text+"!")
		default:
			b = append(b, r.Text)
		}
	}
	all, c.got = c.got, nil
	c.at = nil
	return strings.Join(b, " "), all
}

// finals is results without the interim ones.
func (c *call) finals() string {
	_, all := c.results()
	var b []string
	for _, r := range all {
		switch {
		case r.Err != nil:
			b = append(b, "("+r.Err.Error()+")")
		case r.Final:
			b = append(b, r.Text+"!")
		}
	}
	return strings.Join(b, " ")
}

// said is a message of Results.
func said(text string, start, duration, confidence float64, flags ...string) string {
	m := map[string]any{
		"type": "Results", "start": start, "duration": duration,
		"channel": map[string]any{"alternatives": []any{map[string]any{"transcript": text, "confidence": confidence, "words": []any{}}}},
	}
	for _, f := range flags {
		m[f] = true
	}
	b, _ := json.Marshal(m)
	return string(b)
}
