package session

import (
	"context"
	"encoding/json"
	"time"
)

// Event is one thing that was said or done in a conversation.
type Event struct {
	LLMResponse

	// ID is made up by the store when empty.
	ID string `json:"id"`
	// Timestamp is set by the store when zero.
	Timestamp time.Time `json:"timestamp"`
	// InvocationID groups the events of one turn: from what the user said to the end
	// of the reply.
	InvocationID string `json:"invocationId"`
	// Branch is the path of agents that the event belongs to, as "a.b.c".
	Branch string `json:"branch,omitempty"`
	// IsolationScope restricts who sees the event in a prompt, by equality.
	IsolationScope string `json:"isolationScope,omitempty"`
	// Author is "user" or the name of an agent.
	Author string `json:"author"`
	// Actions is what the event does besides being said.
	Actions EventActions `json:"actions"`
	// LongRunningToolIDs are the ids of function calls that go on after the event.
	LongRunningToolIDs []string `json:"longRunningToolIds,omitempty"`
	// Routes are where a workflow goes on.
	Routes []string `json:"routes,omitempty"`
	// RequestedInput asks a human for input.
	RequestedInput *RequestInput `json:"requestedInput,omitempty"`
	// Output is the output of a workflow's node.
	Output any `json:"output,omitempty"`
	// NodeInfo says which node of a workflow the event is from.
	NodeInfo *NodeInfo `json:"nodeInfo,omitempty"`

	// Other are fields of the JSON that have no name here; they are kept.
	Other map[string]json.RawMessage `json:"-"`
}

// NewEvent returns an event of now with an id, ready to be filled in: its delta maps
// are not nil. Clock and ids can be given by ctx, see WithTimeProvider and
// WithUUIDProvider.
func NewEvent(ctx context.Context, invocationID string) *Event {
	return &Event{
		ID:           newID(ctx, nil),
		Timestamp:    now(ctx, nil),
		InvocationID: invocationID,
		Actions:      EventActions{StateDelta: map[string]any{}, ArtifactDelta: map[string]int64{}},
	}
}

// IsFinalResponse says whether the event ends its author's reply: it calls no function
// and answers none, is not partial and does not end with the result of executed code;
// or it says itself that nothing follows, by SkipSummarization or a long-running tool.
func (e *Event) IsFinalResponse() bool {
	if e.Actions.SkipSummarization || len(e.LongRunningToolIDs) > 0 {
		return true
	}
	if e.Partial {
		return false
	}
	if e.Content == nil || len(e.Content.Parts) == 0 {
		return true
	}
	for _, p := range e.Content.Parts {
		if p != nil && (p.FunctionCall != nil || p.FunctionResponse != nil) {
			return false
		}
	}
	last := e.Content.Parts[len(e.Content.Parts)-1]
	return last == nil || last.Other["codeExecutionResult"] == nil
}

// MarshalJSON writes the event with its timestamp in RFC 3339. It fails for a timestamp
// outside the years 0 to 9999.
func (e Event) MarshalJSON() ([]byte, error) {
	type plain Event
	return encode(plain(e), e.Other)
}

// EpochJSON writes the event as ADK for Python does, whose model accepts a timestamp
// only as a number of seconds since 1970, here to the microsecond.
func (e Event) EpochJSON() ([]byte, error) {
	type plain Event
	seconds, err := epoch(e.Timestamp)
	if err != nil {
		return nil, err
	}
	return encode(struct {
		plain
		Timestamp json.RawMessage `json:"timestamp"`
	}{plain(e), seconds}, e.Other)
}

// UnmarshalJSON reads an event. The timestamp may be RFC 3339, or a number of seconds
// since 1970, which is rounded to microseconds. Null is as good as absent everywhere.
func (e *Event) UnmarshalJSON(data []byte) error {
	type plain Event
	*e = Event{}
	in := struct {
		*plain
		Timestamp json.RawMessage `json:"timestamp"`
	}{plain: (*plain)(e)}
	other, err := decode(data, &in)
	if err != nil {
		return err
	}
	if e.Timestamp, err = parseTimestamp(in.Timestamp); err != nil {
		return err
	}
	e.Other, e.Output, e.CustomMetadata = other, settle(e.Output), settleMap(e.CustomMetadata)
	return nil
}

// EventActions is what an event does.
type EventActions struct {
	// StateDelta are changed state keys; nil values delete.
	StateDelta map[string]any `json:"stateDelta"`
	// ArtifactDelta are new versions of artifacts by file name.
	ArtifactDelta map[string]int64 `json:"artifactDelta"`
	// RequestedToolConfirmations are tool calls that wait for a yes, by call id.
	RequestedToolConfirmations map[string]ToolConfirmation `json:"requestedToolConfirmations,omitempty"`
	// SkipSummarization keeps the model from commenting on a function's response.
	SkipSummarization bool `json:"skipSummarization,omitempty"`
	// TransferToAgent hands the conversation to another agent.
	TransferToAgent string `json:"transferToAgent,omitempty"`
	// Escalate hands the conversation to the agent above.
	Escalate bool `json:"escalate,omitempty"`

	// Other are fields of the JSON that have no name here; they are kept.
	Other map[string]json.RawMessage `json:"-"`
}

// MarshalJSON leaves out delta maps that are nil and writes {} for empty ones: Python
// refuses null there, and whoever writes into the map needs one that is not nil.
func (a EventActions) MarshalJSON() ([]byte, error) {
	type plain EventActions
	out := struct {
		plain
		StateDelta    *map[string]any   `json:"stateDelta,omitempty"`
		ArtifactDelta *map[string]int64 `json:"artifactDelta,omitempty"`
	}{plain: plain(a)}
	if a.StateDelta != nil {
		out.StateDelta = &a.StateDelta
	}
	if a.ArtifactDelta != nil {
		out.ArtifactDelta = &a.ArtifactDelta
	}
	return encode(out, a.Other)
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *EventActions) UnmarshalJSON(data []byte) (err error) {
	type plain EventActions
	*a = EventActions{}
	a.Other, err = decode(data, (*plain)(a))
	a.StateDelta = settleMap(a.StateDelta)
	return err
}

// ToolConfirmation asks whether a tool may be called, and holds the answer.
type ToolConfirmation struct {
	// Hint is what to show to whoever decides.
	Hint string `json:"hint"`
	// Confirmed is the decision.
	Confirmed bool `json:"confirmed"`
	// Payload is data that goes with the decision.
	Payload any `json:"payload,omitempty"`

	// Other are fields of the JSON that have no name here; they are kept.
	Other map[string]json.RawMessage `json:"-"`
}

// MarshalJSON implements json.Marshaler.
func (c ToolConfirmation) MarshalJSON() ([]byte, error) {
	type plain ToolConfirmation
	return encode(plain(c), c.Other)
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *ToolConfirmation) UnmarshalJSON(data []byte) (err error) {
	type plain ToolConfirmation
	*c = ToolConfirmation{}
	c.Other, err = decode(data, (*plain)(c))
	c.Payload = settle(c.Payload)
	return err
}

// RequestInput asks a human for input in the midst of a workflow.
type RequestInput struct {
	// InterruptID joins the answer to the question; unique for each.
	InterruptID string `json:"interruptId"`
	// Message is the question.
	Message string `json:"message,omitempty"`
	// ResponseSchema is the JSON schema of the answer.
	ResponseSchema json.RawMessage `json:"responseSchema,omitempty"`
	// Payload is what to show with the question.
	Payload any `json:"payload,omitempty"`

	// Other are fields of the JSON that have no name here; they are kept.
	Other map[string]json.RawMessage `json:"-"`
}

// MarshalJSON implements json.Marshaler.
func (r RequestInput) MarshalJSON() ([]byte, error) {
	type plain RequestInput
	return encode(plain(r), r.Other)
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *RequestInput) UnmarshalJSON(data []byte) (err error) {
	type plain RequestInput
	*r = RequestInput{}
	r.Other, err = decode(data, (*plain)(r))
	r.Payload = settle(r.Payload)
	if string(r.ResponseSchema) == "null" {
		r.ResponseSchema = nil
	}
	return err
}

// NodeInfo says which node of a workflow an event is from.
type NodeInfo struct {
	// Path is the node's place in its workflow.
	Path string `json:"path,omitempty"`
	// MessageAsOutput says that the event's text is the node's output.
	MessageAsOutput bool `json:"messageAsOutput,omitempty"`
	// OutputFor are the nodes that the output counts for.
	OutputFor []string `json:"outputFor,omitempty"`

	// Other are fields of the JSON that have no name here; they are kept.
	Other map[string]json.RawMessage `json:"-"`
}

// MarshalJSON implements json.Marshaler.
func (n NodeInfo) MarshalJSON() ([]byte, error) {
	type plain NodeInfo
	return encode(plain(n), n.Other)
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *NodeInfo) UnmarshalJSON(data []byte) (err error) {
	type plain NodeInfo
	*n = NodeInfo{}
	n.Other, err = decode(data, (*plain)(n))
	return err
}
