package e2e

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"parley/agent"
	"parley/agent/kit"
	"parley/agent/live"
	"parley/agent/live/openai"
	"parley/agent/tts/ttstest"
	"parley/media/g711"
)

// realtimeService is a service of the Realtime protocol, as far as calls need it: it
// says its replies in order, each as one item whose words are tones, and keeps what it
// is told. A reply "call name" calls the tool of that name.
type realtimeService struct {
	*httptest.Server
	t *testing.T
	// replies are said in order, the last one over and over, each after think.
	replies []string
	think   time.Duration
	// pace is how many times faster than it is spoken a reply comes.
	pace float64

	mu    sync.Mutex
	said  int // replies of all connections
	open  int
	conns []*realtimeConn
}

// realtimeConn is one connection of it.
type realtimeConn struct {
	service *realtimeService
	socket  *websocket.Conn
	events  chan map[string]any

	mu     sync.Mutex
	serial int
	active string
	coded  bool // as audio/pcmu, else audio/pcm
	told   []realtimeEvent
	heard  int // bytes of the caller's sound
	setup  map[string]any
}

// realtimeEvent is something that the service was told.
type realtimeEvent struct {
	kind, item, text string
	ms               float64
	at               time.Time
}

// realtimeWord is how long each word of the service is. There is no gap: services do not
// say when words end, so that words are reckoned by the length of their letters.
const realtimeWord = 250 * time.Millisecond

func newRealtimeService(t *testing.T, replies ...string) *realtimeService {
	s := &realtimeService{t: t, replies: replies, pace: 25}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.mu.Lock()
		for _, c := range s.conns {
			_ = c.socket.CloseNow()
		}
		s.mu.Unlock()
		s.Close()
		eventually(t, patience, "the connections of the service are gone", func() bool { return s.Open() == 0 })
	})
	return s
}

// Open is how many connections there are.
func (s *realtimeService) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// Connections are all there ever were.
func (s *realtimeService) Connections() []*realtimeConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*realtimeConn(nil), s.conns...)
}

func (s *realtimeService) serve(w http.ResponseWriter, r *http.Request) {
	socket, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // the client is gone already
	}
	socket.SetReadLimit(1 << 24)
	c := &realtimeConn{service: s, socket: socket, events: make(chan map[string]any, 4096)}
	s.mu.Lock()
	s.open++
	s.conns = append(s.conns, c)
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	var writer sync.WaitGroup
	writer.Go(func() { c.write(ctx) })
	c.send(map[string]any{"type": "session.created", "session": map[string]any{"id": "sess", "expires_at": time.Now().Add(time.Hour).Unix()}})
	for {
		_, text, err := socket.Read(ctx)
		if err != nil {
			break
		}
		var m map[string]any
		if err := json.Unmarshal(text, &m); err != nil {
			s.t.Errorf("%.200s: %v", text, err)
			break
		}
		c.take(ctx, m, &writer)
	}
	cancel()
	writer.Wait()
	_ = socket.CloseNow()
	s.mu.Lock()
	s.open--
	s.mu.Unlock()
}

// write sends what is to be sent.
func (c *realtimeConn) write(ctx context.Context) {
	for {
		select {
		case m := <-c.events:
			text, _ := json.Marshal(m)
			if c.socket.Write(ctx, websocket.MessageText, text) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func (c *realtimeConn) send(m map[string]any) {
	select {
	case c.events <- m:
	default:
		c.service.t.Error("the service has too much to send")
	}
}

// take takes a message of the client.
func (c *realtimeConn) take(ctx context.Context, m map[string]any, others *sync.WaitGroup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kind, _ := m["type"].(string)
	e := realtimeEvent{kind: kind, at: time.Now()}
	e.item, _ = m["item_id"].(string)
	e.ms, _ = m["audio_end_ms"].(float64)
	switch kind {
	case "session.update":
		session, _ := m["session"].(map[string]any)
		c.setup = session
		c.coded = strings.Contains(fmt.Sprint(session["audio"]), "audio/pcmu")
		session["expires_at"] = time.Now().Add(time.Hour).Unix()
		c.send(map[string]any{"type": "session.updated", "session": session})
	case "input_audio_buffer.append":
		data, _ := m["audio"].(string)
		c.heard += base64.StdEncoding.DecodedLen(len(data))
		return // there are many
	case "input_audio_buffer.commit":
		c.serial++
		id := fmt.Sprint("user_", c.serial)
		c.send(map[string]any{"type": "input_audio_buffer.committed", "item_id": id})
		c.send(map[string]any{"type": "conversation.item.input_audio_transcription.completed", "item_id": id, "content_index": 0, "transcript": "stop there"})
	case "conversation.item.create":
		item, _ := m["item"].(map[string]any)
		content, _ := item["content"].([]any)
		for _, part := range content {
			p, _ := part.(map[string]any)
			text, _ := p["text"].(string)
			e.text += text
		}
		if answer, ok := item["output"].(string); ok {
			e.text = answer
		}
	case "response.create":
		c.serial++
		c.active = fmt.Sprint("resp_", c.serial)
		id := c.active
		c.send(map[string]any{"type": "response.created", "response": map[string]any{"id": id, "status": "in_progress", "output": []any{}}})
		others.Go(func() { c.reply(ctx, id) })
	case "response.cancel":
		c.end(c.active, "cancelled", nil)
	}
	c.told = append(c.told, e)
}

// end ends the reply under way; mu is held.
func (c *realtimeConn) end(id, status string, output []any) bool {
	if id == "" || c.active != id {
		return false
	}
	c.active = ""
	c.send(map[string]any{"type": "response.done", "response": map[string]any{"id": id, "status": status, "output": append([]any{}, output...)}})
	return true
}

// reply says the next reply.
func (c *realtimeConn) reply(ctx context.Context, id string) {
	s := c.service
	timer := time.NewTimer(s.think)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return
	}
	s.mu.Lock()
	text := s.replies[min(s.said, len(s.replies)-1)]
	s.said++
	s.mu.Unlock()
	item := "item_of_" + id
	at := func(kind string, more map[string]any) {
		m := map[string]any{"type": kind, "response_id": id, "item_id": item, "output_index": 0, "content_index": 0}
		for k, v := range more {
			m[k] = v
		}
		c.send(m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active != id {
		return
	}
	if name, ok := strings.CutPrefix(text, "call "); ok {
		call := map[string]any{"id": item, "type": "function_call", "status": "completed", "call_id": "call_of_" + id, "name": name, "arguments": "{}"}
		at("response.output_item.done", map[string]any{"item": call})
		c.end(id, "completed", []any{call})
		return
	}
	at("response.output_item.added", map[string]any{"item": map[string]any{"id": item, "type": "message", "role": "assistant", "content": []any{}}})
	place := 0
	for n, word := range words(text) {
		if n > 0 {
			word = " " + word
		}
		at("response.output_audio_transcript.delta", map[string]any{"delta": word})
		at("response.output_audio.delta", map[string]any{"delta": base64.StdEncoding.EncodeToString(c.toneOf(place))})
		if place++; strings.HasSuffix(word, ".") {
			place = 0
		}
		c.mu.Unlock()
		timer.Reset(time.Duration(float64(realtimeWord) / s.pace))
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		if c.mu.Lock(); c.active != id || ctx.Err() != nil {
			return // it was cancelled
		}
	}
	at("response.output_audio.done", nil)
	at("response.output_audio_transcript.done", map[string]any{"transcript": text})
	c.end(id, "completed", []any{map[string]any{"id": item, "type": "message", "role": "assistant"}})
}

// toneOf is the sound of the word in a place of a sentence, as it was agreed; mu is held.
func (c *realtimeConn) toneOf(place int) (out []byte) {
	if !c.coded {
		return toneOf(place, live.OutputRate)
	}
	pcm := make([]int16, 0, at(realtimeWord))
	for b := toneOf(place, 8000); len(b) > 0; b = b[2:] {
		pcm = append(pcm, int16(binary.LittleEndian.Uint16(b)))
	}
	enc, err := g711.PCMU().NewEncoder()
	if err == nil {
		out, err = enc.Encode(nil, pcm)
	}
	if err != nil {
		c.service.t.Error(err)
	}
	return out
}

// toneOf is a word in a place of a sentence as PCM of a rate.
func toneOf(place, rate int) (out []byte) {
	for i := range int(realtimeWord) * rate / int(time.Second) {
		v := int16(8000 * math.Sin(2*math.Pi*ttstest.Frequency(place)*float64(i)/float64(rate)))
		out = binary.LittleEndian.AppendUint16(out, uint16(v))
	}
	return out
}

// toldOf is what the service was told of a kind, on all connections.
func (s *realtimeService) toldOf(kind string) (out []realtimeEvent) {
	for _, c := range s.Connections() {
		c.mu.Lock()
		for _, e := range c.told {
			if e.kind == kind {
				out = append(out, e)
			}
		}
		c.mu.Unlock()
	}
	return out
}

// even is a text of sentences whose words have all the same number of letters, the full
// stop included: no word is reckoned to be longer than another.
func even(name string, lengths ...int) string {
	var b strings.Builder
	n := 0
	for _, length := range lengths {
		for i := range length {
			word := fmt.Sprintf("%.3s%02d", name, n)
			if n++; i == length-1 {
				word = word[:2] + word[3:] + "."
			}
			b.WriteString(word + " ")
		}
	}
	return strings.TrimSpace(b.String())
}

// realtimeAgent is an agent whose model is at an address.
func realtimeAgent(t *testing.T, address string, change func(*kit.Config, *openai.Config)) agent.Opener {
	t.Helper()
	service := openai.DefaultConfig()
	service.BaseURL = "ws" + strings.TrimPrefix(address, "http") + "/v1/realtime"
	cfg := kit.DefaultConfig()
	cfg.Session.LocalTurns = true
	cfg.Turn.MaxDigits = 1
	if change != nil {
		change(&cfg, &service)
	}
	cfg.Provider = func() live.LiveProvider {
		p, err := openai.New(service)
		if err != nil {
			t.Error(err)
			return nil
		}
		return p
	}
	o, err := kit.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return o
}
