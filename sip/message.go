package sip

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// field is one header line: the name in lower case and in its long form, the
// value unfolded and trimmed, otherwise as written.
type field struct{ name, value string }

// message is a request or response as it came, and where it came from.
type message struct {
	request bool
	method  string // of the request line, upper case
	uri     string // of the request line, as written
	version string
	code    int    // of a status line
	phrase  string // of a status line

	fields []field
	body   []byte

	// fault is what is wrong with the message as a whole; nil when it could be
	// parsed. A message with a fault is only good for building a 400.
	fault *RejectError

	flow  *flow
	reply netip.AddrPort // where a response goes, over UDP

	// Read from the fields by validate.
	via      via
	from, to Address
	callID   string
	cseq     uint32
	sdp      []byte // the session description in the body, nil when there is none

	// known: it belongs to a transaction or call of ours, or was let in.
	known    bool
	admitted *Admission // by gate; nil when it was not asked
	gate     *Gate
}

// get returns the first value of the header with the given lower-case long name.
func (m *message) get(name string) string {
	for _, f := range m.fields {
		if f.name == name {
			return f.value
		}
	}
	return ""
}

// all returns the values of a header, in order.
func (m *message) all(name string) []string {
	var values []string
	for _, f := range m.fields {
		if f.name == name {
			values = append(values, f.value)
		}
	}
	return values
}

// list returns the elements of a comma-separated header of tokens, in lower
// case, such as Require.
func (m *message) list(name string) []string {
	var items []string
	for _, v := range m.all(name) {
		for item := range strings.SplitSeq(v, ",") {
			if item = strings.ToLower(strings.TrimSpace(item)); item != "" {
				items = append(items, item)
			}
		}
	}
	return items
}

// allows says whether Allow names a method.
func (m *message) allows(method string) bool {
	return slices.Contains(m.list("allow"), strings.ToLower(method))
}

// supports says whether Supported or Require names an extension.
func (m *message) supports(tag string) bool {
	return slices.Contains(m.list("supported"), tag) || slices.Contains(m.list("require"), tag)
}

// longName gives the long, lower-case form of a header name (RFC 3261 section
// 7.3.3 and the registry of compact forms).
func longName(name string) string {
	if len(name) != 1 {
		return strings.ToLower(name)
	}
	switch name[0] | 0x20 {
	case 'a':
		return "accept-contact"
	case 'b':
		return "referred-by"
	case 'c':
		return "content-type"
	case 'd':
		return "request-disposition"
	case 'e':
		return "content-encoding"
	case 'f':
		return "from"
	case 'i':
		return "call-id"
	case 'j':
		return "reject-contact"
	case 'k':
		return "supported"
	case 'l':
		return "content-length"
	case 'm':
		return "contact"
	case 'n':
		return "identity-info"
	case 'o':
		return "event"
	case 'r':
		return "refer-to"
	case 's':
		return "subject"
	case 't':
		return "to"
	case 'u':
		return "allow-events"
	case 'v':
		return "via"
	case 'x':
		return "session-expires"
	case 'y':
		return "identity"
	}
	return strings.ToLower(name)
}

// via is the topmost Via of a message.
type via struct {
	transport string // upper case
	host      string
	port      int // 0 when none is given
	branch    string
	rport     bool // asked for (RFC 3581)
	raw       string
	rest      []string // further Via values, as written
}

// parseVia reads the topmost Via. Values of one header line may be separated by
// commas.
func parseVia(values []string) (via, error) {
	var all []string
	for _, v := range values {
		all = append(all, splitComma(v)...)
	}
	if len(all) == 0 {
		return via{}, fmt.Errorf("sip: no Via")
	}
	v := via{raw: all[0], rest: all[1:]}
	head, params, _ := strings.Cut(v.raw, ";")
	name, rest, _ := strings.Cut(head, "/")
	version, rest, ok := strings.Cut(rest, "/")
	if !ok || !strings.EqualFold(strings.TrimSpace(name), "SIP") || strings.TrimSpace(version) == "" {
		return v, fmt.Errorf("sip: bad protocol in Via")
	}
	parts := strings.Fields(rest)
	if len(parts) < 2 || !isToken(parts[0]) {
		return v, fmt.Errorf("sip: no transport or host in Via")
	}
	v.transport = strings.ToUpper(parts[0])
	var err error
	if v.host, v.port, err = splitHostPort(strings.Join(parts[1:], "")); err != nil {
		return v, err
	}
	eachParam(params, func(name, value string) {
		switch name {
		case "branch":
			v.branch = value
		case "rport":
			v.rport = true
		}
	})
	return v, nil
}

// seenFrom writes the topmost Via of a response: received always, rport when it
// was asked for (RFC 3581 section 4). What the peer put into either is replaced.
func (v via) seenFrom(source netip.AddrPort) string {
	head, params, _ := strings.Cut(v.raw, ";")
	var b strings.Builder
	b.WriteString(strings.TrimSpace(head))
	for part := range strings.SplitSeq(params, ";") {
		name, _, _ := strings.Cut(part, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		if name == "" || name == "rport" || name == "received" {
			continue
		}
		b.WriteString(";" + strings.TrimSpace(part))
	}
	b.WriteString(";received=" + source.Addr().Unmap().WithZone("").String())
	if v.rport {
		b.WriteString(";rport=" + strconv.Itoa(int(source.Port())))
	}
	return b.String()
}

// replyAddr is where a response over UDP goes: the source's address with the
// source's port when rport was asked for, else with the port of Via (RFC 3261
// section 18.2.2, RFC 3581 section 4). maddr is not followed: it would let any
// sender choose whom we send to.
func (v via) replyAddr(source netip.AddrPort) netip.AddrPort {
	if v.rport {
		return source
	}
	port := v.port
	if port == 0 {
		port = 5060
	}
	return netip.AddrPortFrom(source.Addr(), uint16(port))
}

// encode writes a message. The values come from us or were checked to hold no
// line ends.
func encode(start string, fields []field, body []byte) []byte {
	n := len(start) + len(body) + 32
	for _, f := range fields {
		n += len(f.name) + len(f.value) + 4
	}
	b := make([]byte, 0, n)
	b = append(append(b, start...), "\r\n"...)
	for _, f := range fields {
		b = append(append(append(append(b, f.name...), ": "...), f.value...), "\r\n"...)
	}
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, int64(len(body)), 10)
	b = append(b, "\r\n\r\n"...)
	return append(b, body...)
}
