package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/agent/cascade"
	"parley/agent/kit"
	"parley/agent/live"
	liveopenai "parley/agent/live/openai"
	"parley/agent/llm"
	"parley/agent/llm/httpagent"
	"parley/agent/llm/openai"
	"parley/agent/llm/runtime"
	"parley/agent/stt"
	"parley/agent/stt/deepgram"
	sttfailover "parley/agent/stt/failover"
	"parley/agent/stt/stttest"
	"parley/agent/tts"
	ttsopenai "parley/agent/tts/openai"
	"parley/agent/tts/prepared"
	"parley/agent/tts/ttstest"
	"parley/media/resample"
	"parley/test/faults"
)

// The agents of TestFaults, and what is there between each and its caller.

// conversationOf is a cascade whose parts work, but for those that are replaced.
func conversationOf(t *testing.T, change func(*cascade.Config)) agent.Opener {
	t.Helper()
	c := cascade.DefaultConfig()
	c.STT = stttest.NewFake(faultTurns...)
	c.TTS = &ttstest.Tone{Word: toneTime, Gap: wordTime - toneTime}
	c.FirstToken, c.FirstSound = 4*time.Second, 3*time.Second
	c.Fallback, c.Apology = fallback, apology
	c.Greeting, c.Turn.Idle = "Welcome here.", 0
	change(&c)
	o, err := cascade.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// ownAgent is an agent over HTTP.
func ownAgent(t *testing.T, address string) *httpagent.Provider {
	t.Helper()
	cfg := httpagent.DefaultConfig()
	cfg.URL = "http://" + address
	p, err := httpagent.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// hostOf is the host and port of an address.
func hostOf(address string) string { return strings.TrimPrefix(address, "http://") }

func heardInTones(pcm []int16) ([]string, error) { return tones.spoken(pcm, faultReplies[2]) }

var services = []faulty{
	{
		name: "agent", greets: true, heard: heardInTones, last: faultReplies[2], troubles: troubles(60),
		service: func(t *testing.T) string { return hostOf(agentService(t).URL) },
		build: func(t *testing.T, address string) (agent.Opener, func()) {
			p := ownAgent(t, address)
			return conversationOf(t, func(c *cascade.Config) { c.LLM = p }), p.Close
		},
	},
	{
		name: "model", greets: true, heard: heardInTones, last: faultReplies[2], troubles: troubles(100),
		service: func(t *testing.T) string { return hostOf(chatService(t).URL) },
		build: func(t *testing.T, address string) (agent.Opener, func()) {
			p, closed := builtIn(t, address)
			return conversationOf(t, func(c *cascade.Config) { c.LLM = p }), closed
		},
	},
	{
		name: "recogniser", greets: true, heard: heardInFirst, last: faultReplies[0], troubles: hearingTroubles(),
		service: func(t *testing.T) string { return hostOf(hearingService(t).URL) },
		build: func(t *testing.T, address string) (agent.Opener, func()) {
			return conversationOf(t, func(c *cascade.Config) {
				c.STT, c.LLM = listener(t, address), ownAgent(t, hostOf(agentService(t).URL))
			}), nil
		},
	},
	{
		name: "two recognisers", greets: true, heard: heardInFirst, last: faultReplies[0], troubles: hearingTroubles(),
		service: func(t *testing.T) string { return hostOf(hearingService(t).URL) },
		build: func(t *testing.T, address string) (agent.Opener, func()) {
			return conversationOf(t, func(c *cascade.Config) {
				c.LLM = ownAgent(t, hostOf(agentService(t).URL))
				var err error
				c.STT, err = sttfailover.New(sttfailover.DefaultConfig(),
					sttfailover.Choice{Name: "first", Recognizer: listener(t, address)},
					sttfailover.Choice{Name: "second", Recognizer: stttest.NewFake("hello", "hello", "hello")})
				if err != nil {
					t.Fatal(err)
				}
			}), nil
		},
	},
	{
		name: "voice", greets: true, heard: heardInVoice, last: faultReplies[2], troubles: troubles(30_000),
		service: func(t *testing.T) string { return hostOf(speechService(t).URL) },
		build: func(t *testing.T, address string) (agent.Opener, func()) {
			cfg := ttsopenai.DefaultConfig()
			cfg.BaseURL = "http://" + address + "/v1"
			v, err := ttsopenai.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			return conversationOf(t, func(c *cascade.Config) {
				ready := prepared.New(v, c.Phrases()...)
				if err := ready.Prepare(t.Context()); err != nil {
					t.Fatal(err)
				}
				c.TTS, c.LLM = ready, ownAgent(t, hostOf(agentService(t).URL))
			}), v.Close
		},
	},
	{
		name: "realtime", greets: true, heard: heardInRealtime, last: realtimeReplies[3],
		troubles: append(troubles(6000), trouble{name: "gone", Fault: faults.Fault{Refuse: true}, reset: true, amid: true}),
		ends:     []string{"gone"},
		service: func(t *testing.T) string {
			s := newRealtimeService(t, realtimeReplies...)
			s.pace = 1.2
			return hostOf(s.URL)
		},
		build: func(t *testing.T, address string) (agent.Opener, func()) {
			return realtimeAgent(t, "http://"+address, func(c *kit.Config, _ *liveopenai.Config) {
				c.PassThrough, c.ReplyTimeout, c.Apology = true, 3*time.Second, apology
				c.Session.Recovery = live.Recovery{Tries: 6, Budget: 10 * time.Second}
				c.Turn.Idle, c.Voice = 0, spokenBy(&ttstest.Tone{Word: toneTime, Gap: wordTime - toneTime})
			}), nil
		},
	},
}

var realtimeReplies = []string{even("greet", 3), even("first", 3), even("long", 6, 6), even("last", 4)}

func heardInFirst(pcm []int16) ([]string, error) { return tones.spoken(pcm, faultReplies[0]) }

func heardInVoice(pcm []int16) ([]string, error) {
	return diction{word: toneTime, gap: wordTime - toneTime, rate: 24000}.spoken(pcm, faultReplies[2])
}

func heardInRealtime(pcm []int16) ([]string, error) {
	return realtimeTones(true).spoken(pcm, realtimeReplies[3])
}

// hearingTroubles are those of a recogniser: it is cut amid what the caller says.
func hearingTroubles() []trouble {
	all := troubles(20)
	all[0].amid = false
	return all
}

// builtIn is the built-in agent with a model at an address.
func builtIn(t *testing.T, address string) (llm.Provider, func()) {
	t.Helper()
	cfg := openai.DefaultConfig()
	cfg.BaseURL, cfg.Model = "http://"+address+"/v1", "m"
	model, err := openai.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Close)
	own := runtime.DefaultConfig()
	own.Memory.KeepSummary = false
	p, err := runtime.New(own, model, runtime.Parts{})
	if err != nil {
		t.Fatal(err)
	}
	return p, model.Close
}

// listener is a recogniser at an address.
func listener(t *testing.T, address string) stt.Recognizer {
	t.Helper()
	cfg := deepgram.DefaultConfig()
	cfg.BaseURL = "ws://" + address
	r, err := deepgram.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// spokenBy is a voice at whatever rate is wanted.
func spokenBy(v tts.Voice) kit.Voice {
	return func(ctx context.Context, text string, rate int, say func([]int16) error) error {
		r, err := resample.New(v.Rate(), rate, resample.Voice)
		if err != nil {
			return err
		}
		return v.Speak(ctx, text, func(c tts.Chunk) error { return say(r.Process(nil, c.PCM)) })
	}
}
