package phone

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Message is one SIP request or response as it is on the wire.
type Message struct {
	// Method and URI are set in requests.
	Method, URI string
	// Code and Phrase are set in responses.
	Code   int
	Phrase string
	// Headers are in the order of the message, names as written.
	Headers []Header
	// Body follows the empty line, Content-Length bytes of it when that is given.
	Body []byte
}

// Header is one header field.
type Header struct {
	Name, Value string
}

// compact are the one-letter names of RFC 3261 section 20 that this phone reads.
var compact = map[string]string{
	"v": "via", "f": "from", "t": "to", "i": "call-id", "m": "contact",
	"c": "content-type", "l": "content-length", "k": "supported", "e": "content-encoding", "s": "subject",
}

func canonical(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	if long, ok := compact[name]; ok {
		return long
	}
	return name
}

// errShort says that a message ends before its Content-Length.
var errShort = errors.New("phone: message ends before its Content-Length")

// ParseMessage reads one message. It is strict where it must judge a server: a
// start line, header lines with a colon, and an empty line before the body are
// demanded, folded lines are joined.
func ParseMessage(b []byte) (*Message, error) {
	head, body, ok := bytes.Cut(b, []byte("\r\n\r\n"))
	if !ok {
		return nil, errors.New("phone: message without an empty line after its headers")
	}
	lines := strings.Split(string(head), "\r\n")
	m := &Message{}
	if err := m.parseStart(lines[0]); err != nil {
		return nil, err
	}
	for _, line := range lines[1:] {
		if line != "" && (line[0] == ' ' || line[0] == '\t') && len(m.Headers) > 0 {
			last := &m.Headers[len(m.Headers)-1]
			last.Value += " " + strings.TrimSpace(line)
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fmt.Errorf("phone: header line %q without a name and a colon", line)
		}
		m.Headers = append(m.Headers, Header{name, strings.TrimSpace(value)})
	}
	if text := m.Get("Content-Length"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("phone: Content-Length %q", text)
		}
		if n > len(body) {
			return nil, errShort
		}
		body = body[:n]
	}
	m.Body = bytes.Clone(body)
	return m, nil
}

func (m *Message) parseStart(line string) error {
	parts := strings.SplitN(line, " ", 3)
	if len(parts) < 2 {
		return fmt.Errorf("phone: start line %q", line)
	}
	if parts[0] == "SIP/2.0" {
		code, err := strconv.Atoi(parts[1])
		if err != nil || code < 100 || code > 699 {
			return fmt.Errorf("phone: status line %q", line)
		}
		m.Code = code
		if len(parts) == 3 {
			m.Phrase = parts[2]
		}
		return nil
	}
	if len(parts) != 3 || parts[2] != "SIP/2.0" || parts[0] == "" || parts[1] == "" {
		return fmt.Errorf("phone: request line %q", line)
	}
	m.Method, m.URI = parts[0], parts[1]
	return nil
}

// Get is the value of the first header of that name, long or compact, or "".
func (m *Message) Get(name string) string {
	want := canonical(name)
	for _, h := range m.Headers {
		if canonical(h.Name) == want {
			return h.Value
		}
	}
	return ""
}

// All are the values of all headers of that name in order; values joined by
// commas are taken apart.
func (m *Message) All(name string) []string {
	want := canonical(name)
	var out []string
	for _, h := range m.Headers {
		if canonical(h.Name) == want {
			out = append(out, splitValues(h.Value)...)
		}
	}
	return out
}

// splitValues parts a header at its commas, except inside quotes and brackets.
func splitValues(s string) []string {
	var out []string
	quoted, bracket, start := false, false, 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '<':
			bracket = true
		case c == '>':
			bracket = false
		case c == ',' && !bracket:
			out = append(out, strings.TrimSpace(s[start:i]))
			start = i + 1
		}
	}
	return append(out, strings.TrimSpace(s[start:]))
}

// Add appends a header.
func (m *Message) Add(name, value string) {
	m.Headers = append(m.Headers, Header{name, value})
}

// Set replaces all headers of that name by one, in the place of the first.
func (m *Message) Set(name, value string) {
	want, kept, done := canonical(name), m.Headers[:0], false
	for _, h := range m.Headers {
		if canonical(h.Name) == want {
			if done {
				continue
			}
			h.Value, done = value, true
		}
		kept = append(kept, h)
	}
	m.Headers = kept
	if !done {
		m.Add(name, value)
	}
}

// Bytes is the message as it goes on the wire, with the right Content-Length.
func (m *Message) Bytes() []byte {
	m.Set("Content-Length", strconv.Itoa(len(m.Body)))
	var b bytes.Buffer
	if m.Code != 0 {
		fmt.Fprintf(&b, "SIP/2.0 %d %s\r\n", m.Code, m.Phrase)
	} else {
		fmt.Fprintf(&b, "%s %s SIP/2.0\r\n", m.Method, m.URI)
	}
	for _, h := range m.Headers {
		fmt.Fprintf(&b, "%s: %s\r\n", h.Name, h.Value)
	}
	b.WriteString("\r\n")
	b.Write(m.Body)
	return b.Bytes()
}

// sequence reads the CSeq header.
func (m *Message) sequence() (number int, method string) {
	text, method, _ := strings.Cut(m.Get("CSeq"), " ")
	number, err := strconv.Atoi(text)
	if err != nil {
		return 0, ""
	}
	return number, strings.TrimSpace(method)
}

// branch is the branch parameter of the top Via, the name of the transaction.
func (m *Message) branch() string {
	if vias := m.All("Via"); len(vias) > 0 {
		return parameter(vias[0], "branch")
	}
	return ""
}

// parameter finds ;name=value in a header value outside <>, or "".
func parameter(value, name string) string {
	if i := strings.LastIndexByte(value, '>'); i >= 0 {
		value = value[i+1:]
	}
	for _, p := range strings.Split(value, ";")[1:] {
		k, v, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.TrimSpace(k), name) {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// address is the URI of a From, To, Contact or Route value, without brackets.
func address(value string) string {
	if i := strings.LastIndexByte(value, '<'); i >= 0 {
		uri, _, _ := strings.Cut(value[i+1:], ">")
		return uri
	}
	uri, _, _ := strings.Cut(value, ";")
	return strings.TrimSpace(uri)
}

// reply makes a response to the request m with the headers that RFC 3261 section
// 8.2.6.2 wants copied.
func (m *Message) reply(code int, phrase, toTag string) *Message {
	r := &Message{Code: code, Phrase: phrase}
	for _, h := range m.Headers {
		switch canonical(h.Name) {
		case "via", "from", "call-id", "cseq", "record-route":
			r.Headers = append(r.Headers, h)
		case "to":
			if toTag != "" && parameter(h.Value, "tag") == "" {
				h.Value += ";tag=" + toTag
			}
			r.Headers = append(r.Headers, h)
		}
	}
	return r
}
