package call

import (
	"context"
	"errors"
	"time"

	"parley/agent"
	"parley/sip"
)

// Outgoing is a call to be placed.
type Outgoing struct {
	// Trunk is the name of the trunk to go through. Empty: the only one there is.
	Trunk string
	// To is a number, or a sip: or tel: URI.
	To string
	// Targets are several who may take the call, instead of To and Trunk: the first
	// answer has it. Every one must be let pass, and takes a place of its own.
	Targets []Target
	// Parallel calls all Targets at the same time, otherwise one after the other as each
	// fails, until one refuses for all (a 6xx).
	Parallel bool
	// From is the number to show, one of Outbound.CallerIDs; empty: the first. Name
	// is the display name.
	From, Name string
	// Agent is the name of the agent that talks. Empty: the route for To decides.
	Agent string
	// Headers are added to the INVITE: X- headers, User-to-User, Subject and Privacy.
	Headers map[string]string
	// RingTimeout is how long to wait for the answer of each. 0: one minute.
	RingTimeout time.Duration
	// ResourceID identifies the person who is called. Empty: their number in E.164
	// form, of several the first.
	ResourceID string
	// Context is given to the agent.
	Context map[string]string
}

// Target is one of those who may take a call.
type Target struct {
	// To and Trunk are as in Outgoing.
	To, Trunk string
}

// maxTargets bounds those of one call.
const maxTargets = 8

// Dialer places calls. *sip.Server is one.
type Dialer interface {
	DialFirst(ctx context.Context, attempts []sip.Attempt, parallel bool) (d *sip.Dialog, n int, err error)
	Dial(ctx context.Context, t sip.Trunk, o sip.Outgoing, dh sip.DialogHandler) (*sip.Dialog, error)
}

// Errors of Server's methods on one call. Others are those of the agent room:
// ErrForbidden, *TransferError, ErrClosed.
var (
	// ErrNoCall: no call has this id, or no more.
	ErrNoCall = errors.New("call: there is no such call")
	// ErrState: the call is not in a state for that: it is not answered yet, or
	// something of the kind is under way.
	ErrState = errors.New("call: the call is not in a state for that")
	// ErrNotSupported: this call or its agent cannot do that.
	ErrNotSupported = agent.ErrNotSupported
	// ErrDraining: no new calls are placed.
	ErrDraining = errors.New("call: draining, no new calls")
	// ErrLimit: a limit of calls is reached: of the server, of the trunk, of its
	// rate, or of the ports.
	ErrLimit = errors.New("call: a limit of calls is reached")
)

// GuardError is what a guardrail refuses. It is an agent.ErrForbidden.
type GuardError struct {
	// Rule is the guardrail's short, fixed name, such as "international".
	Rule string
	// Text says what would have to be otherwise.
	Text string
}

// Error implements error.
func (e *GuardError) Error() string { return "call: not allowed by rule " + e.Rule + ": " + e.Text }

// Is makes every GuardError an agent.ErrForbidden.
func (e *GuardError) Is(target error) bool { return target == agent.ErrForbidden }
