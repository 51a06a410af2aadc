package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
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

// A call through a Media Streams bot, from a file: each hears the other, and the call ends
// when the bot closes.
func TestAMediaStreamsBotAnswers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var heard atomic.Int64
	leave := make(chan struct{})
	bot := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		for {
			_, message, err := conn.Read(ctx)
			if err != nil {
				return
			}
			var m struct {
				Event, StreamSid string
				Media            struct{ Payload []byte }
			}
			if json.Unmarshal(message, &m) != nil {
				t.Errorf("%s", message)
				return
			}
			switch m.Event {
			case "start":
				square := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0x10, 0x10, 0x10, 0x10, 0x90, 0x90, 0x90, 0x90}, 2000)) // µ-law, loud
				_ = conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"event":"media","streamSid":%q,"media":{"payload":%q}}`, m.StreamSid, square))
			case "media":
				heard.Add(int64(len(m.Media.Payload)))
			}
			select {
			case <-leave:
				_ = conn.Close(websocket.StatusNormalClosure, "")
				return
			default:
			}
		}
	}))
	t.Cleanup(bot.Close)
	file := filepath.Join(t.TempDir(), "my.toml")
	text := fmt.Sprintf("[llm]\nprovider = \"stream\"\n[stream]\nurl = %q\n[sessions]\nbackend = \"off\"\n", "ws"+strings.TrimPrefix(bot.URL, "http"))
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
	if err := c.WaitAgentSpeaking(ctx, 300*time.Millisecond); err != nil {
		t.Error(err)
	}
	until(t, func() bool { return heard.Load() >= 8000 })
	close(leave)
	if end, err := c.WaitEnd(ctx); err != nil || !end.ByPeer {
		t.Errorf("%+v %v", end, err)
	}
	r.signals <- syscall.SIGTERM
	r.wait(t)
}
