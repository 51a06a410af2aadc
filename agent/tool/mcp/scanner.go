package mcp

import (
	"encoding/json"
	"errors"
)

var errNoJSON = errors.New("the server's answer is no JSON")

// maxID bounds an id and the names of members that are looked at, in bytes.
const maxID = 128

// scanner looks through a JSON object that is too long to be kept for its own members id
// and method, which may stand behind the long part. It takes any bytes.
type scanner struct {
	depth    int
	inString bool
	escaped  bool
	value    bool // behind a colon, of the outermost object
	other    bool // the outermost value is no object
	token    []byte
	key      string
	id       []byte
	method   bool
}

// look takes the next bytes.
func (s *scanner) look(piece []byte) {
	for _, c := range piece {
		s.byte(c)
	}
}

func (s *scanner) byte(c byte) {
	switch {
	case s.inString:
		s.keep(c)
		switch {
		case s.escaped:
			s.escaped = false
		case c == '\\':
			s.escaped = true
		case c == '"':
			s.inString = false
		}
	case c == '"':
		s.inString = true
		s.keep(c)
	case c == '{' || c == '[':
		s.other = s.other || s.depth == 0 && c == '['
		s.depth++
		if s.depth > 1 {
			s.keep(c) // no id is one
		}
	case c == '}' || c == ']':
		if s.depth == 1 {
			s.member()
		}
		s.depth--
	case c == ',' && s.depth == 1:
		s.member()
	case c == ':' && s.depth == 1 && !s.value:
		s.key, s.token, s.value = string(s.token), s.token[:0], true
	case c == ' ' || c == '\t' || c == '\r' || c == '\n':
	default:
		s.keep(c)
	}
}

// keep notes a byte of a name or value of the outermost object.
func (s *scanner) keep(c byte) {
	if s.depth >= 1 && len(s.token) <= maxID && (s.depth == 1 || len(s.token) == 0) {
		s.token = append(s.token, c)
	}
}

// member ends a member of the outermost object.
func (s *scanner) member() {
	switch s.key {
	case `"id"`:
		s.id = append([]byte(nil), s.token...)
	case `"method"`:
		s.method = true
	}
	s.key, s.token, s.value = "", s.token[:0], false
}

// answers is the id of the call that the message answers, nil when it answers none.
func (s *scanner) answers() json.RawMessage {
	if s.method || s.other || !validID(s.id) {
		return nil
	}
	return s.id
}

// validID says whether a value is an id: a text or a number (JSON-RPC 2.0 section 4).
func validID(id []byte) bool {
	return len(id) > 0 && len(id) <= maxID && json.Valid(id) && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9')
}
