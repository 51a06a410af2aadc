package sip

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Authenticator asks callers for digest credentials and checks them (RFC 3261
// section 22, RFC 7616, RFC 8760): SHA-256 and MD5, qop auth. A nonce is bound to
// the time, to the realm and to the source it was sent to, so that none has to be
// kept; only of nonces that were used with the right password the counter is, and
// each count is good once. Methods may be called from any goroutine.
type Authenticator struct {
	realm      string
	expiry     time.Duration
	algorithms []string

	mu   sync.Mutex
	key  []byte
	used map[string]used
}

// used is what a nonce was used for.
type used struct {
	count   int
	expires time.Time
}

// maxUsed bounds the nonces in use. Above it all nonces are made stale.
const maxUsed = 20000

// NewAuthenticator makes one for a realm. A nonce is good for the time given.
// algorithms are asked for in that order, and no others count; without any they are
// SHA-256 and MD5.
func NewAuthenticator(realm string, expiry time.Duration, algorithms ...string) *Authenticator {
	if len(algorithms) == 0 {
		algorithms = []string{"SHA-256", "MD5"}
	}
	a := &Authenticator{realm: realm, expiry: expiry, algorithms: algorithms}
	a.renew()
	return a
}

// renew makes all nonces stale. a.mu is held, or nobody knows of a.
func (a *Authenticator) renew() {
	a.key = make([]byte, 32)
	rand.Read(a.key) // never fails
	a.used = make(map[string]used)
}

// Why credentials are not taken. The text goes to the log.
var (
	errNoProof = errors.New("no credentials")
	errStale   = errors.New("stale nonce")
	errReplay  = errors.New("the nonce count was used before")
	errProof   = errors.New("wrong user or password")
	errOther   = errors.New("the credentials are for another address")
)

// Authenticate checks the credentials of the INVITE. password looks one up. With a
// refusal, to be given to Reject, the caller is asked with a new nonce; a stale
// nonce or a repeated count is no wrong password, and only Rule "password" is one.
func (i *Invite) Authenticate(a *Authenticator, password func(user string) (string, bool)) (user string, rej *RejectError) {
	return a.ask(i.m, password)
}

// ask is Authenticate for a message.
func (a *Authenticator) ask(m *message, password func(string) (string, bool)) (user string, rej *RejectError) {
	user, err := a.check(m, password)
	if err == nil {
		return user, nil
	}
	rej = &RejectError{Code: 401, Rule: "credentials", Text: "Credentials needed", Challenges: a.challenge(m.flow.remote.Addr(), err == errStale || err == errReplay)}
	switch err {
	case errNoProof:
	case errProof:
		rej.Rule, rej.Text = "password", "Wrong user or password"
	default:
		rej.Text = "Credentials needed: " + err.Error()
	}
	return user, rej
}

// challenge writes the values of WWW-Authenticate, the preferred first.
func (a *Authenticator) challenge(source netip.Addr, stale bool) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	text := "Digest realm=" + quote(a.realm) + ",nonce=" + quote(a.nonce(time.Now(), newID(), source)) + `,qop="auth"`
	if stale {
		text += ",stale=true"
	}
	var out []string
	for _, name := range a.algorithms {
		out = append(out, text+",algorithm="+name)
	}
	return out
}

// nonce is time, salt and a seal over both, the realm and the source. a.mu is
// held.
func (a *Authenticator) nonce(at time.Time, salt string, source netip.Addr) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli()))
	b = append(b, salt...)
	mac := hmac.New(sha256.New, a.key)
	mac.Write(b)
	mac.Write([]byte(source.Unmap().String() + "\x00" + a.realm))
	return base64.RawURLEncoding.EncodeToString(append(b, mac.Sum(nil)[:16]...))
}

// genuine says whether a nonce is one of ours for the source, and until when it is
// good. a.mu is held.
func (a *Authenticator) genuine(nonce string, source netip.Addr) (expires time.Time, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(nonce)
	if err != nil || len(b) != 8+16+16 {
		return time.Time{}, false
	}
	at := time.UnixMilli(int64(binary.BigEndian.Uint64(b)))
	same := subtle.ConstantTimeCompare([]byte(a.nonce(at, string(b[8:24]), source)), []byte(nonce)) == 1
	return at.Add(a.expiry), same
}

// check is nil when m carries good credentials. The password is looked at before
// the nonce's age, so that a stale answer tells nobody that a guess was right.
func (a *Authenticator) check(m *message, password func(string) (string, bool)) (user string, err error) {
	err = errNoProof
	for _, v := range m.all("authorization") {
		for _, params := range authValues(v) {
			p, ok := readProof(params)
			if !ok || p.realm != a.realm || !a.takes(p.algorithm) {
				continue
			}
			if user, err = p.user, a.verify(m, &p, password); err == nil {
				return user, nil
			}
		}
	}
	return user, err
}

// takes says whether an algorithm is one that was asked for.
func (a *Authenticator) takes(algorithm string) bool {
	return slices.ContainsFunc(a.algorithms, func(name string) bool { return strings.EqualFold(name, cmp.Or(algorithm, "MD5")) })
}

func (a *Authenticator) verify(m *message, p *proof, password func(string) (string, bool)) error {
	secret, known := password(p.user)
	right := subtle.ConstantTimeCompare([]byte(p.expected(m.method, secret)), []byte(p.response)) == 1
	if !known || !right {
		return errProof
	}
	// Proxies may change the host on the way, but not who is called: credentials
	// for one number must not serve for another (RFC 7616 section 3.4.6).
	asked, err := ParseURI(p.uri)
	if here, herr := ParseURI(m.uri); err != nil || herr != nil || asked.User != here.User {
		return errOther
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	expires, ok := a.genuine(p.nonce, m.flow.remote.Addr())
	if now := time.Now(); !ok || now.After(expires) {
		return errStale
	}
	if p.count <= a.used[p.nonce].count {
		return errReplay
	}
	a.remember(p.nonce, used{p.count, expires})
	return nil
}

// remember keeps the count of a nonce. a.mu is held.
func (a *Authenticator) remember(nonce string, u used) {
	if _, known := a.used[nonce]; !known && len(a.used) >= maxUsed {
		now := time.Now()
		for n, old := range a.used {
			if now.After(old.expires) {
				delete(a.used, n)
			}
		}
		if len(a.used) >= maxUsed {
			a.renew()
			return
		}
	}
	a.used[nonce] = u
}
