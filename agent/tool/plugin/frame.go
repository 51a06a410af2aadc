package plugin

import (
	"encoding/json"
	"errors"
	"slices"

	"parley/agent/tool"
)

// maxLine is the most bytes of one line from a plugin.
const maxLine = 1 << 20

// frame is one JSON-RPC 2.0 message, either way.
type frame struct {
	JSONRPC string          `json:"jsonrpc"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	ID      json.RawMessage `json:"id,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`

	// Beside params, so that a plugin of version 1 sees nothing but its arguments there.
	Tool    string `json:"tool,omitempty"`
	Session string `json:"session_id,omitempty"`
}

// received is a frame as it came: what it is about is read later.
type received struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

// rpcError is the error of a frame.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Error implements error with the plugin's own words, cleaned: a model may hear them.
func (e *rpcError) Error() string {
	if text := tool.CleanText(e.Message, 300); text != "" {
		return text
	}
	return "the plugin failed"
}

var errNoFrame = errors.New("no JSON-RPC message")

// parseFrame reads one line.
func parseFrame(line []byte) (received, error) {
	var r received
	if err := json.Unmarshal(line, &r); err != nil {
		return r, errNoFrame
	}
	if string(r.ID) == "null" {
		r.ID = nil
	}
	// An answer of null is one: RawMessage keeps it.
	if r.Method == "" && r.Result == nil && r.Error == nil {
		return r, errNoFrame
	}
	return r, nil
}

// outcome is what an execute answered.
type outcome struct {
	result map[string]any
	emit   []Emission
}

// Emission is what a plugin wants known elsewhere.
type Emission struct {
	Topic   string          `json:"topic"`
	Payload json.RawMessage `json:"payload"`
	Session string          `json:"session_id"`
}

// readOutcome turns an execute's result into a tool's: text under "result", objects as
// they are, everything else under "result" as JSON.
func readOutcome(raw json.RawMessage) (outcome, error) {
	// As the value of a member, whatever it is, so that large numbers stay what they are.
	whole, err := tool.Object(slices.Concat([]byte(`{"result":`), raw, []byte("}")))
	if err != nil || !json.Valid(raw) {
		return outcome{}, errNoFrame
	}
	switch v := whole["result"].(type) {
	case nil:
		return outcome{result: map[string]any{}}, nil
	case map[string]any:
		_, speaks := v["speak"].(string)
		_, emits := v["emit"].([]any)
		if !speaks && !emits {
			return outcome{result: v}, nil
		}
		var o struct {
			Emit []Emission `json:"emit"`
		}
		if err := json.Unmarshal(raw, &o); err != nil {
			return outcome{}, errors.New("the plugin's answer has a bad emit")
		}
		delete(v, "emit")
		return outcome{v, o.Emit}, nil
	default:
		return outcome{result: whole}, nil
	}
}
