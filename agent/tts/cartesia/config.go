// Package cartesia speaks by the voices of Cartesia over its WebSocket, and tells where each
// word lies.
//
// A connection speaks one text at a time, and then waits for the next: sentences in a row,
// of this call or of another, cost no handshake, which takes as long as the first sound
// itself. The service can carry many texts over one connection (contexts); here each text
// that is being spoken has one of its own, because sound that a slow listener has not taken
// yet would hold up that of all others behind it, a lost connection would break off every
// call at the same moment, and there is nothing to gain: the service counts texts, not
// connections. A context still has its own name: what is left of a cancelled text is told
// by it from the next one's, so that a cancellation costs no connection either.
package cartesia

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"parley/agent/live/socket"
)

// Config says which voice speaks, and how. Start from DefaultConfig.
type Config struct {
	// BaseURL is the address of the service's WebSocket, wss or ws, for tests and proxies.
	BaseURL string
	// APIKey is sent as "X-API-Key". Empty: no such header. It is in no log and no error.
	APIKey string
	// Version is that of the protocol, a date.
	Version string
	// Voice is the id of the voice, Model the name of the model.
	Voice, Model string
	// Language is the code of the language of texts, such as "de".
	Language string
	// SampleRate is the rate in Hz of the voice: 8000, 16000, 22050, 24000, 44100 or 48000.
	SampleRate int
	// Speed is how fast it speaks, 0.6 to 1.5, Volume how loud, 0.5 to 2; 0: the voice's own.
	Speed, Volume float64
	// Emotion is that of texts without a style, such as "calm"; empty: as the text has it.
	Emotion string
	// MaxIdle is how many connections may wait for a text, and IdleTimeout how long each does.
	// The service closes them after 5 minutes.
	MaxIdle     int
	IdleTimeout time.Duration
	// ConnectTimeout bounds a handshake, Timeout how long the service may send nothing
	// while it speaks.
	ConnectTimeout, Timeout time.Duration
	// Transport, when set, makes the connections.
	Transport http.RoundTripper
}

// DefaultConfig is a Config that lacks nothing but the key. Its rate is the best that
// telephones carry without Opus.
func DefaultConfig() Config {
	return Config{
		BaseURL: "wss://api.cartesia.ai/tts/websocket", Version: "2025-04-16",
		Voice: "f786b574-daa5-4673-aa0c-cbe3e8534c02", Model: "sonic-3", Language: "en", SampleRate: 16000,
		MaxIdle: 16, IdleTimeout: 4 * time.Minute, ConnectTimeout: 5 * time.Second, Timeout: 10 * time.Second,
	}
}

// rates are those that the service gives.
func rates() []int { return []int{8000, 16000, 22050, 24000, 44100, 48000} }

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
	if strings.ContainsFunc(c.APIKey+c.Version, func(r rune) bool { return r <= ' ' || r > '~' }) {
		bad("api_key, version: hold white space, a line break or a character that no header can carry")
	}
	for _, named := range []struct{ key, value string }{{"voice", c.Voice}, {"model", c.Model}, {"language", c.Language}, {"version", c.Version}} {
		if named.value == "" {
			bad("%s: must be set", named.key)
		}
	}
	if !slices.Contains(rates(), c.SampleRate) {
		bad("sample_rate: %d, must be one of %v", c.SampleRate, rates())
	}
	if c.Speed != 0 && !(c.Speed >= minSpeed && c.Speed <= maxSpeed) {
		bad("speed: %v, must be between 0.6 and 1.5, or 0", c.Speed)
	}
	if c.Volume != 0 && !(c.Volume >= 0.5 && c.Volume <= 2) {
		bad("volume: %v, must be between 0.5 and 2, or 0", c.Volume)
	}
	if c.Emotion != "" && !slices.Contains(emotions(), c.Emotion) {
		bad("emotion: %q, must be one of %v", c.Emotion, emotions())
	}
	if c.MaxIdle < 0 || c.MaxIdle > 1024 {
		bad("max_idle: %d, must be between 0 and 1024", c.MaxIdle)
	}
	if c.IdleTimeout < time.Second || c.IdleTimeout > time.Hour {
		bad("idle_timeout: %v, must be between 1s and 1h", c.IdleTimeout)
	}
	if c.ConnectTimeout < 100*time.Millisecond || c.ConnectTimeout > time.Minute {
		bad("connect_timeout: %v, must be between 100ms and 1m", c.ConnectTimeout)
	}
	if c.Timeout < time.Second || c.Timeout > 5*time.Minute {
		bad("timeout: %v, must be between 1s and 5m", c.Timeout)
	}
	return errors.Join(errs...)
}

// room begins the texts of errors.
const room = "tts/cartesia"

// dialing is how connections are made.
func (c Config) dialing() socket.Config {
	header := http.Header{"User-Agent": {"parley"}, "Cartesia-Version": {c.Version}}
	if c.APIKey != "" {
		header.Set("X-API-Key", c.APIKey)
	}
	return socket.Config{Name: room, URL: c.BaseURL, Header: header, Secrets: []string{c.APIKey}, Transport: c.Transport}
}
