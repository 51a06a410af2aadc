package identity

import "strings"

// withheld says whether one of the Privacy headers asks to withhold the identity:
// "id" (RFC 3325 section 9.3) or "user" (RFC 3323 section 4.2), in any case and
// among other values. The comma is not in the grammar but is sent.
func withheld(headers []string) bool {
	for _, h := range headers {
		for _, v := range strings.FieldsFunc(h, func(c rune) bool { return c == ';' || c == ',' }) {
			switch strings.ToLower(strings.TrimSpace(v)) {
			case "id", "user":
				return true
			}
		}
	}
	return false
}

// anonymousURI knows the URI of RFC 3323 section 4.1.1.3, and what gateways to
// the telephone network write instead of a number that was withheld.
func anonymousURI(u URI) bool {
	if strings.EqualFold(strings.TrimSuffix(u.Host, "."), "anonymous.invalid") {
		return true
	}
	switch strings.ToLower(u.User) {
	case "anonymous", "unknown", "restricted", "unavailable", "private", "withheld", "anon":
		return true
	}
	return false
}

// anonymousName knows display names that ask for privacy. A name such as
// "Unknown" beside a number is not among them: it only says that a switch found
// no name for the number.
func anonymousName(name string) bool {
	switch strings.ToLower(strings.Trim(CleanText(name, maxName), `"' `)) {
	case "anonymous", "restricted", "private", "withheld", "anonymous caller", "private caller", "caller id withheld", "id withheld":
		return true
	}
	return false
}

// callerName is the name to show, without the ones that mean that there is none.
func callerName(name string) string {
	name = CleanText(unquote(name), maxName)
	switch strings.ToLower(name) {
	case "unknown", "unavailable", "unknown caller", "unknown name":
		return ""
	}
	return name
}

// unquote undoes a quoted-string (RFC 3261 section 25.1) that was left quoted.
func unquote(s string) string {
	s = strings.TrimSpace(s)
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return s
	}
	s = s[1 : len(s)-1]
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
