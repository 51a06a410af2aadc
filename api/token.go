package api

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"parley/identity"
)

// The bounds of minted tokens.
const (
	tokenTime = 5 * time.Minute
	maxClaims = 16
)

// wish is the body of POST /token.
type wish struct {
	Subject  string         `json:"subject"`
	Audience string         `json:"audience"`
	TTL      *int           `json:"ttl_seconds"`
	Claims   map[string]any `json:"claims"`
}

// minted is the answer of POST /token, with the names of RFC 6749 section 5.1.
type minted struct {
	Token     string `json:"access_token"`
	Type      string `json:"token_type"`
	ExpiresIn int    `json:"expires_in"`
}

// reserved are the claims that a client may not choose: those that say who made the
// token for how long, and those that would let it into this API.
func reserved(name string) bool {
	return slices.Contains([]string{"iss", "sub", "aud", "exp", "nbf", "iat", "jti", "scope", "scp", "scopes", "cnf"}, name)
}

// mintToken is POST /token: a short-lived JWT for a telephone or a browser that
// shows it when it calls (RFC 8898). It opens nothing of this API: no scope can be
// put into it.
func (s *Server) mintToken(w http.ResponseWriter, r *http.Request, c client) error {
	if s.parts.Mint == nil {
		return trouble(http.StatusNotImplemented, "not_supported", "The gateway has no key to sign tokens with.", "Configure identity.sign.")
	}
	var b wish
	if _, err := readBody(w, r, &b); err != nil {
		return err
	}
	ttl, err := b.check(s.parts.TokenTTL)
	if err != nil {
		return err
	}
	token, err := s.parts.Mint(b.Subject, b.Audience, b.Claims, ttl)
	if err != nil {
		return fmt.Errorf("api: mint: %w", err)
	}
	s.log.Info("token minted", zap.String("client", c.name), zap.String("resource_id", identity.Mask(b.Subject)), zap.Duration("ttl", ttl))
	give(w, http.StatusOK, minted{Token: token, Type: "Bearer", ExpiresIn: int(ttl / time.Second)})
	return nil
}

// check checks the wish, cleans its texts, and gives the time that the token is to
// live.
func (b *wish) check(longest time.Duration) (ttl time.Duration, err error) {
	if b.Subject, err = person("subject", b.Subject, true); err != nil {
		return 0, err
	}
	if b.Audience, err = line("audience", b.Audience, maxResource); err != nil {
		return 0, err
	}
	ttl = longest
	if b.TTL != nil {
		if most := int(longest / time.Second); *b.TTL < 1 || *b.TTL > most {
			return 0, wrongField("ttl_seconds", fmt.Sprintf("It must be between 1 and %d.", most), "Send whole seconds; mint another when it is over.")
		}
		ttl = time.Duration(*b.TTL) * time.Second
	}
	if len(b.Claims) > maxClaims {
		return 0, wrongField("claims", fmt.Sprintf("There are more than %d.", maxClaims), "Send fewer.")
	}
	for name, value := range b.Claims {
		path := shorten("claims." + name)
		if name == "" || len(name) > maxLabel || !every(name, nameByte) || reserved(name) {
			return 0, wrongField(path, "This claim may not be set.", "Use a name of your own.")
		}
		switch v := value.(type) {
		case bool, float64:
		case string:
			if b.Claims[name], err = line(path, v, maxValue); err != nil {
				return 0, err
			}
		default:
			return 0, wrongField(path, "It must be a text, a number or a boolean.", "Send something flat.")
		}
	}
	return ttl, nil
}
