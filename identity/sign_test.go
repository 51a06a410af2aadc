package identity

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
)

// signing is a configuration for alg.
func signing(t testing.TB, alg string) SignerConfig {
	t.Helper()
	cfg := DefaultSignerConfig()
	cfg.Algorithm, cfg.Issuer, cfg.Audience = alg, issuer, audience
	if algorithms[alg].family == familyHMAC {
		cfg.Secret = secret
	} else {
		cfg.KeyFile = file(t, privatePEM(t, testKeys()[keyOf(alg)]))
	}
	return cfg
}

// What is minted is verified, with every algorithm, until it ends.
func TestMint(t *testing.T) {
	for _, alg := range algorithmNames() {
		synctest.Test(t, func(t *testing.T) {
			cfg := signing(t, alg)
			cfg.KeyID = "2026-1"
			s, err := NewSigner(cfg)
			if err != nil {
				t.Fatal(err)
			}
			check := tokens(t, alg)
			check.Leeway = 0
			v := verifier(t, check)
			token, err := s.Mint("+12025550143", "", map[string]any{"call_id": "c1"}, 0)
			if err != nil {
				t.Fatal(err)
			}
			claims, err := v.Verify(token)
			if err != nil {
				t.Fatalf("%s: %v", alg, err)
			}
			if len(claims.ID) != 22 {
				t.Errorf("jti %q", claims.ID)
			}
			now := time.Now()
			want := Claims{
				Subject: "+12025550143", Issuer: issuer, Audience: []string{audience}, ID: claims.ID,
				IssuedAt: now, Expires: now.Add(5 * time.Minute), Private: map[string]any{"call_id": "c1"},
			}
			if d := cmp.Diff(want, claims); d != "" {
				t.Error(d)
			}
			head, err := readHead(token)
			if err != nil || head.kid != "2026-1" || head.alg != alg {
				t.Errorf("%+v %v", head, err)
			}
			time.Sleep(5 * time.Minute)
			if got := rule(t, second(v.Verify(token))); got != RuleExpires {
				t.Errorf("%s after its end: %q", alg, got)
			}
		})
	}
}

func TestMintForAnotherAudienceAndTime(t *testing.T) {
	s, err := NewSigner(signing(t, "HS256"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range 100 {
		token, err := s.Mint("customer-1", "agent", nil, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		var claims jwt.RegisteredClaims
		if _, _, err := jwt.NewParser().ParseUnverified(token, &claims); err != nil {
			t.Fatal(err)
		}
		if claims.Audience[0] != "agent" || claims.ExpiresAt.Sub(claims.IssuedAt.Time) != time.Minute || seen[claims.ID] {
			t.Errorf("%+v", claims)
		}
		seen[claims.ID] = true
	}
}

func TestMintRefuses(t *testing.T) {
	s, err := NewSigner(signing(t, "HS256"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		why, sub string
		extra    map[string]any
		ttl      time.Duration
		want     string
	}{
		{"nobody", "", nil, 0, "the subject is no safe resource id"},
		{"anonymous", "anonymous", nil, 0, "the subject is no safe resource id"},
		{"a path", "../x", nil, 0, "the subject is no safe resource id"},
		{"a registered claim", "a", map[string]any{"exp": 1}, 0, "the claim exp is not for extra"},
		{"another subject", "a", map[string]any{"sub": "b"}, 0, "the claim sub is not for extra"},
		{"too long a life", "a", nil, 6 * time.Minute, "a token for 6m0s, must be 1s to 5m0s"},
		{"a life below 0", "a", nil, -time.Minute, "a token for -1m0s"},
		{"too large", "a", map[string]any{"x": strings.Repeat("hunter2", 2000)}, 0, "the token has"},
		{"no JSON", "a", map[string]any{"x": math.NaN()}, 0, "the claims cannot be written"},
	} {
		_, err := s.Mint(c.sub, "", c.extra, c.ttl)
		checkMistake(t, c.why, err, "mint: "+c.want)
	}
}

func TestSignerConfigValidate(t *testing.T) {
	hs, rs := signing(t, "HS256"), signing(t, "RS256")
	for _, c := range []struct {
		why    string
		from   SignerConfig
		change func(*SignerConfig)
		want   string
	}{
		{"a secret", hs, func(*SignerConfig) {}, ""},
		{"a key", rs, func(*SignerConfig) {}, ""},
		{"no algorithm", hs, func(c *SignerConfig) { c.Algorithm = "" }, `algorithm: "", must be one of ES256`},
		{"none", hs, func(c *SignerConfig) { c.Algorithm = "none" }, `algorithm: "none", must be one of`},
		{"both", rs, func(c *SignerConfig) { c.Secret = secret }, "secret: and key_file are both set"},
		{"a key for HS256", rs, func(c *SignerConfig) { c.Algorithm = "HS256" }, "secret: must be set for HS256"},
		{"a secret for RS256", hs, func(c *SignerConfig) { c.Algorithm = "RS256" }, "key_file: must be set for RS256"},
		{"a short secret", hs, func(c *SignerConfig) { c.Secret = "short-and-secret" }, "secret: has 16 bytes, must have at least 32"},
		{"a short secret for HS384", hs, func(c *SignerConfig) { c.Algorithm, c.Secret = "HS384", secret[:47] }, "must have at least 48 for HS384"},
		{"no issuer", hs, func(c *SignerConfig) { c.Issuer = "" }, "issuer: must be set"},
		{"no audience", hs, func(c *SignerConfig) { c.Audience = "" }, "audience: must be set"},
		{"a key id of two lines", hs, func(c *SignerConfig) { c.KeyID = "a\nb" }, "key_id: must be at most 256 bytes of text"},
		{"no time", hs, func(c *SignerConfig) { c.TTL = 0 }, "ttl: 0s, must be 1s to 1h0m0s"},
		{"a day", hs, func(c *SignerConfig) { c.TTL = 24 * time.Hour }, "ttl: 24h0m0s, must be 1s to 1h0m0s"},
	} {
		cfg := c.from
		c.change(&cfg)
		checkMistake(t, c.why, cfg.Validate(), c.want)
		if _, err := NewSigner(cfg); (err != nil) != (c.want != "") {
			t.Errorf("%s: NewSigner: %v", c.why, err)
		}
	}
	if err := DefaultSignerConfig().Validate(); err != nil || DefaultSignerConfig().Enabled() {
		t.Error(err)
	}
	if _, err := NewSigner(DefaultSignerConfig()); err == nil {
		t.Error("a signer without a key")
	}
}

func TestPrivateKeyFiles(t *testing.T) {
	k := testKeys()
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	sec1, err := x509.MarshalECPrivateKey(k["p256"].(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		why, alg string
		text     []byte
		want     string
	}{
		{"PKCS 8", "EdDSA", privatePEM(t, k["ed"]), ""},
		{"PKCS 1", "PS256", block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(k["rsa"].(*rsa.PrivateKey))), ""},
		{"SEC 1", "ES256", block("EC PRIVATE KEY", sec1), ""},
		{"a public key", "RS256", publicPEM(t, k["rsa"]), "holds no private key that is not encrypted"},
		{"an encrypted key", "RS256", block("ENCRYPTED PRIVATE KEY", []byte{1}), "takes the password off"},
		{"no PEM", "RS256", []byte("hello"), "holds no private key in PEM form"},
		{"broken", "RS256", block("PRIVATE KEY", []byte("hunter2")), "holds a private key that cannot be read"},
		{"a key that cannot sign", "RS256", x25519PEM(t), "holds a key that cannot sign"},
		{"RSA of 1024 bits", "RS256", privatePEM(t, k["weak"]), "an RSA key of 1024 bits"},
		{"another curve", "ES256", privatePEM(t, k["p384"]), "the key is not for ES256"},
		{"another kind", "EdDSA", privatePEM(t, k["p384"]), "the key is not for EdDSA"},
	} {
		cfg := signing(t, c.alg)
		cfg.KeyFile = file(t, c.text)
		_, err := NewSigner(cfg)
		checkMistake(t, c.why, err, c.want)
	}
	cfg := signing(t, "RS256")
	cfg.KeyFile = filepath.Join(t.TempDir(), "missing")
	checkMistake(t, "no file", second(NewSigner(cfg)), "key_file: ")
}
