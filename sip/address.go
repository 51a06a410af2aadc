package sip

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Address is a name-addr or addr-spec with its tag (RFC 3261 section 20.10), as
// in From, To, Contact and P-Asserted-Identity.
type Address struct {
	// Name is the display name: unquoted, valid UTF-8, without control and
	// direction characters, at most 128 runes. It is the peer's claim and no
	// more.
	Name string
	// URI is the address itself.
	URI URI
	// Tag is the tag parameter.
	Tag string
	// Params are the parameters after the address, with lower-case names.
	Params map[string]string
	// Raw is the value as it was written.
	Raw string
	// RawURI is the URI as it was written, without brackets.
	RawURI string
}

const maxName = 128

var errAddress = errors.New("sip: bad address")

// ParseAddress reads one address.
func ParseAddress(s string) (Address, error) {
	s = strings.TrimSpace(s)
	a := Address{Raw: s}
	uri, params := s, ""
	if strings.HasPrefix(s, `"`) {
		name, rest, ok := cutQuoted(s)
		rest = strings.TrimLeft(rest, " \t")
		if !ok || !strings.HasPrefix(rest, "<") {
			return a, fmt.Errorf("%w: the quoted name has no end or no address", errAddress)
		}
		a.Name, uri = cleanName(name), rest
	} else if i := strings.IndexByte(s, '<'); i >= 0 {
		name := strings.TrimSpace(s[:i])
		if strings.ContainsAny(name, `",;:>@`) {
			return a, fmt.Errorf("%w: the name must be quoted", errAddress)
		}
		a.Name, uri = cleanName(name), s[i:]
	}
	if strings.HasPrefix(uri, "<") {
		inner, rest, ok := strings.Cut(uri[1:], ">")
		if !ok {
			return a, fmt.Errorf("%w: no closing bracket", errAddress)
		}
		rest = strings.TrimSpace(rest)
		if rest != "" && rest[0] != ';' {
			return a, fmt.Errorf("%w: text after the address", errAddress)
		}
		uri, params = strings.TrimSpace(inner), rest
	} else {
		// Without brackets all parameters are the header's (RFC 3261 section
		// 20.10).
		uri, params, _ = strings.Cut(uri, ";")
		uri = strings.TrimSpace(uri)
	}
	var err error
	if a.URI, err = ParseURI(uri); err != nil {
		return a, fmt.Errorf("%w: %w", errAddress, err)
	}
	a.RawURI = uri
	a.Params = parseParams(params)
	a.Tag = a.Params["tag"]
	if _, has := a.Params["tag"]; has && !isToken(a.Tag) {
		return a, fmt.Errorf("%w: bad tag", errAddress)
	}
	return a, nil
}

// ParseAddresses reads header values that each may hold several addresses
// separated by commas, and returns those that can be read, in order.
func ParseAddresses(values []string) []Address {
	var all []Address
	for _, v := range values {
		for _, part := range splitComma(v) {
			if a, err := ParseAddress(part); err == nil {
				all = append(all, a)
			}
		}
	}
	return all
}

// splitComma splits at the commas outside of quotes and angle brackets.
func splitComma(s string) []string {
	var parts []string
	start, quoted, angled := 0, false, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"' && !angled:
			quoted = !quoted
		case quoted:
		case c == '<':
			angled = true
		case c == '>':
			angled = false
		case c == ',' && !angled:
			parts = append(parts, strings.TrimSpace(s[start:i]))
			start = i + 1
		}
	}
	return append(parts, strings.TrimSpace(s[start:]))
}

// cutQuoted takes the quoted string at the beginning of s and resolves its
// quoted pairs.
func cutQuoted(s string) (text, rest string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			i++
			if i < len(s) {
				b.WriteByte(s[i])
			}
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", false
}

// cleanName makes a display name that can be shown: bytes that are no UTF-8 are
// taken for Latin-1, control characters become blanks, characters that change
// the direction or hide are dropped, blanks are folded.
func cleanName(s string) string {
	if !utf8.ValidString(s) {
		runes := make([]rune, 0, len(s))
		for _, c := range []byte(s) {
			runes = append(runes, rune(c))
		}
		s = string(runes)
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r):
			return -1
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) > maxName {
		s = string([]rune(s)[:maxName])
	}
	return s
}
