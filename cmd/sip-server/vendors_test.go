package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"parley/config"
)

// hearer is a service that speaks Deepgram's protocol: whatever is said is "hello there".
func hearer(t *testing.T, heard *atomic.Int64) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Token dg" {
			t.Errorf("authorization %q", got)
		}
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		for {
			kind, message, err := conn.Read(r.Context())
			if err != nil {
				return
			}
			if kind == websocket.MessageBinary {
				heard.Add(int64(len(message)))
				continue
			}
			if !strings.Contains(string(message), "Finalize") {
				continue
			}
			end := float64(heard.Load()) / 32000
			_ = conn.Write(r.Context(), websocket.MessageText, fmt.Appendf(nil,
				`{"type":"Results","is_final":true,"from_finalize":true,"start":0,"duration":%f,"channel":{"alternatives":[{"transcript":"hello there","confidence":0.95,"words":[{"word":"hello","start":0.1,"end":0.3,"confidence":0.95},{"word":"there","start":0.3,"end":0.5,"confidence":0.95}]}]}}`, end))
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// tone is 24 kHz PCM of 440 Hz, as bytes.
func tone(samples int) []byte {
	out := make([]byte, 0, 2*samples)
	for i := range samples {
		out = binary.LittleEndian.AppendUint16(out, uint16(int16(8000*math.Sin(2*math.Pi*440*float64(i)/24000))))
	}
	return out
}

// A call through a recogniser and a voice of services, from a file: what the caller says
// comes to the agent as the one heard it, and the caller hears what the other spoke.
func TestServicesHearAndSpeak(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var heard, spoken atomic.Int64
	var asked atomic.Pointer[string]
	ear := hearer(t, &heard)
	mouth := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/audio/speech" || r.Header.Get("Authorization") != "Bearer oa" {
			t.Errorf("%s %q", r.URL.Path, r.Header.Get("Authorization"))
		}
		spoken.Add(1)
		w.Header().Set("Content-Type", "audio/pcm")
		_, _ = w.Write(tone(24000))
	}))
	t.Cleanup(mouth.Close)
	brain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		text := string(body)
		asked.Store(&text)
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "I heard you.")
	}))
	t.Cleanup(brain.Close)
	file := filepath.Join(t.TempDir(), "my.toml")
	text := fmt.Sprintf(`[llm]
provider = "agent"
[agent]
url = %q
[conversation]
greeting = "Hello."
[stt]
provider = "deepgram"
[stt.deepgram]
base_url = %q
api_key = "dg"
[tts]
provider = "openai"
[tts.openai]
base_url = %q
api_key = "oa"
[sessions]
backend = "off"
`, brain.URL, ear.URL, mouth.URL+"/v1")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	own, err := config.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(t)
	cfg.Assistant, cfg.Sessions = own.Assistant, own.Sessions
	r := launch(t, cfg)
	c := dial(t, ctx, r.uri())
	if err := c.WaitAgentSpeaking(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitAgentSilent(ctx, 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	pcm := make([]int16, 8000) // a second of something like a voice
	for i := range pcm {
		pcm[i] = int16(7000 * math.Sin(2*math.Pi*180*float64(i)/8000) * (1 + math.Sin(2*math.Pi*4*float64(i)/8000)) / 2)
	}
	c.Say(pcm)
	until(t, func() bool { return asked.Load() != nil && spoken.Load() >= 2 })
	if err := c.WaitAgentSpeaking(ctx, 300*time.Millisecond); err != nil { // the reply
		t.Error(err)
	}
	if got := *asked.Load(); !strings.Contains(got, `"text":"hello there"`) {
		t.Errorf("the agent got %s", got)
	}
	if heard.Load() < 16000 {
		t.Errorf("the recogniser got %d bytes", heard.Load())
	}
	if err := c.Hangup(ctx); err != nil {
		t.Error(err)
	}
	r.signals <- syscall.SIGTERM
	r.wait(t)
}
