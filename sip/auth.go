package sip

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// maxTries bounds the answers to the challenges of one realm for one request. One
// is usual; a second is for a nonce that had gone stale, which many registrars
// do not call stale (RFC 7616 section 3.3 has them say so).
const maxTries = 2

// maxRealms bounds the nonces that are kept of one trunk.
const maxRealms = 8

// ErrUnauthorized says that a challenge was not answered, or its answer refused. The
// error text says which: no password, a realm that is not the trunk's, or the
// wrong password.
var ErrUnauthorized = errors.New("sip: not authorized")

// realm is where a challenge comes from: proxies and servers have realms of their
// own (RFC 3261 section 22.1).
type realm struct {
	proxy bool
	name  string
}

// keyring holds the credentials of one trunk, the nonces that were last good, and
// the realms it may be used for. Its methods may be called from any goroutine.
type keyring struct {
	user, password string
	only           []string // configured realms; empty: those learned from the registrar

	mu      sync.Mutex
	learned []string
	nonces  map[realm]*nonce
}

// nonce is a challenge and how often it was answered.
type nonce struct {
	challenge
	count int
}

func newKeyring(t Trunk) *keyring {
	k := &keyring{user: t.Username, password: t.Password, only: t.Realms, nonces: make(map[realm]*nonce)}
	if k.user == "" {
		k.user = t.User
	}
	for _, h := range append([]string{t.Domain}, t.Hosts...) {
		if host, _, err := splitHostPort(h); err == nil {
			k.learned = append(k.learned, host)
		}
	}
	return k
}

// trusts says whether a challenge for the realm may be answered. Requests in a
// call reach whoever was called, and anybody can ask for a digest to guess the
// password from (RFC 3261 section 22.1 to 22.3): without configured realms only
// those of the trunk's own names and of its registrar are answered. What goes to
// the registrar itself is answered for any realm, which is learned by that.
func (k *keyring) trusts(name string, registrar bool) bool {
	same := func(s string) bool { return strings.EqualFold(s, name) }
	if len(k.only) > 0 {
		return slices.ContainsFunc(k.only, same)
	}
	return registrar || slices.ContainsFunc(k.learned, same)
}

// approved is told that a registrar took the answers.
func (k *keyring) approved(used []*nonce) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, n := range used {
		if len(k.learned) < 4*maxRealms && !slices.Contains(k.learned, n.sum.Realm) {
			k.learned = append(k.learned, n.sum.Realm)
		}
	}
}

// login is the authentication of one request through all of its repetitions. It
// is for one goroutine. A nil login answers nothing.
type login struct {
	k         *keyring
	registrar bool // the request ends at the trunk's registrar
	use       []*nonce
	tries     map[realm]int
}

// begin starts a request. To the registrar the nonce of the last time is used
// again, which saves a round trip (RFC 7616 section 3.3); other requests pass
// hosts that have no business with it.
func (k *keyring) begin(registrar bool) *login {
	if k == nil {
		return nil
	}
	l := &login{k: k, registrar: registrar, tries: make(map[realm]int)}
	if registrar {
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, n := range k.nonces {
			l.use = append(l.use, n)
		}
	}
	return l
}

// fields are the credentials for the next copy of the request: one set for each
// realm that asked (RFC 3261 section 22.3).
func (l *login) fields(method, uri string) ([]field, error) {
	if l == nil {
		return nil, nil
	}
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	var all []field
	for _, n := range l.use {
		n.count++
		f, err := n.credentials(l.k.user, l.k.password, method, uri, n.count)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// challenged takes a 401 or 407. nil: send the request again with fields. An error
// wraps ErrUnauthorized and is the end of it.
func (l *login) challenged(m *message) error {
	if l == nil {
		return fmt.Errorf("%w: %d, and this call has no credentials", ErrUnauthorized, m.code)
	}
	asked := m.challenges()
	if len(asked) == 0 {
		return fmt.Errorf("%w: %d without a challenge that can be answered", ErrUnauthorized, m.code)
	}
	if l.k.password == "" {
		return fmt.Errorf("%w: realm %q asks for a password, and the trunk has none", ErrUnauthorized, clean(asked[0].sum.Realm, 64))
	}
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	answered := make(map[realm]bool)
	var refused error
	for _, c := range asked {
		r := realm{c.proxy, c.sum.Realm}
		if answered[r] {
			continue // the first is the one preferred (RFC 8760 section 2.4)
		}
		if err := l.take(r, c); err != nil {
			refused = errors.Join(refused, err)
			continue
		}
		answered[r] = true
	}
	if len(answered) == 0 {
		return refused
	}
	return nil
}

// take decides about one challenge. k.mu is held.
func (l *login) take(r realm, c challenge) error {
	name := clean(r.name, 64)
	if !l.k.trusts(r.name, l.registrar) {
		return fmt.Errorf("%w: realm %q is not among those of the trunk", ErrUnauthorized, name)
	}
	i := slices.IndexFunc(l.use, func(n *nonce) bool { return realm{n.proxy, n.sum.Realm} == r })
	if i >= 0 && l.use[i].sum.Nonce == c.sum.Nonce && !c.stale || l.tries[r] == maxTries {
		return fmt.Errorf("%w: realm %q refused the password of %q", ErrUnauthorized, name, clean(l.k.user, 64))
	}
	l.tries[r]++
	n := &nonce{challenge: c}
	if i >= 0 {
		l.use[i] = n
	} else {
		l.use = append(l.use, n)
	}
	if _, known := l.k.nonces[r]; l.registrar && (known || len(l.k.nonces) < maxRealms) {
		l.k.nonces[r] = n
	}
	return nil
}

// forget drops the nonces, after a refusal: they may be the reason.
func (k *keyring) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.nonces)
}
