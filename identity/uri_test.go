package identity

import (
	"strconv"
	"strings"
)

// parseURI reads a sip, sips or tel URI, with or without angle brackets around it,
// as the room of SIP does. What is none is an empty URI.
func parseURI(s string) URI {
	s = strings.TrimSpace(s)
	if open := strings.IndexByte(s, '<'); open >= 0 {
		s = s[open+1:]
		if end := strings.IndexByte(s, '>'); end >= 0 {
			s = s[:end]
		}
	}
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok {
		return URI{}
	}
	u := URI{Scheme: strings.ToLower(scheme)}
	switch u.Scheme {
	case "tel":
		u.User = rest
		return u.split()
	case "sip", "sips":
	default:
		return URI{}
	}
	rest, _, _ = strings.Cut(rest, "?")
	// The last @ counts: some peers leave one unescaped in the user part.
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		u.User, rest = rest[:at], rest[at+1:]
	}
	hostport, params, _ := strings.Cut(rest, ";")
	u.Host, u.Port = hostPort(hostport)
	u.Params = parameters(nil, params)
	return u.split()
}

// hostPort cuts the port off, minding IPv6 references in brackets.
func hostPort(s string) (string, int) {
	s = strings.TrimSpace(s)
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 || strings.IndexByte(s[colon:], ']') >= 0 {
		return s, 0
	}
	port, err := strconv.ParseUint(s[colon+1:], 10, 16)
	if err != nil {
		return s[:colon], 0
	}
	return s[:colon], int(port)
}
