package sip

import (
	"strconv"
	"strings"
	"time"
)

// DialError is why a call was not answered.
type DialError struct {
	// Code is the final response; 0 when there was none.
	Code int
	// Phrase is the reason phrase of it.
	Phrase string
	// Text is its Warning, cleaned for logs.
	Text string
	// Reason is its Reason header (RFC 3326), such as the Q.850 cause of the
	// telephone network.
	Reason Reason
	// RetryAfter is what it asks to wait.
	RetryAfter time.Duration
	// Contacts are those of a 3xx that was not followed.
	Contacts []Address
	// Err is the cause when it is not simply the response: ErrRingTimeout,
	// ErrTimeout, ErrTransport, ErrUnauthorized, ErrShutdown, or the cause of the
	// context.
	Err error
}

// Error implements error.
func (e *DialError) Error() string {
	s := "sip: call failed"
	if e.Code != 0 {
		s += " with " + strconv.Itoa(e.Code) + " " + e.Phrase
	}
	if e.Text != "" {
		s += " (" + e.Text + ")"
	}
	if v := e.Reason.String(); v != "" {
		s += ", reason " + v
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns Err.
func (e *DialError) Unwrap() error { return e.Err }

// dialError describes a final response.
func dialError(m *message, err error) *DialError {
	e := &DialError{Code: m.code, Phrase: clean(m.phrase, 64), RetryAfter: retryAfter(m), Err: err}
	if v := m.get("warning"); v != "" {
		if _, rest, ok := strings.Cut(v, `"`); ok {
			text, _, _ := cutQuoted(`"` + rest)
			e.Text = clean(text, 200)
		}
	}
	for _, v := range m.all("reason") {
		for _, part := range splitComma(v) {
			if r, ok := parseReason(part); ok && (e.Reason.Protocol == "" || r.Protocol == "Q.850") {
				e.Reason = r
			}
		}
	}
	if m.code/100 == 3 {
		e.Contacts = ParseAddresses(m.all("contact"))
	}
	return e
}

// parseReason reads one value of a Reason header.
func parseReason(v string) (Reason, bool) {
	protocol, params, _ := strings.Cut(v, ";")
	p := parseParams(params)
	cause, err := strconv.ParseUint(p["cause"], 10, 16)
	r := Reason{Protocol: strings.TrimSpace(protocol), Cause: int(cause)}
	if text, _, ok := cutQuoted(p["text"] + " "); ok && strings.HasPrefix(p["text"], `"`) {
		r.Text = clean(text, 200)
	}
	return r, err == nil && isToken(r.Protocol)
}
