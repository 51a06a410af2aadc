package identity

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// SignerConfig says how tokens are made that tell an agent who is calling.
// Without Secret and KeyFile none are.
type SignerConfig struct {
	// Algorithm is the signature; see TokenConfig.Algorithms.
	Algorithm string
	// Secret is the shared secret of the HS algorithms.
	Secret string
	// KeyFile is the private key of the others, in PEM form.
	KeyFile string
	// KeyID is the kid of the tokens, so that keys can be changed. Empty: none.
	KeyID string
	// Issuer is the iss of the tokens.
	Issuer string
	// Audience is the aud of tokens that are made for nobody else.
	Audience string
	// TTL is how long tokens are valid that are made without a time of their own,
	// and the longest that any may be.
	TTL time.Duration
}

// DefaultSignerConfig is the configuration when none is given: no tokens.
func DefaultSignerConfig() SignerConfig { return SignerConfig{Issuer: "parley", TTL: 5 * time.Minute} }

// Enabled says whether tokens are made.
func (c SignerConfig) Enabled() bool { return c.Secret != "" || c.KeyFile != "" }

// The bounds of SignerConfig.TTL.
const (
	minTTL = time.Second
	maxTTL = time.Hour
)

// Validate reports what cannot work, each mistake naming the field and the
// remedy. It reads no file; NewSigner does.
func (c SignerConfig) Validate() error {
	if !c.Enabled() {
		return nil
	}
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("identity: "+format, args...)) }
	a, known := algorithms[c.Algorithm]
	switch {
	case !known:
		wrong("algorithm: %q, must be one of %s", c.Algorithm, strings.Join(algorithmNames(), ", "))
	case c.Secret != "" && c.KeyFile != "":
		wrong("secret: and key_file are both set: give the one that %s uses", c.Algorithm)
	case a.family == familyHMAC && c.Secret == "":
		wrong("secret: must be set for %s; key_file is for the other algorithms", c.Algorithm)
	case a.family != familyHMAC && c.KeyFile == "":
		wrong("key_file: must be set for %s; secret is for the HS algorithms", c.Algorithm)
	case a.family == familyHMAC:
		if err := checkSecret(c.Secret, a); err != nil {
			wrong("secret: %w", err)
		}
	}
	if c.Issuer == "" {
		wrong("issuer: must be set: the iss of the tokens, such as \"parley\"")
	}
	if c.Audience == "" {
		wrong("audience: must be set: the aud of the tokens, such as the name of your agent")
	}
	if len(c.KeyID) > maxKeyID || c.KeyID != CleanText(c.KeyID, maxKeyID) {
		wrong("key_id: must be at most %d bytes of text", maxKeyID)
	}
	if c.TTL < minTTL || c.TTL > maxTTL {
		wrong("ttl: %v, must be %v to %v", c.TTL, minTTL, maxTTL)
	}
	return errors.Join(errs...)
}

// Signer makes tokens. It is safe for concurrent use.
type Signer struct {
	cfg    SignerConfig
	method jwt.SigningMethod
	key    any // []byte or crypto.Signer
}

// NewSigner makes a Signer. It reads the key file, whose mistakes are its errors.
func NewSigner(cfg SignerConfig) (*Signer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if !cfg.Enabled() {
		return nil, errors.New("identity: no token can be made without secret or key_file")
	}
	a := algorithms[cfg.Algorithm]
	s := &Signer{cfg: cfg, method: a.method, key: []byte(cfg.Secret)}
	if a.family == familyHMAC {
		return s, nil
	}
	text, err := readKeyFile(cfg.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("identity: key_file: %w", err)
	}
	key, err := privateKey(text)
	if err != nil {
		return nil, fmt.Errorf("identity: key_file: %s: %w", cfg.KeyFile, err)
	}
	public, err := publicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("identity: key_file: %s: %w", cfg.KeyFile, err)
	}
	if len(fitting([]verifyKey{public}, "", cfg.Algorithm, a)) == 0 {
		return nil, fmt.Errorf("identity: key_file: %s: the key is not for %s", cfg.KeyFile, cfg.Algorithm)
	}
	s.key = key
	return s, nil
}

// Mint makes a token about sub for aud: iss, sub, aud, iat, exp and a random jti,
// and the claims of extra beside them. An empty aud is the configured one, a ttl
// of 0 the configured one too. It is an error when sub is no safe resource id
// (SafeID): callers who are not known must not share a subject. It is one as well
// when ttl is longer than the configured, when extra holds a registered claim, and
// when the token became longer than MaxToken. Errors hold nothing of extra.
func (s *Signer) Mint(sub, aud string, extra map[string]any, ttl time.Duration) (string, error) {
	id, ok := SafeID(sub)
	if !ok {
		return "", errors.New("identity: mint: the subject is no safe resource id")
	}
	if ttl == 0 {
		ttl = s.cfg.TTL
	}
	if ttl < minTTL || ttl > s.cfg.TTL {
		return "", fmt.Errorf("identity: mint: a token for %v, must be %v to %v", ttl, minTTL, s.cfg.TTL)
	}
	if aud == "" {
		aud = s.cfg.Audience
	}
	claims := jwt.MapClaims{}
	for name := range extra {
		if registered(name) {
			return "", fmt.Errorf("identity: mint: the claim %s is not for extra", name)
		}
	}
	maps.Copy(claims, extra)
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // it never fails
	now := time.Now().Truncate(time.Second)
	claims["sub"], claims["aud"], claims["iss"] = id, aud, s.cfg.Issuer
	claims["iat"], claims["exp"] = now.Unix(), now.Add(ttl).Unix()
	claims["jti"] = base64.RawURLEncoding.EncodeToString(nonce[:])
	token := jwt.NewWithClaims(s.method, claims)
	if s.cfg.KeyID != "" {
		token.Header["kid"] = s.cfg.KeyID
	}
	text, err := token.SignedString(s.key)
	if err != nil {
		return "", errors.New("identity: mint: the claims cannot be written or signed")
	}
	if len(text) > MaxToken {
		return "", fmt.Errorf("identity: mint: the token has %d bytes, at most %d", len(text), MaxToken)
	}
	return text, nil
}
