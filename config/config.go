// Package config is the one configuration file, what the environment overrides of
// it, and its errors. The rooms own their settings; this package only gives them
// names, puts them together and says, all at once and with their places, which
// are wrong. No room knows it.
package config

import (
	"time"

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
	Server   Server
	SIP      SIP
	TLS      TLS
	Auth     Auth
	Trunk    []Trunk
	Transfer Transfer
	Route    []call.Route
	RTP      RTP
	Call     call.Config
	Opus     opus.Config
	Identity identity.Config
	Token    Token `key:"identity.token"`
	Sign     Sign  `key:"identity.sign"`
	VAD      VAD
	Assistant
	// Agents are the other agents, by name.
	Agents  map[string]*Assistant
	Plugins Plugins
	// MCP are servers of tools, by name.
	MCP       map[string]*MCP
	API       API
	Sessions  Sessions
	Recording call.RecordingConfig
	Log       Log

	// Warnings are what Load noticed and did not refuse.
	Warnings []string `key:"-"`
	loaded   *loader  // for Complain
}

// Server is about the process.
type Server struct {
	// DrainTimeout is how long calls may go on after the first signal before they
	// are ended.
	DrainTimeout time.Duration
}

// SIP is the signalling side.
type SIP struct {
	// Listen are the addresses to bind, as "udp://0.0.0.0:5060"; also tcp, tls, ws and
	// wss. One may have an Advertise of its own: "udp://10.0.0.1:5060?advertise=HOST".
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

// Transfer is where calls may be sent that came by no trunk.
type Transfer struct {
	// AllowHosts is Hosts of call.Outbound.
	AllowHosts          []string
	call.TransferConfig `hide:"hosts,caller_ids"`
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

// Token says which tokens of callers, and of clients of the API, are believed.
type Token struct {
	// Secret is that of the HS algorithms.
	Secret Secret
	// SecretFile names a file that holds it.
	SecretFile           string
	identity.TokenConfig `hide:"secret"`
}

// Sign says how tokens for agents are made.
type Sign struct {
	// Secret is that of the HS algorithms.
	Secret Secret
	// SecretFile names a file that holds it.
	SecretFile            string
	identity.SignerConfig `hide:"secret"`
}

// API is the HTTP side.
type API struct {
	api.Config
	// Keys are who may use it, by name.
	Keys map[string]*APIKey
}

// APIKey is one of api.keys.
type APIKey struct {
	// Key is what the client sends.
	Key Secret
	// KeyFile names a file that holds it.
	KeyFile string
	// Scopes are what it is good for. Empty: everything.
	Scopes []string
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
	Recognizers = []string{"pocketsphinx", "openai", "deepgram"}
	// Voices may stand in tts.provider.
	Voices = []string{"flite", "openai", "deepgram", "elevenlabs", "cartesia"}
	// Models: script answers by a file, agent asks your HTTP service, openai and ollama
	// run the built-in agent over a model, openai-realtime and gemini-live are models
	// that hear and speak themselves, stream gives the sound to your agent, echo says back what it hears.
	Models = []string{"script", "agent", "openai", "ollama", "openai-realtime", "gemini-live", "stream", "echo"}
	// Formats: auto is console on a terminal, else json.
	Formats = []string{"auto", "console", "json"}
	// Levels, from talkative to quiet.
	Levels = []string{"debug", "info", "warn", "error"}
)

// Default is the configuration without a file: a receptionist that needs no key
// and no network, on port 5060.
func Default() Config {
	c := Config{
		Server:    Server{DrainTimeout: 30 * time.Second},
		SIP:       SIP{Config: sip.DefaultConfig()},
		Auth:      Auth{Access: sip.DefaultAccess()},
		Transfer:  Transfer{TransferConfig: call.TransferConfig{Outbound: defaultOutbound()}},
		RTP:       RTP{Address: "0.0.0.0", Ports: "20000-20999", Config: rtp.DefaultConfig()},
		Call:      call.DefaultConfig(),
		Opus:      opus.DefaultConfig(),
		Identity:  identity.DefaultConfig(),
		Token:     Token{TokenConfig: identity.DefaultTokenConfig()},
		Sign:      Sign{SignerConfig: identity.DefaultSignerConfig()},
		VAD:       VAD{Kind: "auto", EnergyConfig: vad.DefaultEnergyConfig(8000)},
		Assistant: defaultAssistant(),
		API:       API{Config: api.DefaultConfig()},
		Sessions:  defaultSessions(),
		Plugins:   Plugins{Timeout: 30 * time.Second, StartTimeout: 10 * time.Second},
		Recording: call.DefaultRecordingConfig(),
		Log:       Log{Format: "auto", Level: "info"},
	}
	c.SIP.Listen = []string{"udp://0.0.0.0:5060", "tcp://0.0.0.0:5060"}
	return c
}
