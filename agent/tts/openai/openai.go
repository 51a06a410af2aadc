// Package openai speaks by any service that answers POST /audio/speech as OpenAI's does:
// OpenAI itself, and servers on the operator's own machines (Piper, Kokoro, openedai-speech
// and others), which often answer with WAVE files or at rates of their own.
//
// One request is one text. Connections are kept and shared by all calls, so that sentences in
// a row cost no handshake. A cancelled text ends its request: over HTTP/2 the stream, over
// HTTP/1.1 the connection.
package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"parley/agent/internal/wire"
	"parley/agent/tts"
	"parley/agent/tts/sound"
)

// Config says where the service is and how it is to speak. Start from DefaultConfig.
type Config struct {
	// BaseURL is the service's address, http or https, such as
	// "https://api.openai.com/v1". Without a path "/v1" is taken. One that ends in
	// "/audio/speech" is taken as it is. A query is kept.
	BaseURL string
	// APIKey is sent as "Authorization: Bearer …". Empty: no such header. It is in no log
	// and no error.
	APIKey string
	// Header goes with each request, such as "api-key". The values are secrets.
	Header map[string]string
	// Model and Voice are the names that the service gives them.
	Model, Voice string
	// ResponseFormat is what is asked for: "pcm", which begins to sound first, or "wav" for
	// services that know no other. Whichever comes is read.
	ResponseFormat string
	// PCMRate is the rate in Hz of samples that come without a header and without a word
	// about it; OpenAI's is 24000.
	PCMRate int
	// SampleRate is the rate in Hz of the voice: what comes at another is changed to it.
	SampleRate int
	// Speed is how fast it speaks, 0.25 to 4; 0: the service's own.
	Speed float64
	// Instructions say how to speak, for models that take them. A style is added to them.
	Instructions string
	// Timeout is the longest that the service may send nothing.
	Timeout time.Duration
	// Transport, when set, replaces the pool of connections.
	Transport http.RoundTripper
}

// DefaultConfig is a Config that lacks nothing but the key.
func DefaultConfig() Config {
	return Config{
		BaseURL: "https://api.openai.com/v1", Model: "gpt-4o-mini-tts", Voice: "marin",
		ResponseFormat: "pcm", PCMRate: 24000, SampleRate: 24000, Timeout: 10 * time.Second,
	}
}

// Validate reports everything that is wrong with c, each with the setting's name.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if _, err := c.address(); err != nil {
		errs = append(errs, err)
	}
	if strings.ContainsFunc(c.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }) {
		bad("api_key: holds white space, a line break or a character that no header can carry")
	}
	for name, value := range c.Header {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) || strings.ContainsAny(value, "\r\n\x00") {
			bad("header: %q or its value is none that a request can carry", name)
		}
	}
	if c.Model == "" {
		bad("model: must be set, such as %q, or what the service calls its model", DefaultConfig().Model)
	}
	if c.Voice == "" {
		bad("voice: must be set, such as %q, or what the service calls its voice", DefaultConfig().Voice)
	}
	if c.ResponseFormat != "pcm" && c.ResponseFormat != "wav" {
		bad("response_format: %q, must be \"pcm\" or \"wav\"", c.ResponseFormat)
	}
	if !slices.Contains(sound.Rates(), c.PCMRate) {
		bad("pcm_rate: %d, must be one of %v", c.PCMRate, sound.Rates())
	}
	if !slices.Contains(sound.Rates(), c.SampleRate) {
		bad("sample_rate: %d, must be one of %v", c.SampleRate, sound.Rates())
	}
	if c.Speed != 0 && !(c.Speed >= 0.25 && c.Speed <= 4) {
		bad("speed: %v, must be between 0.25 and 4, or 0", c.Speed)
	}
	if c.Timeout < time.Second || c.Timeout > 5*time.Minute {
		bad("timeout: %v, must be between 1s and 5m", c.Timeout)
	}
	return errors.Join(errs...)
}

const path = "/audio/speech"

// address is that of requests.
func (c Config) address() (*url.URL, error) {
	u, err := sound.Address(c.BaseURL, DefaultConfig().BaseURL)
	if err != nil {
		return nil, err
	}
	base, _ := strings.CutSuffix(u.Path, path)
	if base == "" && u.Path == "" {
		base = "/v1"
	}
	u.Path, u.RawPath = base+path, ""
	return u, nil
}

// Voice implements tts.Voice and tts.Styled. It is safe for concurrent use: any number of
// texts are spoken at the same time.
type Voice struct {
	cfg     Config
	address string
	service *wire.Service
}

var _ tts.Styled = (*Voice)(nil)

// New makes a voice.
func New(cfg Config) (*Voice, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("tts/openai: %w", err)
	}
	u, err := cfg.address()
	if err != nil {
		return nil, fmt.Errorf("tts/openai: %w", err)
	}
	service := wire.NewService("tts/openai", u, cfg.APIKey, cfg.Header, cfg.Transport)
	service.Hint = hint
	return &Voice{cfg: cfg, address: u.String(), service: service}, nil
}

// hint says what the operator is to look at.
func hint(code int) string {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "is api_key right?"
	case http.StatusNotFound:
		return "are base_url, model and voice right?"
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return "does it know the model, the voice and the response_format?"
	case http.StatusTooManyRequests:
		return "it has no room for more requests, or the account is empty"
	}
	return ""
}

// Rate implements tts.Voice.
func (v *Voice) Rate() int { return v.cfg.SampleRate }

// Speak implements tts.Voice. Texts of more than sound.MaxText characters are refused with
// sound.ErrTooLong.
func (v *Voice) Speak(ctx context.Context, text string, out func(tts.Chunk) error) error {
	return v.SpeakStyled(ctx, text, "", out)
}

// request is the body of a request.
type request struct {
	Model          string  `json:"model"`
	Voice          string  `json:"voice"`
	Input          string  `json:"input"`
	ResponseFormat string  `json:"response_format"`
	Speed          float64 `json:"speed,omitempty"`
	Instructions   string  `json:"instructions,omitempty"`
}

// SpeakStyled implements tts.Styled: the style becomes an instruction, but for models that
// take none.
func (v *Voice) SpeakStyled(ctx context.Context, text, style string, out func(tts.Chunk) error) error {
	text, err := sound.Text(text)
	if err != nil {
		return fmt.Errorf("tts/openai: %w", err)
	}
	if text == "" {
		return ctx.Err()
	}
	s := sound.NewSpeech(ctx, text, v.cfg.SampleRate, false, out)
	return s.Post(sound.Request{
		Service: v.service,
		Address: v.address,
		Body: request{
			Model: v.cfg.Model, Voice: v.cfg.Voice, Input: text, ResponseFormat: v.cfg.ResponseFormat,
			Speed: v.cfg.Speed, Instructions: v.instructions(sound.Style(style)),
		},
		Accept: "audio/pcm, audio/wav;q=0.9, */*;q=0.1",
		Within: v.cfg.Timeout,
	}, func(contentType string, body io.Reader) error {
		return s.Audio(contentType, body, sound.Format{Encoding: sound.S16LE, Rate: v.cfg.PCMRate})
	})
}

func (v *Voice) instructions(style string) string {
	if style == "" || strings.HasPrefix(v.cfg.Model, "tts-1") {
		return v.cfg.Instructions
	}
	return strings.TrimSpace(v.cfg.Instructions + "\nSpeak in this style: " + style + ".")
}

// Close lets go of the connections that wait for more. It waits for no text that is being
// spoken.
func (v *Voice) Close() { v.service.Client.CloseIdleConnections() }
