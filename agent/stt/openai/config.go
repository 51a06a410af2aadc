// Package openai recognises speech by any service that transcribes files as OpenAI
// does: OpenAI itself, Groq, and local servers of Whisper such as speaches
// (faster-whisper-server), whisper.cpp and vLLM. What the caller says between Begin and
// Finalize is one request. There are no interim results unless Config asks for them.
package openai

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Formats of answers, of Config.Format.
const (
	// JSON is the text, and nothing but the text with most services.
	JSON = "json"
	// VerboseJSON tells how sure each segment is, and where it is.
	VerboseJSON = "verbose_json"
)

// Config says where the service is and what to ask it for. Start from DefaultConfig.
type Config struct {
	// BaseURL is the service's address, http or https, such as
	// "https://api.openai.com/v1". Without a path "/v1" is taken. One that ends in
	// "/audio/transcriptions" or "/inference" (whisper.cpp's own) is taken as it is. A
	// query is kept.
	BaseURL string
	// APIKey is sent as "Authorization: Bearer …". Empty: no such header. It is in no
	// log and no error.
	APIKey string
	// Model is the model's name.
	Model string
	// Header goes with each request. The values are secrets.
	Header map[string]string

	// Language is that of streams that do not say, a BCP 47 tag; empty: the model finds
	// it out, which costs time and errors.
	Language string
	// Prompt is text that the caller's words are likely to go on from; names and the
	// words of stt.Expect.Phrases are put behind it.
	Prompt string
	// Temperature of the model; nil: the service's own.
	Temperature *float64
	// Format is JSON or VerboseJSON. Empty: JSON for models that know no other
	// ("gpt-…", "voxtral…"), VerboseJSON otherwise. Without VerboseJSON most services
	// do not tell what is needed to know speech from noise.
	Format string
	// Words asks for the times of words, with VerboseJSON. It takes a service longer.
	Words bool
	// Stream asks for the words as the model finds them ("stream"). They are interim
	// results behind the end of the utterance.
	Stream bool
	// Interims, when not 0, transcribes an utterance that is still being spoken each
	// time that so much more of it is there, for interim results. Each of them is a
	// request for all of the utterance.
	Interims time.Duration
	// Extra are further fields of each request, such as "vad_filter".
	Extra map[string]string

	// Rate in Hz of the audio that streams take and of the files that are sent, 8000 or
	// 16000. Older whisper.cpp takes 16000 only.
	Rate int
	// PreRoll is how much audio from before Begin belongs to the utterance.
	PreRoll time.Duration
	// MaxUtterance is how much audio of one utterance is kept; the oldest is dropped.
	MaxUtterance time.Duration
	// Timeout is how long after its end an utterance may take, with another try.
	Timeout time.Duration
	// Failures is how many utterances in a row may fail before the stream counts as
	// lost. The last of them has no final result: who takes over can still hear it.
	Failures int

	// MinLevel, in dB of full scale, is what an utterance must reach for 80 ms to be
	// transcribed at all: models find words in silence.
	MinLevel float64
	// NoSpeech is the probability of no speech above which what the model wrote is
	// not taken for words, unless it was sure of them. 1: never.
	NoSpeech float64
	// Reject is the confidence, 0 to 1, below which speech counts as not recognised:
	// its final result has no text, but tells the confidence.
	Reject float64

	// Transport, when set, replaces the pool of connections.
	Transport http.RoundTripper
}

// DefaultConfig is a Config that lacks nothing but the key.
func DefaultConfig() Config {
	return Config{
		BaseURL:      "https://api.openai.com/v1",
		Model:        "gpt-4o-mini-transcribe",
		Rate:         16000,
		PreRoll:      800 * time.Millisecond,
		MaxUtterance: 30 * time.Second,
		Timeout:      5 * time.Second,
		Failures:     2,
		MinLevel:     -50,
		NoSpeech:     0.6,
		Reject:       0.2,
	}
}

// reserved are the fields that Config.Extra may not set.
var reserved = []string{
	"file", "model", "language", "prompt", "response_format", "temperature", "stream",
	"timestamp_granularities[]", "include[]",
}

// Validate reports everything that is wrong with c, each with the setting's name.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if _, _, err := c.address(); err != nil {
		errs = append(errs, err)
	}
	if c.Model == "" || unprintable(c.Model) {
		bad("model: must be set, such as \"whisper-1\", or what the service calls its model")
	}
	if strings.ContainsFunc(c.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }) {
		bad("api_key: holds white space, a line break or a character that no header can carry")
	}
	for name, value := range c.Header {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' }) || strings.ContainsAny(value, "\r\n\x00") {
			bad("header: %q or its value is none that a request can carry", name)
		}
	}
	if unprintable(c.Prompt) || len(c.Prompt) > maxPrompt {
		bad("prompt: must have at most %d bytes, all of them printable", maxPrompt)
	}
	if t := c.Temperature; t != nil && !(*t >= 0 && *t <= 1) {
		bad("temperature: %v, must be between 0 and 1", *t)
	}
	if !slices.Contains([]string{"", JSON, VerboseJSON}, c.Format) {
		bad("format: %q, must be %q or %q", c.Format, JSON, VerboseJSON)
	}
	if c.Words && c.format() != VerboseJSON {
		bad("words: the times of words need format %q, and a model that knows it", VerboseJSON)
	}
	for name := range c.Extra {
		if name == "" || unprintable(name) || slices.Contains(reserved, name) {
			bad("extra: %q is no field, or set by the gateway", name)
		}
	}
	c.validateNumbers(bad)
	return errors.Join(errs...)
}

func (c Config) validateNumbers(bad func(string, ...any)) {
	if c.Rate != 8000 && c.Rate != 16000 {
		bad("rate: %d, must be 8000 or 16000", c.Rate)
	}
	for _, d := range []struct {
		key             string
		value, low, top time.Duration
	}{
		{"pre_roll", c.PreRoll, 0, 2 * time.Second},
		{"max_utterance", c.MaxUtterance, time.Second, 2 * time.Minute},
		{"timeout", c.Timeout, 100 * time.Millisecond, time.Minute},
	} {
		if d.value < d.low || d.value > d.top {
			bad("%s: %v, must be between %v and %v", d.key, d.value, d.low, d.top)
		}
	}
	if c.Interims != 0 && (c.Interims < 100*time.Millisecond || c.Interims > 10*time.Second) {
		bad("interims: %v, must be between 100ms and 10s, or 0", c.Interims)
	}
	if c.Failures < 1 || c.Failures > 100 {
		bad("failures: %d, must be between 1 and 100", c.Failures)
	}
	if !(c.MinLevel >= -100 && c.MinLevel <= 0) {
		bad("min_level: %v dB, must be between -100 and 0", c.MinLevel)
	}
	if !(c.NoSpeech > 0 && c.NoSpeech <= 1) {
		bad("no_speech: %v, must be more than 0 and at most 1", c.NoSpeech)
	}
	if !(c.Reject >= 0 && c.Reject < 1) {
		bad("reject: %v, must be from 0 to below 1", c.Reject)
	}
}

// format is that of the answers.
func (c Config) format() string {
	if c.Format != "" {
		return c.Format
	}
	model := strings.ToLower(c.Model)
	if i := strings.LastIndexByte(model, '/'); i >= 0 {
		model = model[i+1:]
	}
	if strings.HasPrefix(model, "gpt-") || strings.HasPrefix(model, "voxtral") {
		return JSON
	}
	return VerboseJSON
}

// logprobs says whether the model tells how sure it is of each token. Only OpenAI's
// own models do, and others refuse to be asked.
func (c Config) logprobs() bool {
	return c.format() == JSON && strings.HasPrefix(c.Model, "gpt-4o") && !strings.Contains(c.Model, "diarize")
}

const transcriptions = "/audio/transcriptions"

// address is where requests go, and how errors show it.
func (c Config) address() (whole string, base *url.URL, err error) {
	u, err := url.Parse(c.BaseURL)
	switch {
	case c.BaseURL == "":
		return "", nil, errors.New("base_url: must be set, such as \"https://api.openai.com/v1\"")
	case err != nil: // url's own error repeats the address, and a secret in it
		return "", nil, errors.New("base_url: is no address, must be such as \"https://api.openai.com/v1\"")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", nil, errors.New("base_url: must begin with http:// or https:// and name a host")
	case u.User != nil:
		return "", nil, errors.New("base_url: must not hold a user or password; set api_key instead")
	}
	u.Fragment = ""
	path := strings.TrimRight(u.Path, "/")
	switch {
	case path == "":
		path = "/v1" + transcriptions
	case !strings.HasSuffix(path, transcriptions) && !strings.HasSuffix(path, "/inference"):
		path += transcriptions
	}
	u.Path, u.RawPath = path, ""
	return u.String(), u, nil
}

func unprintable(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f || r == '\uFFFD' })
}
