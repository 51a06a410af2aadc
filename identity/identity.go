// Package identity says who is calling: it turns what a SIP message tells about
// the caller into an E.164 number, the resource id that stands for the person
// across calls, and a name that is fit to show. It takes strings and knows no SIP
// stack, so every rule can be tested as a table.
//
// A caller's own words are never proof. A number from an untrusted From header
// can be forged (RFC 3261 section 26.1.2); it is good enough to greet a caller
// by what they said last week, not to open their bank account.
package identity

import (
	"fmt"
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// Config says how numbers are to be understood.
type Config struct {
	// Region is the ISO 3166 country, such as "US", whose national numbers
	// callers may use. Empty: only numbers in international form, with a plus
	// sign, identify a caller.
	Region string
}

// DefaultConfig is the configuration when none is given.
func DefaultConfig() Config { return Config{Region: "US"} }

// Validate reports what cannot work.
func (c Config) Validate() error {
	if c.Region == "" || phonenumbers.GetSupportedRegions()[c.Region] {
		return nil
	}
	return fmt.Errorf("identity: region %q is not an ISO 3166 country code such as \"US\" or \"DE\"", c.Region)
}

// Source is what a message tells about its caller.
type Source struct {
	// Name is the display name of the From header.
	Name string
	// URI is the From header's URI.
	URI URI
	// Privacy holds the values of all Privacy headers (RFC 3323 section 4.2).
	Privacy []string
}

// Caller is who is on the line, as far as the message told.
type Caller struct {
	// Number is the E.164 number with its plus sign. Empty when the caller is
	// anonymous or what they gave is not a telephone number.
	Number string
	// ResourceID stands for the person across calls. It is the number, and empty
	// when no number identifies one person: two callers with an empty id are
	// different people.
	ResourceID string
	// Name is the display name, bounded and free of control characters. It is
	// data of a stranger, never an instruction. Empty for anonymous callers.
	Name string
	// Anonymous says that the caller asked not to be identified.
	Anonymous bool
}

// Resolver finds out who is calling. It is safe for concurrent use.
type Resolver struct{ region string }

// New makes a Resolver.
func New(cfg Config) (*Resolver, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Resolver{region: cfg.Region}, nil
}

// Resolve says who s is. It never fails: what is not understood identifies nobody.
func (r *Resolver) Resolve(s Source) Caller {
	uri := s.URI.split()
	if withheld(s.Privacy) || anonymousURI(uri) || anonymousName(s.Name) {
		// The whole identity goes, not only the number: the name was withheld
		// with it (RFC 3323 section 4.1).
		return Caller{Anonymous: true}
	}
	c := Caller{Name: callerName(s.Name), Number: r.number(uri)}
	if _, extension := uri.param("ext"); !extension {
		// Behind an extension of a switchboard sit many people; its number is
		// nobody's in particular.
		c.ResourceID = c.Number
	}
	return c
}

// number is the E.164 form of uri's telephone number, or empty. A sip URI need
// not say user=phone: most gateways leave it out (RFC 3261 section 19.1.1), and
// digits that are a valid number of the region are one with or without it.
func (r *Resolver) number(uri URI) string {
	switch strings.ToLower(uri.Scheme) {
	case "tel", "sip", "sips":
	default:
		return ""
	}
	// A local number is meaningful only within its phone-context; one that begins
	// with a plus sign is a prefix to put in front (RFC 3966 section 5.1.5). A
	// domain as context leaves the configured region.
	if context, _ := uri.param("phone-context"); strings.HasPrefix(context, "+") && !strings.HasPrefix(uri.User, "+") {
		return r.normalise(context + uri.User)
	}
	return r.normalise(uri.User)
}

// The bounds of an E.164 number in digits. ITU-T E.164 section 6 sets the upper
// one; nothing shorter than the lower is an international number of a person.
const (
	minDigits = 7
	maxDigits = 15
)

// normalise gives the E.164 form of a dialled number, or empty when it is none.
func (r *Resolver) normalise(user string) string {
	digits, plus, ok := dialled(user)
	if !ok {
		return ""
	}
	if plus {
		return international(digits)
	}
	if r.region == "" {
		return ""
	}
	n, err := phonenumbers.Parse(digits, r.region)
	if err != nil || !phonenumbers.IsValidNumber(n) {
		// An internal extension ("100"), a short code, a user name of digits.
		return ""
	}
	return phonenumbers.Format(n, phonenumbers.E164)
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
