package identity

import (
	"strconv"
	"strings"
)

// URI is the part of a sip, sips or tel URI that tells who someone is. Its fields
// are those of a parsed SIP URI, in the same order, so that one converts into
// the other.
type URI struct {
	// Scheme is "sip", "sips" or "tel", in any case.
	Scheme string
	// User is the user part, for tel the number: decoded, without a password and
	// parameters. Escapes are not undone again: "%252B" is a percent sign, "2" and "B".
	User string
	// Host is empty for tel.
	Host string
	// Port is 0 when none is given.
	Port int
	// Params are the URI's parameters, with names in lower case.
	Params map[string]string
	// UserParams are the parameters within the user part ("+1555;npdi;rn=+1556"),
	// with names in lower case.
	UserParams map[string]string
}

// split takes a password and parameters out of a user part as it is written (RFC
// 3261 section 19.1.1, RFC 4694 section 4) and undoes its escapes, once.
func (u URI) split() URI {
	user, params, _ := strings.Cut(u.User, ";")
	if !strings.EqualFold(u.Scheme, "tel") {
		user, _, _ = strings.Cut(user, ":") // the password is nobody's business
	}
	u.User = unescape(strings.TrimSpace(user))
	if params != "" {
		u.UserParams = parameters(u.UserParams, params)
	}
	return u
}

// param is a parameter of the user part or of the URI: where phone-context and
// ext stand depends on who wrote the URI.
func (u URI) param(name string) (string, bool) {
	if v, ok := u.UserParams[name]; ok {
		return v, true
	}
	v, ok := u.Params[name]
	return v, ok
}

// maxParams bounds what a stranger can make us keep.
const maxParams = 32

// parameters reads ";"-separated parameters into a copy of into.
func parameters(into map[string]string, s string) map[string]string {
	out := make(map[string]string, len(into)+1)
	for k, v := range into {
		out[k] = v
	}
	for len(s) > 0 && len(out) < maxParams {
		var one string
		one, s, _ = strings.Cut(s, ";")
		name, value, _ := strings.Cut(one, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		if _, twice := out[name]; name == "" || twice {
			continue
		}
		out[name] = unescape(strings.TrimSpace(value))
	}
	return out
}

// unescape undoes %XX escapes once. A percent sign that begins none stays.
func unescape(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
