package session

import "encoding/json"

// LLMResponse is the part of an event that a model, or the user, gave. What else a
// model's answer carries (usage, grounding, log probabilities) is kept as it is in the
// event's Other.
type LLMResponse struct {
	// Content is what was said, or which function was called.
	Content *Content `json:"content,omitempty"`
	// ModelVersion is the model that answered.
	ModelVersion string `json:"modelVersion,omitempty"`
	// CustomMetadata labels the event. A call keeps here what it generated but did not
	// say.
	CustomMetadata map[string]any `json:"customMetadata,omitempty"`
	// Partial says that more of the same text follows. Partial events are not stored.
	Partial bool `json:"partial,omitempty"`
	// TurnComplete says that the model's turn is over.
	TurnComplete bool `json:"turnComplete,omitempty"`
	// Interrupted says that the user cut the reply off: Content is what was heard.
	Interrupted bool `json:"interrupted,omitempty"`
	// ErrorCode is set when the model failed.
	ErrorCode string `json:"errorCode,omitempty"`
	// ErrorMessage says how.
	ErrorMessage string `json:"errorMessage,omitempty"`
	// FinishReason is why the model stopped, as it says.
	FinishReason string `json:"finishReason,omitempty"`
	// InputTranscription is what a recogniser heard of the user.
	InputTranscription *Transcription `json:"inputTranscription,omitempty"`
	// OutputTranscription is what the model's voice said.
	OutputTranscription *Transcription `json:"outputTranscription,omitempty"`
}

// Content is one message.
type Content struct {
	// Parts are its pieces, in order.
	Parts []*Part `json:"parts,omitempty"`
	// Role is "user" or "model".
	Role string `json:"role,omitempty"`

	// Other are fields of the JSON that have no name here; they are kept.
	Other map[string]json.RawMessage `json:"-"`
}

// NewText returns a message of one piece of text.
func NewText(role, text string) *Content {
	return &Content{Role: role, Parts: []*Part{{Text: text}}}
}

// MarshalJSON implements json.Marshaler.
func (c Content) MarshalJSON() ([]byte, error) {
	type plain Content
	return encode(plain(c), c.Other)
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Content) UnmarshalJSON(data []byte) (err error) {
	type plain Content
	*c = Content{}
	c.Other, err = decode(data, (*plain)(c))
	return err
}

// Part is one piece of a message. Pieces of other kinds (files, code) are kept in
// Other.
type Part struct {
	// Text is what was said.
	Text string `json:"text,omitempty"`
	// Thought says that Text is the model's thinking, not to be said.
	Thought bool `json:"thought,omitempty"`
	// FunctionCall asks for a function to be called.
	FunctionCall *FunctionCall `json:"functionCall,omitempty"`
	// FunctionResponse is what a function answered.
	FunctionResponse *FunctionResponse `json:"functionResponse,omitempty"`

	// Other are fields of the JSON that have no name here; they are kept.
	Other map[string]json.RawMessage `json:"-"`
}

// MarshalJSON implements json.Marshaler.
func (p Part) MarshalJSON() ([]byte, error) {
	type plain Part
	return encode(plain(p), p.Other)
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Part) UnmarshalJSON(data []byte) (err error) {
	type plain Part
	*p = Part{}
	p.Other, err = decode(data, (*plain)(p))
	return err
}

// FunctionCall is a call that a model wants made.
type FunctionCall struct {
	// ID joins the response to the call.
	ID string `json:"id,omitempty"`
	// Name is the function's name.
	Name string `json:"name,omitempty"`
	// Args are its arguments.
	Args map[string]any `json:"args,omitempty"`

	// Other are fields of the JSON that have no name here; they are kept.
	Other map[string]json.RawMessage `json:"-"`
}

// MarshalJSON implements json.Marshaler.
func (f FunctionCall) MarshalJSON() ([]byte, error) {
	type plain FunctionCall
	return encode(plain(f), f.Other)
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *FunctionCall) UnmarshalJSON(data []byte) (err error) {
	type plain FunctionCall
	*f = FunctionCall{}
	f.Other, err = decode(data, (*plain)(f))
	f.Args = settleMap(f.Args)
	return err
}

// FunctionResponse is what a function answered.
type FunctionResponse struct {
	// ID is that of the call.
	ID string `json:"id,omitempty"`
	// Name is the function's name.
	Name string `json:"name,omitempty"`
	// Response is the answer.
	Response map[string]any `json:"response,omitempty"`

	// Other are fields of the JSON that have no name here; they are kept.
	Other map[string]json.RawMessage `json:"-"`
}

// MarshalJSON implements json.Marshaler.
func (f FunctionResponse) MarshalJSON() ([]byte, error) {
	type plain FunctionResponse
	return encode(plain(f), f.Other)
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *FunctionResponse) UnmarshalJSON(data []byte) (err error) {
	type plain FunctionResponse
	*f = FunctionResponse{}
	f.Other, err = decode(data, (*plain)(f))
	f.Response = settleMap(f.Response)
	return err
}

// Transcription is speech as text.
type Transcription struct {
	// Text is what was said.
	Text string `json:"text,omitempty"`
	// Finished says that Text will not change any more.
	Finished bool `json:"finished,omitempty"`

	// Other are fields of the JSON that have no name here; they are kept.
	Other map[string]json.RawMessage `json:"-"`
}

// MarshalJSON implements json.Marshaler.
func (t Transcription) MarshalJSON() ([]byte, error) {
	type plain Transcription
	return encode(plain(t), t.Other)
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Transcription) UnmarshalJSON(data []byte) (err error) {
	type plain Transcription
	*t = Transcription{}
	t.Other, err = decode(data, (*plain)(t))
	return err
}
