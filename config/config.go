// Package config is the one configuration file, what the environment overrides of
// it, and its errors. The rooms own their settings; this package only gives them
// names, puts them together and says, all at once and with their places, which
// are wrong. No room knows it.
package config

import (
	"time"

	"parley/agent/cascade"
	"parley/agent/echo"
	"parley/agent/stt/pocketsphinx"
	"parley/agent/tts/flite"
	"parley/agent/turn"
	"parley/api"
	"parley/call"
	"parley/identity"
	"parley/media/opus"
	"parley/media/vad"
	"parley/rtp"
	"parley/sip"
)

// Config is everything an operator may set. Its fields are the sections of the
// file, and the fields of those the keys, in snake case; see keys.
type Config struct {
	Server       Server
	SIP          SIP
	TLS          TLS
	Auth         Auth
	Trunk        []Trunk
	RTP          RTP
	Call         call.Config
	Opus         opus.Config
	Identity     identity.Config
	VAD          VAD
	Turn         turn.Config
	Conversation Conversation
	STT          STT
	TTS          TTS
	LLM          LLM
	Script       Script
	Agent        Agent
	Echo         echo.Config
	API          api.Config
	Log          Log

	// Warnings are what Load noticed and did not refuse.
	Warnings []string `key:"-"`
}

// Server is about the process.
type Server struct {
	// DrainTimeout is how long calls may go on after the first signal before they
	// are ended.
	DrainTimeout time.Duration
}

// SIP is the signalling side.
type SIP struct {
	// Listen are the addresses to bind, as "udp://0.0.0.0:5060"; also tcp and tls.
	Listen []string
	// Advertise is host[:port] for Contact and Via when peers reach us under
	// another address than the one bound. Empty: the address the peer reached.
	Advertise string
	sip.Config
}

// TLS is our certificate and whose we believe, for the tls:// addresses of SIP.
type TLS struct {
	sip.TLS `hide:"server_name"` // for connections of ours
}

// RTP is the media side.
type RTP struct {
	// Address is the local IP address to bind. Empty: all.
	Address string
	// Ports is the range of ports, "20000-20999". Empty: any free ports.
	Ports      string
	rtp.Config `hide:"addr,port_min,port_max"`
}

// VAD is how voices are told from silence.
type VAD struct {
	// Kind is one of Detectors.
	Kind string
	// Weights is the file of the neural detector's weights. Empty: where
	// deploy/weights/fetch-silero.sh puts it.
	Weights          string
	vad.EnergyConfig `hide:"rate"`
}

// Conversation is the agent that is made of a recogniser, a model and a voice.
type Conversation struct {
	cascade.Config `hide:"first_token,fallback"` // they are agent.first_token_timeout_ms and agent.fallback_phrase
}

// STT is the recogniser.
type STT struct {
	// Provider is one of Recognizers.
	Provider string
	pocketsphinx.Config
}

// TTS is the voice.
type TTS struct {
	// Provider is one of Voices.
	Provider string
	flite.Config
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
}

// Log is what is written about.
type Log struct {
	// Format is one of Formats.
	Format string
	// Level is one of Levels.
	Level string
}

// The names that the keys of the same meaning take.
var (
	// Codecs may stand in call.codecs.
	Codecs = []string{"opus", "G722", "PCMU", "PCMA"}
	// Detectors: auto is silero where its weights are found, else energy.
	Detectors = []string{"auto", "energy", "silero"}
	// Recognizers may stand in stt.provider.
	Recognizers = []string{"pocketsphinx"}
	// Voices may stand in tts.provider.
	Voices = []string{"flite"}
	// Models: script answers by a file, agent asks your HTTP service, echo says
	// back what it hears.
	Models = []string{"script", "agent", "echo"}
	// Formats: auto is console on a terminal, else json.
	Formats = []string{"auto", "console", "json"}
	// Levels, from talkative to quiet.
	Levels = []string{"debug", "info", "warn", "error"}
)

// Default is the configuration without a file: a receptionist that needs no key
// and no network, on port 5060.
func Default() Config {
	c := Config{
		Server:       Server{DrainTimeout: 30 * time.Second},
		SIP:          SIP{Config: sip.DefaultConfig()},
		Auth:         Auth{Access: sip.DefaultAccess()},
		RTP:          RTP{Address: "0.0.0.0", Ports: "20000-20999", Config: rtp.DefaultConfig()},
		Call:         call.DefaultConfig(),
		Opus:         opus.DefaultConfig(),
		Identity:     identity.DefaultConfig(),
		VAD:          VAD{Kind: "auto", EnergyConfig: vad.DefaultEnergyConfig(8000)},
		Turn:         turn.DefaultConfig(),
		Conversation: Conversation{Config: cascade.DefaultConfig()},
		STT:          STT{Provider: "pocketsphinx", Config: pocketsphinx.DefaultConfig()},
		TTS:          TTS{Provider: "flite", Config: flite.DefaultConfig()},
		LLM:          LLM{Provider: "script"},
		Echo:         echo.DefaultConfig(),
		API:          api.DefaultConfig(),
		Log:          Log{Format: "auto", Level: "info"},
	}
	c.SIP.Listen = []string{"udp://0.0.0.0:5060", "tcp://0.0.0.0:5060"}
	c.Agent = Agent{
		TimeoutMS:           60000,
		FirstTokenTimeoutMS: int(c.Conversation.FirstToken / time.Millisecond),
		FallbackPhrase:      c.Conversation.Fallback,
	}
	return c
}
