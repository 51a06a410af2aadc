package call

import (
	"time"

	"parley/identity"
)

// The states of a call.
const (
	// StateDialling: an outbound call without a sign of the callee.
	StateDialling = "dialling"
	// StateRinging: it rings there, or, of an inbound call, the agent gets ready.
	StateRinging  = "ringing"
	StateAnswered = "answered"
	// StateHeld: one side has put the other on hold.
	StateHeld   = "held"
	StateEnding = "ending"
	// StateEnded: the call is over; it is shown for a short time.
	StateEnded = "ended"
)

// Status is what a call is at the moment.
type Status struct {
	ID        string `json:"id"`
	SessionID string `json:"session_id"`
	SIPCallID string `json:"sip_call_id,omitempty"`
	// Direction is "inbound" or "outbound", State one of the State constants.
	Direction string `json:"direction"`
	State     string `json:"state"`
	Trunk     string `json:"trunk,omitempty"`
	// Caller is the calling party's number and Called who was dialled. ResourceID is
	// the person at the other end, the callee of an outbound call.
	Caller     string `json:"caller,omitempty"`
	CallerName string `json:"caller_name,omitempty"`
	Called     string `json:"called"`
	ResourceID string `json:"resource_id,omitempty"`
	Route      string `json:"route,omitempty"`
	Agent      string `json:"agent,omitempty"`
	Codec      string `json:"codec,omitempty"`
	Recording  bool   `json:"recording,omitempty"`
	// Began is when the call came or was placed. Answered and Ended are nil before.
	Began    time.Time  `json:"began"`
	Answered *time.Time `json:"answered,omitempty"`
	Ended    *time.Time `json:"ended,omitempty"`
	// Cause is why it ended; Code, Reason and Q850 are what the other side said when
	// it did not answer.
	Cause  string `json:"cause,omitempty"`
	Code   int    `json:"code,omitempty"`
	Reason string `json:"reason,omitempty"`
	Q850   int    `json:"q850,omitempty"`
	// Attempts are those who did not take an outbound call that several could, so far.
	Attempts []Attempt `json:"attempts,omitempty"`
	// Stats are those that can be read while the call is up; all of them at its end.
	Stats Stats `json:"stats"`
}

// show changes what Status says of the call.
func (c *Call) show(change func(*Status)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.view)
}

// enter notes the state that the call is in.
func (c *Call) enter(state string) { c.show(func(s *Status) { s.State = state }) }

// known notes who calls whom, and who takes the call.
func (c *Call) known() {
	c.show(func(s *Status) {
		s.Trunk, s.Called, s.ResourceID = c.trunk.name(), c.called, c.caller.ResourceID
		s.Route, s.Agent = c.routed.Route, c.routed.Agent
		if s.Caller = c.from; c.direction == inbound {
			s.Caller, s.CallerName = c.caller.Number, c.caller.Name
		}
	})
}

// source is where the call's signalling comes from.
func (c *Call) source() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peer
}

// calledText is who was called, for logs: of an outbound call that is a person.
func (c *Call) calledText() string {
	if c.direction == outbound {
		return identity.Mask(c.called)
	}
	return c.called
}
