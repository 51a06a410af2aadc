package live

import (
	"strings"
	"unicode/utf8"
)

// maxMessage bounds what is gathered of one message, in bytes.
const maxMessage = 64 << 10

// maxHistory bounds what a new connection is told of the conversation: entries, and
// bytes of text.
const (
	maxHistory     = 200
	maxHistoryText = 128 << 10
)

// transcript is a message that is being gathered.
type transcript struct{ text strings.Builder }

// add adds a delta.
func (t *transcript) add(delta string) {
	if t.text.Len()+len(delta) <= maxMessage {
		t.text.WriteString(delta)
	}
}

// take is what was gathered; nothing is left.
func (t *transcript) take() string {
	text := strings.TrimSpace(t.text.String())
	t.text.Reset()
	return text
}

// hear takes one side's part of a message, and returns the whole message when it is
// done.
func (t *transcript) hear(part Transcript) (whole string) {
	t.add(part.Delta)
	if !part.Done {
		return ""
	}
	whole = t.take()
	if text := strings.TrimSpace(part.Text); text != "" {
		whole = text
		if len(whole) > maxMessage {
			whole = whole[:maxMessage]
			for !utf8.ValidString(whole) {
				whole = whole[:len(whole)-1]
			}
		}
	}
	return whole
}

// remember notes something for a connection to come; mu is held.
func (r *run) remember(said Said) {
	r.history = append(r.history, said)
	size := 0
	for i := len(r.history) - 1; i >= 0; i-- {
		size += len(r.history[i].Text)
		if size > maxHistoryText || len(r.history)-i > maxHistory {
			r.history = append([]Said(nil), r.history[i+1:]...)
			return
		}
	}
}

// answered notes the answer to a call; mu is held.
func (r *run) answered(response ToolResponse) {
	delete(r.calls, response.ID)
	for i := len(r.history) - 1; i >= 0; i-- {
		if c := r.history[i].Call; c != nil && c.ID == response.ID {
			r.history[i].Response = &response
			return
		}
	}
}

// before is what a new connection is told of the conversation; mu is held.
func (r *run) before() []Said {
	return append(append([]Said(nil), r.cfg.History...), r.history...)
}

// userMessage tells a whole message of the caller's.
func (s *Session) userMessage(text string) {
	if f := s.cb.OnUserMessage; f != nil && text != "" {
		s.guard(func() { f(text) })
	}
}

// agentMessage tells a whole message of the agent's.
func (s *Session) agentMessage(text string) {
	if f := s.cb.OnAgentMessage; f != nil && text != "" {
		s.guard(func() { f(text) })
	}
}

// Heard tells what the caller heard of a reply, for hosts with Options.HostHears:
// once per reply, when it was heard to its end or cut. It becomes the agent's message,
// here and for a connection to come. Empty: nothing was heard.
func (s *Session) Heard(text string) {
	s.mu.Lock()
	r := s.run
	text = strings.TrimSpace(text)
	if r == nil || text == "" {
		s.mu.Unlock()
		return
	}
	r.remember(Said{Role: "assistant", Text: text})
	s.mu.Unlock()
	s.later(func() { s.agentMessage(text) })
	s.tell()
}
