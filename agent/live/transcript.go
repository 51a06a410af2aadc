package live

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// maxMessage bounds what is gathered of one message, in bytes.
const maxMessage = 64 << 10

// maxHistory bounds what a new connection is told of the conversation: entries, and
// bytes of text and of tools' arguments and results. More than a socket queues would
// end the new connection as well.
const (
	maxHistory      = 200
	maxHistoryText  = 128 << 10
	maxHistoryTools = 512 << 10
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

// remembered is something for a connection to come, and the size of its tool call.
type remembered struct {
	Said
	size int // bytes of arguments and result
}

// remember notes something for a connection to come; mu is held.
func (r *run) remember(said Said) {
	e := remembered{Said: said}
	if said.Call != nil {
		e.size = sizeOf(said.Call.Args)
	}
	r.history = append(r.history, e)
	r.forget()
}

// forget drops the oldest of what is too much; mu is held.
func (r *run) forget() {
	text, tools := 0, 0
	for i := len(r.history) - 1; i >= 0; i-- {
		text += len(r.history[i].Text)
		tools += r.history[i].size
		if text > maxHistoryText || tools > maxHistoryTools || len(r.history)-i > maxHistory {
			r.history = append([]remembered(nil), r.history[i+1:]...)
			return
		}
	}
}

// sizeOf is how many bytes v has as JSON; 0: it is none.
func sizeOf(v map[string]any) int {
	b, err := json.Marshal(v)
	if err != nil {
		return 0
	}
	return len(b)
}

// answered notes the answer to a call; mu is held.
func (r *run) answered(response ToolResponse) {
	delete(r.calls, response.ID)
	for i := len(r.history) - 1; i >= 0; i-- {
		if c := r.history[i].Call; c != nil && c.ID == response.ID {
			r.history[i].Response = &response
			r.history[i].size += sizeOf(response.Response)
			r.forget()
			return
		}
	}
}

// before is what a new connection is told of the conversation; mu is held.
func (r *run) before() []Said {
	all := append([]Said(nil), r.cfg.History...)
	for _, e := range r.history {
		all = append(all, e.Said)
	}
	return all
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
