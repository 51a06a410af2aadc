package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/agent"
	"parley/agent/cascade"
	"parley/agent/llm/httpagent"
	"parley/agent/stt/stttest"
	"parley/agent/tts/ttstest"
)

// turn is one request of the contract, as an agent reads it.
type turn struct {
	SessionID   string `json:"session_id"`
	ResourceID  string `json:"resource_id"`
	Type        string `json:"type"`
	Text        string `json:"text"`
	System      string `json:"system"`
	Interrupted string `json:"interrupted_text"`

	raw  map[string]json.RawMessage
	call string // X-Call-Id
	at   time.Time
}

// httpAgent is an agent of one's own: a real HTTP server that keeps its requests.
type httpAgent struct {
	*httptest.Server
	running atomic.Int64

	mu     sync.Mutex
	turns  []turn
	closed []time.Time // when requests were cancelled by the gateway
}

// newAgent starts an agent; reply gets the request and how many of the same
// session there were before.
func newAgent(t *testing.T, reply func(w http.ResponseWriter, r *http.Request, got turn, before int)) *httpAgent {
	t.Helper()
	a := &httpAgent{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.running.Add(1)
		defer a.running.Add(-1)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		got := turn{at: time.Now(), call: r.Header.Get("X-Call-Id")}
		if json.Unmarshal(body, &got) != nil || json.Unmarshal(body, &got.raw) != nil {
			http.Error(w, "no JSON", http.StatusBadRequest)
			return
		}
		before := a.take(got)
		reply(w, r, got, before)
		if r.Context().Err() != nil {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.closed = append(a.closed, time.Now())
		}
	}))
	t.Cleanup(func() {
		a.CloseClientConnections()
		a.Close()
	})
	return a
}

func (a *httpAgent) take(got turn) (before int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.turns {
		if t.SessionID == got.SessionID {
			before++
		}
	}
	a.turns = append(a.turns, got)
	return before
}

// asked are the requests of one call, or of all when id is empty.
func (a *httpAgent) asked(id string) []turn {
	a.mu.Lock()
	defer a.mu.Unlock()
	if id == "" {
		return slices.Clone(a.turns)
	}
	return slices.DeleteFunc(slices.Clone(a.turns), func(t turn) bool { return t.call != id })
}

// cancelled are the times at which the agent saw the gateway give up a request.
func (a *httpAgent) cancelled() []time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.closed)
}

// say answers with plain text.
func say(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text)
}

// think takes so long, or until the request is cancelled.
func think(r *http.Request, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

// flush sends what was written so far.
func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// parts is a conversation of one call with parts that the test knows all about.
type parts struct {
	hears    *stttest.Fake
	voice    *ttstest.Tone
	model    httpagent.Config
	cascade  cascade.Config
	provider *httpagent.Provider
}

// newParts makes a conversation with the agent at url in which the recogniser
// hears texts in turn.
func newParts(url string, texts ...string) *parts {
	p := &parts{
		hears: stttest.NewFake(texts...),
		// 10 ms of gap: no packet of 20 ms is ever silent within speech.
		voice: &ttstest.Tone{Word: 240 * time.Millisecond, Gap: 10 * time.Millisecond},
		model: httpagent.DefaultConfig(), cascade: cascade.DefaultConfig(),
	}
	p.model.URL = url
	return p
}

// slow is a recogniser that takes its time for one utterance.
func slow(text string, d time.Duration) *stttest.Fake {
	f := &stttest.Fake{}
	f.Add(stttest.Utterance{Text: text, Confidence: 0.9, Delay: d})
	return f
}

// plug puts the conversation into the gateway under a name.
func (p *parts) plug(t *testing.T, g *gateway, name string) {
	t.Helper()
	p.plugWith(t, g, name, func(o agent.Opener) agent.Opener { return o })
}

// plugWith is plug with something around the agent.
func (p *parts) plugWith(t *testing.T, g *gateway, name string, around func(agent.Opener) agent.Opener) {
	t.Helper()
	var err error
	if p.provider, err = httpagent.New(p.model); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.provider.Close)
	p.cascade.STT, p.cascade.TTS, p.cascade.LLM = p.hears, p.voice, p.provider
	opener, err := cascade.New(p.cascade)
	if err != nil {
		t.Fatal(err)
	}
	g.serve(name, around(opener))
}

// utterance is something that the recogniser hears.
func utterance(text string) stttest.Utterance { return stttest.Utterance{Text: text, Confidence: 0.9} }

// numbered is a text of sentences with so many words each, all words different.
func numbered(name string, lengths ...int) string {
	var b strings.Builder
	n := 0
	for _, length := range lengths {
		for i := range length {
			word := fmt.Sprintf("%s%d", name, n)
			if n++; i == 0 {
				word = strings.ToUpper(word[:1]) + word[1:]
			}
			b.WriteString(word)
			if i < length-1 {
				b.WriteByte(' ')
			}
		}
		b.WriteString(". ")
	}
	return strings.TrimSpace(b.String())
}
