package api

import (
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"parley/identity"
)

// The bounds of what clients may send, in characters unless said otherwise.
const (
	maxTarget   = 256
	maxTargets  = 8
	maxName     = 64
	maxLabel    = 64 // names of trunks and agents
	maxResource = 128
	maxHeaders  = 16
	maxValue    = 256
	maxContext  = 32
	maxNote     = 1024 // a value of the context
	maxSay      = 1000
	maxSayBytes = 2000
	maxDigits   = 64
	minRing     = 5 // seconds
	maxRing     = 180
)

// target checks who is to be called: a number, or a sip:, sips: or tel: URI. The
// marks that people write numbers with are taken out.
func target(field, s string) (string, error) {
	remedy := "Send a number such as +14155550123, or a sip: or tel: URI."
	switch {
	case s == "":
		return "", wrongField(field, "It is missing.", remedy)
	case len(s) > maxTarget:
		return "", wrongField(field, fmt.Sprintf("It is longer than %d bytes.", maxTarget), remedy)
	case uri(s):
		return s, nil
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r >= '0' && r <= '9', r == '*', r == '#', r == '+' && i == 0:
			b.WriteRune(r)
		case strings.ContainsRune(" -.()", r):
		default:
			return "", wrongField(field, "It is neither a number nor a URI.", remedy)
		}
	}
	if number := b.String(); strings.Trim(number, "+") != "" {
		return number, nil
	}
	return "", wrongField(field, "It has no digits.", remedy)
}

// uri says whether s is a URI of telephony with nothing in it that could end a
// header field or begin another: no header fields of its own (RFC 3261 section
// 19.1.1), no escaped control characters.
func uri(s string) bool {
	scheme, rest, ok := strings.Cut(s, ":")
	scheme = strings.ToLower(scheme)
	if !ok || rest == "" || scheme != "sip" && scheme != "sips" && scheme != "tel" {
		return false
	}
	if decoded, err := url.PathUnescape(rest); err != nil || strings.ContainsFunc(decoded, unicode.IsControl) {
		return false
	}
	return every(rest, func(b byte) bool { return b > ' ' && b < 0x7f && strings.IndexByte("<>\"?,`{}|\\^", b) < 0 })
}

// callerID checks the number to show.
func callerID(field, s string) (string, error) {
	if s == "" {
		return "", nil
	}
	return target(field, s)
}

// label checks the name of a trunk or an agent.
func label(field, s string) (string, error) {
	if len(s) > maxLabel || !every(s, nameByte) {
		return "", wrongField(field, fmt.Sprintf("It must be at most %d letters, digits, '-', '_' and '.'.", maxLabel), "Send the name as it is in the configuration.")
	}
	return s, nil
}

// line checks a text of one line, at most limit characters, and cleans it.
func line(field, s string, limit int) (string, error) {
	if utf8.RuneCountInString(s) > limit {
		return "", wrongField(field, fmt.Sprintf("It is longer than %d characters.", limit), "Send less.")
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return "", wrongField(field, "It holds control characters.", "Send one line of text.")
	}
	return identity.CleanText(s, limit), nil
}

// person checks a resource_id, which may be left out unless it must be there.
func person(field, s string, must bool) (string, error) {
	if s == "" && !must {
		return "", nil
	}
	if id, ok := identity.SafeID(s); !ok || id != s {
		return "", wrongField(field, "It is missing, or not safe to stand for a person: 1 to 128 letters, digits and signs of \"+-._:@|=~\".", "Send such as +14155550123 or customer-17.")
	}
	return s, nil
}

// headers checks fields for an INVITE: X- ones, and when others is set also those
// that a call which is placed may have.
func headers(field string, in map[string]string, others bool) (map[string]string, error) {
	if len(in) > maxHeaders {
		return nil, wrongField(field, fmt.Sprintf("There are more than %d.", maxHeaders), "Send fewer.")
	}
	out := make(map[string]string, len(in))
	for name, value := range in {
		path := shorten(field + "." + name)
		known := others && (strings.EqualFold(name, "User-to-User") || strings.EqualFold(name, "Subject") || strings.EqualFold(name, "Privacy"))
		x := len(name) > 2 && len(name) <= maxLabel && strings.EqualFold(name[:2], "X-") && every(name, nameByte)
		if !x && !known {
			remedy := "Use a name that begins with X- and has letters, digits, '-', '_' and '.' only"
			if others {
				remedy += "; or User-to-User, Subject or Privacy"
			}
			return nil, wrongField(path, "This header field may not be set.", remedy+".")
		}
		value, err := line(path, value, maxValue)
		if err != nil {
			return nil, err
		}
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if _, twice := out[canonical]; twice {
			return nil, wrongField(path, "The header field is there twice, in other letters.", "Send it once.")
		}
		out[canonical] = value
	}
	return out, nil
}

// notes checks what the agent is to know about a call that is placed.
func notes(field string, in map[string]string) (map[string]string, error) {
	if len(in) > maxContext {
		return nil, wrongField(field, fmt.Sprintf("There are more than %d entries.", maxContext), "Send fewer.")
	}
	out := make(map[string]string, len(in))
	for name, value := range in {
		path := shorten(field + "." + name)
		if name == "" || len(name) > maxLabel || !every(name, nameByte) {
			return nil, wrongField(path, fmt.Sprintf("The name must be of 1 to %d letters, digits, '-', '_' and '.'.", maxLabel), "Rename it.")
		}
		text, err := paragraph(path, value, maxNote)
		if err != nil {
			return nil, err
		}
		out[name] = text
	}
	return out, nil
}

// paragraph checks a text that may have several lines, and makes one of them.
func paragraph(field, s string, limit int) (string, error) {
	if utf8.RuneCountInString(s) > limit {
		return "", wrongField(field, fmt.Sprintf("It is longer than %d characters.", limit), "Send less.")
	}
	return identity.CleanText(s, limit), nil
}

// ringTime checks a ring timeout in seconds; nil is the gateway's own.
func ringTime(field string, seconds *int) (time.Duration, error) {
	if seconds == nil {
		return 0, nil
	}
	if *seconds < minRing || *seconds > maxRing {
		return 0, wrongField(field, fmt.Sprintf("It must be between %d and %d.", minRing, maxRing), "Send whole seconds.")
	}
	return time.Duration(*seconds) * time.Second, nil
}

// keys checks what SendDigits is to press.
func keys(field, s string) (string, error) {
	s = strings.ToUpper(s)
	pressed := strings.Trim(s, ",")
	if len(s) > maxDigits || pressed == "" || !every(s, func(b byte) bool { return strings.IndexByte("0123456789*#ABCD,", b) >= 0 }) {
		return "", wrongField(field, fmt.Sprintf("It must be of 1 to %d of the signs 0-9, *, #, A-D, and ',' for a pause of half a second, with at least one key among them.", maxDigits), "Send such as \"123#\".")
	}
	return s, nil
}

// callID is the {id} of the path, if it can be that of a call.
func callID(r *http.Request) (string, error) {
	id := r.PathValue("id")
	if id == "" || len(id) > maxLabel || !every(id, nameByte) {
		return "", noCall()
	}
	return id, nil
}

// shorten cuts a name that a client chose to what an answer may repeat.
func shorten(s string) string { return identity.CleanText(s, 2*maxLabel) }
