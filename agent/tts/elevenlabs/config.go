// Package elevenlabs speaks by the voices of ElevenLabs, and tells where each word lies.
//
// It takes the HTTP stream with timestamps and not the WebSocket: that is for text that
// grows by the word and holds text back until it has enough, which costs a whole sentence
// time; it serves one text for each connection, or closes after 20 s of quiet. Connections
// over HTTP are kept and shared by all calls. A cancelled request ends at once, and nothing
// of it can turn up in the next.
//
// The sentences before, which the service could take for the melody of the next
// (previous_text), are not sent: a voice speaks for many calls and does not know which of
// them a text is of; those of another caller must not reach it.
package elevenlabs

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/agent/tts/sound"
)

// Config says which voice speaks, and how. Start from DefaultConfig.
type Config struct {
	// BaseURL is the service's address, http or https, for its regions, tests and proxies.
	BaseURL string
	// APIKey is sent as "xi-api-key". Empty: no such header. It is in no log and no error.
	APIKey string
	// Voice is the id of the voice, Model that of the model.
	Voice, Model string
	// Language is the code of the language of texts, such as "de", for models that can be
	// told; empty: the model finds out.
	Language string
	// SampleRate is the rate in Hz of the voice: 8000, 16000, 22050, 24000, 32000, 44100 or
	// 48000.
	SampleRate int
	// Settings are those of the voice.
	Settings Settings
	// TextNormalization says whether numbers and dates are written out before they are
	// spoken: "auto", "on", "off", or empty for the model's own way.
	TextNormalization string
	// ZeroRetention has the service keep nothing of what is said, for accounts that may.
	ZeroRetention bool
	// Timeout is the longest that the service may send nothing.
	Timeout time.Duration
	// Transport, when set, replaces the pool of connections.
	Transport http.RoundTripper
}

// Settings are those of a voice; nil and 0 are its own.
type Settings struct {
	// Stability is how even it is, SimilarityBoost how like the original, Style how
	// exaggerated its manner; 0 to 1.
	Stability, SimilarityBoost, Style *float64
	// SpeakerBoost makes it more like the original, and slower to come.
	SpeakerBoost *bool
	// Speed is how fast it speaks, 0.7 to 1.2.
	Speed float64
}

// DefaultConfig is a Config that lacks nothing but the key. Its rate is the best that
// telephones carry without Opus.
func DefaultConfig() Config {
	return Config{
		BaseURL: "https://api.elevenlabs.io", Voice: "21m00Tcm4TlvDq8ikWAM", Model: "eleven_flash_v2_5",
		SampleRate: 16000, Timeout: 10 * time.Second,
	}
}

// rates are those that the service gives without a codec.
func rates() []int { return []int{8000, 16000, 22050, 24000, 32000, 44100, 48000} }

// Validate reports everything that is wrong with c, each with the setting's name.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if _, _, err := c.address(); err != nil {
		errs = append(errs, err)
	}
	if strings.ContainsFunc(c.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }) {
		bad("api_key: holds white space, a line break or a character that no header can carry")
	}
	if c.Voice == "" || strings.ContainsAny(c.Voice, "/?#") {
		bad("voice: %q, must be the id of a voice, such as %q", c.Voice, DefaultConfig().Voice)
	}
	if c.Model == "" {
		bad("model: must be set, such as %q", DefaultConfig().Model)
	}
	if !slices.Contains(rates(), c.SampleRate) {
		bad("sample_rate: %d, must be one of %v", c.SampleRate, rates())
	}
	if !slices.Contains([]string{"", "auto", "on", "off"}, c.TextNormalization) {
		bad("text_normalization: %q, must be \"auto\", \"on\" or \"off\"", c.TextNormalization)
	}
	for _, part := range []struct {
		key   string
		value *float64
	}{{"stability", c.Settings.Stability}, {"similarity_boost", c.Settings.SimilarityBoost}, {"style", c.Settings.Style}} {
		if part.value != nil && !(*part.value >= 0 && *part.value <= 1) {
			bad("%s: %v, must be between 0 and 1", part.key, *part.value)
		}
	}
	if s := c.Settings.Speed; s != 0 && !(s >= 0.7 && s <= 1.2) {
		bad("speed: %v, must be between 0.7 and 1.2, or 0", s)
	}
	if c.Timeout < time.Second || c.Timeout > 5*time.Minute {
		bad("timeout: %v, must be between 1s and 5m", c.Timeout)
	}
	return errors.Join(errs...)
}

// address is that of requests, and given the part of it that the operator gave.
func (c Config) address() (u, given *url.URL, err error) {
	u, err = sound.Address(c.BaseURL, DefaultConfig().BaseURL)
	if err != nil {
		return nil, nil, err
	}
	if !strings.HasSuffix(u.Path, "/v1") {
		u.Path += "/v1"
	}
	u = u.JoinPath("text-to-speech", url.PathEscape(c.Voice), "stream/with-timestamps")
	bare := *u
	q := u.Query()
	q.Set("output_format", "pcm_"+strconv.Itoa(c.SampleRate))
	if c.ZeroRetention {
		q.Set("enable_logging", "false")
	}
	u.RawQuery = q.Encode()
	return u, &bare, nil
}

// hint says what the operator is to look at.
func hint(code int) string {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "is api_key right, and may it speak at this sample_rate? It also says so of an empty account"
	case http.StatusNotFound:
		return "is voice right?"
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return "does the model know the language and the settings?"
	case http.StatusTooManyRequests:
		return "the account has no room for more texts at the same time"
	}
	return ""
}
