package stream

import (
	"encoding/json"
	"time"

	"parley/agent"
)

// The messages to the agent, as dialect PCM writes them (docs/stream.schema.json).
// Dialect Twilio has some of them in its own words and leaves the others out.
type (
	// opening tells what is known of the call: "hello", or "resume" after a connection
	// broke, then with how far the conversation had come.
	opening struct {
		Type      string            `json:"type"`
		Version   int               `json:"version"`
		Session   string            `json:"session"`
		CallID    string            `json:"call_id"`
		Direction string            `json:"direction"`
		Encoding  string            `json:"encoding"`
		Rate      int               `json:"rate"`
		Caller    caller            `json:"caller"`
		Called    string            `json:"called,omitempty"`
		Original  string            `json:"original,omitempty"`
		Trunk     string            `json:"trunk,omitempty"`
		Agent     string            `json:"agent,omitempty"`
		Headers   map[string]string `json:"headers,omitempty"`
		Context   map[string]string `json:"context,omitempty"`
		Memory    map[string]any    `json:"memory,omitempty"`
		*progress
	}
	caller struct {
		ResourceID string `json:"resource_id,omitempty"`
		Number     string `json:"number,omitempty"`
		Name       string `json:"name,omitempty"`
		Verified   bool   `json:"verified"`
	}
	// progress is how far a conversation has come.
	progress struct {
		HeardMS  int64    `json:"heard_ms"`
		PlayedMS int64    `json:"played_ms"`
		QueuedMS int64    `json:"queued_ms"`
		Marks    []string `json:"marks"`
	}
	started struct {
		Type string `json:"type"` // start
	}
	voiceEdge struct {
		Type    string `json:"type"`  // voice
		State   string `json:"state"` // on, confirmed, off
		HeardMS int64  `json:"heard_ms"`
	}
	digitPressed struct {
		Type    string `json:"type"` // digit
		Digit   string `json:"digit"`
		HeardMS int64  `json:"heard_ms"`
	}
	heldEdge struct {
		Type string `json:"type"` // hold
		On   bool   `json:"on"`
	}
	speechEdge struct {
		Type     string `json:"type"`  // speech
		State    string `json:"state"` // started, ended
		PlayedMS int64  `json:"played_ms"`
	}
	markReached struct {
		Type     string `json:"type"` // mark
		Name     string `json:"name"`
		PlayedMS int64  `json:"played_ms"`
		Cleared  bool   `json:"cleared"`
	}
	clearDone struct {
		Type      string `json:"type"` // cleared
		PlayedMS  int64  `json:"played_ms"`
		DroppedMS int64  `json:"dropped_ms"`
	}
	gapHeard struct {
		Type    string `json:"type"` // gap
		HeardMS int64  `json:"heard_ms"`
		LostMS  int64  `json:"lost_ms"`
	}
	// result answers transfer, dtmf and hold.
	result struct {
		Type   string `json:"type"` // result
		Action string `json:"action"`
		ID     string `json:"id,omitempty"`
		OK     bool   `json:"ok"`
		Code   int    `json:"code,omitempty"`
		Reason string `json:"reason,omitempty"`
	}
	statistics struct {
		Type       string `json:"type"` // statistics
		HeardMS    int64  `json:"heard_ms"`
		DroppedMS  int64  `json:"dropped_ms"`
		QueuedMS   int64  `json:"queued_ms"`
		PlayedMS   int64  `json:"played_ms"`
		Marks      int    `json:"marks"`
		Warnings   uint64 `json:"warnings"`
		Reconnects int    `json:"reconnects"`
	}
	// mistake says what is wrong with a message of the agent's.
	mistake struct {
		Type    string `json:"type"` // error
		Field   string `json:"field"`
		Message string `json:"message"`
	}
	stopped struct {
		Type     string `json:"type"` // stop
		Cause    string `json:"cause"`
		HeardMS  int64  `json:"heard_ms"`
		PlayedMS int64  `json:"played_ms"`
	}
)

// The bounds of what an opening tells of memory.
const (
	maxMemoryKeys  = 256
	maxMemoryBytes = 64 << 10
)

// newOpening tells of a call.
func newOpening(c agent.Call, rate int) opening {
	o := opening{
		Type: "hello", Version: 1, Session: c.SessionID, CallID: c.ID, Direction: c.Direction,
		Encoding: "s16le", Rate: rate,
		Caller: caller{c.Caller.ResourceID, c.Caller.Number, c.Caller.Name, c.Caller.Verified},
		Called: c.Called, Original: c.Original, Trunk: c.Trunk, Agent: c.Agent,
		Headers: c.Headers, Context: c.Context,
	}
	if c.Memory == nil {
		return o
	}
	room := maxMemoryBytes
	for _, key := range c.Memory.Keys("") {
		value, ok := c.Memory.Get(key)
		if !ok {
			continue
		}
		text, err := json.Marshal(value)
		if room -= len(key) + len(text); err != nil || room < 0 || len(o.Memory) == maxMemoryKeys {
			break
		}
		if o.Memory == nil {
			o.Memory = map[string]any{}
		}
		o.Memory[key] = json.RawMessage(text)
	}
	return o
}

// milliseconds is how long n samples last, rounded down.
func milliseconds(n int64, rate int) int64 { return n * 1000 / int64(rate) }

// samples is how many samples d is, to the nearest: durations are rounded themselves.
func samples(d time.Duration, rate int) int64 {
	return (int64(d)*int64(rate) + int64(time.Second)/2) / int64(time.Second)
}
