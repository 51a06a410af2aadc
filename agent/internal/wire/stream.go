package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Event is one event of a stream, by the WHATWG's rules for text/event-stream.
type Event struct {
	Name  string   // of the "event" field; empty: none
	Lines []string // of the "data" fields
}

// Data is the event's data as the rules have it.
func (e Event) Data() string { return strings.Join(e.Lines, "\n") }

// EventStream takes a text/event-stream apart, in whatever bits it arrives. The
// fields id and retry are of no use to a stream that is never resumed.
type EventStream struct {
	// Bound is the most bytes that one event may have.
	Bound int

	line  []byte // of the line that is not complete
	lf    bool   // the last line ended with CR: an LF belongs to it
	begun bool   // the byte order mark was looked for
	cur   Event
	size  int // bytes in line and cur
}

// ErrEventSize is wrapped for an event, a line or a stream that is too long.
var ErrEventSize = errors.New("larger than allowed")

// Write takes the next bytes and gives the events that they complete.
func (s *EventStream) Write(p []byte, give func(Event) error) error {
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
		if s.size += end; s.size > s.Bound {
			return fmt.Errorf("an event of the stream is %w, %d bytes", ErrEventSize, s.Bound)
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
// rules would drop it; a server that ends without one still meant its words.
func (s *EventStream) Close(give func(Event) error) error {
	if err := s.endLine(give); err != nil {
		return err
	}
	return s.dispatch(give)
}

func (s *EventStream) endLine(give func(Event) error) error {
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
		s.cur.Lines = append(s.cur.Lines, valid(value))
	case "event":
		s.cur.Name = valid(value)
	default: // a comment, or a field of no use
		s.size -= len(line)
	}
	s.size++ // so that empty lines count
	s.line = s.line[:0]
	return nil
}

// dispatch gives the event, if it has data.
func (s *EventStream) dispatch(give func(Event) error) error {
	e := s.cur
	s.cur, s.size = Event{}, 0
	if e.Data() == "" && e.Name != "error" {
		return nil
	}
	return give(e)
}

// valid is b with U+FFFD for each invalid byte.
func valid(b []byte) string { return string([]rune(string(b))) }

// errStreamSize is of a stream whose frames have no end.
func errStreamSize(most int) error {
	return fmt.Errorf("the stream is %w, %d bytes", ErrEventSize, most)
}

// Events gives the events of body as they arrive, each of at most bound bytes, all of
// at most most. It returns nil at the end of body, its error, or that of give.
func Events(body io.Reader, bound, most int, give func(Event) error) error {
	s := EventStream{Bound: bound}
	return chunks(body, most, func(p []byte) error { return s.Write(p, give) }, func() error { return s.Close(give) })
}

// Lines gives the lines of body that are not blank as they arrive, without their ends;
// the last needs none. The bounds are those of Events. give does not keep a line.
func Lines(body io.Reader, bound, most int, give func(line []byte) error) error {
	var line []byte
	end := func() error {
		whole := bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff")))
		line = line[:0]
		if len(whole) == 0 {
			return nil
		}
		return give(whole)
	}
	return chunks(body, most, func(p []byte) error {
		for {
			part, rest, ended := bytes.Cut(p, []byte("\n"))
			if line = append(line, part...); len(line) > bound {
				return fmt.Errorf("a line of the stream is %w, %d bytes", ErrEventSize, bound)
			}
			if !ended {
				return nil
			}
			if err := end(); err != nil {
				return err
			}
			p = rest
		}
	}, end)
}

// chunks reads body to its end.
func chunks(body io.Reader, most int, write func([]byte) error, end func() error) error {
	var buf [4 << 10]byte
	size := 0
	for {
		n, err := body.Read(buf[:])
		if size += n; size > most {
			return errStreamSize(most)
		}
		if err := write(buf[:n]); err != nil {
			return err
		}
		switch {
		case errors.Is(err, io.EOF):
			return end()
		case err != nil:
			return err
		}
	}
}
