// Package gemini holds conversations over Google's Gemini Live API. Its messages are
// the types of Google's own SDK (google.golang.org/genai); the connection is ours,
// because the SDK's knows neither deadlines nor bounds.
//
// The service takes 16 kHz PCM and gives 24 kHz. It keeps a conversation over a new
// connection, but cannot be told how much of a reply was heard.
package gemini

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/genai"

	"parley/agent/live"
	"parley/agent/live/socket"
)

// Config says which service to talk to, and how. Start from DefaultConfig.
type Config struct {
	// APIKey is sent in the header "x-goog-api-key". Empty: no such header. It is in no
	// log and no error.
	APIKey string
	// BaseURL is the address of the service, wss or ws, without the path of the method.
	BaseURL string
	// APIVersion is "v1beta" or "v1alpha".
	APIVersion string
	// Model and Voice are those of sessions that ask for none.
	Model, Voice string
	// TurnDetection is how the service finds the edges of a turn. It is switched off
	// when a session takes the turns itself.
	TurnDetection TurnDetection
	// Compress has the service drop the oldest of a conversation that grows too long.
	// Without it a session ends after 15 minutes.
	Compress bool
	// MaxOutputTokens bounds one reply; 0: the service's own bound.
	MaxOutputTokens int
	// Lead is how much of the audio before ActivityStart belongs to the caller's turn.
	Lead time.Duration
	// ConnectTimeout bounds Connect, until the service has confirmed the session.
	ConnectTimeout time.Duration
	// Transport, when set, makes the connections.
	Transport http.RoundTripper
}

// TurnDetection is the service's voice detection. Zero values are the service's own.
type TurnDetection struct {
	// Start and End are how readily a voice, and its end, are taken for one: "high" or
	// "low".
	Start, End string
	// PrefixPadding is how long a voice must last to be taken for one.
	PrefixPadding time.Duration
	// Silence is how long a pause ends a turn.
	Silence time.Duration
}

// DefaultConfig is a Config that lacks nothing but the key.
func DefaultConfig() Config {
	return Config{
		BaseURL:        "wss://generativelanguage.googleapis.com",
		APIVersion:     "v1beta",
		Model:          "gemini-3.1-flash-live-preview",
		Voice:          "Kore",
		Compress:       true,
		Lead:           400 * time.Millisecond,
		ConnectTimeout: 15 * time.Second,
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
	case u.User != nil || u.RawQuery != "":
		bad("base_url: must hold neither a user nor parameters; set api_key instead")
	}
	if strings.ContainsFunc(c.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }) {
		bad("api_key: holds white space, a line break or a character that no header can carry")
	}
	if c.APIVersion != "v1beta" && c.APIVersion != "v1alpha" {
		bad("api_version: %q, must be v1beta or v1alpha", c.APIVersion)
	}
	for _, named := range []struct{ key, value string }{{"model", c.Model}, {"voice", c.Voice}} {
		if named.value == "" {
			bad("%s: must be set", named.key)
		}
	}
	t := c.TurnDetection
	for _, s := range []struct{ key, value string }{{"start", t.Start}, {"end", t.End}} {
		if !slices.Contains([]string{"", "high", "low"}, s.value) {
			bad("turn_detection.%s: %q, must be high or low", s.key, s.value)
		}
	}
	if t.PrefixPadding < 0 || t.Silence < 0 || t.PrefixPadding > time.Minute || t.Silence > time.Minute {
		bad("turn_detection: times must be between 0 and 60000 ms")
	}
	if c.MaxOutputTokens < 0 || c.MaxOutputTokens > 1<<20 {
		bad("max_output_tokens: %d, must be between 1 and %d, or 0", c.MaxOutputTokens, 1<<20)
	}
	if c.Lead < 0 || c.Lead > 5*time.Second {
		bad("lead_ms: %d, must be between 0 and 5000", c.Lead.Milliseconds())
	}
	if c.ConnectTimeout <= 0 {
		bad("connect_timeout_ms: %d, must be at least 1", c.ConnectTimeout.Milliseconds())
	}
	return errors.Join(errs...)
}

// Provider implements live.LiveProvider, live.TurnTaker and live.Instructor for one
// conversation.
type Provider struct {
	cfg  Config
	slot socket.Slot[talk]
	kept kept
}

// kept is what outlasts a connection.
type kept struct {
	mu sync.Mutex
	// handle is the service's name for the conversation, to go on with it over another
	// connection. stale: something happened since that it does not cover.
	handle string
	stale  bool
	// open are the calls that were not answered yet.
	open map[string]live.ToolCall
	// connections counts them.
	connections int
}

// New makes a provider for one conversation.
func New(cfg Config) (*Provider, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("gemini: %w", err)
	}
	return &Provider{
		cfg: cfg, slot: socket.Slot[talk]{Name: "gemini"}, kept: kept{open: map[string]live.ToolCall{}},
	}, nil
}

// Name implements live.LiveProvider.
func (p *Provider) Name() string { return "gemini" }

var (
	_ live.LiveProvider = (*Provider)(nil)
	_ live.TurnTaker    = (*Provider)(nil)
	_ live.Instructor   = (*Provider)(nil)
)

// dialing is how to reach the service.
func (c Config) dialing() (socket.Config, error) {
	u, err := url.Parse(c.BaseURL)
	if err != nil {
		return socket.Config{}, fmt.Errorf("gemini: %w: the address cannot be read", live.ErrRejected)
	}
	u = u.JoinPath("ws", "google.ai.generativelanguage."+c.APIVersion+".GenerativeService.BidiGenerateContent")
	header := http.Header{}
	if c.APIKey != "" {
		header.Set("x-goog-api-key", c.APIKey)
	}
	return socket.Config{
		Name: "gemini", URL: u.String(), Header: header, Secrets: []string{c.APIKey}, Transport: c.Transport,
	}, nil
}

// detection is t in the words of the SDK, nil when all is left to the service.
func (t TurnDetection) detection() *genai.AutomaticActivityDetection {
	d := &genai.AutomaticActivityDetection{
		StartOfSpeechSensitivity: map[string]genai.StartSensitivity{"high": genai.StartSensitivityHigh, "low": genai.StartSensitivityLow}[t.Start],
		EndOfSpeechSensitivity:   map[string]genai.EndSensitivity{"high": genai.EndSensitivityHigh, "low": genai.EndSensitivityLow}[t.End],
	}
	if t.PrefixPadding > 0 {
		d.PrefixPaddingMs = genai.Ptr(int32(t.PrefixPadding.Milliseconds()))
	}
	if t.Silence > 0 {
		d.SilenceDurationMs = genai.Ptr(int32(t.Silence.Milliseconds()))
	}
	if *d == (genai.AutomaticActivityDetection{}) {
		return nil
	}
	return d
}
