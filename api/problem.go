package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"parley/agent"
	"parley/call"
)

// problem is an answer that says what went wrong (RFC 9457). It is an error, so
// that handlers can return one.
type problem struct {
	// Type is a URN made of Rule, Title the status's phrase.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Rule is the short, fixed name that a program branches on.
	Rule string `json:"rule"`
	// Detail says what is wrong this time, Remedy what to do about it.
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
	// Field is the member of the body, or the parameter, that is at fault.
	Field string `json:"field,omitempty"`
	// Code, Reason: what SIP said, when it was SIP that refused.
	Code   int    `json:"code,omitempty"`
	Reason string `json:"reason,omitempty"`

	header http.Header
	cause  error // for the log
}

// Error implements error.
func (p *problem) Error() string { return "api: " + p.Rule + ": " + p.Detail }

// trouble makes a problem.
func trouble(status int, rule, detail, remedy string) *problem {
	return &problem{
		Type: "urn:parley:problem:" + rule, Title: http.StatusText(status), Status: status,
		Rule: rule, Detail: detail, Remedy: remedy,
	}
}

// on names the field.
func (p *problem) on(field string) *problem {
	p.Field = field
	return p
}

// with adds a header field to the answer.
func (p *problem) with(name, value string) *problem {
	if p.header == nil {
		p.header = http.Header{}
	}
	p.header.Add(name, value)
	return p
}

// later says when to try again.
func (p *problem) later(d time.Duration) *problem {
	return p.with("Retry-After", strconv.Itoa(max(1, int((d+time.Second-1)/time.Second))))
}

// wrongField is a field whose value is not taken.
func wrongField(field, detail, remedy string) *problem {
	return trouble(http.StatusBadRequest, "invalid_field", detail, remedy).on(field)
}

// retryAfter is when to come back after a bad moment.
const retryAfter = 5 * time.Second

// problemOf turns what a call's method returned into the answer: the one table
// from errors to HTTP.
func problemOf(err error) *problem {
	var p *problem
	var guard *call.GuardError
	var failed *agent.TransferError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &guard):
		return trouble(http.StatusForbidden, "guard_"+labelText(guard.Rule), guard.Text, guardRemedy(guard.Rule))
	case errors.As(err, &failed):
		p := trouble(http.StatusBadGateway, "transfer_failed", failed.Error(), "The call goes on with the agent; try another target.")
		p.Code, p.Reason = failed.Code, failed.Reason
		return p
	case errors.Is(err, agent.ErrForbidden):
		return trouble(http.StatusForbidden, "forbidden", err.Error(), "Change the trunk's guardrails if it is to be allowed.")
	case errors.Is(err, call.ErrNoCall):
		return noCall()
	case errors.Is(err, call.ErrNoRecording): // which is not supported either
		return trouble(http.StatusConflict, "no_recording", "The call cannot be recorded: recordings are off, or the call is not up.", "Set recording.when to \"on_request\" in the configuration.")
	case errors.Is(err, call.ErrNotSupported):
		return trouble(http.StatusNotImplemented, "not_supported", "This call or its agent cannot do that.", "")
	case errors.Is(err, call.ErrState), errors.Is(err, agent.ErrClosed), errors.Is(err, agent.ErrStopped):
		return trouble(http.StatusConflict, "state", "The call is not in a state for that: it is not answered yet, it is over, or something of the kind is under way.", "Look at the call's state and its events.")
	case errors.Is(err, call.ErrDraining):
		return trouble(http.StatusServiceUnavailable, "draining", "The gateway is being stopped and places no calls.", "Use another gateway, or wait.").later(retryAfter)
	case errors.Is(err, call.ErrLimit):
		return trouble(http.StatusServiceUnavailable, "limit", "A limit is reached: of the calls of the gateway or of the trunk, of its rate, or of the ports.", "Try again later, or raise the limit.").later(retryAfter)
	case errors.Is(err, context.DeadlineExceeded):
		return trouble(http.StatusGatewayTimeout, "timeout", "It was not done in time.", "Look at the call's state before trying again.")
	case errors.Is(err, context.Canceled):
		return trouble(http.StatusServiceUnavailable, "shutdown", "The gateway ended meanwhile.", "Look at the call's state before trying again.").later(retryAfter)
	}
	p = trouble(http.StatusInternalServerError, "internal", "Something failed; the gateway's log says what.", "")
	p.cause = err
	return p
}

// noCall is the answer for an id that no call has.
func noCall() *problem {
	return trouble(http.StatusNotFound, "no_call", "No call has this id, or no more.", "GET /calls lists those there are.")
}

// fail writes p.
func fail(w http.ResponseWriter, p *problem) {
	for name, values := range p.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client left: nothing to do about it
}

// give writes v as JSON.
func give(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client left: nothing to do about it
}

// guardRemedy is what to do about the refusal of a guardrail.
func guardRemedy(rule string) string {
	switch rule {
	case "no_trunk":
		return "Send the name of a trunk of the configuration as trunk; GET /trunks lists them."
	case "target":
		return "Send a number such as +14155550123, or a sip: or tel: URI."
	case "international":
		return "Set international = true and the region of the trunk as they should be, or add this very number to its allow."
	case "premium":
		return "Add this very number to the trunk's allow if it is to be called."
	case "extension", "not_allowed":
		return "Add a prefix of the number to the trunk's allow if it is to be called."
	case "denied":
		return "Take the prefix out of the trunk's deny if the number is to be called."
	case "host":
		return "Add the host to the trunk's allow_hosts if it is to be called, or send a number."
	case "caller_id":
		return "Leave from out, or add the number to the trunk's caller_ids."
	case "header":
		return "Leave the header field out."
	default:
		return "Change the trunk's guardrails (allow, deny, max_per_call, max_per_hour, max_calls, calls_per_second) if it is to be allowed."
	}
}
