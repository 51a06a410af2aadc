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
[agents.other.realtime.gemini]
base_url = "ws://127.0.0.1:2"
api_key = "k2"
silence = "700ms"
[[route]]
name = "all"
agent = "other"
`, nil)
	r, err := c.RealtimeConfig()
	s := r.Session
	if err != nil || s.Instructions != "You are Ada." || *s.Temperature != 0.7 || s.LocalTurns || r.PassThrough || !r.NoFacts || s.Language != "de" || r.Greeting != "Hallo." {
		t.Errorf("%+v %v", r, err)
	}
	if s.Recovery != (live.Recovery{Tries: 2, Budget: 3 * time.Second}) || r.ReplyTimeout != 4*time.Second {
		t.Errorf("%+v %v", s.Recovery, r.ReplyTimeout)
	}
	o := c.RealtimeOpenAIConfig()
	if o.BaseURL != "ws://127.0.0.1:1/v1/realtime" || o.APIKey != "k1" || o.Voice != "cedar" || o.TurnDetection.Mode != "semantic_vad" || o.TurnDetection.Eagerness != "low" {
		t.Errorf("%+v", o)
	}
	other := c.Agents["other"]
	if r, err = other.RealtimeConfig(); err != nil || r.Session.Instructions != "You are Bob." || !r.Session.LocalTurns || !r.PassThrough || r.NoFacts || r.Session.Temperature != nil {
		t.Errorf("%+v %v", r, err)
	}
	if g := other.RealtimeGeminiConfig(); g.BaseURL != "ws://127.0.0.1:2" || g.APIKey != "k2" || g.TurnDetection.Silence != 700*time.Millisecond {
		t.Errorf("%+v", g)
	}
}
