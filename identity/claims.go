package identity

import (
	"errors"
	"math"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Claims are what a token says, after it was verified.
type Claims struct {
	// Subject is whom it is about (sub); empty when it does not say.
	Subject string
	// Issuer is who made it (iss).
	Issuer string
	// Audience is whom it is for (aud).
	Audience []string
	// ID is its own name (jti); empty without.
	ID string
	// Expires is when it ends (exp).
	Expires time.Time
	// IssuedAt is when it was made (iat); zero when it does not say.
	IssuedAt time.Time
	// Private are its other claims: numbers, booleans, nulls, text of at most 512
	// runes without control characters, and lists and objects of those, at most 64
	// values in all and four levels deep. A token that has more is refused. The map
	// must not be changed.
	Private map[string]any
}

// The bounds of Claims.Private.
const (
	maxClaims     = 64
	maxClaimDepth = 4
	maxClaimText  = 512
	maxClaimName  = 64
)

// claims checks the claims of a token whose signature is right.
func (v *Verifier) claims(all jwt.MapClaims) (Claims, error) {
	// The library takes a time that no clock can show for one long past or long to
	// come, depending on the processor, and a 0 for none.
	for _, t := range []struct{ name, rule string }{{"exp", RuleExpires}, {"nbf", RuleNotBefore}, {"iat", RuleIssuedAt}} {
		if value, given := all[t.name]; given && !moment(value) {
			return Claims{}, refused(t.rule, "is no time")
		}
	}
	if err := v.validator.Validate(all); err != nil {
		return Claims{}, refusedClaims(all, err)
	}
	c := Claims{Private: map[string]any{}}
	c.Issuer, _ = all["iss"].(string)
	c.Audience, _ = all.GetAudience()
	if c.Subject, _ = all["sub"].(string); c.Subject != CleanText(c.Subject, maxClaimText) {
		return Claims{}, refused(RuleSubject, "too long, or not to be shown")
	}
	if id, given := all["jti"]; given {
		text, ok := id.(string)
		if !ok || text != CleanText(text, maxClaimText) {
			return Claims{}, refused(RuleClaims, "jti is no text, too long, or not to be shown")
		}
		c.ID = text
	}
	if exp, err := all.GetExpirationTime(); err == nil {
		c.Expires = exp.Time
	}
	if iat, err := all.GetIssuedAt(); err == nil && iat != nil {
		c.IssuedAt = iat.Time
	}
	left := maxClaims
	for name, value := range all {
		if registered(name) {
			continue
		}
		clean, ok := boundedClaim(value, maxClaimDepth, &left)
		if !ok || name != CleanText(name, maxClaimName) {
			return Claims{}, refused(RuleClaims, "too many, too deep or too long")
		}
		c.Private[name] = clean
	}
	return c, nil
}

// moment says whether value is a time in seconds since 1970 that a calendar of
// four-digit years can show.
func moment(value any) bool {
	seconds, ok := value.(float64)
	return ok && seconds >= 1 && seconds < 253402300800 && !math.IsNaN(seconds)
}

// refusedClaims names the first claim that err is about.
func refusedClaims(all jwt.MapClaims, err error) *TokenError {
	_, expires := all["exp"]
	switch {
	case !expires:
		return refused(RuleExpires, "is missing")
	case errors.Is(err, jwt.ErrTokenExpired):
		return refused(RuleExpires, "has passed")
	case errors.Is(err, jwt.ErrTokenNotValidYet):
		return refused(RuleNotBefore, "is still to come")
	case errors.Is(err, jwt.ErrTokenUsedBeforeIssued):
		return refused(RuleIssuedAt, "is still to come")
	case errors.Is(err, jwt.ErrTokenInvalidIssuer):
		return refused(RuleIssuer, "is another")
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return refused(RuleAudience, "is another")
	}
	if iss, _ := all["iss"].(string); iss == "" {
		return refused(RuleIssuer, "is missing")
	}
	return refused(RuleAudience, "is missing")
}

// registered says whether a claim has a field of its own in Claims or is checked
// there (RFC 7519 section 4.1).
func registered(name string) bool {
	switch name {
	case "iss", "sub", "aud", "exp", "nbf", "iat", "jti":
		return true
	}
	return false
}

// boundedClaim is a claim's value with clean text. Not ok: it is beyond the
// bounds; left counts down over all claims.
func boundedClaim(value any, depth int, left *int) (any, bool) {
	if *left--; *left < 0 || depth == 0 {
		return nil, false
	}
	switch value := value.(type) {
	case string:
		if len(value) > 4*maxClaimText {
			return nil, false
		}
		return CleanText(value, maxClaimText), true
	case []any:
		list := make([]any, 0, len(value))
		for _, one := range value {
			clean, ok := boundedClaim(one, depth-1, left)
			if !ok {
				return nil, false
			}
			list = append(list, clean)
		}
		return list, true
	case map[string]any:
		object := make(map[string]any, len(value))
		for name, one := range value {
			clean, ok := boundedClaim(one, depth-1, left)
			if !ok || name != CleanText(name, maxClaimName) {
				return nil, false
			}
			object[name] = clean
		}
		return object, true
	}
	return value, true // a number, a boolean or null
}
