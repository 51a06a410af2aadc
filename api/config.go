package api

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Config says where the HTTP side is served and to whom.
type Config struct {
	// Listen is host:port. Empty turns the HTTP side off. Beyond loopback it needs
	// Keys or Tokens.
	Listen string
	// RequireAuth asks everybody for a key or a token. Without it those who come
	// over loopback need none as long as Listen is loopback and there are no Keys.
	RequireAuth bool
	// Tokens accepts bearer JWTs, by the Verifier of Parts, beside Keys. Their
	// "scope" or "scp" claim says what they are good for.
	Tokens bool
	// RatePerSecond is how many requests a second one key, or one token's subject,
	// may make; RateBurst how many at once.
	RatePerSecond float64
	RateBurst     int
	// MaxStreams is how many streams of events may be open at once.
	MaxStreams int
	// Keys are the bearer keys. They are secrets: a Key prints without its own.
	Keys []Key `key:"-"`
}

// Key is one bearer key.
type Key struct {
	// Name stands for the key in logs.
	Name string
	// Secret is what a client sends.
	Secret string
	// Scopes are what the key is good for; empty means all Scopes.
	Scopes []string
}

// String hides the secret.
func (k Key) String() string { return "key " + k.Name }

// GoString hides it from %#v too.
func (k Key) GoString() string { return k.String() }

// MarshalText hides it from encoders.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// The scopes of keys and tokens (RFC 6749 section 3.3).
const (
	// ScopeRead is for looking at calls, trunks and metrics.
	ScopeRead = "calls:read"
	// ScopeWrite is for placing, changing and ending calls.
	ScopeWrite = "calls:write"
	// ScopeToken is for minting tokens.
	ScopeToken = "token"
)

// Scopes are all scopes there are.
func Scopes() []string { return []string{ScopeRead, ScopeWrite, ScopeToken} }

// minSecret is the length of the shortest key: guesses are not slowed down, so
// there must be too many.
const minSecret = 32

// The bounds of what may be configured.
const (
	maxRate    = 10000
	maxStreams = 10000
	maxKeys    = 1000
)

// DefaultConfig is port 8080 of loopback, without a login.
func DefaultConfig() Config {
	return Config{Listen: "127.0.0.1:8080", RatePerSecond: 50, RateBurst: 100, MaxStreams: 64}
}

// Validate reports everything that is wrong with c, each with the field's name.
func (c Config) Validate() error {
	if c.Listen == "" {
		return nil
	}
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf("api: "+format, a...)) }
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		bad("listen: %q is not host:port", c.Listen)
	} else if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		bad("listen: %q is not a port number", port)
	} else if !loopbackHost(host) && !c.authenticates() {
		bad("listen: %q is open to others and there is no login: whoever reaches it could place calls; set keys (or tokens), or listen on 127.0.0.1", c.Listen)
	}
	if c.RequireAuth && !c.authenticates() {
		bad("require_auth: nobody could log in; set keys (or tokens)")
	}
	if !(c.RatePerSecond > 0 && c.RatePerSecond <= maxRate) || math.IsNaN(c.RatePerSecond) {
		bad("rate_per_second: %v, must be more than 0 and at most %d", c.RatePerSecond, maxRate)
	}
	if c.RateBurst < 1 || c.RateBurst > maxRate {
		bad("rate_burst: %d, must be between 1 and %d", c.RateBurst, maxRate)
	}
	if c.MaxStreams < 1 || c.MaxStreams > maxStreams {
		bad("max_streams: %d, must be between 1 and %d", c.MaxStreams, maxStreams)
	}
	return errors.Join(append(errs, c.validateKeys()...)...)
}

// validateKeys says what is wrong with the keys, never what they are.
func (c Config) validateKeys() (errs []error) {
	bad := func(name, format string, a ...any) {
		errs = append(errs, fmt.Errorf("api: keys: %q: %s", name, fmt.Sprintf(format, a...)))
	}
	if len(c.Keys) > maxKeys {
		errs = append(errs, fmt.Errorf("api: keys: %d of them, at most %d", len(c.Keys), maxKeys))
	}
	names, secrets := map[string]bool{}, map[string]bool{}
	for _, k := range c.Keys {
		if k.Name == "" || len(k.Name) > 64 || !every(k.Name, nameByte) {
			bad(k.Name, "the name must be of 1 to 64 letters, digits, '-', '_' and '.'")
		}
		if len(k.Secret) < minSecret || len(k.Secret) > 512 || !every(strings.TrimRight(k.Secret, "="), token68) {
			bad(k.Name, "must be of %d to 512 letters, digits and signs of \"-._~+/\", such as `openssl rand -hex 24` gives", minSecret)
		}
		if names[k.Name] {
			bad(k.Name, "is there twice")
		}
		if secrets[k.Secret] {
			bad(k.Name, "is the same as another: make one for each client, so that it can be taken back")
		}
		names[k.Name], secrets[k.Secret] = true, true
		for _, scope := range k.Scopes {
			if !slices.Contains(Scopes(), scope) {
				bad(k.Name, "there is no scope %q, only %s", scope, strings.Join(Scopes(), ", "))
			}
		}
	}
	return errs
}

// authenticates says whether anybody can log in.
func (c Config) authenticates() bool { return len(c.Keys) > 0 || c.Tokens }

// open says whether those who come over loopback need no login.
func (c Config) open() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	return err == nil && loopbackHost(host) && !c.RequireAuth && len(c.Keys) == 0
}

// loopbackHost says whether host, without a port, is this machine and nothing else.
func loopbackHost(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil && addr.Unmap().IsLoopback()
}

// every says whether ok holds for every byte of s.
func every(s string, ok func(byte) bool) bool {
	for i := range len(s) {
		if !ok(s[i]) {
			return false
		}
	}
	return true
}

func letterOrDigit(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

func nameByte(b byte) bool { return letterOrDigit(b) || strings.IndexByte("-_.", b) >= 0 }

// token68 is a byte that credentials may have (RFC 9110 section 11.2).
func token68(b byte) bool { return letterOrDigit(b) || strings.IndexByte("-._~+/", b) >= 0 }
