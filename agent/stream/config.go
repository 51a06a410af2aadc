package stream

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// The dialects.
const (
	// Twilio is the public Media Streams protocol.
	Twilio = "twilio"
	// PCM is the protocol of docs/stream.md.
	PCM = "pcm"
)

// What becomes of a call whose agent is gone for good (Config.OnLost).
const (
	// LostError ends the call as one whose agent failed.
	LostError = "error"
	// LostHangup ends it as if the agent had hung up.
	LostHangup = "hangup"
)

// Config says where the agent is, which dialect it speaks and what is done when it is
// slow or gone. Start from DefaultConfig.
type Config struct {
	// URL is the agent's, ws or wss.
	URL string
	// Dialect is Twilio or PCM.
	Dialect string
	// Rate is the rate in Hz of the sound both ways of dialect PCM: 8000, 16000 or
	// 24000. Twilio's is 8000.
	Rate int
	// APIKey is sent as "Authorization: Bearer …". Empty: no such header. It is in no
	// log and no error.
	APIKey string
	// AuthToken, when set, is the key of the header X-Twilio-Signature, by which bots
	// for Media Streams tell who calls: base64 of HMAC-SHA1 of the URL. A secret.
	AuthToken string
	// AccountSID is what dialect Twilio shows as accountSid.
	AccountSID string
	// Parameters are the customParameters of dialect Twilio. In their values {from},
	// {to}, {name}, {direction}, {call_id}, {session_id}, {trunk}, {agent} and
	// {X-Header} stand for what is known of the call. What whoever placed an outbound
	// call gave as its context comes on top.
	Parameters map[string]string
	// ConnectTimeout bounds the connection of a call, which is not answered before.
	ConnectTimeout time.Duration
	// Buffer is how much sound of the agent waits to be said at the most; then nothing
	// more is read from it. A call needs memory for what waits: 8 KB a second of
	// dialect Twilio, 16 KB for each 8000 Hz of PCM.
	Buffer time.Duration
	// HearBuffer is how much sound of the caller waits for an agent that is slow, or
	// being connected again; then the oldest is dropped.
	HearBuffer time.Duration
	// Reconnect is how long an agent whose connection broke is called again while the
	// caller stays. 0: not at all.
	Reconnect time.Duration
	// OnLost is LostError or LostHangup.
	OnLost string
	// Actions lets the agent transfer, press keys and hold in dialect PCM. The
	// guardrails of the call are in force all the same.
	Actions bool
	// SecretDigits keeps the caller's keys out of events. The agent gets them.
	SecretDigits bool
	// Transport, when set, makes the connections in the stead of one of its own.
	Transport http.RoundTripper
}

// DefaultConfig is a Config that lacks nothing but the URL.
func DefaultConfig() Config {
	return Config{
		Dialect:        Twilio,
		Rate:           16000,
		AccountSID:     "AC" + strings.Repeat("0", 32),
		ConnectTimeout: 5 * time.Second,
		Buffer:         10 * time.Minute,
		HearBuffer:     time.Second,
		Reconnect:      10 * time.Second,
		OnLost:         LostError,
		Actions:        true,
	}
}

// rates are those of dialect PCM.
var rates = [...]int{8000, 16000, 24000}

// Validate reports everything that is wrong with c, each with the setting's name.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	u, err := url.Parse(c.URL)
	switch {
	case c.URL == "":
		bad("url: must be set, such as \"ws://127.0.0.1:9000/media\"")
	case err != nil:
		// url's own error repeats the address, and a secret in it.
		bad("url: is no address, must be such as \"ws://127.0.0.1:9000/media\"")
	case u.Scheme != "ws" && u.Scheme != "wss" || u.Host == "":
		bad("url: must begin with ws:// or wss:// and name a host")
	case u.User != nil:
		bad("url: must not hold a user or password; set api_key instead")
	case u.Fragment != "":
		bad("url: must not hold a #fragment")
	}
	if c.Dialect != Twilio && c.Dialect != PCM {
		bad("dialect: %q, must be %q or %q", c.Dialect, Twilio, PCM)
	}
	if !slices.Contains(rates[:], c.Rate) {
		bad("rate: %d, must be 8000, 16000 or 24000", c.Rate)
	}
	for name, secret := range map[string]string{"api_key": c.APIKey, "auth_token": c.AuthToken, "account_sid": c.AccountSID} {
		if strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
			bad("%s: holds white space, a line break or a character that no header can carry", name)
		}
	}
	for _, d := range []struct {
		name     string
		d        time.Duration
		min, max time.Duration
	}{
		{"connect_timeout", c.ConnectTimeout, time.Millisecond, time.Minute},
		{"buffer", c.Buffer, time.Second, time.Hour},
		{"hear_buffer", c.HearBuffer, 100 * time.Millisecond, 10 * time.Second},
		{"reconnect", c.Reconnect, 0, 10 * time.Minute},
	} {
		if d.d < d.min || d.d > d.max {
			bad("%s: %v, must be between %v and %v", d.name, d.d, d.min, d.max)
		}
	}
	if c.OnLost != LostError && c.OnLost != LostHangup {
		bad("on_lost: %q, must be %q or %q", c.OnLost, LostError, LostHangup)
	}
	return errors.Join(errs...)
}
