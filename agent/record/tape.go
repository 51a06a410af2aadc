package record

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"parley/agent"
	"parley/agent/session"
)

// The keys of an event's custom metadata.
const (
	// MetaGenerated is all of a reply of which less was heard.
	MetaGenerated = "generated"
	// MetaPlayed is how much of a reply was played, in milliseconds.
	MetaPlayed = "played_ms"
	// MetaDigits says that a turn was keyed in; MetaSecret that its digits are left out.
	MetaDigits = "digits"
	MetaSecret = "secret"
	// MetaGarbled says that the caller spoke and was not understood, MetaMisheard that
	// the words are too uncertain to be answered.
	MetaGarbled  = "garbled"
	MetaMisheard = "misheard"
	// MetaConfidence is the recogniser's, 0 to 1.
	MetaConfidence = "confidence"
	// MetaSummary is the summary that took the place of earlier turns in the model's
	// context.
	MetaSummary = "summary"
	// MetaEnded is why the conversation ended, MetaSeconds how long it took.
	MetaEnded   = "ended"
	MetaSeconds = "seconds"
)

const (
	// keyGap is how long after the last key a sequence ends, of agents that do not say
	// whose turn it is.
	keyGap = 2 * time.Second
	// maxKeys is the longest such sequence.
	maxKeys = 64
	// maxFaults is how many failures of one call are recorded.
	maxFaults = 50
	// maxTools is how many tool calls may be without an answer and still be told apart.
	maxTools = 256
	// endPatience is how long the end waits for a store that has yet to tell what is
	// known of the user.
	endPatience = time.Second
)

// tape writes the record of one call. It never waits for the store but at the end, and
// then only when the store has not answered since the call began.
type tape struct {
	o       *opener
	call    agent.Call
	rec     *session.Recording
	app     string
	user    string // among those of the opener
	known   bool   // the caller is somebody
	began   time.Time
	forward func(agent.Event)

	sounds atomic.Int64 // where on the timeline speech began last, nanoseconds

	mu      sync.Mutex
	delta   map[string]any // state that waits for the next event
	size    int            // of delta, roughly, in bytes
	refused bool           // a value was not kept, and that was logged
	turn    int
	from    time.Duration     // where on the timeline the reply under way began
	stopped time.Duration     // where the last reply ended
	sounded bool              // the reply under way has begun
	turns   bool              // the agent says when turns begin
	keys    string            // keyed in, of an agent that does not
	keyed   time.Time         // when the last of them was
	tools   map[string]string // names of tools that were called, by the calls' ids
	faults  int
	ended   bool
}

// emit passes an event on and records what belongs into the record.
func (t *tape) emit(e agent.Event) {
	if e.At.IsZero() {
		e.At = t.o.cfg.Now()
	}
	t.forward(e)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	if t.keys != "" && e.At.Sub(t.keyed) >= keyGap {
		t.digits()
	}
	switch e.Type {
	case agent.EventDigit:
		t.digit(e)
	case agent.EventUserStarted:
		t.turns, t.keys = true, ""
	case agent.EventUserStopped:
		t.userStopped(e)
	case agent.EventAgentStarted:
		t.sounded, t.from = true, max(t.stopped, e.Position)
		if e.Position == 0 { // it does not say, or it is the first
			t.from = max(t.stopped, time.Duration(t.sounds.Load()))
		}
	case agent.EventAgentStopped:
		t.agentStopped(e)
	case agent.EventToolCall:
		if e.ID != "" && len(t.tools) < maxTools {
			t.tools[e.ID] = e.Reason
		}
		ev := t.event(t.app, e.At)
		ev.Content = &session.Content{Role: "model", Parts: []*session.Part{
			{FunctionCall: &session.FunctionCall{ID: e.ID, Name: e.Reason, Args: object(e.Text)}},
		}}
		t.append(ev)
	case agent.EventToolResult:
		name := cmp.Or(e.Reason, t.tools[e.ID])
		delete(t.tools, e.ID)
		ev := t.event(t.app, e.At)
		ev.Content = &session.Content{Role: "user", Parts: []*session.Part{
			{FunctionResponse: &session.FunctionResponse{ID: e.ID, Name: name, Response: object(e.Text)}},
		}}
		t.append(ev)
	case agent.EventSummary:
		if e.Reason != "" && e.Reason != "applied" {
			return
		}
		ev := t.event(t.app, e.At)
		ev.CustomMetadata = map[string]any{MetaSummary: e.Text}
		t.append(ev)
	case agent.EventError:
		if t.faults++; t.faults <= maxFaults {
			ev := t.event(t.app, e.At)
			ev.ErrorCode, ev.ErrorMessage = "failed", e.Reason
			t.append(ev)
		}
	}
}

// userStopped records what the caller said, or keyed in. A noise is no turn.
func (t *tape) userStopped(e agent.Event) {
	if e.Reason == "noise" || e.Text == "" && e.Reason != "garbled" && e.Reason != "digits" {
		return
	}
	t.turn++
	ev := t.event("user", e.At)
	meta := map[string]any{}
	switch e.Reason {
	case "garbled":
		meta[MetaGarbled] = true
	case "misheard":
		meta[MetaMisheard] = true
	case "digits":
		meta[MetaDigits] = true
		if e.Text == "" {
			meta[MetaSecret] = true
		}
	}
	if e.Confidence > 0 {
		meta[MetaConfidence] = e.Confidence
	}
	if len(meta) > 0 {
		ev.CustomMetadata = meta
	}
	if e.Text != "" {
		ev.Content = session.NewText("user", e.Text)
	}
	t.append(ev)
}

// digit gathers keys of agents that do not say when turns begin and end, such as one
// that takes the sound itself. A pound sign, or a pause, ends a sequence.
func (t *tape) digit(e agent.Event) {
	if t.turns || e.Text == "" {
		return
	}
	t.keys, t.keyed = t.keys+e.Text, e.At
	if e.Text == "#" || len(t.keys) >= maxKeys {
		t.digits()
	}
}

// digits records the keys that were gathered.
func (t *tape) digits() {
	t.turn++
	ev := t.event("user", t.keyed)
	ev.Content, ev.CustomMetadata = session.NewText("user", t.keys), map[string]any{MetaDigits: true}
	t.keys = ""
	t.append(ev)
}

// agentStopped records what the caller heard of a reply.
func (t *tape) agentStopped(e agent.Event) {
	ev := t.event(t.app, e.At)
	ev.Interrupted, ev.TurnComplete = e.Interrupted, true
	heard, meta := strings.TrimSpace(e.Heard), map[string]any{}
	if heard != "" {
		ev.Content = session.NewText("model", heard)
	}
	if all := strings.TrimSpace(e.Text); all != heard {
		meta[MetaGenerated] = all
	}
	played := time.Duration(0)
	if t.sounded {
		played = max(0, e.Position-t.from)
	}
	meta[MetaPlayed] = played.Milliseconds()
	ev.CustomMetadata = meta
	t.sounded, t.stopped = false, max(t.stopped, e.Position)
	t.append(ev)
}

// object is a JSON text as an object; what is none becomes the value of "result".
func object(text string) map[string]any {
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber() // large ones stay what they are
	if err := d.Decode(&v); err != nil || d.More() {
		v = text
	}
	switch v := v.(type) {
	case nil:
		return nil
	case map[string]any:
		return v
	}
	return map[string]any{"result": v}
}

// event begins an event of the turn under way. The caller holds mu.
func (t *tape) event(author string, at time.Time) *session.Event {
	ev := session.NewEvent(context.Background(), fmt.Sprintf("turn-%d", t.turn))
	ev.Author, ev.Timestamp = author, at
	return ev
}

// append gives an event, with the state that waited for one, to the recorder, which
// counts and logs what it cannot take. The caller holds mu.
func (t *tape) append(ev *session.Event) {
	for key, value := range t.delta {
		ev.Actions.StateDelta[key] = value
	}
	if err := t.rec.Append(ev); errors.Is(err, session.ErrQueueFull) {
		return // counted there; the state may yet come with a later event
	}
	t.delta, t.size = map[string]any{}, 0
}

// end ends the record, once. counts says that there was a conversation.
func (t *tape) end(cause string, counts bool) {
	if counts && t.known && !t.rec.Loaded() {
		// What is known of the user is not: a count that began anew would replace it.
		ctx, cancel := context.WithTimeout(context.Background(), endPatience)
		_ = t.rec.Flush(ctx) // Loaded tells
		cancel()
	}
	t.mu.Lock()
	if t.ended {
		t.mu.Unlock()
		return
	}
	if t.keys != "" {
		t.digits()
	}
	now := t.o.cfg.Now()
	ev := t.event(t.app, now)
	ev.CustomMetadata = map[string]any{MetaEnded: cause, MetaSeconds: now.Sub(t.began).Round(time.Millisecond).Seconds()}
	if counts && t.known {
		t.delta[KeyLastCall] = t.began.UTC().Format(time.RFC3339)
		if t.rec.Loaded() {
			t.delta[KeyCalls] = t.calls() + 1
		} else {
			t.o.cfg.Log.Warn("a call is not counted: the store did not answer while it lasted", zap.String("session_id", t.call.SessionID))
		}
	}
	t.append(ev)
	t.ended = true
	t.mu.Unlock()
	over, cancel := context.WithCancel(context.Background())
	cancel() // the recorder writes on; nobody waits
	if t.rec.Close(over) != nil {
		t.o.leaves(t.user, t.rec)
	}
}

// calls is how many there were before.
func (t *tape) calls() float64 {
	v, err := t.rec.Session().State().Get(KeyCalls)
	if err != nil {
		return 0
	}
	n, _ := v.(float64)
	return max(n, 0)
}
