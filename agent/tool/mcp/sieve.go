package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"

	"parley/agent/tool"
)

// What the SDK is given of a message: it may have grown, see exact.
const maxGrown = 3 * maxMessage

// codeTooLarge is the code of the error that takes the place of an answer that is too
// large.
const codeTooLarge = -32000

// refusal is the answer to the call id, in the place of one that is too large: only that
// call fails, and the connection lives.
func refusal(id json.RawMessage) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"the answer is too large: more than %d bytes"}}`, id, codeTooLarge, maxMessage)
}

// exact makes the structured content of a message the text that it is. The SDK would read
// its numbers as float64, and the number of an order would become another one's; read
// makes values of the text. Messages without are returned as they are.
func exact(message []byte) []byte {
	if !bytes.Contains(message, []byte(`"structuredContent"`)) {
		return message
	}
	var outer, result map[string]json.RawMessage
	if json.Unmarshal(message, &outer) != nil || json.Unmarshal(outer["result"], &result) != nil {
		return message
	}
	content, ok := result["structuredContent"]
	if !ok || string(content) == "null" {
		return message
	}
	var err error
	if result["structuredContent"], err = encode(string(content)); err != nil {
		return message
	}
	if outer["result"], err = encode(result); err != nil {
		return message
	}
	out, err := encode(outer)
	if err != nil {
		return message
	}
	return out
}

// encode is v as JSON in one line, without the escapes for HTML.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// structured makes values of what exact has made text.
func structured(text string) (any, error) {
	if !json.Valid([]byte(text)) {
		return nil, errNoJSON
	}
	whole, err := tool.Object(slices.Concat([]byte(`{"result":`), []byte(text), []byte("}")))
	return whole["result"], err
}

// sieve reads messages and lets each through whole: one a line, or one an event of
// text/event-stream. An answer of more than maxMessage bytes becomes a refusal, other
// messages of that size are dropped. It holds one message at a time.
type sieve struct {
	io.Closer
	in      *bufio.Reader
	events  bool
	dropped func()
	out     []byte // what is to be read yet
	err     error
}

func newSieve(in io.ReadCloser, events bool, dropped func()) *sieve {
	return &sieve{Closer: in, in: bufio.NewReaderSize(in, 64<<10), events: events, dropped: dropped}
}

// Read implements io.Reader.
func (s *sieve) Read(p []byte) (int, error) {
	for len(s.out) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		if s.events {
			s.out, s.err = s.event()
		} else {
			s.out, s.err = s.line()
		}
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

// line is the next line; err belongs to what comes after.
func (s *sieve) line() (out []byte, err error) {
	var m message
	for {
		piece, err := s.in.ReadSlice('\n')
		m.add(piece)
		if err == bufio.ErrBufferFull {
			continue
		}
		if !m.long {
			return exact(m.text), err
		}
		return s.replaced(&m, "", "\n"), err
	}
}

// replaced is what takes the place of a message that is too long.
func (s *sieve) replaced(m *message, before, after string) []byte {
	id := m.scan.answers()
	if id == nil {
		s.dropped()
		return nil
	}
	return slices.Concat([]byte(before), refusal(id), []byte(after))
}

// event is the next event with the empty line that ends it; err belongs to what comes
// after.
func (s *sieve) event() (out []byte, err error) {
	var m message // its data
	var fields bytes.Buffer
	for {
		line, data, err := s.field(&m)
		ends := err != nil || !data && len(bytes.TrimRight(line, "\r\n")) == 0
		if !data && !ends && fields.Len() < maxMessage {
			fields.Write(line)
		}
		if !ends {
			continue
		}
		switch {
		case m.long:
			fields.Write(s.replaced(&m, "data: ", "\n"))
		case m.any:
			for part := range bytes.SplitSeq(exact(bytes.TrimSuffix(m.text, []byte("\n"))), []byte("\n")) {
				fmt.Fprintf(&fields, "data: %s\n", part)
			}
		}
		fields.Write(line)
		return fields.Bytes(), err
	}
}

// field reads a line of an event. The value of data goes to m; others are returned, of
// those that are too long the beginning.
func (s *sieve) field(m *message) (line []byte, data bool, err error) {
	first := true
	for {
		piece, err := s.in.ReadSlice('\n')
		if first {
			var value []byte
			if value, data = bytes.CutPrefix(piece, []byte("data:")); data {
				piece = bytes.TrimPrefix(value, []byte(" "))
			}
			first = false
		}
		switch {
		case data:
			m.any = true
			m.add(piece)
		case len(line) < maxMessage:
			line = append(line, piece...)
		}
		if err != bufio.ErrBufferFull {
			if data && err == nil && bytes.HasSuffix(m.text, []byte("\r\n")) {
				m.text = append(m.text[:len(m.text)-2], '\n')
			}
			return line, data, err
		}
	}
}

// message is one that is read: whole as long as it is not too long, and looked through.
type message struct {
	text []byte
	long bool
	any  bool
	scan scanner
}

func (m *message) add(piece []byte) {
	if !m.long && len(m.text)+len(piece) <= maxMessage+1 { // a line's end does not count
		m.text = append(m.text, piece...)
		return
	}
	if !m.long {
		m.long = true
		m.scan.look(m.text)
		m.text = nil
	}
	m.scan.look(piece)
}

// document is the body of an answer over HTTP that is one message. It is read when it is
// asked for, so that nobody else waits.
type document struct {
	io.Closer
	in      io.Reader
	request *http.Request
	out     *bytes.Reader
}

// Read implements io.Reader.
func (d *document) Read(p []byte) (int, error) {
	if d.out == nil {
		text, err := io.ReadAll(io.LimitReader(d.in, maxMessage+1))
		if err != nil {
			return 0, err
		}
		if len(text) > maxMessage {
			id := idOf(d.request)
			if id == nil {
				return 0, fmt.Errorf("mcp: answer of more than %d bytes", maxMessage)
			}
			text = refusal(id)
		}
		d.out = bytes.NewReader(exact(text))
	}
	return d.out.Read(p)
}

// idOf is the id of the call that a request makes, nil when it makes none.
func idOf(r *http.Request) json.RawMessage {
	if r.GetBody == nil {
		return nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil
	}
	defer body.Close()
	var call struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.NewDecoder(body).Decode(&call) != nil || call.Method == "" || !validID(call.ID) {
		return nil
	}
	return call.ID
}
