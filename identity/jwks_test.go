package identity

import (
	"context"
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// x25519PEM is a private key that can agree on secrets but not sign.
func x25519PEM(t testing.TB) []byte {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// jwk writes a public key as RFC 7517 does, with other members.
func jwk(k crypto.Signer, more map[string]any) map[string]any {
	b64 := base64.RawURLEncoding.EncodeToString
	var out map[string]any
	switch k := k.Public().(type) {
	case *rsa.PublicKey:
		out = map[string]any{"kty": "RSA", "n": b64(k.N.Bytes()), "e": b64(big.NewInt(int64(k.E)).Bytes())}
	case *ecdsa.PublicKey:
		point, err := k.Bytes()
		if err != nil {
			panic(err)
		}
		half := len(point) / 2
		out = map[string]any{"kty": "EC", "crv": k.Curve.Params().Name, "x": b64(point[1 : half+1]), "y": b64(point[half+1:])}
	case ed25519.PublicKey:
		out = map[string]any{"kty": "OKP", "crv": "Ed25519", "x": b64(k)}
	}
	for name, v := range more {
		out[name] = v
	}
	return out
}

// jwks writes a JWK Set.
func jwks(keys ...map[string]any) []byte {
	text, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		panic(err)
	}
	return text
}

// site is an issuer's JWKS in memory, for use in a bubble.
type site struct {
	mu    sync.Mutex
	text  []byte
	err   error
	hang  bool
	reads int
}

func (s *site) fetch(ctx context.Context) ([]byte, error) {
	s.mu.Lock()
	s.reads++
	text, err, hang := s.text, s.err, s.hang
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return text, err
}

func (s *site) serve(text []byte, err error, hang bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text, s.err, s.hang = text, err, hang
}

func (s *site) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// remote is a configuration that reads a JWKS from an address.
func remote(t testing.TB, algs ...string) TokenConfig {
	t.Helper()
	cfg := tokens(t)
	cfg.Algorithms, cfg.JWKS = algs, "https://login.example.com/jwks.json"
	return cfg
}

// as signs a token with the key kid of the issuer.
func as(t testing.TB, k, kid string) string {
	t.Helper()
	var head map[string]any
	if kid != "" {
		head = map[string]any{"kid": kid}
	}
	return sign(t, "ES256", testKeys()[k], head, good(nil))
}

func es(kid string) map[string]any {
	return jwk(testKeys()["p256"], map[string]any{"kid": kid})
}

func TestJWKSKeysAreChanged(t *testing.T) {
	testKeys()
	synctest.Test(t, func(t *testing.T) {
		s := &site{text: jwks(es("1"))}
		v, err := newVerifier(remote(t, "ES256"), s.fetch)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		// A call that comes while the keys are first read waits for them.
		if _, err := v.Verify(as(t, "p256", "1")); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Verify(as(t, "p256", "")); err != nil {
			t.Errorf("without a kid: %v", err)
		}
		// The issuer changes its key: the first token that names the new one makes
		// the set be read again.
		s.serve(jwks(es("1"), es("2")), nil, false)
		time.Sleep(minUnknown)
		if _, err := v.Verify(as(t, "p256", "2")); err != nil || s.count() != 2 {
			t.Fatalf("%v after %d readings", err, s.count())
		}
		// It takes the old one back: it no longer counts after the next reading.
		s.serve(jwks(es("2")), nil, false)
		time.Sleep(DefaultTokenConfig().RefreshInterval)
		synctest.Wait()
		if got := rule(t, second(v.Verify(as(t, "p256", "1")))); got != RuleKey {
			t.Errorf("a key that was taken back: %q", got)
		}
		if _, err := v.Verify(as(t, "p256", "2")); err != nil {
			t.Error(err)
		}
	})
}

// Tokens with keys that nobody knows do not make the issuer be asked without end.
func TestJWKSUnknownKeysAreLimited(t *testing.T) {
	testKeys()
	synctest.Test(t, func(t *testing.T) {
		s := &site{text: jwks(es("1"))}
		v, err := newVerifier(remote(t, "ES256"), s.fetch)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		begin := time.Now()
		for i := range 1000 {
			if got := rule(t, second(v.Verify(as(t, "p256", fmt.Sprint("x", i))))); got != RuleKey {
				t.Fatalf("%q", got)
			}
			time.Sleep(100 * time.Millisecond)
		}
		most := 1 + int(time.Since(begin)/minUnknown)
		if n := s.count(); n > most || n < most-1 {
			t.Errorf("read %d times in %v, at most %d", n, time.Since(begin), most)
		}
	})
}

func TestJWKSIssuerIsDown(t *testing.T) {
	testKeys()
	synctest.Test(t, func(t *testing.T) {
		s := &site{err: errors.New("connection refused")}
		cfg := remote(t, "ES256")
		var reports atomic.Int32
		cfg.Report = func(err error) {
			reports.Add(1)
			if !strings.HasPrefix(err.Error(), "identity: jwks: ") {
				t.Errorf("%v", err)
			}
		}
		v, err := newVerifier(cfg, s.fetch)
		if err != nil {
			t.Fatal(err) // the gateway starts without it
		}
		defer v.Close()
		if got := rule(t, second(v.Verify(as(t, "p256", "1")))); got != RuleKey {
			t.Errorf("down from the beginning: %q", got)
		}
		s.serve(jwks(es("1")), nil, false)
		time.Sleep(minUnknown)
		if _, err := v.Verify(as(t, "p256", "1")); err != nil {
			t.Fatalf("up again: %v", err)
		}
		// Down again, in every way: the keys stay.
		for _, down := range []struct {
			text []byte
			err  error
			hang bool
		}{{err: errors.New("no route")}, {text: []byte("<html>")}, {text: jwks()}, {text: []byte(`{}`)}, {hang: true}} {
			s.serve(down.text, down.err, down.hang)
			before := reports.Load()
			time.Sleep(cfg.RefreshInterval + cfg.RefreshTimeout)
			synctest.Wait()
			if reports.Load() == before {
				t.Errorf("%+v: nobody was told", down)
			}
			if _, err := v.Verify(as(t, "p256", "1")); err != nil {
				t.Errorf("%+v: %v", down, err)
			}
		}
	})
}

// A call waits for a reading that hangs only as long as the timeout says.
func TestJWKSHangs(t *testing.T) {
	testKeys()
	synctest.Test(t, func(t *testing.T) {
		s := &site{hang: true}
		cfg := remote(t, "ES256")
		v, err := newVerifier(cfg, s.fetch)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		token := as(t, "p256", "1")
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() {
				begin := time.Now()
				if got := rule(t, second(v.Verify(token))); got != RuleKey {
					t.Errorf("%q", got)
				}
				if took := time.Since(begin); took > cfg.RefreshTimeout {
					t.Errorf("waited %v", took)
				}
			})
		}
		calls.Wait()
		if s.count() != 1 {
			t.Errorf("%d readings at once", s.count())
		}
	})
}

func TestJWKSClose(t *testing.T) {
	testKeys()
	synctest.Test(t, func(t *testing.T) {
		s := &site{hang: true}
		v, err := newVerifier(remote(t, "ES256"), s.fetch)
		if err != nil {
			t.Fatal(err)
		}
		token := as(t, "p256", "1")
		var calls sync.WaitGroup
		calls.Go(func() {
			if got := rule(t, second(v.Verify(token))); got != RuleKey {
				t.Errorf("%q", got)
			}
		})
		synctest.Wait() // the call waits for the reading
		begin := time.Now()
		v.Close()
		v.Close()
		calls.Wait()
		time.Sleep(time.Minute)
		if got := rule(t, second(v.Verify(token))); got != RuleKey || time.Since(begin) > time.Minute || s.count() != 1 {
			t.Errorf("after Close: %q, %v, %d readings", got, time.Since(begin), s.count())
		}
	})
}

func TestJWKSFile(t *testing.T) {
	testKeys()
	name := filepath.Join(t.TempDir(), "jwks.json")
	write := func(text []byte) {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(jwks(es("1")))
	cfg := remote(t, "ES256")
	cfg.JWKS = name
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		v, err := NewVerifier(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		if _, err := v.Verify(as(t, "p256", "1")); err != nil {
			t.Fatal(err)
		}
		write(jwks(es("2")))
		time.Sleep(cfg.RefreshInterval)
		synctest.Wait()
		if _, err := v.Verify(as(t, "p256", "2")); err != nil {
			t.Fatal(err)
		}
	})
	for _, c := range []struct {
		why  string
		text []byte
		want string
	}{
		{"no JSON", []byte("{"), "is no JWK Set"},
		{"no key", jwks(), "holds no key that can check a signature"},
		{"too large", make([]byte, maxJWKS+1), "larger than"},
	} {
		write(c.text)
		checkMistake(t, c.why, second(NewVerifier(cfg)), "jwks: ")
		checkMistake(t, c.why, cfg.Check(), c.want)
	}
	cfg.JWKS = filepath.Join(t.TempDir(), "missing")
	checkMistake(t, "no file", second(NewVerifier(cfg)), "jwks: ")
	checkMistake(t, "no file", cfg.Check(), "jwks: ")
}

// Which keys of a set count, and for what.
func TestJWKSKeys(t *testing.T) {
	k := testKeys()
	short := jwk(k["p256"], nil)
	short["y"] = "AAAA"
	wide := jwk(k["rsa"], nil)
	wide["e"] = base64.RawURLEncoding.EncodeToString(append([]byte{1}, make([]byte, 16)...))
	even := jwk(k["rsa"], nil)
	even["e"] = "Ag"
	asked := make(chan struct{}, 8)
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }))
	defer trap.Close()
	for _, c := range []struct {
		why  string
		key  map[string]any
		alg  string // "" means that the key is passed over
		kid  string
		rule string
	}{
		{"RSA", jwk(k["rsa"], nil), "RS256", "", ""},
		{"RSA for PS", jwk(k["rsa"], nil), "PS384", "", ""},
		{"P-256", jwk(k["p256"], nil), "ES256", "", ""},
		{"P-384", jwk(k["p384"], nil), "ES384", "", ""},
		{"P-521", jwk(k["p521"], nil), "ES512", "", ""},
		{"Ed25519", jwk(k["ed"], nil), "EdDSA", "", ""},
		{"use sig", jwk(k["ed"], map[string]any{"use": "sig"}), "EdDSA", "", ""},
		{"key_ops verify", jwk(k["ed"], map[string]any{"key_ops": []any{"verify"}}), "EdDSA", "", ""},
		{"its own algorithm", jwk(k["rsa"], map[string]any{"alg": "RS256"}), "RS256", "", ""},
		{"another algorithm", jwk(k["rsa"], map[string]any{"alg": "RS512"}), "RS256", "", RuleKey},
		{"its kid", jwk(k["rsa"], map[string]any{"kid": "a"}), "RS256", "a", ""},
		{"another kid", jwk(k["rsa"], map[string]any{"kid": "a"}), "RS256", "../../dev/null", RuleKey},
		{"a key of no name for a token with one", jwk(k["rsa"], nil), "RS256", "a", ""},
		{"certificates are not needed", jwk(k["rsa"], map[string]any{"x5c": []any{"!!"}, "x5u": trap.URL, "x5t": "x"}), "RS256", "", ""},

		{"use enc", jwk(k["rsa"], map[string]any{"use": "enc"}), "", "", ""},
		{"key_ops encrypt", jwk(k["rsa"], map[string]any{"key_ops": []any{"encrypt"}}), "", "", ""},
		{"a shared secret", map[string]any{"kty": "oct", "k": base64.RawURLEncoding.EncodeToString([]byte(secret))}, "", "", ""},
		{"RSA of 1024 bits", jwk(k["weak"], nil), "", "", ""},
		{"an even exponent", even, "", "", ""},
		{"an exponent that does not fit", wide, "", "", ""},
		{"P-224", jwk(k["p224"], nil), "", "", ""},
		{"not on the curve", short, "", "", ""},
		{"X25519", map[string]any{"kty": "OKP", "crv": "X25519", "x": jwk(k["ed"], nil)["x"]}, "", "", ""},
		{"secp256k1", map[string]any{"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"}, "", "", ""},
		{"no kty", map[string]any{"n": "AQAB"}, "", "", ""},
		{"a number for a text", map[string]any{"kty": 1}, "", "", ""},
		{"a kid of 300 bytes", jwk(k["rsa"], map[string]any{"kid": strings.Repeat("k", 300)}), "", "", ""},
	} {
		if c.alg == "" {
			if keys, err := parseJWKS(jwks(c.key)); err == nil {
				t.Errorf("%s: taken: %+v", c.why, keys)
			}
			// Beside it a good key still counts.
			if keys, err := parseJWKS(jwks(c.key, jwk(k["ed"], nil))); err != nil || len(keys) != 1 {
				t.Errorf("%s: beside a good key: %v %v", c.why, keys, err)
			}
			continue
		}
		cfg := remote(t, c.alg)
		cfg.JWKS = file(t, jwks(c.key))
		var head map[string]any
		if c.kid != "" {
			head = map[string]any{"kid": c.kid}
		}
		got := rule(t, second(verifier(t, cfg).Verify(sign(t, c.alg, k[keyOf(c.alg)], head, good(nil)))))
		if got != c.rule {
			t.Errorf("%s: %q, want %q", c.why, got, c.rule)
		}
	}
	if len(asked) > 0 {
		t.Error("x5u was followed")
	}
	var many []map[string]any
	for range 100 {
		many = append(many, jwk(k["ed"], nil))
	}
	if keys, err := parseJWKS(jwks(many...)); err != nil || len(keys) != maxKeys {
		t.Errorf("%d keys of 100, %v", len(keys), err)
	}
}

// The address that was configured is asked, and no other.
func TestJWKSOverHTTP(t *testing.T) {
	k := testKeys()
	var inside atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("GET /jwks.json", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") == "" || r.Header.Get("Cookie")+r.Header.Get("Authorization") != "" {
			t.Errorf("%v", r.Header)
		}
		_, _ = w.Write(jwks(jwk(k["p256"], nil)))
	})
	mux.HandleFunc("GET /inside", func(w http.ResponseWriter, _ *http.Request) {
		inside.Add(1)
		_, _ = w.Write(jwks(jwk(k["p256"], nil)))
	})
	mux.HandleFunc("GET /redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/inside", http.StatusFound) })
	mux.HandleFunc("GET /large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, maxJWKS+1)) })
	mux.HandleFunc("GET /cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("{"))
	})
	server := httptest.NewServer(mux)
	defer server.Close()

	cfg := remote(t, "ES256")
	cfg.JWKS = server.URL + "/jwks.json"
	v := verifier(t, cfg)
	if _, err := v.Verify(as(t, "p256", "")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/redirect": "answered 302, must be 200", "/large": "answered more than", "/missing": "answered 404, must be 200", "/cut": "unexpected EOF",
	} {
		u, err := url.Parse(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = overHTTP(&http.Transport{DisableKeepAlives: true}, u)(t.Context())
		checkMistake(t, path, err, want)
	}
	if inside.Load() != 0 {
		t.Error("a redirection was followed")
	}
	// Nobody listens: the error shows no address, which may hold a secret.
	u, err := url.Parse("http://127.0.0.1:1/?key=hunter2")
	if err != nil {
		t.Fatal(err)
	}
	_, err = overHTTP(&http.Transport{DisableKeepAlives: true}, u)(t.Context())
	checkMistake(t, "nobody listens", err, "refused")
}

func FuzzJWKS(f *testing.F) {
	k := testKeys()
	f.Add(jwks(jwk(k["rsa"], map[string]any{"kid": "1", "alg": "RS256"}), jwk(k["p521"], nil), jwk(k["ed"], nil)))
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"},{"kty":"oct","k":"AA"},null,1]}`))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQ","e":"AQAB"},{"kty":"OKP","crv":"Ed25519","x":""}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := parseJWKS(text)
		if (err == nil) != (len(keys) > 0) || len(keys) > maxKeys {
			t.Errorf("%d keys, %v", len(keys), err)
		}
		for _, one := range keys {
			if one.family == familyHMAC || one.value == nil || len(one.id) > maxKeyID {
				t.Errorf("%+v", one)
			}
			if again, err := publicKey(one.value); err != nil || again.family != one.family {
				t.Errorf("%+v: %v", one, err)
			}
		}
	})
}
