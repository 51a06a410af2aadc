package e2e

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"parley/agent/tts"
	"parley/agent/tts/ttstest"
)

// The services of TestFaults, each as far as a call needs it.

// What the caller says in its three turns, and what is replied: the second reply is long,
// and comes in two parts with a pause between.
var (
	faultTurns   = []string{"hello", "tell me everything", "and now"}
	faultReplies = []string{numbered("first", 3), numbered("long", 6, 6), numbered("last", 4)}
)

// replyTo is the reply to what the caller said last.
func replyTo(text string) string {
	for i, said := range faultTurns {
		if said == text {
			return faultReplies[i]
		}
	}
	return faultReplies[2]
}

// halves gives the sentences of a reply one after the other.
func halves(ctx context.Context, reply string, give func(text string)) {
	sentences := strings.SplitAfter(reply, ". ")
	for i, s := range sentences {
		give(s)
		if i < len(sentences)-1 {
			timer := time.NewTimer(1200 * time.Millisecond)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		}
	}
}

// agentService is an agent of one's own.
func agentService(t *testing.T) *httptest.Server {
	a := newAgent(t, func(w http.ResponseWriter, r *http.Request, got turn, _ int) {
		w.Header().Set("Content-Type", "text/plain")
		halves(r.Context(), replyTo(got.Text), func(text string) {
			_, _ = io.WriteString(w, text)
			flush(w)
		})
	})
	return a.Server
}

// chatService speaks chat completions.
func chatService(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Messages []struct{ Role, Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			return // a connection that was cut
		}
		last := ""
		for _, m := range request.Messages {
			if m.Role == "user" {
				last = m.Content
			}
		}
		w.Header().Set("Content-Type", "text/event-stream")
		halves(r.Context(), replyTo(last), func(text string) {
			chunk, _ := json.Marshal(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{"content": text}}}})
			_, _ = fmt.Fprintf(w, "data: %s\n\n", chunk)
			flush(w)
		})
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// speechService speaks as OpenAI's POST /audio/speech does, half again as fast as the
// sound lasts.
func speechService(t *testing.T) *httptest.Server {
	voice := &ttstest.Tone{SampleRate: 24000, Word: toneTime, Gap: wordTime - toneTime, ChunkLength: 100 * time.Millisecond}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct{ Input string }
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			return
		}
		w.Header().Set("Content-Type", "audio/pcm")
		_ = voice.Speak(r.Context(), request.Input, func(c tts.Chunk) error { // until the client goes
			raw := make([]byte, 0, 2*len(c.PCM))
			for _, v := range c.PCM {
				raw = binary.LittleEndian.AppendUint16(raw, uint16(v))
			}
			if _, err := w.Write(raw); err != nil {
				return err
			}
			flush(w)
			think(r, time.Duration(len(c.PCM))*time.Second/24000*2/3)
			return r.Context().Err()
		})
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// hearingService recognises like Deepgram: whatever is said, it hears "hello" in it.
func hearingService(t *testing.T) *httptest.Server {
	var all sync.WaitGroup
	life, end := context.WithCancel(context.Background())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all.Add(1)
		defer all.Done()
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer conn.CloseNow()
		seconds, from := 0.0, 0.0
		for {
			kind, b, err := conn.Read(life)
			if err != nil {
				return
			}
			if kind == websocket.MessageBinary {
				seconds += float64(len(b)) / 2 / 16000
				continue
			}
			var m struct{ Type string }
			if json.Unmarshal(b, &m) != nil || m.Type != "Finalize" {
				continue
			}
			result, _ := json.Marshal(map[string]any{
				"type": "Results", "start": from, "duration": seconds - from, "is_final": true, "speech_final": true, "from_finalize": true,
				"channel": map[string]any{"alternatives": []any{map[string]any{"transcript": "hello", "confidence": 0.95}}},
			})
			from = seconds
			if conn.Write(life, websocket.MessageText, result) != nil {
				return
			}
		}
	}))
	t.Cleanup(func() {
		end()
		s.Close()
		all.Wait()
	})
	return s
}
