package call

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"parley/identity"
	"parley/rtp"
	"parley/sip"
	"parley/sip/sdp"
)

func TestEveryErrorHasItsAnswerOnTheWire(t *testing.T) {
	cases := []struct {
		err   error
		code  int
		rule  string
		retry bool
	}{
		{errTooMany, 503, "max_calls", true},
		{ErrDraining, 503, "draining", true},
		{errNoRoute, 404, "no_route", false},
		{fmt.Errorf("%w: line 3", errBadOffer), 400, "bad_offer", false},
		{errNoCodec, 488, "no_common_codec", false},
		{&sdp.Refusal{Code: 488, Text: "secure media is not supported"}, 488, "no_common_codec", false},
		{fmt.Errorf("call: %w", rtp.ErrNoPort), 503, "no_port", true},
		{fmt.Errorf("%w: %w", errOpen, errors.New("connection refused")), 503, "agent_unavailable", true},
		{fmt.Errorf("%w: %w", errOpen, context.DeadlineExceeded), 503, "agent_timeout", true},
		{errors.New("anything else"), 500, "internal", false},
	}
	for _, tc := range cases {
		r := reject(tc.err)
		if r.Code != tc.code || r.Rule != tc.rule || (r.RetryAfter > 0) != tc.retry {
			t.Errorf("%v: %d %q retry %v, want %d %q retry %v", tc.err, r.Code, r.Rule, r.RetryAfter, tc.code, tc.rule, tc.retry)
		}
	}
}

// RFC 8898 section 4: what a caller is told whose token does not count.
func TestTokensThatDoNotCountAreTold(t *testing.T) {
	for rule, want := range map[string]string{
		identity.RuleExpires: `Bearer realm="gw.example.com", error="invalid_token"`,
		identity.RuleMissing: `Bearer realm="gw.example.com"`,
	} {
		err := refuseToken(fmt.Errorf("call: %w", &identity.TokenError{Rule: rule, Text: "x"}), "gw.example.com")
		r := reject(err)
		if r.Code != 401 || r.Rule != "token_"+rule || len(r.Challenges) != 1 || r.Challenges[0] != want {
			t.Errorf("%s: %+v", rule, r)
		}
	}
	other := errors.New("x")
	if refuseToken(other, "x") != other {
		t.Error("another error is taken for a token's")
	}
}

func TestEveryCauseHasItsWords(t *testing.T) {
	cases := []struct {
		err   error
		cause string
		q850  int
	}{
		{sip.ErrPeerBye, CauseCallerHungUp, 16},
		{errAgentDone, CauseAgentHungUp, 16},
		{errMediaTimeout, CauseMediaTimeout, 102},
		{errMaxDuration, CauseMaxDuration, 102},
		{errShutdown, CauseShutdown, 41},
		{fmt.Errorf("dialog: %w", sip.ErrNoACK), CauseNoACK, 102},
		{sip.ErrNoPRACK, CauseNoPRACK, 102},
		{sip.ErrGone, CauseLost, 41},
		{fmt.Errorf("dialog: %w", sip.ErrExpired), CauseExpired, 102},
		{errors.New("wheel dropped it"), CauseFault, 41},
		{&agentError{context.Canceled}, CauseFault, 41},
	}
	for _, tc := range cases {
		if cause, q850 := causeOf(tc.err); cause != tc.cause || q850 != tc.q850 {
			t.Errorf("%v: %q %d, want %q %d", tc.err, cause, q850, tc.cause, tc.q850)
		}
	}
}

func TestDigitsByInfo(t *testing.T) { // BR-114
	cases := []struct {
		kind, body string
		want       byte // 0: refused
	}{
		{"application/dtmf-relay", "Signal=5\r\nDuration=160\r\n", '5'},
		{"application/dtmf-relay", "Signal= 5\nDuration=160", '5'},
		{"Application/DTMF-Relay; charset=x", "signal=*\r\n", '*'},
		{"application/dtmf-relay", "Signal=10\r\n", '*'},
		{"application/dtmf-relay", "Signal=11\r\n", '#'},
		{"application/dtmf-relay", "Signal=a\r\n", 'A'},
		{"application/dtmf", "5", '5'},
		{"application/dtmf", "5\r\n", '5'},
		{"audio/telephone-event", "d=5", '5'},
		{"application/dtmf-relay", "", 0},
		{"application/dtmf-relay", "Signal=55\r\n", 0},
		{"application/dtmf-relay", "Duration=160\r\n", 0},
		{"application/dtmf-relay", "Signal=\x00", 0},
		{"application/media_control+xml", "Signal=5", 0},
		{";;", "Signal=5", 0},
	}
	for _, tc := range cases {
		got, err := infoDigit(tc.kind, tc.body)
		if got != tc.want || (err == nil) != (tc.want != 0) {
			t.Errorf("%q %q: %q, %v, want %q", tc.kind, tc.body, got, err, tc.want)
		}
	}
}

func TestConfigNamesEveryMistake(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatal("the default must be valid:", err)
	}
	cases := []struct {
		name   string
		change func(*Config)
	}{
		{"codecs", func(c *Config) { c.Codecs = nil }},
		{"max_calls", func(c *Config) { c.MaxCalls = 0 }},
		{"max_duration", func(c *Config) { c.MaxDuration = -1 }},
		{"initial_media_timeout", func(c *Config) { c.InitialMediaTimeout = -1 }},
		{"media_timeout", func(c *Config) { c.MediaTimeout = -1 }},
		{"open_timeout", func(c *Config) { c.OpenTimeout = 0 }},
		{"end_timeout", func(c *Config) { c.EndTimeout = 0 }},
		{"packet_time", func(c *Config) { c.PacketTime = 25 * time.Millisecond }},
		{"speech_buffer", func(c *Config) { c.SpeechBuffer = time.Millisecond }},
		{"jitter_min", func(c *Config) { c.JitterMin = time.Hour }},
	}
	for _, tc := range cases {
		c := DefaultConfig()
		tc.change(&c)
		if err := c.Validate(); err == nil || !contains(err.Error(), tc.name) {
			t.Errorf("%s: error %v does not name it", tc.name, err)
		}
	}
}
