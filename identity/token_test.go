package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
)

const (
	issuer   = "https://login.example.com/"
	audience = "parley"
	secret   = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" // 64 bytes
)

// testKeys are one key of each kind, made once.
var testKeys = sync.OnceValue(func() map[string]crypto.Signer {
	must := func(k crypto.Signer, err error) crypto.Signer {
		if err != nil {
			panic(err)
		}
		return k
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	ec := func(c elliptic.Curve) crypto.Signer { return must(ecdsa.GenerateKey(c, rand.Reader)) }
	return map[string]crypto.Signer{
		"rsa": must(rsa.GenerateKey(rand.Reader, 2048)), "rsa2": must(rsa.GenerateKey(rand.Reader, 2048)),
		"weak": must(rsa.GenerateKey(rand.Reader, 1024)),
		"p256": ec(elliptic.P256()), "p384": ec(elliptic.P384()), "p521": ec(elliptic.P521()), "p224": ec(elliptic.P224()),
		"ed": must(ed, err),
	}
})

// keyOf names the key in testKeys that an algorithm uses.
func keyOf(alg string) string {
	switch alg {
	case "ES256":
		return "p256"
	case "ES384":
		return "p384"
	case "ES512":
		return "p521"
	case "EdDSA":
		return "ed"
	}
	return "rsa"
}

// publicPEM and privatePEM are the keys as files.
func publicPEM(t testing.TB, k crypto.Signer) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(k.Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func privatePEM(t testing.TB, k crypto.Signer) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// file writes a file and gives its name.
func file(t testing.TB, text []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// sign makes a token; nil header and claims fields are taken out.
func sign(t testing.TB, alg string, key any, head, claims map[string]any) string {
	t.Helper()
	method := jwt.GetSigningMethod(alg)
	token := jwt.NewWithClaims(method, jwt.MapClaims(claims))
	for k, v := range head {
		if token.Header[k] = v; v == nil {
			delete(token.Header, k)
		}
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// good are claims that count now, with changes: nil takes a claim out.
func good(changes map[string]any) map[string]any {
	now := time.Now().Unix()
	c := map[string]any{"sub": "customer-1", "iss": issuer, "aud": audience, "iat": now, "exp": now + 60}
	for k, v := range changes {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

// tokens is a configuration for algs.
func tokens(t testing.TB, algs ...string) TokenConfig {
	t.Helper()
	cfg := DefaultTokenConfig()
	cfg.Algorithms, cfg.Issuer, cfg.Audience = algs, issuer, audience
	files := map[string]bool{}
	for _, a := range algs {
		if algorithms[a].family == familyHMAC {
			cfg.Secret = secret
		} else if k := keyOf(a); !files[k] {
			files[k] = true
			cfg.KeyFiles = append(cfg.KeyFiles, file(t, publicPEM(t, testKeys()[k])))
		}
	}
	return cfg
}

func verifier(t testing.TB, cfg TokenConfig) *Verifier {
	t.Helper()
	v, err := NewVerifier(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// rule is why err refused, or "" without one.
func rule(t testing.TB, err error) string {
	t.Helper()
	var refused *TokenError
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &refused):
		t.Errorf("not a TokenError: %v", err)
		return "?"
	case !strings.HasPrefix(err.Error(), "identity: token refused: "+refused.Rule+": "):
		t.Errorf("%v", err)
	}
	return refused.Rule
}

// segment is JSON as a part of a token.
func segment(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// TestVerify is BR-160 and its kin: whatever is not exactly right is refused, and
// the rule says why.
func TestVerify(t *testing.T) {
	now := time.Now().Unix()
	key := testKeys()["rsa"]
	rs := func(head, claims map[string]any) string { return sign(t, "RS256", key, head, good(claims)) }
	fine := rs(nil, nil)
	parts := strings.Split(fine, ".")
	// whatever the header says, signed by HMAC with the text of the public key
	confused := func(alg string, secret []byte) string {
		text := segment(map[string]any{"alg": alg, "typ": "JWT"}) + "." + segment(good(nil))
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(text))
		return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	}
	none := func(alg, signature string) string {
		return segment(map[string]any{"alg": alg, "typ": "JWT"}) + "." + segment(good(nil)) + "." + signature
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	deep := any("x")
	for range 6 {
		deep = []any{deep}
	}
	many := map[string]any{}
	for i := range 100 {
		many[strings.Repeat("a", i%60+1)+string(rune('a'+i%26))] = 1
	}
	attacker := map[string]any{"kty": "RSA", "n": "AQAB", "e": "AQAB"}

	for _, c := range []struct{ why, token, rule string }{
		{"right", fine, ""},
		{"right, with nbf", rs(nil, map[string]any{"nbf": now}), ""},
		{"right, for several", rs(nil, map[string]any{"aud": []any{"other", audience}}), ""},
		{"right, without iat", rs(nil, map[string]any{"iat": nil}), ""},
		{"right, of the kind at+jwt", rs(map[string]any{"typ": "application/at+JWT"}, nil), ""},
		{"right, without typ", rs(map[string]any{"typ": nil}, nil), ""},

		{"alg none", none("none", ""), RuleAlgorithm},
		{"alg None", none("None", ""), RuleAlgorithm},
		{"alg NONE", none("NONE", ""), RuleAlgorithm},
		{"alg nOnE with a signature", none("nOnE", parts[2]), RuleAlgorithm},
		{"alg none, signed by the library", sign(t, "none", jwt.UnsafeAllowNoneSignatureType, nil, good(nil)), RuleAlgorithm},
		{"alg missing", segment(map[string]any{"typ": "JWT"}) + "." + parts[1] + "." + parts[2], RuleAlgorithm},
		{"alg a number", segment(map[string]any{"alg": 1}) + "." + parts[1] + "." + parts[2], RuleAlgorithm},
		{"alg empty", none("", ""), RuleAlgorithm},
		{"alg in small letters", segment(map[string]any{"alg": "rs256"}) + "." + parts[1] + "." + parts[2], RuleAlgorithm},
		{"alg ALG", segment(map[string]any{"ALG": "RS256"}) + "." + parts[1] + "." + parts[2], RuleAlgorithm},
		{"another algorithm of the same key", sign(t, "RS512", key, nil, good(nil)), RuleAlgorithm},
		{"PS256 of the same key", sign(t, "PS256", key, nil, good(nil)), RuleAlgorithm},
		{"empty signature", parts[0] + "." + parts[1] + ".", RuleSignature},
		{"signature of something else", parts[0] + "." + segment(good(map[string]any{"sub": "admin"})) + "." + parts[2], RuleSignature},
		{"signature cut", fine[:len(fine)-2], RuleSignature},
		{"another key", sign(t, "RS256", testKeys()["rsa2"], nil, good(nil)), RuleSignature},
		{"HS256 with the public key's PEM", confused("HS256", publicPEM(t, key)), RuleAlgorithm},
		{"HS256 with the public key's DER", confused("HS256", der), RuleAlgorithm},
		{"RS256 by name, HMAC by deed", confused("RS256", publicPEM(t, key)), RuleSignature},

		{"no exp", rs(nil, map[string]any{"exp": nil}), RuleExpires},
		{"exp past", rs(nil, map[string]any{"exp": now - 3600}), RuleExpires},
		{"exp 0", rs(nil, map[string]any{"exp": 0}), RuleExpires},
		{"exp below 0", rs(nil, map[string]any{"exp": -1e20}), RuleExpires},
		{"exp 1e20", rs(nil, map[string]any{"exp": 1e20}), RuleExpires},
		{"exp a text", rs(nil, map[string]any{"exp": "2999-01-01"}), RuleExpires},
		{"exp null", rs(nil, map[string]any{"exp": json.RawMessage("null")}), RuleExpires},
		{"nbf to come", rs(nil, map[string]any{"nbf": now + 3600}), RuleNotBefore},
		{"nbf 1e20", rs(nil, map[string]any{"nbf": 1e20}), RuleNotBefore},
		{"nbf a list", rs(nil, map[string]any{"nbf": []any{}}), RuleNotBefore},
		{"iat to come", rs(nil, map[string]any{"iat": now + 3600}), RuleIssuedAt},
		{"iat 1e20", rs(nil, map[string]any{"iat": 1e20}), RuleIssuedAt},
		{"wrong iss", rs(nil, map[string]any{"iss": "https://evil.example/"}), RuleIssuer},
		{"iss that begins right", rs(nil, map[string]any{"iss": issuer + "x"}), RuleIssuer},
		{"no iss", rs(nil, map[string]any{"iss": nil}), RuleIssuer},
		{"iss empty", rs(nil, map[string]any{"iss": ""}), RuleIssuer},
		{"iss a list", rs(nil, map[string]any{"iss": []any{issuer}}), RuleIssuer},
		{"wrong aud", rs(nil, map[string]any{"aud": "other"}), RuleAudience},
		{"no aud", rs(nil, map[string]any{"aud": nil}), RuleAudience},
		{"aud an empty list", rs(nil, map[string]any{"aud": []any{}}), RuleAudience},
		{"aud a number", rs(nil, map[string]any{"aud": 7}), RuleAudience},
		{"aud in capitals", rs(nil, map[string]any{"aud": "PARLEY"}), RuleAudience},

		{"kid a path", rs(map[string]any{"kid": "../../dev/null"}, nil), ""}, // the files' keys have no kid; it is only a word
		{"kid an address", rs(map[string]any{"kid": "http://192.0.2.1/key"}, nil), ""},
		{"kid a number", rs(map[string]any{"kid": 7}, nil), RuleKeyID},
		{"kid an object", rs(map[string]any{"kid": attacker}, nil), RuleKeyID},
		{"kid of 300 bytes", rs(map[string]any{"kid": strings.Repeat("k", 300)}, nil), RuleKeyID},
		{"crit", rs(map[string]any{"crit": []any{"exp"}}, nil), RuleCritical},
		{"crit b64", rs(map[string]any{"crit": []any{"b64"}, "b64": false}, nil), RuleCritical},
		{"crit empty", rs(map[string]any{"crit": []any{}}, nil), RuleCritical},
		{"jwk of the attacker", sign(t, "RS256", testKeys()["rsa2"], map[string]any{"jwk": attacker}, good(nil)), RuleSignature},
		{"jku and x5u of the attacker", sign(t, "RS256", testKeys()["rsa2"], map[string]any{"jku": "http://127.0.0.1:1/", "x5u": "http://127.0.0.1:1/"}, good(nil)), RuleSignature},
		{"a PASSporT", rs(map[string]any{"typ": "passport"}, nil), RuleType},
		{"typ a number", rs(map[string]any{"typ": 1}, nil), RuleType},

		{"nothing", "", RuleMalformed},
		{"a dot", ".", RuleMalformed},
		{"two dots", "..", RuleMalformed},
		{"two parts", parts[0] + "." + parts[1], RuleMalformed},
		{"four parts", fine + ".x", RuleMalformed},
		{"100k dots", strings.Repeat(".", 100_000), RuleSize},
		{"8 k dots", strings.Repeat(".", 8000), RuleMalformed},
		{"too long", rs(nil, map[string]any{"x": strings.Repeat("x", 8192)}), RuleSize},
		{"no base64", "!!." + parts[1] + "." + parts[2], RuleMalformed},
		{"padded", parts[0] + "==." + parts[1] + "." + parts[2], RuleMalformed},
		{"claims no base64", parts[0] + ".!!." + parts[2], RuleMalformed},
		{"signature no base64", parts[0] + "." + parts[1] + ".!!", RuleMalformed},
		{"head no JSON", base64.RawURLEncoding.EncodeToString([]byte("{")) + "." + parts[1] + "." + parts[2], RuleMalformed},
		{"head a list", segment([]any{1}) + "." + parts[1] + "." + parts[2], RuleMalformed},
		{"claims no object", parts[0] + "." + segment("x") + "." + parts[2], RuleMalformed},
		{"a scheme before it", "Bearer " + fine, RuleMalformed},
		{"a newline behind it", fine + "\r\nX: y", RuleMalformed},

		{"claims too deep", rs(nil, map[string]any{"x": deep}), RuleClaims},
		{"objects too deep", rs(nil, map[string]any{"x": map[string]any{"a": deep}}), RuleClaims},
		{"too many claims", rs(nil, many), RuleClaims},
		{"a claim's text too long", rs(nil, map[string]any{"x": strings.Repeat("x", 4*maxClaimText+1)}), RuleClaims},
		{"a claim's name with a newline", rs(nil, map[string]any{"x\ny": 1}), RuleClaims},
		{"an inner name with a newline", rs(nil, map[string]any{"x": map[string]any{"x\ny": 1}}), RuleClaims},
		{"jti a number", rs(nil, map[string]any{"jti": 1}), RuleClaims},
		{"sub with a newline", rs(nil, map[string]any{"sub": "a\nb"}), RuleSubject},
		{"sub far too long", rs(nil, map[string]any{"sub": strings.Repeat("s", 600)}), RuleSubject},
	} {
		t.Run(c.why, func(t *testing.T) {
			v := verifier(t, tokens(t, "RS256"))
			claims, err := v.Verify(c.token)
			if got := rule(t, err); got != c.rule {
				t.Errorf("refused by %q (%v), want %q", got, err, c.rule)
			}
			if err != nil && claims.Subject+claims.Issuer != "" {
				t.Errorf("refused, and yet %+v", claims)
			}
			for _, part := range strings.Split(c.token, ".") {
				if err != nil && len(part) > 8 && strings.Contains(err.Error(), part) {
					t.Errorf("the error holds the token: %v", err)
				}
			}
		})
	}
}

// A verifier that knows both a secret and a public key still keeps them apart.
func TestKeysAreNotConfused(t *testing.T) {
	v := verifier(t, tokens(t, "RS256", "HS256", "ES256", "EdDSA"))
	for _, k := range []string{"rsa", "p256", "ed"} {
		public := publicPEM(t, testKeys()[k])
		if got := rule(t, second(v.Verify(sign(t, "HS256", public, nil, good(nil))))); got != RuleSignature {
			t.Errorf("HS256 with the public key of %s: %q", k, got)
		}
	}
	for _, alg := range []string{"RS256", "ES256", "EdDSA"} {
		if _, err := v.Verify(sign(t, alg, testKeys()[keyOf(alg)], nil, good(nil))); err != nil {
			t.Errorf("%s: %v", alg, err)
		}
	}
	if _, err := v.Verify(sign(t, "HS256", []byte(secret), nil, good(nil))); err != nil {
		t.Errorf("HS256: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// Every algorithm verifies its own signatures and nobody else's.
func TestEveryAlgorithm(t *testing.T) {
	made := map[string]string{}
	for _, alg := range algorithmNames() {
		key := any([]byte(secret))
		if algorithms[alg].family != familyHMAC {
			key = testKeys()[keyOf(alg)]
		}
		made[alg] = sign(t, alg, key, nil, good(nil))
	}
	if len(made) != 13 {
		t.Fatalf("%d algorithms", len(made))
	}
	for _, alg := range algorithmNames() {
		v := verifier(t, tokens(t, alg))
		for other, token := range made {
			want := RuleAlgorithm
			if other == alg {
				want = ""
			}
			if got := rule(t, second(v.Verify(token))); got != want {
				t.Errorf("a verifier of %s, a token of %s: %q, want %q", alg, other, got, want)
			}
		}
	}
}

func TestTimesHaveALeeway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := tokens(t, "HS256")
		cfg.Leeway = 10 * time.Second
		v := verifier(t, cfg)
		begin := time.Now()
		token := sign(t, "HS256", []byte(secret), nil, good(map[string]any{"nbf": begin.Unix() + 60, "iat": begin.Unix() + 60, "exp": begin.Unix() + 120}))
		for _, step := range []struct {
			after time.Duration
			want  string
		}{{49 * time.Second, RuleNotBefore}, {50 * time.Second, ""}, {129 * time.Second, ""}, {130 * time.Second, RuleExpires}} {
			time.Sleep(step.after - time.Since(begin))
			if got := rule(t, second(v.Verify(token))); got != step.want {
				t.Errorf("after %v: %q, want %q", step.after, got, step.want)
			}
		}
	})
}

func TestClaims(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	v := verifier(t, tokens(t, "HS256"))
	got, err := v.Verify(sign(t, "HS256", []byte(secret), nil, good(map[string]any{
		"iat": now.Unix(), "exp": now.Unix() + 60, "jti": "id-1", "aud": []any{"other", audience}, "scope": "calls\x00\nread",
		"roles": []any{"a", 1, nil, true}, "org": map[string]any{"id": "x\u202ey", "n": 1.5},
	})))
	if err != nil {
		t.Fatal(err)
	}
	want := Claims{
		Subject: "customer-1", Issuer: issuer, Audience: []string{"other", audience}, ID: "id-1", Expires: now.Add(time.Minute), IssuedAt: now,
		Private: map[string]any{"scope": "calls read", "roles": []any{"a", 1.0, nil, true}, "org": map[string]any{"id": "xy", "n": 1.5}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A verified token wins over the number; one that is not valid is an error and
// never falls back to it.
func TestResolveWithToken(t *testing.T) {
	plain, err := New(DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	cfg := tokens(t, "HS256")
	cfg.Header = "X-Caller-Token"
	open := plain.With(verifier(t, cfg))
	cfg.Required = true
	strict := plain.With(verifier(t, cfg))

	from := "From: Ann <sip:+12025550143@gw.example.com>"
	hidden := "From: <sip:anonymous@anonymous.invalid>\nPrivacy: id"
	mine := func(changes map[string]any) string { return sign(t, "HS256", []byte(secret), nil, good(changes)) }
	proven := func(c Caller) Caller {
		c.ResourceID, c.Subject, c.Verified, c.By, c.Claims = "customer-1", "customer-1", true, ByToken, map[string]any{}
		return c
	}
	for _, c := range []struct {
		why    string
		who    *Resolver
		header string
		bearer string
		want   Caller
		rule   string
	}{
		{"no token", open, from, "", is(ann, "Ann", ByFrom), ""},
		{"no token where one must be", strict, from, "", Caller{}, RuleMissing},
		{"a token wins", open, from, mine(nil), proven(is(ann, "Ann", ByFrom)), ""},
		{"a token wins where one must be", strict, from, mine(nil), proven(is(ann, "Ann", ByFrom)), ""},
		{"a token wins over the trunk's header", open, from + "\nX-StreamCore-Resource-Id: other", mine(nil), proven(is(ann, "Ann", ByFrom)), ""},
		{"a token proves who hides the number", open, hidden, mine(nil), proven(Caller{Anonymous: true}), ""},
		{"claims of its own", open, from, mine(map[string]any{"tier": "gold"}), func() Caller {
			c := proven(is(ann, "Ann", ByFrom))
			c.Claims = map[string]any{"tier": "gold"}
			return c
		}(), ""},
		{"a token that has expired", open, from, mine(map[string]any{"exp": 1000}), Caller{}, RuleExpires},
		{"garbage", open, from, "garbage", Caller{}, RuleMalformed},
		{"a token about nobody", open, from, mine(map[string]any{"sub": nil}), Caller{}, RuleSubject},
		{"a token about anonymous", open, from, mine(map[string]any{"sub": "anonymous"}), Caller{}, RuleSubject},
		{"a path as subject", open, from, mine(map[string]any{"sub": "../../etc/passwd"}), Caller{}, RuleSubject},
		{"a token where none counts", plain, from, "garbage", is(ann, "Ann", ByFrom), ""},
	} {
		s := readSource(c.header)
		s.Bearer, s.Trusted = c.bearer, true
		got, err := c.who.Resolve(s)
		if r := rule(t, err); r != c.rule {
			t.Errorf("%s: refused by %q, want %q", c.why, r, c.rule)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", c.why, d)
		}
	}
}

func TestBearer(t *testing.T) {
	cfg := tokens(t, "HS256")
	plain, err := New(DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	standard := plain.With(verifier(t, cfg))
	cfg.Header = "X-Caller-Token"
	own := plain.With(verifier(t, cfg))
	digest := `Digest username="bob", realm="x", response="00"`
	for _, c := range []struct {
		why           string
		who           *Resolver
		authorization []string
		header        []string
		want          string
	}{
		{"Bearer", standard, []string{"Bearer a.b.c"}, nil, "a.b.c"},
		{"bearer in small letters, with blanks", standard, []string{" bearer   a.b.c "}, nil, "a.b.c"},
		{"BEARER beside digest", standard, []string{digest, "BEARER a.b.c"}, nil, "a.b.c"},
		{"only digest", standard, []string{digest}, nil, ""},
		{"no scheme", standard, []string{"a.b.c"}, nil, ""},
		{"a scheme alone", standard, []string{"Bearer"}, nil, ""},
		{"nothing", standard, nil, nil, ""},
		{"a header that is not configured", standard, nil, []string{"a.b.c"}, ""},
		{"the configured header", own, nil, []string{"a.b.c"}, "a.b.c"},
		{"the configured header with a scheme", own, nil, []string{"Bearer a.b.c"}, "a.b.c"},
		{"the configured header first", own, []string{"Bearer d.e.f"}, []string{"a.b.c"}, "a.b.c"},
		{"an empty configured header", own, []string{"Bearer d.e.f"}, []string{" "}, "d.e.f"},
		{"no tokens here", plain, []string{"Bearer a.b.c"}, []string{"a.b.c"}, ""},
	} {
		got := c.who.Bearer(func(name string) []string {
			return map[string][]string{"Authorization": c.authorization, "X-Caller-Token": c.header}[name]
		})
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.why, got, c.want)
		}
	}
}

func TestTokenConfigValidate(t *testing.T) {
	hs, rs := tokens(t, "HS256"), tokens(t, "RS256")
	remote := tokens(t, "RS256")
	remote.KeyFiles, remote.JWKS = nil, "https://login.example.com/jwks.json"
	for _, c := range []struct {
		why    string
		from   TokenConfig
		change func(*TokenConfig)
		want   string // "" means right
	}{
		{"a secret", hs, func(*TokenConfig) {}, ""},
		{"a key", rs, func(*TokenConfig) {}, ""},
		{"an address", remote, func(*TokenConfig) {}, ""},
		{"nothing", TokenConfig{}, func(*TokenConfig) {}, ""},
		{"required by nothing", TokenConfig{Required: true}, func(*TokenConfig) {}, "required: needs secret, key_files or jwks"},
		{"no algorithms", rs, func(c *TokenConfig) { c.Algorithms = nil }, `algorithms: must name what tokens may be signed with`},
		{"none", rs, func(c *TokenConfig) { c.Algorithms = []string{"none"} }, `algorithms: "none" is none of ES256, ES384, ES512, EdDSA`},
		{"small letters", rs, func(c *TokenConfig) { c.Algorithms = []string{"rs256"} }, `algorithms: "rs256" is none of`},
		{"no issuer", rs, func(c *TokenConfig) { c.Issuer = "" }, "issuer: must be set"},
		{"no audience", rs, func(c *TokenConfig) { c.Audience = "" }, "audience: must be set"},
		{"leeway below 0", rs, func(c *TokenConfig) { c.Leeway = -1 }, "leeway: -1ns, must be 0s to 5m0s"},
		{"leeway of an hour", rs, func(c *TokenConfig) { c.Leeway = time.Hour }, "leeway: 1h0m0s, must be"},
		{"a header with a colon", rs, func(c *TokenConfig) { c.Header = "X-Token:" }, `header: "X-Token:" is no name of a header`},
		{"a header of two lines", rs, func(c *TokenConfig) { c.Header = "X\r\nY" }, "header:"},
		{"a short secret", hs, func(c *TokenConfig) { c.Secret = "short-and-secret" }, `secret: has 16 bytes, must have at least 32 for HS256: make one with "openssl rand -base64 32"`},
		{"a secret of 31", hs, func(c *TokenConfig) { c.Secret = secret[:31] }, "secret: has 31 bytes"},
		{"a secret of 32 for HS512", hs, func(c *TokenConfig) { c.Secret, c.Algorithms = secret[:32], []string{"HS512"} }, "must have at least 64 for HS512"},
		{"a public key as secret", hs, func(c *TokenConfig) { c.Secret = string(publicPEM(t, testKeys()["rsa"])) }, "secret: is a key in PEM form, which belongs into key_files"},
		{"a secret that is not used", rs, func(c *TokenConfig) { c.Secret = secret }, `algorithms: name none that uses the secret: add "HS256"`},
		{"no secret", hs, func(c *TokenConfig) { c.Secret, c.JWKS = "", remote.JWKS }, "secret: must be set for the HS algorithms"},
		{"keys that are not used", hs, func(c *TokenConfig) { c.KeyFiles = rs.KeyFiles }, "algorithms: name none that uses the keys"},
		{"no keys", hs, func(c *TokenConfig) { c.Algorithms = append(c.Algorithms, "RS256") }, "key_files: or jwks must be set"},
		{"http", remote, func(c *TokenConfig) { c.JWKS = "http://login.example.com/jwks.json" }, "jwks: must begin with https://"},
		{"http that begins like this machine", remote, func(c *TokenConfig) { c.JWKS = "http://127.0.0.1.example.com/" }, "jwks: must begin with https://"},
		{"http of this machine", remote, func(c *TokenConfig) { c.JWKS = "http://127.0.0.1:8080/jwks.json" }, ""},
		{"http of localhost", remote, func(c *TokenConfig) { c.JWKS = "http://localhost/jwks.json" }, ""},
		{"http of ::1", remote, func(c *TokenConfig) { c.JWKS = "HTTP://[::1]/jwks.json" }, ""},
		{"a password in the address", remote, func(c *TokenConfig) { c.JWKS = "https://me:hunter2@login.example.com/" }, "jwks: must not hold a user or a password"},
		{"a fragment", remote, func(c *TokenConfig) { c.JWKS += "#x" }, "jwks: must have no #fragment"},
		{"no host", remote, func(c *TokenConfig) { c.JWKS = "https:///jwks.json" }, "jwks: is no address"},
		{"a broken address", remote, func(c *TokenConfig) { c.JWKS = "https://%zz" }, "jwks: is no address"},
		{"refreshed all the time", remote, func(c *TokenConfig) { c.RefreshInterval = time.Second }, "refresh_interval: 1s, must be 1m0s to 24h0m0s"},
		{"refreshed never", remote, func(c *TokenConfig) { c.RefreshInterval = 0 }, "refresh_interval: 0s"},
		{"no timeout", remote, func(c *TokenConfig) { c.RefreshTimeout = 0 }, "refresh_timeout: 0s, must be above 0s and at most 30s"},
		{"a timeout of a minute", remote, func(c *TokenConfig) { c.RefreshTimeout = time.Minute }, "refresh_timeout: 1m0s"},
	} {
		cfg := c.from
		c.change(&cfg)
		checkMistake(t, c.why, cfg.Validate(), c.want)
		if c.want != "" {
			if v, err := NewVerifier(cfg); err == nil {
				v.Close()
				t.Errorf("%s: NewVerifier takes it", c.why)
			}
			if cfg.Check() == nil {
				t.Errorf("%s: Check takes it", c.why)
			}
		}
	}
	if _, err := NewVerifier(DefaultTokenConfig()); err == nil {
		t.Error("a verifier without keys")
	}
	if err := DefaultTokenConfig().Check(); err != nil {
		t.Error(err)
	}
}

// checkMistake fails when err is not the one wanted, or shows a secret.
func checkMistake(t *testing.T, why string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", why, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), "identity: "+want) && !strings.Contains(err.Error(), want)):
		t.Errorf("%s: %v, want %q", why, err, want)
	}
	if err != nil {
		for _, hidden := range []string{"short-and-secret", secret[:31], "hunter2", "MII"} {
			if strings.Contains(err.Error(), hidden) && !strings.Contains(want, hidden) {
				t.Errorf("%s: the error shows %q: %v", why, hidden, err)
			}
		}
	}
}

func TestKeyFiles(t *testing.T) {
	k := testKeys()
	rsaKey := k["rsa"].(*rsa.PrivateKey)
	certificate, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{}, rsaKey.Public(), rsaKey)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	odd := &rsa.PublicKey{N: rsaKey.N, E: 2}
	for _, c := range []struct {
		why  string
		text []byte
		algs []string
		want string
	}{
		{"PKIX", publicPEM(t, rsaKey), []string{"RS256"}, ""},
		{"PKCS 1", block("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&rsaKey.PublicKey)), []string{"PS512"}, ""},
		{"a certificate", block("CERTIFICATE", certificate), []string{"RS256"}, ""},
		{"two keys while one is changed", append(publicPEM(t, k["rsa2"]), publicPEM(t, rsaKey)...), []string{"RS256"}, ""},
		{"a private key", privatePEM(t, rsaKey), []string{"RS256"}, "holds a private key; only its public one is needed"},
		{"an EC private key", block("EC PRIVATE KEY", nil), []string{"ES256"}, "holds a private key"},
		{"no PEM", []byte("hello"), []string{"RS256"}, "holds no public key in PEM form"},
		{"empty", nil, []string{"RS256"}, "holds no public key in PEM form"},
		{"something else", block("X509 CRL", nil), []string{"RS256"}, `a block "X509 CRL"`},
		{"broken PKIX", block("PUBLIC KEY", []byte{1}), []string{"RS256"}, "key_files: "},
		{"a broken certificate", block("CERTIFICATE", []byte{1}), []string{"RS256"}, "key_files: "},
		{"RSA of 1024 bits", publicPEM(t, k["weak"]), []string{"RS256"}, "an RSA key of 1024 bits, must have 2048 to 8192"},
		{"RSA with the exponent 2", block("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(odd)), []string{"RS256"}, "key_files: "},
		{"P-224", publicPEM(t, k["p224"]), []string{"ES256"}, "the curve must be P-256, P-384 or P-521"},
		{"a key that is not used", append(publicPEM(t, rsaKey), publicPEM(t, k["ed"])...), []string{"RS256"}, "holds a key that none of algorithms uses"},
		{"another curve", publicPEM(t, k["p384"]), []string{"ES256"}, "holds a key that none of algorithms uses"},
		{"an algorithm without a key", publicPEM(t, rsaKey), []string{"RS256", "EdDSA"}, `algorithms: "EdDSA" has no key in key_files`},
		{"far too large", make([]byte, maxKeyFile+1), []string{"RS256"}, "larger than"},
		{"too many", []byte(strings.Repeat(string(publicPEM(t, k["ed"])), maxKeys+1)), []string{"EdDSA"}, "33 keys, at most 32"},
	} {
		cfg := tokens(t)
		cfg.Algorithms, cfg.KeyFiles = c.algs, []string{file(t, c.text)}
		v, err := NewVerifier(cfg)
		checkMistake(t, c.why, err, c.want)
		checkMistake(t, c.why, cfg.Check(), c.want)
		if err == nil && c.why != "PKCS 1" {
			if _, err := v.Verify(sign(t, "RS256", rsaKey, nil, good(nil))); err != nil {
				t.Errorf("%s: %v", c.why, err)
			}
		}
	}
	cfg := tokens(t)
	for _, name := range []string{filepath.Join(t.TempDir(), "missing"), t.TempDir()} {
		cfg.Algorithms, cfg.KeyFiles = []string{"RS256"}, []string{name}
		checkMistake(t, name, second(NewVerifier(cfg)), "key_files: ")
	}
	if _, err := publicKey(struct{}{}); err == nil {
		t.Error("a key of an unknown kind")
	}
	if err := checkRSA(odd); err == nil {
		t.Error("an RSA key with the exponent 2")
	}
}

// Whatever a token is turned into, it does not count unless it is the token.
func FuzzVerify(f *testing.F) {
	// The workers are processes of their own: all must sign the same.
	key := ed25519.NewKeyFromSeed([]byte(secret[:ed25519.SeedSize]))
	cfg := tokens(f, "HS256")
	cfg.Algorithms, cfg.KeyFiles = append(cfg.Algorithms, "EdDSA"), []string{file(f, publicPEM(f, key))}
	v := verifier(f, cfg)
	const begin, end = 1_700_000_000, 4_000_000_000
	right := map[string]bool{}
	for _, token := range []string{
		sign(f, "HS256", []byte(secret), map[string]any{"kid": "1"}, good(map[string]any{"iat": begin, "exp": end})),
		sign(f, "EdDSA", key, nil, good(map[string]any{"iat": begin, "exp": end, "x": map[string]any{"y": []any{1}}})),
	} {
		right[token] = true
		f.Add(token)
		f.Add(strings.Replace(token, ".", "..", 1))
		f.Add(token[:len(token)/2])
	}
	for _, s := range []string{"", "..", "a.b.c", "eyJhbGciOiJub25lIn0.e30.", segment(map[string]any{"alg": "HS256", "crit": 1}) + ".e30.AA"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, token string) {
		claims, err := v.Verify(token)
		if err == nil && !right[token] {
			t.Errorf("a forged token counts: %q %+v", token, claims)
		}
		if r := rule(t, err); err != nil && (r == "" || len(err.Error()) > 120) {
			t.Errorf("%v", err)
		}
	})
}
