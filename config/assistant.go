package config

import (
	"time"

	"parley/agent/cascade"
	"parley/agent/echo"
	"parley/agent/live/gemini"
	"parley/agent/llm/httpagent"
	"parley/agent/stream"
	sttdeepgram "parley/agent/stt/deepgram"
	sttfailover "parley/agent/stt/failover"
	sttopenai "parley/agent/stt/openai"
	"parley/agent/stt/pocketsphinx"
	"parley/agent/tts/cartesia"
	ttsdeepgram "parley/agent/tts/deepgram"
	ttsfailover "parley/agent/tts/failover"
	"parley/agent/tts/flite"
	ttsopenai "parley/agent/tts/openai"
	"parley/agent/turn"
)

// Assistant is the sections that make one agent: those of the file's top level, or
// those of an [agents.NAME] over them.
type Assistant struct {
	Turn         turn.Config
	Conversation Conversation
	STT          STT
	TTS          TTS
	LLM          LLM
	Script       Script
	Agent        Agent
	Echo         echo.Config
	Tools        Tools
	OpenAI       OpenAI `key:"openai"`
	Ollama       Ollama
	Runtime      Runtime
	Stream       Stream
	Realtime     Realtime
	Retrieval    Retrieval

	RealtimeOpenAI RealtimeOpenAI `key:"realtime.openai"`
	RealtimeGemini RealtimeGemini `key:"realtime.gemini"`

	STTFailover   STTFailover   `key:"stt.failover"`
	TTSFailover   TTSFailover   `key:"tts.failover"`
	STTOpenAI     STTOpenAI     `key:"stt.openai"`
	STTDeepgram   STTDeepgram   `key:"stt.deepgram"`
	TTSOpenAI     TTSOpenAI     `key:"tts.openai"`
	TTSDeepgram   TTSDeepgram   `key:"tts.deepgram"`
	TTSElevenLabs TTSElevenLabs `key:"tts.elevenlabs"`
	TTSCartesia   TTSCartesia   `key:"tts.cartesia"`
}

// defaultAssistant is the receptionist that is built in.
func defaultAssistant() Assistant {
	a := Assistant{
		Turn:         turn.DefaultConfig(),
		Conversation: Conversation{Config: cascade.DefaultConfig()},
		STT:          STT{Provider: "pocketsphinx", Config: pocketsphinx.DefaultConfig()},
		TTS:          TTS{Provider: "flite", Config: flite.DefaultConfig()},
		LLM:          LLM{Provider: "script"},
		Echo:         echo.DefaultConfig(),
		Tools:        defaultTools(),
		OpenAI:       defaultOpenAI(),
		Ollama:       defaultOllama(),
		Runtime:      defaultRuntime(),
		Stream:       Stream{Config: stream.DefaultConfig()},
		Realtime:     defaultRealtime(),
		Retrieval:    defaultRetrieval(),

		RealtimeOpenAI: defaultRealtimeOpenAI(),
		RealtimeGemini: RealtimeGemini{Config: gemini.DefaultConfig()},

		STTFailover:   STTFailover{Config: sttfailover.DefaultConfig()},
		TTSFailover:   TTSFailover{Config: ttsfailover.DefaultConfig()},
		STTOpenAI:     STTOpenAI{Temperature: unset, Config: sttopenai.DefaultConfig()},
		STTDeepgram:   STTDeepgram{Config: sttdeepgram.DefaultConfig()},
		TTSOpenAI:     TTSOpenAI{Config: ttsopenai.DefaultConfig()},
		TTSDeepgram:   TTSDeepgram{Config: ttsdeepgram.DefaultConfig()},
		TTSElevenLabs: defaultElevenLabs(),
		TTSCartesia:   TTSCartesia{Config: cartesia.DefaultConfig()},
	}
	a.Agent = Agent{
		TimeoutMS:           60000,
		OneshotTimeoutMS:    10000,
		FirstTokenTimeoutMS: int(a.Conversation.FirstToken / time.Millisecond),
		FallbackPhrase:      a.Conversation.Fallback,
	}
	return a
}

// Conversation is the agent that is made of a recogniser, a model and a voice.
type Conversation struct {
	cascade.Config `hide:"first_token,fallback"` // they are agent.first_token_timeout_ms and agent.fallback_phrase
}

// LLM is who thinks up the replies.
type LLM struct {
	// Provider is one of Models.
	Provider string
}

// Script is the agent of llm.provider "script".
type Script struct {
	// File is the script. Empty: the receptionist that is built in.
	File string
}

// Agent is your own agent over HTTP, of llm.provider "agent".
type Agent struct {
	// URL is where it is asked.
	URL string
	// APIKey goes into the Authorization header. Empty: none is sent.
	APIKey Secret
	// APIKeyFile names a file that holds it.
	APIKeyFile string
	// TimeoutMS bounds a whole turn, in milliseconds.
	TimeoutMS int
	// FirstTokenTimeoutMS bounds the wait for the first word of a reply, whichever
	// provider thinks it up, in milliseconds.
	FirstTokenTimeoutMS int
	// FallbackPhrase is spoken when a reply failed. Empty: nothing is.
	FallbackPhrase string
	// System is instructions that go with each turn.
	System string
	// Notify tells the agent when calls begin and end.
	Notify bool
	// Actions lets replies act on the call, such as hang up.
	Actions bool
	// OneshotTimeoutMS bounds a request beside the conversation, in milliseconds.
	OneshotTimeoutMS int
	// Styles are the delivery tags that replies may begin a sentence with.
	Styles []string
	// SummaryTurns and SummaryCharacters are when the agent is asked for a digest of
	// earlier turns. 0: not by that.
	SummaryTurns      int
	SummaryCharacters int
}

// CascadeConfig is the configuration of the conversation, but for its parts.
func (a *Assistant) CascadeConfig() cascade.Config {
	out := a.Conversation.Config
	out.Turn = a.Turn
	out.FirstToken = milliseconds(a.Agent.FirstTokenTimeoutMS)
	out.Fallback = a.Agent.FallbackPhrase
	return out
}

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// AgentConfig is the configuration of your own agent over HTTP.
func (a *Assistant) AgentConfig() httpagent.Config {
	out := httpagent.DefaultConfig()
	out.URL = a.Agent.URL
	out.APIKey = a.Agent.APIKey.Reveal()
	out.Timeout = milliseconds(a.Agent.TimeoutMS)
	out.FirstTokenTimeout = milliseconds(a.Agent.FirstTokenTimeoutMS)
	out.Notify = a.Agent.Notify
	out.Actions = a.Agent.Actions
	out.System = a.Agent.System
	out.Greeting = a.Conversation.Greeting
	out.OneShotTimeout = milliseconds(a.Agent.OneshotTimeoutMS)
	out.Styles = a.Agent.Styles
	out.RetrieveTimeout = a.Retrieval.Wait
	out.Summary.Turns, out.Summary.Characters = a.Agent.SummaryTurns, a.Agent.SummaryCharacters
	return out
}
