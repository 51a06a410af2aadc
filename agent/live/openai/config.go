// Package openai holds conversations over the Realtime API of OpenAI, and of every
// service that speaks its protocol: events in JSON over a WebSocket.
//
// The service takes and gives 24 kHz PCM, or a call's own G.711. It may take the turns
// by its own voice detection, or leave them to us (live.LiveConfig.LocalTurns).
package openai

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"parley/agent/live"
	"parley/agent/live/socket"
)

// Config says which service to talk to, and how. Start from DefaultConfig.
type Config struct {
	// APIKey is sent as "Authorization: Bearer …". Empty: no such header. It is in no
	// log and no error.
	APIKey string
	// BaseURL is the address of the service, wss or ws. The model is added as the
	// parameter "model" unless the address has one, or a "deployment".
	BaseURL string
	// Beta speaks the protocol as it was before September 2025, for services that have
	// not followed: other names of events, and a flat session.
	Beta bool
	// Model and Voice are those of sessions that ask for none.
	Model, Voice string
	// TranscriptionModel writes down what callers say.
	TranscriptionModel string
	// TurnDetection is how the service finds the end of a turn. It is switched off when
	// a session takes the turns itself.
	TurnDetection TurnDetection
	// NoiseReduction is "near_field", "far_field" or empty, for none.
	NoiseReduction string
	// Speed is that of the voice, 0.25 to 1.5; 0: the service's own.
	Speed float64
	// MaxOutputTokens bounds one reply; 0: the service's own bound.
	MaxOutputTokens int
	// Lead is how much of the audio before ActivityStart belongs to the caller's turn:
	// a voice is noticed only after it began.
	Lead time.Duration
	// ConnectTimeout bounds Connect, until the service has confirmed the session.
	ConnectTimeout time.Duration
	// SessionLimit is how long a session lasts where the service does not say.
	SessionLimit time.Duration
	// RenewBefore is how long before the end of a session GoAway is told.
	RenewBefore time.Duration
	// Transport, when set, makes the connections.
	Transport http.RoundTripper
}

// TurnDetection is the service's voice detection. Zero values are the service's own.
type TurnDetection struct {
	// Mode is "server_vad", which goes by loudness, or "semantic_vad", which goes by
	// what was said as well.
	Mode string
	// Threshold, of server_vad: how loud a voice must be, 0 to 1.
	Threshold float64
	// PrefixPadding, of server_vad: how much audio before the voice belongs to it.
	PrefixPadding time.Duration
	// Silence, of server_vad: how long a pause ends a turn.
	Silence time.Duration
	// Eagerness, of semantic_vad: "low", "medium", "high" or "auto".
	Eagerness string
}

// DefaultConfig is a Config that lacks nothing but the key.
func DefaultConfig() Config {
	return Config{
		BaseURL:            "wss://api.openai.com/v1/realtime",
		Model:              "gpt-realtime",
		Voice:              "marin",
		TranscriptionModel: "gpt-4o-mini-transcribe",
		TurnDetection:      TurnDetection{Mode: "server_vad"},
		Lead:               400 * time.Millisecond,
		ConnectTimeout:     10 * time.Second,
		SessionLimit:       time.Hour,
		RenewBefore:        time.Minute,
	}
}

// Validate reports everything that is wrong with c, each with the setting's name.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil: // url's own error repeats the address, and a secret in it
		bad("base_url: is no address, must be such as %q", DefaultConfig().BaseURL)
	case u.Scheme != "wss" && u.Scheme != "ws" || u.Host == "":
		bad("base_url: must begin with wss:// or ws:// and name a host")
	case u.User != nil:
		bad("base_url: must not hold a user or password; set api_key instead")
	}
	if strings.ContainsFunc(c.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }) {
		bad("api_key: holds white space, a line break or a character that no header can carry")
	}
	for _, named := range []struct{ key, value string }{{"model", c.Model}, {"voice", c.Voice}, {"transcription_model", c.TranscriptionModel}} {
		if named.value == "" {
			bad("%s: must be set", named.key)
		}
	}
	oneOf := func(key, value string, allowed ...string) {
		for _, a := range allowed {
			if value == a {
				return
			}
		}
		bad("%s: %q, must be one of %q", key, value, allowed)
	}
	t := c.TurnDetection
	oneOf("turn_detection.mode", t.Mode, "server_vad", "semantic_vad")
	oneOf("turn_detection.eagerness", t.Eagerness, "", "low", "medium", "high", "auto")
	oneOf("noise_reduction", c.NoiseReduction, "", "near_field", "far_field")
	if t.Mode == "semantic_vad" && (t.Threshold != 0 || t.PrefixPadding != 0 || t.Silence != 0) {
		bad("turn_detection: threshold, prefix_padding_ms and silence_ms are of server_vad only")
	}
	if t.Mode == "server_vad" && t.Eagerness != "" {
		bad("turn_detection.eagerness: is of semantic_vad only")
	}
	if t.Threshold < 0 || t.Threshold > 1 {
		bad("turn_detection.threshold: %v, must be between 0 and 1", t.Threshold)
	}
	if t.PrefixPadding < 0 || t.Silence < 0 {
		bad("turn_detection: times must not be negative")
	}
	if c.Speed != 0 && (c.Speed < 0.25 || c.Speed > 1.5) {
		bad("speed: %v, must be between 0.25 and 1.5, or 0", c.Speed)
	}
	if c.MaxOutputTokens < 0 || c.MaxOutputTokens > 4096 {
		bad("max_output_tokens: %d, must be between 1 and 4096, or 0", c.MaxOutputTokens)
	}
	if c.Lead < 0 || c.Lead > 5*time.Second {
		bad("lead_ms: %d, must be between 0 and 5000", c.Lead.Milliseconds())
	}
	if c.ConnectTimeout <= 0 {
		bad("connect_timeout_ms: %d, must be at least 1", c.ConnectTimeout.Milliseconds())
	}
	if c.RenewBefore <= 0 || c.SessionLimit <= c.RenewBefore {
		bad("session_limit_ms: %d, must be more than renew_before_ms, %d, and both more than 0",
			c.SessionLimit.Milliseconds(), c.RenewBefore.Milliseconds())
	}
	return errors.Join(errs...)
}

// Provider implements live.LiveProvider, live.Truncator, live.TurnTaker,
// live.Instructor and live.Supporter for one conversation.
type Provider struct {
	cfg  Config
	slot socket.Slot[talk]

	mu sync.Mutex
	// open are the tool calls that were not answered yet, of whichever connection.
	open map[string]live.ToolCall
}

// New makes a provider for one conversation.
func New(cfg Config) (*Provider, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	return &Provider{cfg: cfg, slot: socket.Slot[talk]{Name: "openai"}, open: map[string]live.ToolCall{}}, nil
}

// Name implements live.LiveProvider.
func (p *Provider) Name() string { return "openai" }

// Supports implements live.Supporter: the service takes G.711 as it is.
func (p *Provider) Supports(e live.Encoding) bool {
	return e == live.PCM16 || e == live.PCMU || e == live.PCMA
}

var (
	_ live.LiveProvider = (*Provider)(nil)
	_ live.Truncator    = (*Provider)(nil)
	_ live.TurnTaker    = (*Provider)(nil)
	_ live.Instructor   = (*Provider)(nil)
	_ live.Supporter    = (*Provider)(nil)
)
