package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"parley/agent/live"
)

// geminiService is a service of the Live protocol of Gemini, as far as calls with turns of
// the gateway's own need it: one reply for each turn and for each result of a tool, as a
// realtimeService says it. It is cut off by a turn that begins.
type geminiService struct {
	*httptest.Server
	t       *testing.T
	replies []string
	think   time.Duration

	mu      sync.Mutex
	said    int
	open    int
	setup   map[string]any
	key     string
	heard   int // bytes of the caller's sound
	told    []string
	answers []string
}

// geminiMessage is what the client says, of which one part is there.
type geminiMessage struct {
	Setup         map[string]any
	RealtimeInput *struct {
		Audio                      *struct{ Data, MimeType string }
		Text                       string
		ActivityStart, ActivityEnd *struct{}
	}
	ToolResponse *struct {
		FunctionResponses []struct {
			ID, Name string
			Response json.RawMessage
		}
	}
}

func newGeminiService(t *testing.T, replies ...string) *geminiService {
	s := &geminiService{t: t, replies: replies}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.CloseClientConnections()
		eventually(t, patience, "the connections of the service are gone", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.open == 0
		})
		s.Close()
	})
	return s
}

func (s *geminiService) serve(w http.ResponseWriter, r *http.Request) {
	socket, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // the client is gone already
	}
	socket.SetReadLimit(1 << 24)
	s.mu.Lock()
	s.open++
	s.key = r.Header.Get("X-Goog-Api-Key")
	s.mu.Unlock()
	defer func() {
		_ = socket.CloseNow()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
	}()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	turn := geminiTurn{service: s, socket: socket, cancel: func() {}}
	defer turn.stop()
	for {
		_, text, err := socket.Read(ctx)
		if err != nil {
			return
		}
		var m geminiMessage
		if err := json.Unmarshal(text, &m); err != nil {
			s.t.Errorf("%.200s: %v", text, err)
			return
		}
		turn.take(ctx, m)
	}
}

// geminiTurn is what goes on in a connection.
type geminiTurn struct {
	service *geminiService
	socket  *websocket.Conn
	voice   bool // there was sound since the turn began
	cancel  func()
	reply   sync.WaitGroup
}

// stop ends the reply under way.
func (g *geminiTurn) stop() {
	g.cancel()
	g.reply.Wait()
}

func (g *geminiTurn) take(ctx context.Context, m geminiMessage) {
	s := g.service
	switch in := m.RealtimeInput; {
	case m.Setup != nil:
		s.mu.Lock()
		s.setup = m.Setup
		s.mu.Unlock()
		g.send(ctx, map[string]any{"setupComplete": map[string]any{}})
	case in != nil && in.Audio != nil:
		g.voice = true
		s.mu.Lock()
		s.heard += base64.StdEncoding.DecodedLen(len(in.Audio.Data))
		s.mu.Unlock()
	case in != nil && in.Text != "":
		s.mu.Lock()
		s.told = append(s.told, in.Text)
		s.mu.Unlock()
	case in != nil && in.ActivityStart != nil:
		g.voice = false
		g.stop()
	case in != nil && in.ActivityEnd != nil:
		if g.voice {
			g.content(ctx, map[string]any{"inputTranscription": map[string]any{"text": "stop there", "finished": true}})
		}
		g.next(ctx)
	case m.ToolResponse != nil:
		s.mu.Lock()
		for _, r := range m.ToolResponse.FunctionResponses {
			s.answers = append(s.answers, r.Name+" "+string(r.Response))
		}
		s.mu.Unlock()
		g.next(ctx)
	}
}

func (g *geminiTurn) send(ctx context.Context, m map[string]any) {
	text, err := json.Marshal(m)
	if err != nil {
		g.service.t.Error(err)
	}
	_ = g.socket.Write(ctx, websocket.MessageBinary, text) // who is gone is seen when it is read
}

func (g *geminiTurn) content(ctx context.Context, m map[string]any) {
	g.send(ctx, map[string]any{"serverContent": m})
}

// next says the next reply.
func (g *geminiTurn) next(ctx context.Context) {
	g.stop()
	s := g.service
	s.mu.Lock()
	text := s.replies[min(s.said, len(s.replies)-1)]
	s.said++
	s.mu.Unlock()
	within, cancel := context.WithCancel(ctx)
	g.cancel = cancel
	g.reply.Go(func() { g.say(ctx, within, text) })
}

// say says a reply until within ends, and tells then that it was cut off.
func (g *geminiTurn) say(ctx, within context.Context, text string) {
	timer := time.NewTimer(g.service.think)
	defer timer.Stop()
	pause := func() bool {
		select {
		case <-timer.C:
			return true
		case <-within.Done():
			g.content(ctx, map[string]any{"interrupted": true})
			g.content(ctx, map[string]any{"turnComplete": true})
			return false
		}
	}
	if !pause() {
		return
	}
	if name, ok := strings.CutPrefix(text, "call "); ok {
		g.send(ctx, map[string]any{"toolCall": map[string]any{"functionCalls": []any{map[string]any{"id": "c-" + name, "name": name, "args": map[string]any{}}}}})
		return
	}
	place := 0
	for n, word := range words(text) {
		if n > 0 {
			word = " " + word
		}
		g.content(ctx, map[string]any{"outputTranscription": map[string]any{"text": word}})
		sound := map[string]any{"mimeType": "audio/pcm;rate=24000", "data": base64.StdEncoding.EncodeToString(toneOf(place, live.OutputRate))}
		g.content(ctx, map[string]any{"modelTurn": map[string]any{"parts": []any{map[string]any{"inlineData": sound}}}})
		if place++; strings.HasSuffix(word, ".") {
			place = 0
		}
		timer.Reset(realtimeWord / 25)
		if !pause() {
			return
		}
	}
	g.content(ctx, map[string]any{"generationComplete": true})
	g.content(ctx, map[string]any{"turnComplete": true})
}
