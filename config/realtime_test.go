package config

import (
	"testing"
	"time"

	"parley/agent/live"
)

// The sections of realtime models as an operator writes them, and what is so without a word.
func TestRealtimeModels(t *testing.T) {
	c := load(t, `
[llm]
provider = "openai-realtime"
[conversation]
language = "de"
greeting = "Hallo."
[realtime]
system = "You are Ada."
temperature = 0.7
local_turns = false
pass_through = false
memory = false
reconnect_tries = 2
reconnect_budget = "3s"
reply_timeout = "4s"
[realtime.openai]
base_url = "ws://127.0.0.1:1/v1/realtime"
api_key = "k1"
voice = "cedar"
turn_detection = "semantic_vad"
eagerness = "low"
[agents.other.llm]
provider = "gemini-live"
[agents.other.realtime]
system = "You are Bob."
pass_through = true
[agents.other.realtime.gemini]
base_url = "ws://127.0.0.1:2"
api_key = "k2"
silence = "700ms"
[[route]]
name = "all"
agent = "other"
`, nil)
	r, err := c.RealtimeConfig()
	if s := r.Session; err != nil || s.Instructions != "You are Ada." || *s.Temperature != 0.7 || s.LocalTurns || r.PassThrough || !r.NoFacts || s.Language != "de" || r.Greeting != "Hallo." {
		t.Errorf("%+v %v", r, err)
	}
	if s := r.Session; s.Recovery != (live.Recovery{Tries: 2, Budget: 3 * time.Second}) || r.ReplyTimeout != 4*time.Second {
		t.Errorf("%+v %v", s.Recovery, r.ReplyTimeout)
	}
	usual := Default()
	if r, err := usual.RealtimeConfig(); err != nil || !r.PassThrough || !r.Session.LocalTurns || r.NoFacts || r.Session.Temperature != nil {
		t.Errorf("by default: %+v %v", r, err)
	}
	o := c.RealtimeOpenAIConfig()
	if o.BaseURL != "ws://127.0.0.1:1/v1/realtime" || o.APIKey != "k1" || o.Voice != "cedar" || o.TurnDetection.Mode != "semantic_vad" || o.TurnDetection.Eagerness != "low" {
		t.Errorf("%+v", o)
	}
	other := c.Agents["other"]
	// What its own section does not say is as it is at the top.
	r, err = other.RealtimeConfig()
	if s := r.Session; err != nil || s.Instructions != "You are Bob." || !r.PassThrough || s.LocalTurns || *s.Temperature != 0.7 || r.Greeting != "Hallo." {
		t.Errorf("%+v %v", r, err)
	}
	if g := other.RealtimeGeminiConfig(); g.BaseURL != "ws://127.0.0.1:2" || g.APIKey != "k2" || g.TurnDetection.Silence != 700*time.Millisecond {
		t.Errorf("%+v", g)
	}
}
