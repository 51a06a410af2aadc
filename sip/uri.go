package sip

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// URI is a sip:, sips: or tel: URI, taken apart and unescaped (RFC 3261 section
// 19.1.1, RFC 3966). Of other schemes only Scheme and User, the opaque part, are
// set. What a peer wrote is data: control characters may be in User.
type URI struct {
	// Scheme is in lower case.
	Scheme string
	// User is the user part without its parameters and password; for tel: the
	// number as written.
	User string
	// Host is a name, an IPv4 address, or an IPv6 address without brackets.
	Host string
	// Port is 0 when none is given.
	Port int
	// Params are the URI parameters; names in lower case, values unescaped.
	Params map[string]string
	// UserParams are parameters in the user part, such as npdi and rn (RFC
	// 4694), and those of a tel: URI.
	UserParams map[string]string
}

// maxParams bounds the parameters kept of one URI or address.
const maxParams = 64

var errURI = errors.New("sip: bad URI")

// ParseURI reads one URI without angle brackets. Schemes that are neither
// sip, sips, tel nor otherwise registered are refused: they come from attack
// tools and typing errors.
func ParseURI(s string) (URI, error) {
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok || !isToken(scheme) || rest == "" {
		return URI{}, fmt.Errorf("%w: no scheme", errURI)
	}
	if strings.ContainsAny(s, " \t\r\n<>\"") {
		return URI{}, fmt.Errorf("%w: blank, quote or bracket inside", errURI)
	}
	u := URI{Scheme: strings.ToLower(scheme)}
	switch {
	case u.Scheme == "sip" || u.Scheme == "sips":
		return u, u.parseSIP(rest)
	case u.Scheme == "tel":
		return u, u.parseTel(rest)
	case foreignScheme(u.Scheme):
		u.User = rest
		return u, nil
	}
	return URI{}, fmt.Errorf("%w: unknown scheme", errURI)
}

// foreignScheme knows the registered schemes that RFC 4475 and gateways put into
// From, To and Contact. They cannot be called, but are no error there.
func foreignScheme(s string) bool {
	switch s {
	case "http", "https", "mailto", "urn", "isbn", "im", "pres", "xmpp", "h323", "fax", "modem", "name", "cid", "soap.beep":
		return true
	}
	return false
}

func (u *URI) parseSIP(s string) error {
	hostport := s
	// An "@" may stand unescaped nowhere but after the user part.
	if user, after, ok := strings.Cut(s, "@"); ok {
		hostport = after
		if strings.Contains(after, "@") {
			return fmt.Errorf("%w: more than one @", errURI)
		}
		user, _, _ = strings.Cut(user, ":") // the password is nobody's business
		name, params, _ := strings.Cut(user, ";")
		if name == "" {
			return fmt.Errorf("%w: empty user", errURI)
		}
		u.User = unescape(name)
		u.UserParams = parseParams(params)
	}
	hostport, _, _ = strings.Cut(hostport, "?")
	hostport, params, _ := strings.Cut(hostport, ";")
	u.Params = parseParams(params)
	host, port, err := splitHostPort(hostport)
	if err != nil {
		return err
	}
	u.Host, u.Port = host, port
	return nil
}

func (u *URI) parseTel(s string) error {
	number, params, _ := strings.Cut(s, ";")
	number = unescape(number)
	if number == "" {
		return fmt.Errorf("%w: empty number", errURI)
	}
	for _, c := range []byte(number) {
		if !strings.ContainsRune("+0123456789-.()#*ABCDEFabcdefpw", rune(c)) {
			return fmt.Errorf("%w: not a number", errURI)
		}
	}
	u.User, u.UserParams = number, parseParams(params)
	return nil
}

// splitHostPort reads host[:port] as it stands in URIs and Via headers.
func splitHostPort(s string) (host string, port int, err error) {
	host = s
	rest := ""
	if strings.HasPrefix(s, "[") {
		inner, after, ok := strings.Cut(s[1:], "]")
		addr, err := netip.ParseAddr(inner)
		if !ok || err != nil || !addr.Is6() {
			return "", 0, fmt.Errorf("%w: bad IPv6 reference", errURI)
		}
		host, rest = inner, after
	} else {
		if i := strings.IndexByte(s, ':'); i >= 0 {
			host, rest = s[:i], s[i:]
		}
		if !isHostname(host) {
			return "", 0, fmt.Errorf("%w: bad host", errURI)
		}
	}
	if rest == "" {
		return host, 0, nil
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(rest, ":"), 10, 16)
	if rest[0] != ':' || err != nil || n == 0 {
		return "", 0, fmt.Errorf("%w: bad port", errURI)
	}
	return host, int(n), nil
}

// isHostname accepts names and IPv4 addresses. Underscores are no part of host
// names, but of many configurations.
func isHostname(s string) bool {
	if s == "" || len(s) > 255 {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '.', c == '_':
		default:
			return false
		}
	}
	return true
}

// isToken is the token of RFC 3261 section 25.1.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case strings.IndexByte("-.!%*_+`'~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

// parseParams reads name[=value] separated by ";". It returns nil for none.
func parseParams(s string) map[string]string {
	var params map[string]string
	eachParam(s, func(name, value string) {
		if len(params) == maxParams {
			return
		}
		if params == nil {
			params = make(map[string]string)
		}
		params[name] = value
	})
	return params
}

// eachParam gives take the parameters of s one after the other, names in lower case.
func eachParam(s string, take func(name, value string)) {
	for part := range strings.SplitSeq(s, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if name = strings.ToLower(strings.TrimSpace(name)); name != "" {
			take(name, unescape(strings.TrimSpace(value)))
		}
	}
}

// unescape decodes %XX (RFC 3261 section 19.1.2). What is no escape stays as it
// is.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
