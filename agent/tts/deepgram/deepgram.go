// Package deepgram speaks by Deepgram's Aura voices.
//
// It asks over HTTP and not over the WebSocket that the service also has. Text comes to a
// voice in whole sentences, for which the first sound is as near either way: one message
// there, one back, over a connection that is open already. The WebSocket is for text that
// grows by the word; it takes no more than 20 flushes a minute, which short sentences
// exceed, tells errors without the status that says whose they are, and counts against the
// account while nobody speaks. A cancelled request ends at once, and nothing of it can turn
// up in the next.
package deepgram

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/agent/internal/wire"
	"parley/agent/tts"
	"parley/agent/tts/sound"
)

// Config says which voice speaks, and how. Start from DefaultConfig.
type Config struct {
	// BaseURL is the service's address, http or https, for tests, proxies and servers of
	// one's own. "/v1/speak" is added, or "/speak" to one that ends in "/v1".
	BaseURL string
	// APIKey is sent as "Authorization: Token …". Empty: no such header. It is in no log and
	// no error.
	APIKey string
	// Model is the voice with its language, such as "aura-2-thalia-en".
	Model string
	// SampleRate is the rate in Hz of the voice: 8000, 16000, 24000, 32000 or 48000.
	SampleRate int
	// OptOut keeps what is said out of the training of the service's models, at its price.
	OptOut bool
	// Timeout is the longest that the service may send nothing.
	Timeout time.Duration
	// Transport, when set, replaces the pool of connections.
	Transport http.RoundTripper
}

// DefaultConfig is a Config that lacks nothing but the key. Its rate is the best that
// telephones carry without Opus.
func DefaultConfig() Config {
	return Config{BaseURL: "https://api.deepgram.com", Model: "aura-2-thalia-en", SampleRate: 16000, Timeout: 10 * time.Second}
}

// rates are those that the service gives.
func rates() []int { return []int{8000, 16000, 24000, 32000, 48000} }

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
	if c.Model == "" {
		bad("model: must be set, such as %q", DefaultConfig().Model)
	}
	if !slices.Contains(rates(), c.SampleRate) {
		bad("sample_rate: %d, must be one of %v", c.SampleRate, rates())
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
	u.Path += "/speak"
	bare := *u
	q := u.Query()
	q.Set("model", c.Model)
	q.Set("encoding", "linear16")
	q.Set("container", "none")
	q.Set("sample_rate", strconv.Itoa(c.SampleRate))
	if c.OptOut {
		q.Set("mip_opt_out", "true")
	}
	u.RawQuery = q.Encode()
	return u, &bare, nil
}

// Voice implements tts.Voice. It is safe for concurrent use: any number of texts are spoken
// at the same time, as far as the account allows.
type Voice struct {
	cfg     Config
	address string
	service *wire.Service
}

var _ tts.Voice = (*Voice)(nil)

// New makes a voice.
func New(cfg Config) (*Voice, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("tts/deepgram: %w", err)
	}
	u, given, err := cfg.address()
	if err != nil {
		return nil, fmt.Errorf("tts/deepgram: %w", err)
	}
	header := map[string]string{}
	if cfg.APIKey != "" {
		header["Authorization"] = "Token " + cfg.APIKey
	}
	service := wire.NewService("tts/deepgram", given, "", header, cfg.Transport)
	service.Secrets = append(service.Secrets, cfg.APIKey)
	service.Hint = hint
	return &Voice{cfg: cfg, address: u.String(), service: service}, nil
}

// hint says what the operator is to look at.
func hint(code int) string {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "is api_key right, and may it speak?"
	case http.StatusPaymentRequired:
		return "the account is empty"
	case http.StatusBadRequest, http.StatusNotFound:
		return "are base_url and model right?"
	case http.StatusTooManyRequests:
		return "the account has no room for more texts at the same time"
	}
	return ""
}

// Rate implements tts.Voice.
func (v *Voice) Rate() int { return v.cfg.SampleRate }

// Speak implements tts.Voice. The service does not tell where words lie. Texts of more than
// sound.MaxText characters are refused with sound.ErrTooLong.
func (v *Voice) Speak(ctx context.Context, text string, out func(tts.Chunk) error) error {
	text, err := sound.Text(text)
	if err != nil {
		return fmt.Errorf("tts/deepgram: %w", err)
	}
	if text == "" {
		return ctx.Err()
	}
	s := sound.NewSpeech(ctx, text, v.cfg.SampleRate, false, out)
	return s.Post(sound.Request{
		Service: v.service,
		Address: v.address,
		Body: struct {
			Text string `json:"text"`
		}{text},
		Accept: "audio/*, */*;q=0.1",
		Within: v.cfg.Timeout,
	}, func(contentType string, body io.Reader) error {
		return s.Audio(contentType, body, sound.Format{Encoding: sound.S16LE, Rate: v.cfg.SampleRate})
	})
}

// Close lets go of the connections that wait for more. It waits for no text that is being
// spoken.
func (v *Voice) Close() { v.service.Client.CloseIdleConnections() }
