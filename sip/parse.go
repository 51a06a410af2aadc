package sip

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	wire "github.com/emiago/sipgo/sip"
)

// newParser makes sipgo's parser leave all header values alone. Its own readers
// of values fail the whole message for one bad header, which leaves nothing to
// answer 400 with, and keep the last of several values.
func newParser() *wire.Parser {
	return wire.NewParser(wire.WithHeadersParsers(wire.HeadersParser{}))
}

// parse reads one whole message. It returns nil when there is nothing that could
// be answered: no request and no response, or no header at all.
func parse(p *wire.Parser, raw []byte) *message {
	head, body, ok := bytes.Cut(raw, []byte("\r\n\r\n"))
	if !ok {
		return salvage(raw, "The message has no end of headers")
	}
	size, has, err := contentLength(head)
	switch {
	case err != nil:
		return salvage(raw, "Bad Content-Length")
	case has && size > len(body):
		// RFC 3261 section 18.3.
		return salvage(raw, "The body is shorter than Content-Length")
	case has:
		body = body[:size]
	}
	m := &message{}
	if !m.startLine(head) {
		return salvage(raw, "Bad request line")
	}
	head = raw[:len(head)+4]
	parsed, _, err := p.ParseHeaders(head, false)
	if err != nil && m.request {
		// The parser knows fewer URI schemes than there are answers for. What is
		// in the request line is for validate to judge.
		_, rest, _ := bytes.Cut(head, []byte("\r\n"))
		parsed, _, err = p.ParseHeaders(append([]byte("X sip:x SIP/2.0\r\n"), rest...), false)
	}
	if err != nil {
		return salvage(raw, "Unreadable message")
	}
	if len(body) > 0 {
		m.body = bytes.Clone(body)
	}
	lister, ok := parsed.(interface{ Headers() []wire.Header })
	if !ok {
		return nil
	}
	headers := lister.Headers()
	m.fields = make([]field, 0, len(headers))
	for _, h := range headers {
		m.add(h.Name(), h.Value())
	}
	return m
}

// add appends a header. A line end or NUL inside a value could write headers of
// its own into a response.
func (m *message) add(name, value string) {
	if strings.ContainsAny(value, "\r\n\x00") {
		m.blame("A header value holds a control character")
		value = strings.Map(func(r rune) rune {
			if r == '\r' || r == '\n' || r == 0 {
				return ' '
			}
			return r
		}, value)
	}
	m.fields = append(m.fields, field{longName(name), value})
}

func (m *message) blame(text string) {
	if m.fault == nil {
		m.fault = &RejectError{Code: 400, Text: text, Rule: "syntax"}
	}
}

// startLine reads the first line of head. False: this is no SIP.
func (m *message) startLine(head []byte) bool {
	line, _, _ := bytes.Cut(head, []byte("\r\n"))
	first, rest, _ := strings.Cut(string(line), " ")
	if strings.HasPrefix(first, "SIP/") {
		code, phrase, _ := strings.Cut(rest, " ")
		m.phrase = phrase
		n, err := strconv.ParseUint(code, 10, 16)
		m.version, m.code = first, int(n)
		return err == nil && len(code) == 3 && n >= 100 && n < 700
	}
	m.request = true
	i := strings.LastIndexByte(rest, ' ')
	if i < 0 || !isToken(first) {
		return false
	}
	// Method names know upper and lower case (RFC 3261 section 7.1).
	m.method, m.uri, m.version = first, rest[:i], rest[i+1:]
	return len(m.version) > 4 && strings.EqualFold(m.version[:4], "SIP/")
}

// salvage reads what it can of a message that the parser refused, so that the
// sender can be told. It returns nil when that is not worth the while.
func salvage(raw []byte, text string) *message {
	head, _, _ := bytes.Cut(raw, []byte("\r\n\r\n"))
	m := &message{}
	m.blame(text)
	if !m.startLine(head) {
		// Blanks in or around the request line are still a request of sorts.
		line, _, _ := strings.Cut(string(head), "\r\n")
		parts := strings.Fields(line)
		if len(parts) < 3 || !isToken(parts[0]) || !strings.HasPrefix(parts[len(parts)-1], "SIP/") {
			return nil
		}
		m.request, m.method, m.version = true, parts[0], parts[len(parts)-1]
	}
	lines := strings.Split(string(head), "\r\n")
	for _, line := range lines[1:] {
		if name, value, ok := strings.Cut(line, ":"); ok && isToken(strings.TrimSpace(name)) {
			m.add(strings.TrimSpace(name), strings.TrimSpace(value))
		}
	}
	if len(m.fields) == 0 {
		return nil
	}
	return m
}

var errContentLength = errors.New("sip: bad Content-Length")

// contentLength finds the Content-Length among raw headers, so that a message
// can be framed before it is parsed. Several that agree are one.
func contentLength(head []byte) (n int, has bool, err error) {
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		i := bytes.IndexByte(line, ':')
		if i < 1 {
			continue
		}
		name := bytes.TrimSpace(line[:i])
		if !bytes.EqualFold(name, []byte("Content-Length")) && !bytes.EqualFold(name, []byte("l")) {
			continue
		}
		v, err := strconv.ParseUint(string(bytes.TrimSpace(line[i+1:])), 10, 31)
		if err != nil || has && int(v) != n {
			return 0, true, errContentLength
		}
		n, has = int(v), true
	}
	return n, has, nil
}
