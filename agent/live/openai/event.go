package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"parley/agent/live"
)

// event is what the service sends: the members of all events that matter here.
type event struct {
	Type       string          `json:"type"`
	Session    json.RawMessage `json:"session"`
	Response   response        `json:"response"`
	Item       item            `json:"item"`
	ResponseID string          `json:"response_id"`
	ItemID     string          `json:"item_id"`
	CallID     string          `json:"call_id"`
	Name       string          `json:"name"`
	Arguments  string          `json:"arguments"`
	Delta      string          `json:"delta"`
	Transcript string          `json:"transcript"`
	Text       string          `json:"text"`
	Error      failure         `json:"error"`
}

// item is one of the conversation.
type item struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Status    string `json:"status"`
	Name      string `json:"name"`
	CallID    string `json:"call_id"`
	Arguments string `json:"arguments"`
}

// response is a reply.
type response struct {
	ID            string `json:"id"`
	Status        string `json:"status"`
	StatusDetails struct {
		Reason string  `json:"reason"`
		Error  failure `json:"error"`
	} `json:"status_details"`
	Output []item `json:"output"`
	Usage  struct {
		InputTokens  int `json:"input_tokens"`
		OutputTokens int `json:"output_tokens"`
	} `json:"usage"`
}

// failure is an error that the service tells of.
type failure struct {
	Type    string `json:"type"`
	Code    string `json:"code"`
	Message string `json:"message"`
	EventID string `json:"event_id"`
}

// kind is the error of agent/live that f is, nil when none fits.
func (f failure) kind() error {
	switch f.Code {
	case "invalid_api_key", "incorrect_api_key", "account_deactivated", "invalid_organization":
		return live.ErrAuth
	case "rate_limit_exceeded", "server_error", "overloaded", "service_unavailable":
		return live.ErrBusy
	case "session_expired":
		return live.ErrLost
	}
	switch f.Type {
	case "authentication_error", "permission_error":
		return live.ErrAuth
	case "server_error", "rate_limit_error", "rate_limit_exceeded":
		return live.ErrBusy
	}
	return nil
}

// err is f as an error of the kind, if there is one. What is said of a key is left
// out: it often repeats it.
func (f failure) err(kind error, clean func(string) string) error {
	code := f.Code
	if code == "" {
		code = f.Type
	}
	said := clean(code)
	if kind != live.ErrAuth && f.Message != "" {
		said = strings.TrimPrefix(said+": "+clean(f.Message), ": ")
	}
	if kind == nil {
		return fmt.Errorf("openai: the service says: %s", said)
	}
	return fmt.Errorf("openai: %w: %s", kind, said)
}

// names of the beta's events that are called otherwise today.
func today(name string) string {
	switch name {
	case "response.audio.delta":
		return "response.output_audio.delta"
	case "response.audio.done":
		return "response.output_audio.done"
	case "response.audio_transcript.delta":
		return "response.output_audio_transcript.delta"
	case "response.audio_transcript.done":
		return "response.output_audio_transcript.done"
	case "response.text.delta":
		return "response.output_text.delta"
	case "response.text.done":
		return "response.output_text.done"
	}
	return name
}

// known are the events that parse reads whole; the others are passed over, whatever
// they hold.
func known(name string) bool {
	switch name {
	case "error", "session.created", "session.updated",
		"input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped",
		"conversation.item.input_audio_transcription.delta",
		"conversation.item.input_audio_transcription.completed",
		"conversation.item.input_audio_transcription.failed",
		"response.created", "response.done",
		"response.output_item.added", "response.output_item.done",
		"response.output_audio.delta", "response.output_audio.done",
		"response.output_audio_transcript.delta", "response.output_audio_transcript.done",
		"response.output_text.delta", "response.output_text.done",
		"response.function_call_arguments.delta", "response.function_call_arguments.done":
		return true
	}
	return false
}

// parse reads a message of the service. An event of a kind that nobody here knows has
// an empty Type.
func parse(message []byte) (event, error) {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(message, &head); err != nil {
		return event{}, fmt.Errorf("openai: a message that cannot be read: %.80q", message)
	}
	name := today(head.Type)
	if !known(name) {
		return event{}, nil
	}
	var e event
	if err := json.Unmarshal(message, &e); err != nil {
		return event{}, fmt.Errorf("openai: a message %s with members that cannot be read", name)
	}
	e.Type = name
	return e, nil
}
