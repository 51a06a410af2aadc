package call

import "time"

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
