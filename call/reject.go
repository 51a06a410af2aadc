package call

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/rtp"
	"parley/sip"
	"parley/sip/sdp"
)

// What can go wrong before a call is up; reject says what the caller is told.
var (
	errTooMany   = fmt.Errorf("%w: of the server", ErrLimit)
	errTrunkFull = fmt.Errorf("%w: of the trunk", ErrLimit)
	errTrunkRate = fmt.Errorf("%w: of the trunk's calls per second", ErrLimit)
	errNoRoute   = errors.New("call: no agent for this number")
	errBadOffer  = errors.New("call: unreadable session description")
	errNoCodec   = errors.New("call: no codec in common")
	errNoOffer   = errors.New("call: an answer to no offer of ours")
	errOpen      = errors.New("call: the agent is not ready")
)

// retryAfter is what a caller is told who comes at a bad moment.
const retryAfter = 5 * time.Second

// refusals is the one table from an error to the answer on the wire
// (RFC 3261 section 21).
var refusals = []struct {
	err   error
	code  int
	text  string
	rule  string
	retry time.Duration
}{
	{errTooMany, 503, "limit of concurrent calls reached", "max_calls", retryAfter},
	{errTrunkFull, 503, "limit of this trunk's calls reached", "trunk_max_calls", retryAfter},
	{ErrDraining, 503, "shutting down", "draining", retryAfter},
	{errNoRoute, 404, "no agent answers this number", "no_route", 0},
	{errBadOffer, 400, "session description cannot be read", "bad_offer", 0},
	{errNoCodec, 488, "no codec in common", "no_common_codec", 0},
	{rtp.ErrNoPort, 503, "no media port free", "no_port", retryAfter},
	{context.DeadlineExceeded, 503, "agent not ready in time", "agent_timeout", retryAfter},
	{errOpen, 503, "agent not ready", "agent_unavailable", retryAfter},
}

// reject turns an error into the final response.
func reject(err error) *sip.RejectError {
	var ready *sip.RejectError
	if errors.As(err, &ready) {
		return ready
	}
	var refused *sdp.Refusal
	if errors.As(err, &refused) {
		return &sip.RejectError{Code: refused.Code, Warning: refused.Warning, Text: refused.Text, Rule: "no_common_codec"}
	}
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return &sip.RejectError{Code: r.code, Text: r.text, Rule: r.rule, RetryAfter: r.retry}
		}
	}
	return &sip.RejectError{Code: 500, Text: "internal error", Rule: "internal"}
}
