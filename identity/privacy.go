package identity

import (
	"mime"
	"strings"
)

// wish is what the Privacy headers ask for.
type wish int

const (
	silent   wish = iota // nothing is said about the identity
	withhold             // it must not be passed on
	disclose             // the caller wants to be known: "none"
)

// wished reads the Privacy headers. "id" (RFC 3325 section 9.3) and "user" (RFC
// 3323 section 4.2) withhold the identity, and so does "header": networks take
// it for a wish to leave no trace of the caller (3GPP TS 24.607). They count in
// any case and among other values; "none" only alone. "critical" says how much
// the wish matters, "session" is about media, "history" about diversions. The
// comma is not in the grammar but is sent.
func wished(headers []string) wish {
	got := silent
	for _, v := range privacyValues(headers) {
		switch v {
		case "id", "user", "header":
			return withhold
		case "none":
			got = disclose
		}
	}
	return got
}

// privacyValues are the values of Privacy headers, in lower case.
func privacyValues(headers []string) []string {
	var out []string
	for _, h := range headers {
		for _, v := range strings.FieldsFunc(h, func(c rune) bool { return c == ';' || c == ',' }) {
			out = append(out, strings.ToLower(strings.Trim(v, " \t\"")))
		}
	}
	return out
}

// anonymousURI knows the URI of RFC 3323 section 4.1.1.3, and what gateways to
// the telephone network write instead of a number that was withheld.
func anonymousURI(u URI) bool {
	host := strings.ToLower(strings.TrimSuffix(u.Host, "."))
	return host == "anonymous.invalid" || strings.HasSuffix(host, ".anonymous.invalid") || nobody(u.User)
}

// nobody knows the words that stand where a user or a number would.
func nobody(user string) bool {
	switch strings.ToLower(strings.TrimSpace(user)) {
	case "anonymous", "unknown", "restricted", "unavailable", "private", "withheld", "anon", "none", "null", "nobody":
		return true
	}
	return false
}

// anonymousName knows display names that ask for privacy. A name such as
// "Unknown" beside a number is not among them: it only says that a switch found
// no name for the number.
func anonymousName(name string) bool {
	switch strings.ToLower(strings.Trim(displayName(name), `"' `)) {
	case "anonymous", "restricted", "private", "withheld", "anonymous caller", "private caller", "caller id withheld", "id withheld":
		return true
	}
	return false
}

// callerName is the name to show, without the ones that mean that there is none.
func callerName(name string) string {
	name = displayName(name)
	switch strings.ToLower(name) {
	case "unknown", "unavailable", "unknown caller", "unknown name":
		return ""
	}
	return name
}

// displayName is a name fit to show: without quotes, with the encoded words of
// mail (RFC 2047) decoded, which SIP does not know and gateways send, and clean.
func displayName(name string) string {
	name = unquote(name)
	if len(name) <= maxEncoded && strings.Contains(name, "=?") {
		if plain, err := new(mime.WordDecoder).DecodeHeader(name); err == nil {
			name = plain
		}
	}
	return CleanText(name, maxName)
}

// maxEncoded bounds what is worth decoding: a name of maxName runes in base64.
const maxEncoded = 8 * maxName

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
