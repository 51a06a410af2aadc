package main

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"parley/config"
	"parley/test/peers"
)

// TestPhrasesAreReady: what callers hear when something fails is made when the gateway
// starts, of each agent, and not before.
func TestPhrasesAreReady(t *testing.T) {
	if !embeddedSpeech {
		t.Skip("there is no voice inside")
	}
	cfg := config.Default()
	cfg.LLM.Provider, cfg.OpenAI.Model, cfg.OpenAI.BaseURL = "openai", "m", "http://127.0.0.1:1/v1"
	p, err := plug(&cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if len(p.phrases) != 1 || !slices.Contains(p.phrases[0].Missing(), cfg.Conversation.Apology) {
		t.Fatalf("%d voices", len(p.phrases))
	}
	p.startPhrases(zap.NewNop())
	if !peers.Eventually(30*time.Second, func() bool { return len(p.phrases[0].Missing()) == 0 }) {
		t.Errorf("missing %q", p.phrases[0].Missing())
	}
}
