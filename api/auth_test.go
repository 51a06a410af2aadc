package api

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"parley/identity"
)

func TestConfig(t *testing.T) {
	key := Key{Name: "k", Secret: fullKey}
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string // "" when all is well
	}{
		{"default", func(*Config) {}, ""},
		{"off needs nothing", func(c *Config) { *c = Config{} }, ""},
		{"IPv6 loopback", func(c *Config) { c.Listen = "[::1]:80" }, ""},
		{"mapped loopback", func(c *Config) { c.Listen = "[::ffff:127.0.0.1]:80" }, ""},
		{"all of loopback", func(c *Config) { c.Listen = "127.9.9.9:80" }, ""},
		{"its name", func(c *Config) { c.Listen = "LocalHost:80" }, ""},
		{"no port", func(c *Config) { c.Listen = "8080" }, `listen: "8080" is not host:port`},
		{"a port by name", func(c *Config) { c.Listen = "127.0.0.1:http" }, `listen: "http" is not a port number`},
		{"all addresses", func(c *Config) { c.Listen = ":8080" }, "set keys (or tokens), or listen on 127.0.0.1"},
		{"all addresses, in figures", func(c *Config) { c.Listen = "0.0.0.0:8080" }, "set keys"},
		{"a private address", func(c *Config) { c.Listen = "10.0.0.1:8080" }, "set keys"},
		{"a name that may lead anywhere", func(c *Config) { c.Listen = "gateway:8080" }, "set keys"},
		{"all addresses with a key", func(c *Config) { c.Listen, c.Keys = ":8080", []Key{key} }, ""},
		{"all addresses with tokens", func(c *Config) { c.Listen, c.Tokens = ":8080", true }, ""},
		{"a login that nobody has", func(c *Config) { c.RequireAuth = true }, "require_auth: nobody could log in; set keys"},
		{"a login that somebody has", func(c *Config) { c.RequireAuth, c.Keys = true, []Key{key} }, ""},
		{"no rate", func(c *Config) { c.RatePerSecond = 0 }, "rate_per_second: 0, must be more than 0"},
		{"a rate that is no number", func(c *Config) { c.RatePerSecond = nan() }, "rate_per_second: NaN"},
		{"no burst", func(c *Config) { c.RateBurst = 0 }, "rate_burst: 0, must be between"},
		{"no streams", func(c *Config) { c.MaxStreams = 0 }, "max_streams: 0, must be between"},
		{"a short key", func(c *Config) { c.Keys = []Key{{Name: "k", Secret: "hush"}} }, `keys: "k": must be of 32 to 512`},
		{"a key with a blank", func(c *Config) { c.Keys = []Key{{Name: "k", Secret: fullKey + " x"}} }, `keys: "k": must be of 32 to 512`},
		{"a nameless key", func(c *Config) { c.Keys = []Key{{Secret: fullKey}} }, "the name must be"},
		{"a name with a line end", func(c *Config) { c.Keys = []Key{{Name: "a\nb", Secret: fullKey}} }, "the name must be"},
		{"a name twice", func(c *Config) { c.Keys = []Key{key, {Name: "k", Secret: readKey}} }, `keys: "k": is there twice`},
		{"a key twice", func(c *Config) { c.Keys = []Key{key, {Name: "l", Secret: fullKey}} }, `keys: "l": is the same as another`},
		{"no such scope", func(c *Config) { c.Keys = []Key{{Name: "k", Secret: fullKey, Scopes: []string{"all"}}} }, `there is no scope "all", only calls:read, calls:write, token`},
		{"too many keys", func(c *Config) { c.Keys = make([]Key, maxKeys+1) }, "1001 of them, at most 1000"},
	} {
		cfg := DefaultConfig()
		c.change(&cfg)
		err := cfg.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), fullKey)) {
			t.Errorf("%s: the error shows the key: %v", c.name, err)
		}
	}
}

func nan() float64 { zero := 0.0; return zero / zero }

func TestKeysAreNotPrinted(t *testing.T) {
	c := Config{Keys: []Key{{Name: "ops", Secret: fullKey}}}
	text, err := c.Keys[0].MarshalText()
	for _, s := range []string{fmt.Sprint(c), fmt.Sprintf("%+v %#v", c, c), string(text)} {
		if strings.Contains(s, fullKey) || !strings.Contains(s, "ops") || err != nil {
			t.Errorf("%s %v", s, err)
		}
	}
}

func TestNewWantsItsParts(t *testing.T) {
	ready, metrics := func() error { return nil }, NewMetrics(Sources{})
	tokens := DefaultConfig()
	tokens.Tokens = true
	bad := DefaultConfig()
	bad.RateBurst = 0
	for _, c := range []struct {
		cfg   Config
		parts Parts
		want  string
	}{
		{DefaultConfig(), Parts{Metrics: metrics}, "needs to know"},
		{DefaultConfig(), Parts{Ready: ready}, "needs to know"},
		{tokens, Parts{Ready: ready, Metrics: metrics}, "configure identity.token"},
		{bad, Parts{Ready: ready, Metrics: metrics}, "rate_burst"},
	} {
		if _, err := New(c.cfg, c.parts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// header is a change of a request's header.
func header(pairs ...string) func(*http.Request) {
	return func(r *http.Request) {
		for i := 0; i < len(pairs); i += 2 {
			r.Header.Add(pairs[i], pairs[i+1])
		}
	}
}

// Programs of this machine need no login by default; everything that only looks like
// one does.
func TestLoopbackWithoutLogin(t *testing.T) {
	for _, c := range []struct {
		name   string
		config func(*Config)
		change func(*http.Request)
		status int
		rule   string
	}{
		{name: "a program of this machine", status: 200},
		{name: "by name", change: func(r *http.Request) { r.Host = "localhost:8080" }, status: 200},
		{name: "IPv6", change: func(r *http.Request) { r.Host, r.RemoteAddr = "[::1]:8080", "[::1]:5" }, status: 200},
		{name: "IPv6 without a port", change: func(r *http.Request) { r.Host = "[::1]" }, status: 200},
		{name: "a page of its own", change: header("Origin", "http://127.0.0.1:8080", "Sec-Fetch-Site", "same-origin"), status: 200},
		{name: "an address typed in", change: header("Sec-Fetch-Site", "none"), status: 200},

		{name: "from elsewhere", change: func(r *http.Request) { r.RemoteAddr = "192.0.2.7:5" }, status: 401, rule: "unauthorized"},
		{name: "from elsewhere, forged", change: func(r *http.Request) { r.RemoteAddr = "192.0.2.7:5"; r.Header.Set("X-Forwarded-For", "127.0.0.1") }, status: 401, rule: "unauthorized"},
		{name: "from nowhere", change: func(r *http.Request) { r.RemoteAddr = "@" }, status: 401, rule: "unauthorized"},
		{name: "through a proxy", change: header("X-Forwarded-For", "192.0.2.7"), status: 401, rule: "unauthorized"},
		{name: "through a proxy that says it is from here", change: header("X-Forwarded-For", "127.0.0.1"), status: 401, rule: "unauthorized"},
		{name: "through another", change: header("Forwarded", "for=192.0.2.7"), status: 401, rule: "unauthorized"},
		{name: "through a third", change: header("Via", "1.1 x"), status: 401, rule: "unauthorized"},
		{name: "DNS rebinding", change: func(r *http.Request) { r.Host = "evil.example:8080" }, status: 403, rule: "host"},
		{name: "a name that begins so", change: func(r *http.Request) { r.Host = "127.0.0.1.evil.example" }, status: 403, rule: "host"},
		{name: "a user in it", change: func(r *http.Request) { r.Host = "x@127.0.0.1" }, status: 403, rule: "host"},
		{name: "no Host", change: func(r *http.Request) { r.Host = "" }, status: 403, rule: "host"},
		{name: "a page of a stranger", change: header("Origin", "https://evil.example"), status: 403, rule: "origin"},
		{name: "another port here", change: header("Origin", "http://127.0.0.1:9000"), status: 403, rule: "origin"},
		{name: "another scheme here", change: header("Origin", "https://127.0.0.1:8080"), status: 403, rule: "origin"},
		{name: "no origin to speak of", change: header("Origin", "null"), status: 403, rule: "origin"},
		{name: "an origin that is none", change: header("Origin", "http://%zz"), status: 403, rule: "origin"},
		{name: "two origins", change: header("Origin", "http://127.0.0.1:8080", "Origin", "http://127.0.0.1:8080"), status: 403, rule: "origin"},
		{name: "a stranger's picture", change: header("Sec-Fetch-Site", "cross-site"), status: 403, rule: "origin"},
		{name: "a neighbour's picture", change: header("Sec-Fetch-Site", "same-site"), status: 403, rule: "origin"},

		{name: "with a key that is none", change: header("Authorization", "Bearer "+strings.Repeat("x", 32)), status: 401, rule: "unauthorized"},
		{name: "keys are there", config: func(c *Config) { c.Keys = []Key{{Name: "k", Secret: fullKey}} }, status: 401, rule: "unauthorized"},
		{name: "a login is wanted", config: func(c *Config) { c.Tokens, c.RequireAuth = true, true }, status: 401, rule: "unauthorized"},
		{name: "tokens are taken too", config: func(c *Config) { c.Tokens = true }, status: 200},
	} {
		h := newHarness(t, func(cfg *Config, p *Parts) {
			cfg.Keys = nil
			p.Verify = func(string) (identity.Claims, error) { return identity.Claims{}, errors.New("no") }
			if c.config != nil {
				c.config(cfg)
			}
		})
		r := request("GET", "/calls", "", "")
		if c.change != nil {
			c.change(r)
		}
		w := h.do(r)
		if w.Code != c.status || c.rule != "" && problemIn(t, w).Rule != c.rule {
			t.Errorf("%s: %d %s, want %d %s", c.name, w.Code, w.Body, c.status, c.rule)
		}
		if w.Code == 401 && !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Bearer ") {
			t.Errorf("%s: no challenge", c.name)
		}
	}
}

func TestKeysAndTokens(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	expires := time.Now().Add(time.Hour)
	h := newHarness(t, func(c *Config, p *Parts) {
		c.Tokens, c.Listen = true, "0.0.0.0:8080"
		p.Log = zap.New(core)
		withMint(c, p)
		p.Verify = func(token string) (identity.Claims, error) {
			private := map[string]any{}
			switch token {
			case "text.of.scopes":
				private["scope"] = "openid calls:read"
			case "list.of.scopes":
				private["scp"] = []any{"calls:write", 7.0, "calls:read"}
			case "number.of.scopes":
				private["scope"] = 7.0
			case "callers.own.token":
			default:
				return identity.Claims{}, &identity.TokenError{Rule: identity.RuleSignature, Text: "the signature does not match"}
			}
			return identity.Claims{Subject: "+14155550123", Expires: expires, Private: private}, nil
		}
	})
	for _, c := range []struct {
		authorization string
		read, write   int
		challenge     string
	}{
		{"Bearer " + fullKey, 200, 204, ""},
		{"bearer  " + fullKey, 200, 204, ""}, // RFC 9110 section 11.1: any letters
		{"Bearer " + readKey, 200, 403, `error="insufficient_scope", scope="calls:write"`},
		{"Bearer " + writeKey, 403, 204, `error="insufficient_scope", scope="calls:read"`},
		{"Bearer text.of.scopes", 200, 403, `insufficient_scope`},
		{"Bearer list.of.scopes", 200, 204, ""},
		{"Bearer number.of.scopes", 403, 403, `insufficient_scope`},
		{"Bearer callers.own.token", 403, 403, `insufficient_scope`},
		{"Bearer forged.to.ken", 401, 401, `error="invalid_token"`},
		{"Bearer " + fullKey[:31], 401, 401, `error="invalid_token"`},
		{"Bearer " + strings.Repeat(".", 100000), 401, 401, `error="invalid_request"`},
		{"Bearer ", 401, 401, `error="invalid_request"`},
		{"Basic " + fullKey, 401, 401, `error="invalid_request"`},
		{fullKey, 401, 401, `error="invalid_request"`},
	} {
		for path, want := range map[string]int{"GET /calls": c.read, "DELETE /calls/" + h.up(): c.write} {
			method, path, _ := strings.Cut(path, " ")
			r := request(method, path, "", "")
			r.RemoteAddr, r.Host = "192.0.2.7:5", "gateway.example"
			r.Header.Set("Authorization", c.authorization)
			w := h.do(r)
			if w.Code != want || want >= 400 && !strings.Contains(w.Header().Get("WWW-Authenticate"), c.challenge) {
				t.Errorf("%.40s: %s: %d %s %s, want %d", c.authorization, method, w.Code, w.Header().Get("WWW-Authenticate"), w.Body, want)
			}
			if strings.Contains(w.Body.String(), fullKey[:31]) {
				t.Errorf("the answer repeats the key: %s", w.Body)
			}
		}
	}
	r := request("GET", "/calls", fullKey, "")
	r.Header.Add("Authorization", "Bearer "+readKey)
	if w := h.do(r); w.Code != 401 {
		t.Errorf("two logins: %d", w.Code)
	}
	if w := h.ask("GET", "/calls?access_token="+fullKey, "", ""); w.Code != 401 {
		t.Errorf("a key in the query: %d", w.Code)
	}
	text := ""
	for _, e := range logs.All() {
		text += fmt.Sprintln(e.Level, e.Message, e.ContextMap())
	}
	for _, secret := range []string{fullKey, readKey, fullKey[:31], "forged.to.ken", "+14155550123", "text.of.scopes"} {
		if strings.Contains(text, secret) {
			t.Errorf("the log shows %q", secret)
		}
	}
	for _, want := range []string{"key:full", "token:+141", "key:read"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log does not tell %q", want)
		}
	}
}

// Without tokens a JWT is none of the keys, whoever signed it.
func TestTokensAreOffByDefault(t *testing.T) {
	h := newHarness(t, func(_ *Config, p *Parts) {
		p.Verify = func(string) (identity.Claims, error) { t.Error("asked"); return identity.Claims{}, nil }
	})
	h.expect(h.ask("GET", "/calls", "a.b.c", ""), 401)
}

func TestRates(t *testing.T) {
	now := time.Unix(1000, 0)
	r := newRates(2, 3)
	took := func(client string, n int) (waits []time.Duration) {
		for range n {
			waits = append(waits, r.take(client, now))
		}
		return waits
	}
	if got := fmt.Sprint(took("a", 5)); got != "[0s 0s 0s 500ms 500ms]" {
		t.Errorf("a: %s", got)
	}
	if got := fmt.Sprint(took("b", 1)); got != "[0s]" {
		t.Errorf("b pays for a: %s", got)
	}
	now = now.Add(500 * time.Millisecond)
	if got := fmt.Sprint(took("a", 2)); got != "[0s 500ms]" {
		t.Errorf("a later: %s", got)
	}

	// A full table: those who were quiet are forgotten, those who are busy stay, and
	// the rest share one rate.
	for i := range maxClients {
		r.take(fmt.Sprint("busy", i), now)
	}
	if len(r.clients) > maxClients {
		t.Fatalf("%d clients", len(r.clients))
	}
	if r.of("new", now) != r.others {
		t.Error("the table grew")
	}
	now = now.Add(time.Minute)
	if r.of("new", now) == r.others || len(r.clients) > 2 {
		t.Errorf("%d clients are still told apart", len(r.clients))
	}
}

// Callers whose masked numbers look the same are told apart.
func TestRatesOfTokens(t *testing.T) {
	h := newHarness(t, func(c *Config, p *Parts) {
		c.Tokens, c.RateBurst = true, 1
		p.Verify = func(token string) (identity.Claims, error) {
			return identity.Claims{Subject: token, Private: map[string]any{"scope": "calls:read"}}, nil
		}
	})
	for subject, want := range map[string]int{"+14155550123": 200, "+14156660123": 200} {
		h.expect(h.ask("GET", "/trunks", subject, ""), want)
		h.expect(h.ask("GET", "/trunks", subject, ""), 429)
	}
}

func TestTooManyRequestsSayWhenToComeBack(t *testing.T) {
	h := newHarness(t, func(c *Config, _ *Parts) { c.RatePerSecond, c.RateBurst = 0.1, 1 })
	now := time.Unix(1000, 0)
	h.server.now = func() time.Time { return now }
	h.expect(h.ask("GET", "/trunks", fullKey, ""), 200)
	w := h.ask("GET", "/trunks", fullKey, "")
	if w.Code != 429 || w.Header().Get("Retry-After") != "10" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	h.expect(h.ask("GET", "/trunks", readKey, ""), 200) // another client
	h.expect(h.ask("GET", "/healthz", "", ""), 200)     // not counted
	now = now.Add(10 * time.Second)
	h.expect(h.ask("GET", "/trunks", fullKey, ""), 200)
}
