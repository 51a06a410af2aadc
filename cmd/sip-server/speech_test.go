package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"parley/agent/tts"
	"parley/api"
	"parley/config"
)

// A voice that fails is followed by the next one; the log and the figures say so, and no
// key is in either.
func TestAnotherVoiceTakesOver(t *testing.T) {
	if !embeddedSpeech {
		t.Skip("needs the embedded voice")
	}
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no hush today", http.StatusServiceUnavailable)
	}))
	defer down.Close()
	cfg := config.Default()
	cfg.TTS.Provider, cfg.TTS.Fallback = "openai", []string{"flite"}
	cfg.TTSOpenAI.BaseURL, cfg.TTSOpenAI.APIKey = down.URL+"/v1", config.NewSecret("hush")
	core, logged := observer.New(zapcore.WarnLevel)
	p := &plugs{cfg: &cfg, log: zap.New(core)}
	defer p.close()
	voice, err := p.speaker("agents.x.", &cfg.Assistant)
	if err != nil {
		t.Fatal(err)
	}
	var sound bytes.Buffer
	say := func(c tts.Chunk) error {
		for _, s := range c.PCM {
			sound.WriteByte(byte(s >> 8))
		}
		return nil
	}
	if err := voice.Speak(t.Context(), "Hello there.", say); err != nil || sound.Len() < voice.Rate()/4 {
		t.Errorf("%d samples, %v", sound.Len(), err)
	}
	all := logged.All()
	if len(all) != 1 {
		t.Fatalf("%v", all)
	}
	got := all[0].ContextMap()
	if got["section"] != "agents.x.tts" || got["failed"] != "openai" || got["next"] != "flite" || strings.Contains(got["error"].(string), "hush") {
		t.Errorf("%v", got)
	}
	if n := p.switches.all(); len(n) != 1 || n[api.Switch{Part: "tts", From: "openai", To: "flite"}] != 1 {
		t.Errorf("%v", n)
	}
	p.switching("stt", "")("flite", "", http.ErrServerClosed)
	if all := logged.All(); len(all) != 2 || all[1].Level != zapcore.ErrorLevel {
		t.Errorf("%v", all)
	}
}
