package identity

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// TokenConfig says which tokens (JWT, RFC 7519) are believed. Without Secret,
// KeyFiles and JWKS no token is.
type TokenConfig struct {
	// Algorithms are the signatures that count: HS256, HS384, HS512, RS256, RS384,
	// RS512, PS256, PS384, PS512, ES256, ES384, ES512 and EdDSA. There is no
	// default: a token must not choose how it is checked (RFC 8725 section 3.1).
	Algorithms []string
	// Secret is the shared secret of the HS algorithms: random text, as many bytes
	// as the hash has or more (RFC 7518 section 3.2).
	Secret string
	// KeyFiles are files of public keys or certificates in PEM form, for the other
	// algorithms. Several keys may be in force while one replaces the other.
	KeyFiles []string
	// JWKS is where the issuer publishes its public keys (RFC 7517): an https
	// address, an http address of this machine, or a file.
	JWKS string
	// Issuer is the iss that tokens must have.
	Issuer string
	// Audience is the aud that tokens must have, alone or among others.
	Audience string
	// Leeway is how far the clocks of the issuer and of this machine may differ.
	Leeway time.Duration
	// Header is a header that carries a caller's token. Authorization, with the
	// scheme Bearer, is looked at in any case.
	Header string
	// Required refuses callers without a token.
	Required bool
	// RefreshInterval is how often JWKS is read again. A key that is not known
	// makes it be read too, but not more often than once in ten seconds.
	RefreshInterval time.Duration
	// RefreshTimeout bounds one reading of JWKS, and how long a call waits for it.
	RefreshTimeout time.Duration
	// Report is told of every reading of JWKS that failed; the keys that are known
	// stay in force. It is called by the Verifier's one goroutine and must not call
	// Close. nil: nobody is told. Errors never hold a token or a secret.
	Report func(error) `json:"-"`
}

// DefaultTokenConfig is the configuration when none is given: no token counts.
func DefaultTokenConfig() TokenConfig {
	return TokenConfig{Leeway: 30 * time.Second, RefreshInterval: 15 * time.Minute, RefreshTimeout: 5 * time.Second}
}

// Enabled says whether tokens are looked at.
func (c TokenConfig) Enabled() bool { return c.Secret != "" || len(c.KeyFiles) > 0 || c.JWKS != "" }

// The bounds of TokenConfig's times. A token is short-lived; a leeway of more
// than five minutes is a clock that is wrong.
const (
	maxLeeway       = 5 * time.Minute
	minRefresh      = time.Minute
	maxRefresh      = 24 * time.Hour
	maxFetchTimeout = 30 * time.Second
)

// Validate reports what cannot work, each mistake naming the field and the
// remedy. It reads no files; see Check.
func (c TokenConfig) Validate() error {
	if !c.Enabled() {
		if c.Required {
			return errors.New("identity: required: needs secret, key_files or jwks, or no caller could show a token that counts")
		}
		return nil
	}
	errs := c.validateAlgorithms()
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("identity: "+format, args...)) }
	if c.Issuer == "" {
		wrong("issuer: must be set: the iss of the tokens, such as \"https://login.example.com/\"")
	}
	if c.Audience == "" {
		wrong("audience: must be set: the aud that tokens for this gateway have, such as \"parley\"")
	}
	if c.Leeway < 0 || c.Leeway > maxLeeway {
		wrong("leeway: %v, must be 0s to %v", c.Leeway, maxLeeway)
	}
	if !headerName(c.Header) {
		wrong("header: %q is no name of a header, such as \"X-Caller-Token\"", c.Header)
	}
	if c.JWKS != "" {
		if err := validateJWKS(c.JWKS); err != nil {
			errs = append(errs, err)
		}
		if c.RefreshInterval < minRefresh || c.RefreshInterval > maxRefresh {
			wrong("refresh_interval: %v, must be %v to %v", c.RefreshInterval, minRefresh, maxRefresh)
		}
		if c.RefreshTimeout <= 0 || c.RefreshTimeout > maxFetchTimeout {
			wrong("refresh_timeout: %v, must be above 0s and at most %v", c.RefreshTimeout, maxFetchTimeout)
		}
	}
	return errors.Join(errs...)
}

// validateAlgorithms sees that the algorithms and the keys are for each other.
func (c TokenConfig) validateAlgorithms() []error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("identity: "+format, args...)) }
	if len(c.Algorithms) == 0 {
		wrong("algorithms: must name what tokens may be signed with, such as [\"RS256\"]; there are %s", strings.Join(algorithmNames(), ", "))
	}
	shared, public := false, false
	for _, name := range c.Algorithms {
		a, ok := algorithms[name]
		switch {
		case !ok:
			wrong("algorithms: %q is none of %s", name, strings.Join(algorithmNames(), ", "))
			continue
		case a.family != familyHMAC:
			public = true
			continue
		}
		shared = true
		if c.Secret != "" {
			if err := checkSecret(c.Secret, a); err != nil {
				wrong("secret: %w", err)
			}
		}
	}
	switch {
	case c.Secret != "" && !shared && len(errs) == 0:
		wrong("algorithms: name none that uses the secret: add \"HS256\", or take the secret away")
	case c.Secret == "" && shared:
		wrong("secret: must be set for the HS algorithms, or take them out of algorithms")
	}
	if keys := len(c.KeyFiles) > 0 || c.JWKS != ""; keys && !public && shared {
		wrong("algorithms: name none that uses the keys of key_files and jwks: add \"RS256\", \"ES256\" or \"EdDSA\"")
	} else if public && !keys {
		wrong("key_files: or jwks must be set for all but the HS algorithms, or take those out of algorithms")
	}
	return errs
}

// validateJWKS refuses addresses that would let a stranger answer, or lead
// elsewhere than the operator wrote.
func validateJWKS(where string) error {
	if !isURL(where) {
		return nil
	}
	u, err := url.Parse(where)
	switch {
	case err != nil || u.Host == "":
		return errors.New("identity: jwks: is no address such as \"https://login.example.com/jwks.json\"")
	case u.User != nil:
		return errors.New("identity: jwks: must not hold a user or a password: it is shown in logs")
	case u.Fragment != "":
		return errors.New("identity: jwks: must have no #fragment")
	case strings.EqualFold(u.Scheme, "http") && !isLoopback(u.Hostname()):
		return errors.New("identity: jwks: must begin with https://: whoever answers in its place could sign tokens")
	}
	return nil
}

// headerName says whether s is empty or a token of RFC 3261 section 25.1.
func headerName(s string) bool {
	return len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

// What a token can be refused for: TokenError.Rule.
const (
	RuleMissing   = "missing"   // there is none, and one is required
	RuleSize      = "size"      // longer than MaxToken
	RuleMalformed = "malformed" // no JWT in compact form
	RuleAlgorithm = "alg"       // none, or one that is not configured
	RuleType      = "typ"       // a JWT for another purpose
	RuleCritical  = "crit"      // asks for an extension
	RuleKeyID     = "kid"       // not text, or too long
	RuleKey       = "key"       // no key that could check it
	RuleSignature = "signature" // does not match
	RuleExpires   = "exp"       // missing, no time, or past
	RuleNotBefore = "nbf"       // no time, or to come
	RuleIssuedAt  = "iat"       // no time, or to come
	RuleIssuer    = "iss"       // missing, or another
	RuleAudience  = "aud"       // missing, or another
	RuleSubject   = "sub"       // missing, or no safe resource id
	RuleClaims    = "claims"    // too many, too deep or too long
)

// TokenError says why a token was refused. It holds nothing of the token.
type TokenError struct {
	// Rule is one of the Rule constants: for logs, metrics and tests.
	Rule string
	// Text says it in words.
	Text string
}

// Error is the rule and the text.
func (e *TokenError) Error() string { return "identity: token refused: " + e.Rule + ": " + e.Text }

func refused(rule, text string) *TokenError { return &TokenError{Rule: rule, Text: text} }

// MaxToken bounds a token in bytes. With the other headers of an INVITE it must
// fit into what SIP carries; what is larger is no proof but an attack.
const MaxToken = 8192

// maxKeyID bounds a kid in bytes.
const maxKeyID = 256

// Verifier checks tokens. It is safe for concurrent use.
type Verifier struct {
	parser    *jwt.Parser
	validator *jwt.Validator
	names     []string // of algorithms
	header    string
	required  bool
	keys      []verifyKey // of the secret and the files
	set       *keySet     // of JWKS; nil without
}

// NewVerifier makes a Verifier. It reads the key files and a JWKS file, and their
// mistakes are its errors. A JWKS address is read by a goroutine that lives until
// Close: when it does not answer, the Verifier starts without those keys and
// tries again.
func NewVerifier(cfg TokenConfig) (*Verifier, error) { return newVerifier(cfg, nil) }

func newVerifier(cfg TokenConfig, fetch fetcher) (*Verifier, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if !cfg.Enabled() {
		return nil, errors.New("identity: no token can be checked without secret, key_files or jwks")
	}
	keys, err := cfg.keys()
	if err != nil {
		return nil, err
	}
	claims := []jwt.ParserOption{
		jwt.WithLeeway(cfg.Leeway), jwt.WithExpirationRequired(), jwt.WithIssuedAt(),
		jwt.WithIssuer(cfg.Issuer), jwt.WithAudience(cfg.Audience),
	}
	v := &Verifier{
		parser:    jwt.NewParser(jwt.WithValidMethods(cfg.Algorithms), jwt.WithStrictDecoding(), jwt.WithoutClaimsValidation()),
		validator: jwt.NewValidator(claims...),
		names:     slices.Clone(cfg.Algorithms), header: cfg.Header, required: cfg.Required, keys: keys,
	}
	if cfg.JWKS == "" {
		return v, nil
	}
	if fetch == nil {
		if fetch, err = newFetcher(cfg); err != nil {
			return nil, err
		}
	}
	if v.set, err = newKeySet(cfg, fetch); err != nil {
		return nil, err
	}
	return v, nil
}

// Check is Validate, and reads the key files and a JWKS file too, but asks no
// address.
func (c TokenConfig) Check() error {
	if err := c.Validate(); err != nil || !c.Enabled() {
		return err
	}
	_, err := c.keys()
	if err == nil && c.JWKS != "" && !isURL(c.JWKS) {
		_, err = readJWKS(c.JWKS)
	}
	return err
}

// Close ends the reading of JWKS and waits for it. Verify goes on with the keys
// that are known. It may be called more than once.
func (v *Verifier) Close() {
	if v.set != nil {
		v.set.close()
	}
}

// Verify checks token, which is without a scheme: form, algorithm, signature,
// times, issuer and audience. The error is a *TokenError. It may take
// TokenConfig.RefreshTimeout when the key is not known yet.
func (v *Verifier) Verify(token string) (Claims, error) {
	if len(token) > MaxToken {
		return Claims{}, refused(RuleSize, fmt.Sprintf("longer than %d bytes", MaxToken))
	}
	head, err := readHead(token)
	if err != nil {
		return Claims{}, err
	}
	alg, ok := algorithms[head.alg]
	if !ok || !slices.Contains(v.names, head.alg) {
		return Claims{}, refused(RuleAlgorithm, "the signature's algorithm is not one that is configured")
	}
	keys := v.find(head.kid, head.alg, alg)
	if len(keys) == 0 {
		return Claims{}, refused(RuleKey, "no key is known that could check it")
	}
	private := jwt.MapClaims{}
	_, err = v.parser.ParseWithClaims(token, private, func(*jwt.Token) (any, error) {
		return jwt.VerificationKeySet{Keys: keys}, nil
	})
	switch {
	case errors.Is(err, jwt.ErrTokenMalformed):
		return Claims{}, refused(RuleMalformed, "not a token in compact form")
	case err != nil:
		return Claims{}, refused(RuleSignature, "the signature does not match")
	}
	return v.claims(private)
}

// find gives the keys that may check a token: those of the algorithm's kind, with
// the token's kid or without one. When there is none, the issuer may have changed
// its keys, and JWKS is read again.
func (v *Verifier) find(kid, name string, alg algorithm) []jwt.VerificationKey {
	keys := v.keys
	if v.set != nil {
		keys = append(slices.Clip(keys), v.set.current()...)
	}
	if found := fitting(keys, kid, name, alg); len(found) > 0 || v.set == nil {
		return found
	}
	return fitting(v.set.renewed(), kid, name, alg)
}

// head is what counts of a token's header. Everything else in it, such as jku,
// x5u or jwk, where an attacker would name a key of theirs, is not looked at.
type head struct{ alg, kid string }

// readHead reads a token's header before anything is computed.
func readHead(token string) (head, error) {
	first, rest, ok := strings.Cut(token, ".")
	if !ok || strings.Count(rest, ".") != 1 {
		return head{}, refused(RuleMalformed, "not a token in compact form")
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(first)
	if err != nil {
		return head{}, refused(RuleMalformed, "not a token in compact form")
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return head{}, refused(RuleMalformed, "not a token in compact form")
	}
	if _, ok := fields["crit"]; ok {
		// RFC 7515 section 4.1.11: whoever does not know an extension that is
		// critical refuses; none is known here.
		return head{}, refused(RuleCritical, "asks for an extension that is not known")
	}
	if typ, ok := fields["typ"]; ok && !tokenType(typ) {
		return head{}, refused(RuleType, "made for another purpose")
	}
	var h head
	if kid, given := fields["kid"]; given {
		if h.kid, ok = kid.(string); !ok || len(h.kid) > maxKeyID {
			return head{}, refused(RuleKeyID, "is not text or too long")
		}
	}
	if h.alg, ok = fields["alg"].(string); !ok {
		return head{}, refused(RuleAlgorithm, "names no algorithm")
	}
	return h, nil
}

// tokenType knows the types of tokens that prove who somebody is. A JWT of
// another type, such as a PASSporT (RFC 8225), is signed for something else (RFC
// 8725 section 3.11).
func tokenType(typ any) bool {
	s, _ := typ.(string)
	switch strings.TrimPrefix(strings.ToLower(s), "application/") {
	case "jwt", "at+jwt":
		return true
	}
	return false
}
