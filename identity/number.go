package identity

import (
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// E164 is the E.164 form, with its plus sign, of a number as it is dialled: a user
// part or what follows tel:, with or without separators, escapes and parameters.
// region is as in Config.Region. Empty: it is no telephone number, such as an
// extension or a name.
func E164(dialled, region string) string {
	return numbers{region: region}.of(URI{Scheme: "tel", User: dialled}.split())
}

// numbers reads telephone numbers. region is the country of national ones; empty:
// there are none.
type numbers struct{ region string }

// of is the E.164 form of uri's telephone number, or empty. A sip URI need
// not say user=phone: most gateways leave it out (RFC 3261 section 19.1.1), and
// digits that are a valid number of the region are one with or without it.
func (n numbers) of(uri URI) string {
	switch strings.ToLower(uri.Scheme) {
	case "tel", "sip", "sips":
	default:
		return ""
	}
	// A local number is meaningful only within its phone-context; one that begins
	// with a plus sign is a prefix to put in front (RFC 3966 section 5.1.5). A
	// domain as context leaves the configured region.
	if context, _ := uri.param("phone-context"); strings.HasPrefix(context, "+") && !strings.HasPrefix(uri.User, "+") {
		return n.normalise(context + uri.User)
	}
	return n.normalise(uri.User)
}

// The bounds of an E.164 number in digits. ITU-T E.164 section 6 sets the upper
// one; nothing shorter than the lower is an international number of a person.
const (
	minDigits = 7
	maxDigits = 15
)

// normalise gives the E.164 form of a dialled number, or empty when it is none.
func (n numbers) normalise(user string) string {
	digits, plus, ok := dialled(user)
	if !ok {
		return ""
	}
	if plus {
		return international(digits)
	}
	if n.region == "" {
		return ""
	}
	parsed, err := phonenumbers.Parse(digits, n.region)
	if err != nil || !phonenumbers.IsValidNumber(parsed) {
		// An internal extension ("100"), a short code, a user name of digits.
		return ""
	}
	return phonenumbers.Format(parsed, phonenumbers.E164)
}

// international accepts a number that was given with its country code. Only the
// country code and the length are checked: numbering plans change faster than
// tables of them, and the network that put the plus sign there knows better.
func international(digits string) string {
	if len(digits) < minDigits || len(digits) > maxDigits {
		return ""
	}
	n, err := phonenumbers.Parse("+"+digits, "")
	if err != nil {
		return ""
	}
	e164 := phonenumbers.Format(n, phonenumbers.E164)
	if len(e164) < minDigits+1 || len(e164) > maxDigits+1 {
		return ""
	}
	return e164
}

// dialled strips the visual separators of RFC 3966 section 5.1.1 off user and
// says whether a plus sign leads. Not ok: user is not a dialled number at all;
// letters are no number here, although telephone keys carry them, because user
// names consist of letters.
func dialled(user string) (digits string, plus, ok bool) {
	user, plus = strings.CutPrefix(strings.TrimSpace(user), "+")
	var b strings.Builder
	for _, c := range []byte(user) {
		switch {
		case c >= '0' && c <= '9':
			b.WriteByte(c)
		case strings.IndexByte("-.() ", c) >= 0:
		default:
			return "", false, false
		}
		if b.Len() > 2*maxDigits {
			return "", false, false
		}
	}
	return b.String(), plus, b.Len() > 0
}
