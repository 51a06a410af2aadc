package agent

import (
	"context"
	"errors"
	"strconv"
)

// Control is an agent's means to act on its call. The call implements it; its
// methods may be called from any goroutine, but not from Hear or Notice: they wait
// for the peer. All of them return ErrClosed once the call is over.
type Control interface {
	// Transfer hands the other party to somebody else. nil: the target took over and
	// the call ends; ctx of Run is done soon after. A *TransferError says that it
	// failed and the other party is back with the agent; ErrForbidden that a
	// guardrail does not allow the target, and nothing was tried.
	Transfer(ctx context.Context, t Transfer) error
	// SendDigits presses keys: 0-9, *, #, A-D, and ',' for a pause of 500 ms. It
	// returns when the last was sent (RFC 4733, or INFO with a peer that knows no
	// telephone-event). No speech is sent while a key is down.
	SendDigits(ctx context.Context, digits string) error
	// Hold puts the other party on hold: it is told so (RFC 3264 section 8.4),
	// speech waits, and the session gets a Held notice. On hold already it does
	// nothing.
	Hold(ctx context.Context) error
	// Resume ends a Hold; the session gets a Resumed notice.
	Resume(ctx context.Context) error
	// Record begins or ends the recording of the call.
	Record(on bool) error
}

// Transfer is where a call is to go.
type Transfer struct {
	// To is a telephone number, or a sip: or tel: URI. The guardrails of the trunk
	// decide; whatever a caller or a model says changes nothing about them.
	To string
	// Attended calls the target first and hands over when it answers. Otherwise the
	// other party is sent there and tells how it went.
	Attended bool
	// Trunk is the name of the trunk to go through. Empty: the call's own.
	Trunk string
	// Headers are added to the INVITE that reaches the target. Only names that begin
	// with "X-" are taken.
	Headers map[string]string
}

// TransferError says that a transfer did not come about; the call goes on.
type TransferError struct {
	// Code is the SIP status that the target or the other party gave, 0 for none.
	Code int
	// Reason is its phrase or what went wrong, in a few words.
	Reason string
	// Err is the cause, when there is more to it.
	Err error
}

// Error implements error.
func (e *TransferError) Error() string {
	s := "agent: transfer failed"
	if e.Code != 0 {
		s += " with " + strconv.Itoa(e.Code)
	}
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

// Unwrap returns Err.
func (e *TransferError) Unwrap() error { return e.Err }

// Announcer is what a Session may be as well: it can be made to say something that
// does not come from its conversation.
type Announcer interface {
	// Announce says text as soon as the agent does not speak, and returns when it was
	// heard, or with an error when it was cut off or could not be said.
	Announce(ctx context.Context, text string) error
}

// NoControl is a Control that can do nothing, for agents that are run without a
// call, as in tests. Its methods return ErrNotSupported.
type NoControl struct{}

// Transfer implements Control.
func (NoControl) Transfer(context.Context, Transfer) error { return ErrNotSupported }

// SendDigits implements Control.
func (NoControl) SendDigits(context.Context, string) error { return ErrNotSupported }

// Hold implements Control.
func (NoControl) Hold(context.Context) error { return ErrNotSupported }

// Resume implements Control.
func (NoControl) Resume(context.Context) error { return ErrNotSupported }

// Record implements Control.
func (NoControl) Record(bool) error { return ErrNotSupported }

var _ Control = NoControl{}

// ErrForbidden is wrapped by errors of Control when a guardrail refuses: the target
// is not one that agents may call, or too many were called.
var ErrForbidden = errors.New("agent: not allowed")

// ErrNotSupported is returned by Control for what this call cannot do.
var ErrNotSupported = errors.New("agent: not supported on this call")
