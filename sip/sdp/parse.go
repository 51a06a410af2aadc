package sdp

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What one description may hold.
const (
	maxSize  = 64 << 10
	maxMedia = 64
)

// Session is a description that was read. It is not changed after Parse and may
// be shared.
type Session struct {
	conn  string // value of the session's c= line, "" when there is none
	attrs []attribute
	time  string // value of the t= line
	media []media
}

type attribute struct{ name, value string }

// media is one m= line and what belongs to it. Everything but the shape of the
// line itself is read when it is needed: what a stream that is switched off says
// need not make sense (RFC 3264 section 6).
type media struct {
	line    int // in the text, from 1
	kind    string
	port    uint16
	proto   string
	formats []string
	conn    string
	attrs   []attribute
}

// Parse reads a description. It is lenient where peers are known to be loose:
// order of lines, missing s= and t=, line ends, blanks at the end, unknown lines
// and attributes. The error names the line.
func Parse(b []byte) (*Session, error) {
	if len(b) > maxSize {
		return nil, fmt.Errorf("sdp: %d bytes are more than %d", len(b), maxSize)
	}
	s := &Session{}
	version := false
	n := 0
	for line := range strings.SplitSeq(string(b), "\n") {
		n++
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if len(line) < 2 || line[1] != '=' || line[0] < 'a' || line[0] > 'z' {
			return nil, fmt.Errorf("sdp: line %d is not of the form x=value", n)
		}
		value := strings.TrimSpace(line[2:])
		if line[0] == 'v' {
			version = true
			if value != "0" {
				return nil, fmt.Errorf("sdp: line %d: version %.16q is not 0", n, value)
			}
			continue
		}
		if err := s.add(line[0], value, n); err != nil {
			return nil, err
		}
	}
	if !version {
		return nil, fmt.Errorf("sdp: line 1: there is no v= line")
	}
	return s, nil
}

func (s *Session) add(kind byte, value string, n int) error {
	conn, attrs := &s.conn, &s.attrs
	if len(s.media) > 0 {
		m := &s.media[len(s.media)-1]
		conn, attrs = &m.conn, &m.attrs
	}
	switch kind {
	case 'm':
		if len(s.media) == maxMedia {
			return fmt.Errorf("sdp: line %d: more than %d media", n, maxMedia)
		}
		m, err := parseMedia(value, n)
		if err != nil {
			return err
		}
		s.media = append(s.media, m)
	case 'c':
		if *conn == "" { // of several, for layered multicast, the first
			*conn = value
		}
	case 'a':
		name, v, _ := strings.Cut(value, ":")
		*attrs = append(*attrs, attribute{strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(v)})
	case 't':
		if s.time == "" {
			s.time = value
		}
	}
	return nil
}

func parseMedia(value string, n int) (media, error) {
	parts := strings.Fields(value)
	if len(parts) < 3 {
		return media{}, fmt.Errorf("sdp: line %d: m= needs media, port and protocol", n)
	}
	for _, p := range parts {
		if strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return media{}, fmt.Errorf("sdp: line %d: m= holds a character that cannot stand there", n)
		}
	}
	// A number of ports may follow; one audio stream uses the first.
	port, _, _ := strings.Cut(parts[1], "/")
	p, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return media{}, fmt.Errorf("sdp: line %d: port %.16q is not 0 to 65535", n, parts[1])
	}
	return media{line: n, kind: parts[0], port: uint16(p), proto: parts[2], formats: parts[3:]}, nil
}

// attr returns the first value of an attribute of the stream.
func (m *media) attr(name string) (value string, ok bool) {
	for _, a := range m.attrs {
		if a.name == name {
			return a.value, true
		}
	}
	return "", false
}

// direction is the peer's: of the stream, else of the session, else sendrecv.
func (s *Session) direction(m *media) direction {
	for _, attrs := range [][]attribute{m.attrs, s.attrs} {
		for _, a := range attrs {
			if d, ok := directionOf(a.name); ok {
				return d
			}
		}
	}
	return direction{send: true, recv: true}
}

// direction says which ways media may flow, seen from whoever wrote it.
type direction struct{ send, recv bool }

func directionOf(name string) (direction, bool) {
	switch name {
	case "sendrecv":
		return direction{true, true}, true
	case "sendonly":
		return direction{true, false}, true
	case "recvonly":
		return direction{false, true}, true
	case "inactive":
		return direction{}, true
	}
	return direction{}, false
}

// mirror is the most that the other side can answer (RFC 3264 section 6.1).
func (d direction) mirror() direction { return direction{send: d.recv, recv: d.send} }

func (d direction) String() string {
	switch d {
	case direction{true, true}:
		return "sendrecv"
	case direction{true, false}:
		return "sendonly"
	case direction{false, true}:
		return "recvonly"
	}
	return "inactive"
}

// connection is where the peer of a stream is.
type connection struct {
	addr netip.Addr // not valid for a host name
	host string
	v6   bool
}

// connection reads the c= line of a stream, else that of the session. Brackets, a
// TTL and a zone are tolerated.
func (s *Session) connection(m *media) (connection, error) {
	value := m.conn
	if value == "" {
		value = s.conn
	}
	if value == "" {
		return connection{}, fmt.Errorf("sdp: line %d: the stream has no c= line", m.line)
	}
	parts := strings.Fields(value)
	if len(parts) < 3 || !strings.EqualFold(parts[0], "IN") {
		return connection{}, fmt.Errorf("sdp: c=%.40q is not IN, family and address", value)
	}
	c := connection{v6: strings.EqualFold(parts[1], "IP6")}
	if !c.v6 && !strings.EqualFold(parts[1], "IP4") {
		return connection{}, fmt.Errorf("sdp: address family %.16q is not IP4 or IP6", parts[1])
	}
	host, _, _ := strings.Cut(parts[2], "/")
	host = strings.Trim(host, "[]")
	if addr, err := netip.ParseAddr(host); err == nil {
		c.addr = addr.Unmap().WithZone("")
		c.v6 = c.addr.Is6()
		return c, nil
	}
	if !isHost(host) {
		return connection{}, fmt.Errorf("sdp: c=%.40q has no address", value)
	}
	c.host = host
	return c, nil
}

func isHost(s string) bool {
	letters := false
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
			letters = true
		case c >= '0' && c <= '9', c == '-', c == '.':
		default:
			return false
		}
	}
	return letters && len(s) <= 255
}

// milliseconds reads ptime and maxptime; 0 for what makes no sense.
func (m *media) milliseconds(name string) time.Duration {
	v, _ := m.attr(name)
	ms, err := strconv.ParseFloat(v, 64)
	if err != nil || !(ms >= 1 && ms <= 1000) {
		return 0
	}
	return time.Duration(ms * float64(time.Millisecond))
}

// rtcp is where RTCP goes: the attribute of RFC 3605, else the port above. muxed
// it is the RTP port (RFC 5761).
func (m *media) rtcp(peer netip.AddrPort, mux bool) netip.AddrPort {
	if mux || !peer.IsValid() {
		return peer
	}
	port, addr := peer.Port()+1, peer.Addr()
	if v, ok := m.attr("rtcp"); ok {
		parts := strings.Fields(v)
		if len(parts) > 0 {
			if p, err := strconv.ParseUint(parts[0], 10, 16); err == nil && p > 0 {
				port = uint16(p)
			}
		}
		if len(parts) == 4 {
			if a, err := netip.ParseAddr(strings.Trim(parts[3], "[]")); err == nil && !a.IsUnspecified() {
				addr = a.Unmap()
			}
		}
	}
	return netip.AddrPortFrom(addr, port)
}

// wantsVoIPMetrics is whether the peer asks for such reports, of this stream or of
// all (RFC 3611 section 5.1).
func (m *media) wantsVoIPMetrics(s *Session) bool {
	for _, attrs := range [][]attribute{m.attrs, s.attrs} {
		for _, a := range attrs {
			if a.name == "rtcp-xr" {
				return slices.Contains(strings.Fields(a.value), "voip-metrics")
			}
		}
	}
	return false
}
