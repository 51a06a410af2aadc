package httpagent

import (
	"bytes"
	"errors"
	"strings"
)

// event is one event of a stream, by the WHATWG's rules for text/event-stream.
type event struct {
	name  string   // of the "event" field; empty: none
	lines []string // of the "data" fields
}

// data is the event's data as the rules have it.
func (e event) data() string { return strings.Join(e.lines, "\n") }

// eventStream takes a text/event-stream apart, in whatever bits it arrives. The
// fields id and retry are of no use to a stream that is never resumed.
type eventStream struct {
	line   []byte // of the line that is not complete
	lf     bool   // the last line ended with CR: an LF belongs to it
	begun  bool   // the byte order mark was looked for
	cur    event
	size   int // bytes in line and cur
	bounds int // the most that one event may have
}

var errEventSize = errors.New("an event of the stream is larger than 1 MiB")

// Write takes the next bytes and gives the events that they complete.
func (s *eventStream) Write(p []byte, give func(event) error) error {
	for len(p) > 0 {
		if s.lf {
			s.lf = false
			if p[0] == '\n' {
				p = p[1:]
				continue
			}
		}
		end := bytes.IndexAny(p, "\r\n")
		if end < 0 {
			end = len(p)
		}
		if s.size += end; s.size > s.bounds {
			return errEventSize
		}
		s.line = append(s.line, p[:end]...)
		if end == len(p) {
			return nil
		}
		s.lf = p[end] == '\r'
		p = p[end+1:]
		if err := s.endLine(give); err != nil {
			return err
		}
	}
	return nil
}

// Close gives an event that the end of the stream cut its blank line from. The
// rules would drop it; an agent that ends without one still meant its words.
func (s *eventStream) Close(give func(event) error) error {
	if err := s.endLine(give); err != nil {
		return err
	}
	return s.dispatch(give)
}

func (s *eventStream) endLine(give func(event) error) error {
	line := s.line
	if !s.begun {
		s.begun = true
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	if len(line) == 0 {
		s.line = s.line[:0]
		return s.dispatch(give)
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "data":
		s.cur.lines = append(s.cur.lines, valid(string(value)))
	case "event":
		s.cur.name = valid(string(value))
	default: // a comment, or a field of no use
		s.size -= len(line)
	}
	s.size++ // so that empty lines count
	s.line = s.line[:0]
	return nil
}

// dispatch gives the event, if it has data.
func (s *eventStream) dispatch(give func(event) error) error {
	e := s.cur
	s.cur, s.size = event{}, 0
	if e.data() == "" && e.name != "error" {
		return nil
	}
	return give(e)
}

// valid replaces each invalid byte by U+FFFD.
func valid(s string) string {
	return string([]rune(s))
}
