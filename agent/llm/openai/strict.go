package openai

import (
	"errors"
	"net/http"
	"strings"

	"parley/agent/chat"
	"parley/agent/internal/wire"
)

// shape is how the messages of a request are put. Many models that one runs oneself come
// with a chat template that takes no other order than its own.
type shape int32

const (
	// asTheyAre: notices of the gateway stand where they belong, by Config.DeveloperRole.
	asTheyAre shape = iota
	// merged: one system message at the beginning, then caller and model by turns; notices
	// are part of the message beside them.
	merged
	// folded: like merged, with the instructions in the caller's first message.
	folded
)

// roleMerge is the Config.DeveloperRole that begins with merged.
const roleMerge = "merge"

// What stands where a template wants a turn that there was not.
const (
	nothingYet  = "(The call begins.)"
	nothingMore = "(The caller says nothing.)"
	noAnswer    = "…"
)

// refusesRoles says whether a service refuses a request for the order or the roles of its
// messages.
func refusesRoles(err error) bool {
	var e *wire.StatusError
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusInternalServerError:
	default:
		return false
	}
	said := strings.ToLower(e.Said)
	if !strings.Contains(said, "role") && !strings.Contains(said, "system message") {
		return false
	}
	for _, word := range []string{"alternat", "support", "expected", "beginning", "first", "only", "unknown", "invalid", "must", "template"} {
		if strings.Contains(said, word) {
			return true
		}
	}
	return false
}

// strict puts messages in the order of merged or folded. No text is lost, and none that
// the caller did not say looks as if the caller had.
func strict(messages []chat.Message, as shape) []chat.Message {
	s := strictly{}
	for _, m := range messages {
		switch m.Role {
		case chat.RoleSystem, chat.RoleDeveloper:
			s.notice(m.Content)
		case chat.RoleUser:
			s.user(m)
		case chat.RoleAssistant:
			s.assistant(m)
		default:
			s.out = append(s.out, m)
		}
	}
	s.end()
	if s.system == "" {
		return s.out
	}
	if as == folded {
		s.out[0].Content = together(s.system, s.out[0].Content)
		return s.out
	}
	return append([]chat.Message{{Role: chat.RoleSystem, Content: s.system}}, s.out...)
}

// strictly is the work of strict.
type strictly struct {
	system  string
	pending string // notices for the next message of the caller's
	out     []chat.Message
}

// last is the role of the last message; "" when there is none.
func (s *strictly) last() chat.Role {
	if len(s.out) == 0 {
		return ""
	}
	return s.out[len(s.out)-1].Role
}

// notice takes a text that is neither the caller's nor the model's.
func (s *strictly) notice(text string) {
	switch s.last() {
	case "":
		s.system = together(s.system, text)
	case chat.RoleTool:
		s.join(note(text))
	default:
		s.pending = together(s.pending, note(text))
	}
}

func (s *strictly) user(m chat.Message) {
	m.Content = together(s.pending, m.Content)
	s.pending = ""
	switch s.last() {
	case chat.RoleUser:
		s.join(m.Content)
		return
	case chat.RoleTool: // the caller came between a tool and what the model made of it
		s.out = append(s.out, chat.Message{Role: chat.RoleAssistant, Content: noAnswer})
	}
	s.out = append(s.out, m)
}

func (s *strictly) assistant(m chat.Message) {
	switch {
	case s.pending != "":
		s.user(chat.Message{Role: chat.RoleUser})
	case s.last() == "":
		s.out = append(s.out, chat.Message{Role: chat.RoleUser, Content: nothingYet})
	}
	if s.last() != chat.RoleAssistant {
		s.out = append(s.out, m)
		return
	}
	before := &s.out[len(s.out)-1]
	before.Content = strings.TrimSpace(before.Content + " " + m.Content)
	before.ToolCalls = m.ToolCalls // one that had calls is followed by their answers
}

// end makes the last message one that can be answered.
func (s *strictly) end() {
	switch {
	case s.pending != "":
		s.user(chat.Message{Role: chat.RoleUser})
	case s.last() == "":
		s.out = append(s.out, chat.Message{Role: chat.RoleUser, Content: nothingYet})
	case s.last() == chat.RoleAssistant:
		s.out = append(s.out, chat.Message{Role: chat.RoleUser, Content: nothingMore})
	}
}

// join adds to the last message.
func (s *strictly) join(text string) {
	m := &s.out[len(s.out)-1]
	m.Content = together(m.Content, text)
}

// note marks a text that stands in the message of another.
func note(text string) string { return "[Note of the gateway, not of the caller: " + text + "]" }

// together puts a blank line between two texts.
func together(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}
