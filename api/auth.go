package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"parley/identity"
)

// client is who makes a request.
type client struct {
	name    string // for logs: no secret, no number
	id      string // tells clients apart
	scopes  []string
	expires time.Time // zero: does not
}

// may says whether the client has scope.
func (c client) may(scope string) bool { return slices.Contains(c.scopes, scope) }

// keyring holds the keys as hashes, so that comparing them takes the same time
// whatever is sent.
type keyring struct {
	keys []hashedKey
}

type hashedKey struct {
	hash   [sha256.Size]byte
	name   string
	scopes []string
}

func newKeyring(keys []Key) *keyring {
	r := &keyring{}
	for _, k := range keys {
		scopes := k.Scopes
		if len(scopes) == 0 {
			scopes = Scopes()
		}
		r.keys = append(r.keys, hashedKey{hash: sha256.Sum256([]byte(k.Secret)), name: k.Name, scopes: slices.Clone(scopes)})
	}
	return r
}

// find looks at all of the keys, also after it found one.
func (r *keyring) find(secret string) (hashedKey, bool) {
	hash := sha256.Sum256([]byte(secret))
	at := -1
	for i := range r.keys {
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(hash[:], r.keys[i].hash[:]), i, at)
	}
	if at < 0 {
		return hashedKey{}, false
	}
	return r.keys[at], true
}

// identify finds out who makes the request. Who it is and what they may do are two
// questions; the second is authorize's.
func (s *Server) identify(r *http.Request) (client, error) {
	credentials := r.Header.Values("Authorization")
	switch {
	case len(credentials) > 1:
		return client{}, challenge("invalid_request", "There is more than one Authorization header field.")
	case len(credentials) == 1:
		return s.bearer(credentials[0])
	case !s.cfg.open():
		return client{}, challenge("", "This needs a login.")
	}
	if err := local(r); err != nil {
		return client{}, err
	}
	return client{name: "loopback", id: "loopback", scopes: Scopes()}, nil
}

// bearer reads a key or a token (RFC 6750 section 2.1).
func (s *Server) bearer(credentials string) (client, error) {
	scheme, secret, _ := strings.Cut(credentials, " ")
	secret = strings.Trim(secret, " ")
	if !strings.EqualFold(scheme, "Bearer") || secret == "" || len(secret) > maxHeader/2 {
		return client{}, challenge("invalid_request", "The Authorization header field holds no bearer key or token.")
	}
	if k, ok := s.keys.find(secret); ok {
		return client{name: "key:" + k.name, id: "key:" + k.name, scopes: k.scopes}, nil
	}
	if !s.cfg.Tokens || s.parts.Verify == nil {
		return client{}, challenge("invalid_token", "This is none of the keys.")
	}
	claims, err := s.parts.Verify(secret)
	if err != nil {
		// The text says which rule a token broke, not what is in it; it is bounded all
		// the same.
		return client{}, challenge("invalid_token", "This is none of the keys, and not a valid token: "+identity.CleanText(err.Error(), 200))
	}
	subject := identity.CleanText(claims.Subject, maxResource)
	return client{name: "token:" + identity.Mask(subject), id: "token:" + subject, scopes: scopesOf(claims), expires: claims.Expires}, nil
}

// scopesOf are the scopes that a token says it is good for: a text with spaces
// between them (RFC 8693 section 4.2), or a list. Unknown ones are harmless.
func scopesOf(c identity.Claims) (scopes []string) {
	for _, name := range [...]string{"scope", "scp"} {
		switch v := c.Private[name].(type) {
		case string:
			scopes = append(scopes, strings.Fields(v)...)
		case []any:
			for _, one := range v {
				if text, ok := one.(string); ok {
					scopes = append(scopes, text)
				}
			}
		}
	}
	return scopes
}

// challenge is the answer to who did not say who they are, or said it wrong (RFC
// 6750 section 3).
func challenge(code, detail string) *problem {
	value := `Bearer realm="parley"`
	if code != "" {
		value += `, error="` + code + `"`
	}
	return trouble(http.StatusUnauthorized, "unauthorized", detail,
		"Send Authorization: Bearer with a key of the configuration (api.keys), or with a token if it takes them.").with("WWW-Authenticate", value)
}

// authorize says whether c may do what needs scope.
func authorize(c client, scope string) error {
	if scope == "" || c.may(scope) {
		return nil
	}
	return trouble(http.StatusForbidden, "scope", "The key or token has not the scope "+scope+".",
		"Use another, or give it that scope.").with("WWW-Authenticate", `Bearer realm="parley", error="insufficient_scope", scope="`+scope+`"`)
}

// forwarded are the header fields by which a proxy shows itself. None is believed;
// one of them says that the client is not who is at the other end.
var forwarded = [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"}

// local says why a request without a login is not from somebody at this machine:
// it comes from elsewhere, through a proxy, or out of a page of a stranger that a
// browser here has open.
func local(r *http.Request) error {
	login := "Send a key: set api.keys in the configuration."
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return challenge("", "Only loopback needs no login.")
	}
	for _, name := range forwarded {
		if len(r.Header.Values(name)) > 0 {
			return challenge("", "The request comes through a proxy, so it may come from anywhere.")
		}
	}
	// A name that leads to 127.0.0.1 only since the browser asked again (DNS
	// rebinding) is still in Host.
	if host, ok := hostname(r.Host); !ok || !loopbackHost(host) {
		return trouble(http.StatusForbidden, "host", "Without a login the gateway answers to loopback's names only, not to the Host of this request.",
			"Use http://127.0.0.1 or http://localhost. "+login)
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return trouble(http.StatusForbidden, "origin", "The request comes from a page of another site.", login)
	}
	if origin := r.Header.Values("Origin"); len(origin) > 0 {
		u, err := url.Parse(origin[0])
		if err != nil || len(origin) > 1 || u.Scheme != "http" || !strings.EqualFold(u.Host, r.Host) {
			return trouble(http.StatusForbidden, "origin", "The request comes from a page of another origin.", login)
		}
	}
	return nil
}

// hostname takes the port off a Host.
func hostname(host string) (string, bool) {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h, true
	}
	return host, host != "" && !strings.Contains(host, "@")
}
