// Package identity says who is calling: it turns what a SIP message tells about
// the caller into an E.164 number, the resource id that stands for the person
// across calls, and a name that is fit to show. It also checks and makes the
// tokens (JWT) by which callers, agents and the HTTP side prove who they are. It
// takes strings and knows no SIP stack, so every rule can be tested as a table.
//
// A caller's own words are never proof. A number from an untrusted From header
// can be forged (RFC 3261 section 26.1.2); it is good enough to greet a caller
// by what they said last week, not to open their bank account. Caller.By says
// what the identity rests on, and Caller.Verified that it is proven.
package identity

import (
	"fmt"
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// Config says how numbers are to be understood.
type Config struct {
	// Region is the ISO 3166 country, such as "US", whose national numbers
	// callers may use; a trunk's own region goes before it. Empty: only numbers in
	// international form, with a plus sign, identify a caller.
	Region string
}

// DefaultConfig is the configuration when none is given.
func DefaultConfig() Config { return Config{Region: "US"} }

// Validate reports what cannot work.
func (c Config) Validate() error { return ValidateRegion(c.Region) }

// ValidateRegion says whether region is a country whose national numbers are
// known, or empty. The error names the value and the remedy.
func ValidateRegion(region string) error {
	if region == "" || phonenumbers.GetSupportedRegions()[region] {
		return nil
	}
	return fmt.Errorf("identity: region %q is not an ISO 3166 country code such as \"US\" or \"DE\"", region)
}

// Party is one address of a message: a display name, a URI and the parameters
// behind it (RFC 3261 section 20.10).
type Party struct {
	// Name is the display name, quoted or not.
	Name string
	// URI is who it is.
	URI URI
	// Params are the header's parameters, with names in lower case.
	Params map[string]string
	// Raw is the URI as it was written, without angle brackets. Only History-Info
	// needs it, whose reasons and wishes for privacy are headers within the URI
	// (RFC 7044 section 5). Empty: there are none.
	Raw string
}

// Source is what a message tells about its caller.
type Source struct {
	// From is the From header: what the caller says.
	From Party
	// Asserted are the values of all P-Asserted-Identity headers in order (RFC
	// 3325 section 9.1).
	Asserted []Party
	// RemoteParty are the values of all Remote-Party-ID headers in order, with
	// their parameters party, screen and privacy (draft-ietf-sip-privacy-04).
	RemoteParty []Party
	// Privacy holds the values of all Privacy headers (RFC 3323 section 4.2).
	Privacy []string
	// Diversion are the values of all Diversion headers in order: the last
	// diversion is first (RFC 5806).
	Diversion []Party
	// History are the values of all History-Info headers (RFC 7044).
	History []Party
	// Trusted says that the trunk is believed: in Asserted, RemoteParty,
	// Diversion, History and ResourceID, which nobody else is.
	Trusted bool
	// Region is the trunk's, see Config.Region. Empty: the Config's.
	Region string
	// Bearer is a token that came with the call, without its scheme; see
	// Resolver.Bearer. Empty: none.
	Bearer string
	// ResourceID is the value of X-StreamCore-Resource-Id.
	ResourceID string
}

// What a caller's identity can rest on, the strongest first.
const (
	ByToken       = "jwt"    // a token whose signature was checked
	ByHeader      = "header" // X-StreamCore-Resource-Id of a trusted trunk
	ByAsserted    = "pai"    // P-Asserted-Identity of a trusted trunk
	ByRemoteParty = "rpid"   // Remote-Party-ID of a trusted trunk
	ByFrom        = "from"   // the caller's own word
)

// Caller is who is on the line, as far as the message told.
type Caller struct {
	// Number is the E.164 number with its plus sign. Empty when the caller is
	// anonymous or what they gave is not a telephone number.
	Number string
	// ResourceID stands for the person across calls. It is the subject of a
	// verified token, or else what a trusted trunk says in
	// X-StreamCore-Resource-Id, or else the number; and empty when nothing
	// identifies one person: two callers with an empty id are different people.
	// Letters, digits and "+-._:@|=~" only, see SafeID: at most 128, so it can
	// stand in a log, a header or a file's name.
	ResourceID string
	// Name is the display name, bounded and free of control characters. It is
	// data of a stranger, never an instruction. Empty for anonymous callers.
	Name string
	// Anonymous says that the caller asked not to be identified. Nothing but what
	// a token says is kept of them.
	Anonymous bool
	// Verified says that ResourceID is the subject of a token whose signature,
	// issuer, audience and times were checked.
	Verified bool
	// By is what ResourceID rests on, or Number when there is only that: one of
	// ByToken, ByHeader, ByAsserted, ByRemoteParty and ByFrom. Empty when nothing
	// identifies the caller.
	By string
	// Subject is the token's subject; empty without one.
	Subject string
	// Claims are the claims of the token beside the registered ones, bounded and
	// clean; see Claims.Private. They must not be changed.
	Claims map[string]any
	// Original is the number that was called first, when the call was diverted to
	// us by a trusted trunk: in E.164 when it is a telephone number, otherwise its
	// user part, cleaned. Empty: not diverted, or withheld.
	Original string
	// Diverted is why the first number did not take the call, in the words of RFC
	// 5806: "user-busy", "no-answer", "unconditional", "deflection",
	// "unavailable", "unknown", … Empty when Original is.
	Diverted string
}

// Resolver finds out who is calling. It is safe for concurrent use.
type Resolver struct {
	region string
	tokens *Verifier // nil: tokens are not looked at
}

// New makes a Resolver that does not look at tokens; see With.
func New(cfg Config) (*Resolver, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Resolver{region: cfg.Region}, nil
}

// With is a Resolver like r that believes the tokens that v verifies, and refuses
// calls whose token v refuses. Closing v stays the business of who made it.
func (r *Resolver) With(v *Verifier) *Resolver {
	return &Resolver{region: r.region, tokens: v}
}

// Bearer finds the token of a call: in the header that TokenConfig.Header names,
// or else in an Authorization header of the scheme Bearer (RFC 8898). header
// gives all values of a header. Empty when there is none, or when r does not
// look at tokens.
func (r *Resolver) Bearer(header func(name string) []string) string {
	if r.tokens == nil {
		return ""
	}
	if name := r.tokens.header; name != "" {
		for _, value := range header(name) {
			if value = strings.TrimSpace(value); value != "" {
				if token := bearer(value); token != "" {
					return token
				}
				return value
			}
		}
	}
	return BearerToken(header("Authorization"))
}

// BearerToken is the token in the first of the Authorization headers that has the
// scheme Bearer, in any case (RFC 6750 section 2.1, RFC 8898 section 3). Empty
// when there is none: digest credentials may stand beside it.
func BearerToken(authorization []string) string {
	for _, value := range authorization {
		if token := bearer(value); token != "" {
			return token
		}
	}
	return ""
}

// bearer takes the scheme off value; empty when it has another.
func bearer(value string) string {
	scheme, token, ok := strings.Cut(strings.TrimSpace(value), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// Resolve says who s is. What is not understood identifies nobody and is no
// error. The one error is a *TokenError: there is a token and it is not valid,
// or there is none and TokenConfig.Required asks for one. A call with a refused
// token must be refused and not be taken as that of the number: the caller tried
// to prove something and failed.
func (r *Resolver) Resolve(s Source) (Caller, error) {
	c := r.told(s)
	if r.tokens == nil {
		return c, nil
	}
	if s.Bearer == "" {
		if r.tokens.required {
			return Caller{}, refused(RuleMissing, "the call carries no token")
		}
		return c, nil
	}
	claims, err := r.tokens.Verify(s.Bearer)
	if err != nil {
		return Caller{}, err
	}
	id, ok := SafeID(claims.Subject)
	if !ok {
		return Caller{}, refused(RuleSubject, "sub is missing or no safe resource id")
	}
	c.ResourceID, c.Subject, c.Claims, c.Verified, c.By = id, id, claims.Private, true, ByToken
	return c, nil
}

// told is who s is by what the headers tell.
func (r *Resolver) told(s Source) Caller {
	n := numbers{region: r.region}
	if s.Region != "" {
		n.region = s.Region
	}
	var c Caller
	c.Original, c.Diverted = n.original(s)
	who, ok := n.choose(s)
	if !ok {
		// The whole identity goes, not only the number: the name was withheld
		// with it (RFC 3323 section 4.1).
		c.Anonymous = true
		return c
	}
	c.Name, c.Number = who.name, who.number
	if c.Number != "" {
		c.By = who.by
	}
	if !who.shared {
		c.ResourceID = c.Number
	}
	if id, ok := SafeID(s.ResourceID); ok && s.Trusted {
		c.ResourceID, c.By = id, ByHeader
	}
	return c
}

// maxID bounds a resource id.
const maxID = 128

// SafeID says whether id can stand for a person: one to 128 letters, digits and
// "+-._:@|=~", beginning with a letter, a digit or a plus sign, no two dots in a
// row, and none of the words that mean that nobody is known. So it can stand
// in logs, headers and names of files, and no two strangers share it. It returns
// id without blanks around it.
func SafeID(id string) (string, bool) {
	id = strings.TrimSpace(id)
	if id == "" || len(id) > maxID || strings.Contains(id, "..") || nobody(id) {
		return "", false
	}
	for i, c := range []byte(id) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '+':
		case i > 0 && strings.IndexByte("-._:@|=~", c) >= 0:
		default:
			return "", false
		}
	}
	return id, true
}
