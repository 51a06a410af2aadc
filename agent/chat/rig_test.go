package chat

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorded is a Pair whose events are written down as lines.
type recorded struct {
	*Pair
	lines []string
}

func newRecorded(cfg PairConfig) *recorded {
	r := &recorded{}
	cfg.Events = r.events()
	if cfg.Now == nil {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		cfg.Now = func() time.Time { now = now.Add(time.Second); return now }
	}
	r.Pair = NewPair(cfg)
	return r
}

func (r *recorded) note(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// events writes each event down; every handler asks the Pair, which would stand still
// if a handler ran under its lock.
func (r *recorded) events() Events {
	probe := func() {
		if r.Pair != nil {
			r.Pair.RunDue()
			r.Pair.User().Draft()
		}
	}
	return Events{
		UserTurnStarted:            func(e UserTurnStarted) { probe(); r.note("user started by %s", e.Strategy) },
		UserTurnInferenceTriggered: func(e UserTurnInferenceTriggered) { probe(); r.note("inference by %s", e.Strategy) },
		UserTurnStopped: func(e UserTurnStopped) {
			probe()
			r.note("user stopped by %q: %q %s %v", e.Strategy, e.Content, e.UserID, !e.At.IsZero())
		},
		UserTurnStopTimeout:  func() { probe(); r.note("timeout") },
		UserTurnIdle:         func() { probe(); r.note("idle") },
		UserTurnMessageAdded: func(e UserTurnMessageAdded) { probe(); r.note("message added: %q %s", e.Content, e.UserID) },
		UserMuteStarted:      func() { probe(); r.note("muted") },
		UserMuteStopped:      func() { probe(); r.note("unmuted") },
		AssistantTurnStarted: func(e AssistantTurnStarted) { probe(); r.note("assistant started %v", !e.At.IsZero()) },
		AssistantTurnStopped: func(e AssistantTurnStopped) {
			probe()
			r.note("assistant stopped: %q interrupted=%v", e.Content, e.Interrupted)
		},
		AssistantThought: func(e AssistantThought) { probe(); r.note("thought: %q", e.Content) },
		Completion:       func(e Completion) { probe(); r.note("completion: %q %v", e.Text, e.Completed) },
	}
}

// saw compares the events so far, and forgets them.
func (r *recorded) saw(t *testing.T, want ...string) {
	t.Helper()
	if got := strings.Join(r.lines, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("events:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
	r.lines = nil
}

// told is a conversation as lines: "user: hello", "assistant: Hi. [cut]".
func told(messages []Message) string {
	var lines []string
	for _, m := range messages {
		line := string(m.Role) + ": " + m.Content
		for _, c := range m.ToolCalls {
			line += fmt.Sprintf(" <%s %s>", c.ID, c.Name)
		}
		if m.Role == RoleTool {
			line = fmt.Sprintf("tool %s: %s", m.ToolCallID, m.Content)
		}
		if m.Interrupted {
			line += " [cut]"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// holds compares the conversation.
func (r *recorded) holds(t *testing.T, want ...string) {
	t.Helper()
	s := r.Context().Snapshot()
	if err := Valid(s.Messages); err != nil {
		t.Error(err)
	}
	if got := told(s.Messages); got != strings.Join(want, "\n") {
		t.Errorf("conversation:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}

func final(text string) Transcript { return Transcript{Text: text, Final: true} }

func call(id, name string) ToolCall { return ToolCall{ID: id, Name: name} }
