// Package deepgram recognises speech by Deepgram's streaming service, or one that
// speaks its protocol (/v1/listen). All audio of a call goes to it over one WebSocket,
// which is made anew when it is lost.
package deepgram

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config says where the service is and what to ask it for. Start from DefaultConfig.
type Config struct {
	// BaseURL is the service's address, wss, ws, https or http. Without a path
	// "/v1/listen" is taken; to one that does not end in "/listen" that is added. A
	// query is kept.
	BaseURL string
	// APIKey is sent as "Authorization: Token …". Empty: no such header. It is in no
	// log and no error.
	APIKey string
	// Header goes with each handshake. The values are secrets.
	Header map[string]string

	// Model is the model's name.
	Model string
	// Language is that of streams that do not say, a BCP 47 tag or "multi"; empty: the
	// service's own.
	Language string
	// Keyterms are words worth listening for in all streams; those of
	// stt.Expect.Phrases come behind them.
	Keyterms []string
	// KeytermsField is the name that they go by: "keyterm" (nova-3), or "keywords" for
	// models before it. Empty: by the model's name.
	KeytermsField string
	// Interims asks for interim results.
	Interims bool
	// Punctuate asks for punctuation, SmartFormat for numbers, dates and so on as they
	// are written.
	Punctuate, SmartFormat bool
	// Endpointing is the pause after which the service gives a final transcript by
	// itself; 0: it does not.
	Endpointing time.Duration
	// UtteranceEnd is the gap between words after which the service says that there
	// is one, noise or not; 0: it does not. It needs Interims, and at least a second.
	UtteranceEnd time.Duration
	// Extra are further fields of the query, such as "numerals" or "mip_opt_out".
	Extra map[string]string

	// Rate in Hz of the audio, 8000 or 16000.
	Rate int
	// Reject is the confidence, 0 to 1, below which speech counts as not recognised:
	// its final result has no text, but tells the confidence.
	Reject float64

	// FinalWait is how long the service's answer to Finalize is waited for once it has
	// got past it: it gives none when it had nothing left to say.
	FinalWait time.Duration
	// Stall is how long the service may say nothing at all after Finalize. Then the
	// connection is made anew.
	Stall time.Duration
	// KeepAlive is the time without audio, as when the caller is muted, after which the
	// service is told that the stream is still wanted. It gives up after 10 s.
	KeepAlive time.Duration
	// Replay is how much audio is kept: what a new connection hears again of what has
	// no final transcript yet, and what waits while there is none or it is slow. The
	// oldest is dropped.
	Replay time.Duration

	// ConnectTimeout bounds a handshake.
	ConnectTimeout time.Duration
	// Attempts is how many connections in a row may fail, or last less than 5 s, before
	// the stream counts as lost. What is refused for good (the key, the request) is
	// not tried again.
	Attempts int
	// Pause is before the second attempt; it doubles with each, up to MaxPause.
	Pause, MaxPause time.Duration
	// Transport, when set, makes the connections.
	Transport http.RoundTripper
}

// DefaultConfig is a Config that lacks nothing but the key.
func DefaultConfig() Config {
	return Config{
		BaseURL:        "wss://api.deepgram.com/v1/listen",
		Model:          "nova-3",
		Interims:       true,
		Punctuate:      true,
		SmartFormat:    true,
		Endpointing:    300 * time.Millisecond,
		UtteranceEnd:   time.Second,
		Rate:           16000,
		Reject:         0.2,
		FinalWait:      500 * time.Millisecond,
		Stall:          1500 * time.Millisecond,
		KeepAlive:      4 * time.Second,
		Replay:         8 * time.Second,
		ConnectTimeout: 5 * time.Second,
		Attempts:       5,
		Pause:          200 * time.Millisecond,
		MaxPause:       2 * time.Second,
	}
}

// reserved are the fields that Config.Extra may not set.
var reserved = []string{
	"model", "language", "encoding", "sample_rate", "channels", "multichannel", "interim_results", "punctuate",
	"smart_format", "endpointing", "utterance_end_ms", "keyterm", "keywords", "callback", "callback_method",
}

// Validate reports everything that is wrong with c, each with the setting's name.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if _, err := c.base(); err != nil {
		errs = append(errs, err)
	}
	if c.Model == "" || unprintable(c.Model) {
		bad("model: must be set, such as \"nova-3\"")
	}
	if strings.HasPrefix(c.Model, "flux") {
		bad("model: %q speaks another protocol (/v2/listen); take one such as \"nova-3\"", c.Model)
	}
	if unprintable(c.Language) {
		bad("language: must be a tag such as \"en-US\", or \"multi\"")
	}
	if strings.ContainsFunc(c.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }) {
		bad("api_key: holds white space, a line break or a character that no header can carry")
	}
	for name, value := range c.Header {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' }) || strings.ContainsAny(value, "\r\n\x00") {
			bad("header: %q or its value is none that a request can carry", name)
		}
	}
	if !slices.Contains([]string{"", "keyterm", "keywords"}, c.KeytermsField) {
		bad("keyterms_field: %q, must be \"keyterm\" or \"keywords\"", c.KeytermsField)
	}
	for name := range c.Extra {
		if name == "" || unprintable(name) || slices.Contains(reserved, name) {
			bad("extra: %q is no field, or set by the gateway", name)
		}
	}
	if c.UtteranceEnd > 0 && !c.Interims {
		bad("utterance_end: needs interims")
	}
	c.validateNumbers(bad)
	return errors.Join(errs...)
}

func (c Config) validateNumbers(bad func(string, ...any)) {
	if c.Rate != 8000 && c.Rate != 16000 {
		bad("rate: %d, must be 8000 or 16000", c.Rate)
	}
	if !(c.Reject >= 0 && c.Reject < 1) {
		bad("reject: %v, must be from 0 to below 1", c.Reject)
	}
	if c.Attempts < 1 || c.Attempts > 100 {
		bad("attempts: %d, must be between 1 and 100", c.Attempts)
	}
	for _, d := range []struct {
		key             string
		value, low, top time.Duration
	}{
		{"endpointing", c.Endpointing, 0, 10 * time.Second},
		{"utterance_end", c.UtteranceEnd, 0, 10 * time.Second},
		{"final_wait", c.FinalWait, 10 * time.Millisecond, 10 * time.Second},
		{"stall", c.Stall, 100 * time.Millisecond, time.Minute},
		{"keep_alive", c.KeepAlive, 100 * time.Millisecond, 9 * time.Second},
		{"replay", c.Replay, time.Second, time.Minute},
		{"connect_timeout", c.ConnectTimeout, 100 * time.Millisecond, time.Minute},
		{"pause", c.Pause, 10 * time.Millisecond, time.Minute},
		{"max_pause", c.MaxPause, c.Pause, time.Minute},
	} {
		if d.value < d.low || d.value > d.top {
			bad("%s: %v, must be between %v and %v", d.key, d.value, d.low, d.top)
		}
	}
	if c.UtteranceEnd > 0 && c.UtteranceEnd < time.Second {
		bad("utterance_end: %v, must be at least 1s, or 0", c.UtteranceEnd)
	}
}

// base is the address without what a stream adds to it.
func (c Config) base() (*url.URL, error) {
	u, err := url.Parse(c.BaseURL)
	switch {
	case c.BaseURL == "":
		return nil, errors.New("base_url: must be set, such as \"wss://api.deepgram.com/v1/listen\"")
	case err != nil: // url's own error repeats the address, and a secret in it
		return nil, errors.New("base_url: is no address, must be such as \"wss://api.deepgram.com/v1/listen\"")
	case !slices.Contains([]string{"ws", "wss", "http", "https"}, u.Scheme) || u.Host == "":
		return nil, errors.New("base_url: must begin with wss:// or ws:// and name a host")
	case u.User != nil:
		return nil, errors.New("base_url: must not hold a user or password; set api_key instead")
	}
	u.Fragment = ""
	path := strings.TrimRight(u.Path, "/")
	switch {
	case path == "":
		path = "/v1/listen"
	case !strings.HasSuffix(path, "/listen"):
		path += "/listen"
	}
	u.Path, u.RawPath = path, ""
	return u, nil
}

// Bounds of what goes into the query: the service takes 500 tokens of key terms, and
// servers take no endless addresses.
const (
	maxKeyterms     = 100
	maxKeytermBytes = 2000
)

// query is what a stream asks for.
func (c Config) query(language string, phrases []string) url.Values {
	q := url.Values{}
	set := func(name, value string) { q.Set(name, value) }
	for name, value := range c.Extra {
		set(name, value)
	}
	set("model", c.Model)
	if language = clean(language); language != "" {
		set("language", language)
	}
	set("encoding", "linear16")
	set("sample_rate", strconv.Itoa(c.Rate))
	set("channels", "1")
	set("interim_results", strconv.FormatBool(c.Interims))
	set("punctuate", strconv.FormatBool(c.Punctuate))
	set("smart_format", strconv.FormatBool(c.SmartFormat))
	set("endpointing", "false")
	if c.Endpointing > 0 {
		set("endpointing", strconv.FormatInt(c.Endpointing.Milliseconds(), 10))
	}
	if c.UtteranceEnd > 0 {
		set("utterance_end_ms", strconv.FormatInt(c.UtteranceEnd.Milliseconds(), 10))
	}
	field := c.KeytermsField
	if field == "" {
		field = "keywords"
		if strings.HasPrefix(c.Model, "nova-3") {
			field = "keyterm"
		}
	}
	for _, term := range keyterms(c.Keyterms, phrases) {
		q.Add(field, term)
	}
	return q
}

// keyterms are the terms of all lists, each once, as far as there is room for them.
func keyterms(lists ...[]string) []string {
	var out []string
	size := 0
	for _, list := range lists {
		for _, term := range list {
			term = clean(term)
			if term == "" || slices.Contains(out, term) {
				continue
			}
			if size += len(term); size > maxKeytermBytes || len(out) >= maxKeyterms {
				return out
			}
			out = append(out, term)
		}
	}
	return out
}

func unprintable(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' })
}
