package httpagent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"parley/agent/internal/wire"
	"parley/agent/llm"
)

const (
	maxReply  = 1 << 20  // bytes of words, of a JSON reply, of one event
	maxStream = 16 << 20 // bytes of a whole stream: its frames may be many times its words
)

// agentError is what the agent did wrong. said is text of its own, not to be
// trusted.
type agentError struct{ what, said string }

func (e *agentError) Error() string {
	if e.said == "" {
		return e.what
	}
	return e.what + ": " + e.said
}

// outError is an error of whoever takes the words.
type outError struct{ err error }

func (e *outError) Error() string { return e.err.Error() }
func (e *outError) Unwrap() error { return e.err }

// sink takes what a reply holds.
type sink struct {
	budget *budget
	out    func(llm.Chunk) error
	styler *llm.Styler  // nil: brackets are text
	act    bool         // actions are switched on
	refuse func(string) // an action that will not be done
	skip   func()       // an event without words
	size   int          // of the words so far
}

// words gives words. They wait for the voice on its time, not on the agent's.
func (s *sink) words(text string) error {
	if text == "" {
		return nil
	}
	if s.size += len(text); s.size > maxReply {
		return &agentError{what: "the reply has more than 1 MiB of words"}
	}
	s.budget.word()
	if s.styler == nil {
		return s.give(llm.Chunk{Text: text})
	}
	return s.each(s.styler.Write(text))
}

// flush gives words that might have become a delivery tag.
func (s *sink) flush() error {
	if s.styler == nil {
		return nil
	}
	return s.each(s.styler.Flush())
}

func (s *sink) each(chunks []llm.Chunk) error {
	for _, c := range chunks {
		if err := s.give(c); err != nil {
			return err
		}
	}
	return nil
}

func (s *sink) give(c llm.Chunk) error {
	s.budget.halt()
	defer s.budget.run()
	if err := s.out(c); err != nil {
		return &outError{err}
	}
	return nil
}

// read takes the whole reply.
func read(resp *http.Response, s *sink) error {
	if err := readBody(resp, s); err != nil {
		return err
	}
	return s.flush()
}

// readBody takes the reply by its media type.
func readBody(resp *http.Response, s *sink) error {
	body := bufio.NewReaderSize(io.LimitReader(resp.Body, maxStream+1), 4<<10)
	if resp.StatusCode == http.StatusNoContent {
		return nil
	}
	switch _, err := body.Peek(1); {
	case errors.Is(err, io.EOF):
		return nil // nothing to say
	case err != nil:
		return err
	}
	field := resp.Header.Get("Content-Type")
	kind, _, err := mime.ParseMediaType(field)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		kind = ""
	}
	switch kind {
	case "application/json":
		return readJSON(body, s)
	case "text/plain":
		return readText(body, s)
	case "text/event-stream":
		return readEvents(body, s)
	case "text/html":
		return &agentError{what: "answered with a page of HTML, which is never spoken; is it a login page or an error page of a proxy? The agent must answer with application/json, text/plain or text/event-stream"}
	}
	return &agentError{"answered with a Content-Type that is never spoken (it must be application/json, text/plain or text/event-stream)", fmt.Sprintf("%q", field)}
}

// readText gives plain text as it comes, whole runes at a time.
func readText(body io.Reader, s *sink) error {
	var buf [4 << 10]byte
	kept, first := 0, true
	for {
		n, err := body.Read(buf[kept:])
		have := buf[:kept+n]
		whole := len(have)
		if err == nil {
			whole = llm.WholeRunes(have)
		}
		text := llm.ValidText(string(have[:whole]))
		if first && text != "" {
			text, first = strings.TrimPrefix(text, "\ufeff"), false
		}
		if err := s.words(text); err != nil {
			return err
		}
		kept = copy(buf[:], have[whole:])
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// readJSON takes a reply that is one JSON object.
func readJSON(body io.Reader, s *sink) error {
	data, err := io.ReadAll(io.LimitReader(body, maxReply+1))
	if err != nil {
		return err
	}
	if len(data) > maxReply {
		return &agentError{what: "the JSON reply is larger than 1 MiB"}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	o, ok := object(llm.ValidText(string(data)))
	if !ok {
		return &agentError{"the JSON reply is not one object such as {\"text\": \"…\"}, with nothing after it", string(data[:min(len(data), 4*wire.ErrorBytes)])}
	}
	if err := o.failure(); err != nil {
		return err
	}
	text, _ := o.text("text", "response")
	if err := s.words(text); err != nil {
		return err
	}
	return o.actions(s)
}

// readEvents gives the words of a stream of events.
func readEvents(body io.Reader, s *sink) error {
	err := wire.Events(body, maxReply, maxStream, s.event)
	if errors.Is(err, errDone) {
		return nil
	}
	return err
}

// errDone is the agent's "[DONE]".
var errDone = errors.New("done")

// event takes one event.
func (s *sink) event(e wire.Event) error {
	data := e.Data()
	if e.Name == "error" {
		return &agentError{"the agent reported an error", data}
	}
	if _, ok := object(data); !ok && len(e.Lines) > 1 && severalPayloads(e.Lines) {
		// Agents that end each line with one newline, not with a blank line.
		for _, line := range e.Lines {
			if err := s.payload(line); err != nil {
				return err
			}
		}
		return nil
	}
	return s.payload(data)
}

// severalPayloads tells whether each line is a payload of its own.
func severalPayloads(lines []string) bool {
	for _, line := range lines {
		if _, ok := object(line); !ok && !done(line) {
			return false
		}
	}
	return true
}

func done(payload string) bool { return strings.TrimSpace(payload) == "[DONE]" }

func (s *sink) payload(data string) error {
	if done(data) {
		return errDone
	}
	o, ok := object(data)
	if !ok {
		return s.words(data)
	}
	if err := o.failure(); err != nil {
		return err
	}
	text, found := o.text("delta", "text", "response")
	if !found {
		text, found = o.openAI()
	}
	if !found && o["actions"] == nil {
		s.skip()
	}
	if err := s.words(text); err != nil {
		return err
	}
	return o.actions(s)
}

// fields is a JSON object.
type fields map[string]json.RawMessage

// object parses a text that is one JSON object and nothing else.
func object(text string) (fields, bool) {
	if !strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") {
		return nil, false
	}
	var o fields
	if json.Unmarshal([]byte(text), &o) != nil {
		return nil, false
	}
	return o, true
}

// text is the first of the named fields that is a text with something in it. found
// also tells of one that is empty.
func (o fields) text(names ...string) (text string, found bool) {
	for _, name := range names {
		var s *string
		if json.Unmarshal(o[name], &s) != nil || s == nil {
			continue
		}
		if found = true; *s != "" {
			return *s, true
		}
	}
	return "", found
}

// openAI is the text of a chunk of OpenAI's, relayed as it is.
func (o fields) openAI() (string, bool) {
	var choices []struct {
		Delta struct {
			Content *string `json:"content"`
		} `json:"delta"`
	}
	if json.Unmarshal(o["choices"], &choices) != nil || len(choices) == 0 || choices[0].Delta.Content == nil {
		return "", false
	}
	return *choices[0].Delta.Content, true
}

// failure is the error that an object reports.
func (o fields) failure() error {
	if said := wire.FailureText(o["error"]); said != "" {
		return &agentError{"the agent reported an error", said}
	}
	return nil
}
