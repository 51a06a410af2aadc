package cartesia_test

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/agent/live/socket/sockettest"
	"parley/agent/tts"
	"parley/agent/tts/cartesia"
	"parley/agent/tts/ttstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	key  = "sk_car_secret0123456789"
	rate = 16000
	ms   = time.Millisecond
)

// voiceAt is a voice of the service.
func voiceAt(t *testing.T, s *sockettest.Server, change func(*cartesia.Config)) *cartesia.Voice {
	t.Helper()
	cfg := cartesia.DefaultConfig()
	cfg.BaseURL, cfg.APIKey, cfg.Transport, cfg.Timeout = s.URL+"/tts/websocket", key, s.Transport, time.Second
	if change != nil {
		change(&cfg)
	}
	v, err := cartesia.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// greet checks the handshake and does it.
func greet(p *sockettest.Peer) {
	p.T.Helper()
	if p.Request.URL.String() != "/tts/websocket" {
		p.T.Errorf("dialled %s", p.Request.URL)
	}
	for name, want := range map[string]string{"X-Api-Key": key, "Cartesia-Version": "2025-04-16", "Authorization": ""} {
		if got := p.Request.Header.Get(name); got != want {
			p.T.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	p.Accept()
}

// asked checks a request, and is its context and its text.
func asked(p *sockettest.Peer, m map[string]any) (id, text string) {
	p.T.Helper()
	id, _ = m["context_id"].(string)
	text, _ = m["transcript"].(string)
	if len(id) < 16 || text == "" {
		p.Fail("asked for %v", m)
	}
	want := map[string]any{
		"context_id": id, "model_id": "sonic-3", "transcript": text, "language": "en", "add_timestamps": true, "continue": false,
		"voice":         map[string]any{"mode": "id", "id": "f786b574-daa5-4673-aa0c-cbe3e8534c02"},
		"output_format": map[string]any{"container": "raw", "encoding": "pcm_s16le", "sample_rate": float64(rate)},
	}
	if !reflect.DeepEqual(m, want) {
		p.T.Errorf("asked for %v, want %v", m, want)
	}
	return id, text
}

// request waits for a request.
func request(p *sockettest.Peer) (id, text string) {
	p.T.Helper()
	return asked(p, p.Read())
}

func js(m map[string]any) string {
	b, err := json.Marshal(m)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func chunk(id string, pcm string) string {
	return js(map[string]any{"type": "chunk", "context_id": id, "done": false, "status_code": 206, "step_time": 1.5, "data": base64.StdEncoding.EncodeToString([]byte(pcm))})
}

func done(id string) string {
	return js(map[string]any{"type": "done", "context_id": id, "done": true, "status_code": 200})
}

func timestamps(id string, words ...tts.Word) string {
	var texts []string
	var start, end []float64
	for _, w := range words {
		texts = append(texts, w.Text)
		start = append(start, w.Start.Seconds())
		end = append(end, w.End.Seconds())
	}
	return js(map[string]any{"type": "timestamps", "context_id": id, "done": false, "status_code": 206,
		"word_timestamps": map[string]any{"words": texts, "start": start, "end": end}})
}

// order is when words are told.
type order string

const (
	before order = "before their sound"
	after  order = "after their sound"
	first  order = "first of all"
	last   order = "last of all"
	never  order = "never"
)

// messages are what the service sends for a text: sound in pieces of 100 ms, which end within
// a sample, and words.
func messages(id, text string, when order) []string {
	pcm, words := ttstest.Sound(text, rate)
	all := slices.Clone(words)
	b := ttstest.S16LE(pcm)
	var out []string
	if when == first {
		out = append(out, timestamps(id, all...))
	}
	for at := 100 * ms; len(b) > 0; at += 100 * ms {
		n := min(3201, len(b))
		if at > 100*ms {
			n = min(3200, len(b))
		}
		k := 0
		for k < len(words) && words[k].Start < at {
			k++
		}
		if when == before && k > 0 {
			out = append(out, timestamps(id, words[:k]...))
		}
		out = append(out, chunk(id, b[:n]))
		if when == after && k > 0 {
			out = append(out, timestamps(id, words[:k]...))
		}
		words, b = words[k:], b[n:]
	}
	if when == last {
		out = append(out, timestamps(id, all...))
	}
	return append(out, done(id))
}

// well answers every request of a connection as the service does.
func well(when order) func(*sockettest.Peer) {
	return func(p *sockettest.Peer) {
		greet(p)
		known := map[string]bool{}
		for {
			b, err := p.TryRead()
			if err != nil {
				return
			}
			var m map[string]any
			if err := json.Unmarshal(b, &m); err != nil {
				p.Fail("%s: %v", b, err)
			}
			if m["cancel"] != nil {
				id, _ := m["context_id"].(string)
				if !known[id] || len(m) != 2 || m["cancel"] != true {
					p.T.Errorf("cancelled: %v", m)
				}
				continue
			}
			id, text := asked(p, m)
			if known[id] {
				p.T.Errorf("the context %s twice", id)
			}
			known[id] = true
			for _, m := range messages(id, text, when) {
				if !p.TrySend(m) {
					return
				}
			}
		}
	}
}

// heard is what a Speak gave.
type heard struct {
	pcm   []int16
	words []tts.Word
}

func speak(t *testing.T, v tts.Voice, text string) (h heard, err error) {
	t.Helper()
	err = v.Speak(t.Context(), text, func(c tts.Chunk) error {
		h.pcm = append(h.pcm, c.PCM...)
		h.words = append(h.words, c.Words...)
		return nil
	})
	return h, err
}

// whole fails unless all of a text was heard, and nothing else.
func (h heard) whole(t *testing.T, text string, err error) {
	t.Helper()
	pcm, words := ttstest.Sound(text, rate)
	if err != nil || !slices.Equal(h.pcm, pcm) || len(h.words) != len(words) {
		t.Errorf("%d of %d samples, %d of %d words, %v", len(h.pcm), len(pcm), len(h.words), len(words), err)
	}
}
