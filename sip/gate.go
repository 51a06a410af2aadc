package sip

import (
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Who has to authenticate.
const (
	// RequireNever answers everybody.
	RequireNever = "never"
	// RequireOutside asks those whose address is not Inside and who do not come by a
	// trunk.
	RequireOutside = "outside"
	// RequireAlways asks everybody, trunks too.
	RequireAlways = "always"
)

// What strangers get: sources that are no trunk, not let in by their address, and
// prove no password.
const (
	// UnknownRefuse answers them, with the status that is right.
	UnknownRefuse = "refuse"
	// UnknownDrop leaves them without any answer. Where there are users, an INVITE
	// is asked for credentials all the same: it may be one of theirs.
	UnknownDrop = "drop"
)

// nonceLife is how long the nonce of a Gate is good: a call is set up in seconds,
// and telephones use one for several calls.
const nonceLife = 5 * time.Minute

// messagesPerCall is how many messages of all kinds a stranger may send for each
// new call that it may make: more than any call takes.
const messagesPerCall = 20

// Access says which callers are taken, who must prove who they are, and how much
// strangers may ask for.
type Access struct {
	// Realm is what callers are asked for a password of; telephones show it.
	Realm string
	// Algorithms are how a password is proved, the preferred first: SHA-256 and MD5;
	// none is both. A client should use the first that it can (RFC 8760 section 2.4),
	// but some look at the first alone, or at the last.
	Algorithms []string
	// Required is RequireNever, RequireOutside or RequireAlways.
	Required string
	// RatePerSource is how many new INVITEs a second are looked at of one address
	// that is a stranger's (of IPv6: of one network of 64 bits), and RateBurst how
	// many at once. What is above it gets no answer over UDP, where the sender may
	// be made up and will repeat it, and 503 with Retry-After over connections. A
	// rate of 0 is no limit.
	RatePerSource float64
	RateBurst     int
	// Unknown is what strangers get: UnknownRefuse, also when empty, or
	// UnknownDrop.
	Unknown string
}

// DefaultAccess asks callers from outside.
func DefaultAccess() Access {
	return Access{Realm: "parley", Algorithms: []string{"SHA-256", "MD5"}, Required: RequireOutside, RatePerSource: 10, RateBurst: 30, Unknown: UnknownRefuse}
}

// Validate returns all that is wrong with a, joined into one error, each part
// beginning with the field's name.
func (a Access) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("sip: "+format, args...)) }
	if a.Realm == "" || len(a.Realm) > 128 || strings.ContainsFunc(a.Realm, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		bad("realm: %q is not a line of 1 to 128 bytes", a.Realm)
	}
	if known := []string{RequireNever, RequireOutside, RequireAlways}; !slices.Contains(known, a.Required) {
		bad("required: %q is not never, outside or always", a.Required)
	}
	for i, name := range a.Algorithms {
		if !slices.Contains([]string{"SHA-256", "MD5"}, name) || slices.Contains(a.Algorithms[:i], name) {
			bad("algorithms: %q is not SHA-256 or MD5, or is there twice", name)
		}
	}
	if !rateFits(a.RatePerSource) {
		bad("rate_per_source: %v is not between 0 and 1000000", a.RatePerSource)
	}
	if a.RateBurst < 0 || a.RatePerSource > 0 && a.RateBurst < 1 {
		bad("rate_burst: %d is below 1", a.RateBurst)
	}
	if known := []string{"", UnknownRefuse, UnknownDrop}; !slices.Contains(known, a.Unknown) {
		bad("unknown: %q is not refuse or drop", a.Unknown)
	}
	return errors.Join(errs...)
}

func rateFits(r float64) bool { return !math.IsNaN(r) && r >= 0 && r <= 1e6 }

// Source is how the calls of a trunk are known that does not register us.
type Source struct {
	// Trunk is the trunk's name.
	Trunk string
	// Addrs are the networks that it calls from. Of overlapping ones the longest
	// counts. Over UDP an address proves little on networks that let made-up ones
	// through.
	Addrs []netip.Prefix
	// Certificates are names of client certificates, which the listener has
	// verified (TLS.ClientAuth): sip: URIs or DNS names among the subject's
	// alternative names, or the common name of a certificate that has neither (RFC
	// 5922 section 7.1). Wildcards do not count (section 7.2).
	Certificates []string
	// Rate is how many new INVITEs a second it may send, and Burst how many at
	// once; above that it is answered 503. A rate of 0 is no limit.
	Rate  float64
	Burst int
}

// Admission says why a call may come in, and as whose.
type Admission struct {
	// Trunk is the trunk's name; empty when it comes by none.
	Trunk string
	// User is who proved a password; empty when nobody did.
	User string
	// By is the rule that let it in: "registration", "certificate", "source",
	// "digest", "inside" or "open".
	By string
}

// Gate lets callers in by an Access, the passwords of users and the sources of
// trunks. Put it into Config.Gate, so that what it refuses leaves no state. Its
// methods may be called from any goroutine. All of its tables are of a fixed size.
type Gate struct {
	cfg       Access
	passwords map[string]string
	auth      *Authenticator
	networks  []network // the longest first
	names     map[string]*origin
	strangers *buckets // new INVITEs of strangers
	messages  *buckets // all that comes
}

// origin is a Source at work.
type origin struct {
	trunk string
	rate  *buckets // by one address only: the trunk has one bucket
}

type network struct {
	prefix netip.Prefix
	of     *origin
}

// NewGate makes one. passwords is by user and must not be changed afterwards. The
// error names every source that is wrong.
func NewGate(cfg Access, passwords map[string]string, sources []Source) (*Gate, error) {
	errs := []error{cfg.Validate()}
	g := &Gate{cfg: cfg, passwords: passwords, names: make(map[string]*origin)}
	for i, s := range sources {
		if err := g.add(s); err != nil {
			errs = append(errs, fmt.Errorf("sip: sources[%d]: %w", i, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	slices.SortStableFunc(g.networks, func(a, b network) int { return b.prefix.Bits() - a.prefix.Bits() })
	g.auth = NewAuthenticator(cfg.Realm, nonceLife, cfg.Algorithms...)
	g.strangers = newBuckets(cfg.RatePerSource, cfg.RateBurst)
	g.messages = newBuckets(messagesPerCall*cfg.RatePerSource, messagesPerCall*cfg.RateBurst)
	return g, nil
}

func (g *Gate) add(s Source) error {
	if !rateFits(s.Rate) || s.Burst < 0 || s.Rate > 0 && s.Burst < 1 {
		return fmt.Errorf("rate %v, burst %d: the rate must be between 0 and 1000000 and the burst with it at least 1", s.Rate, s.Burst)
	}
	if s.Trunk == "" {
		return errors.New("trunk: a source belongs to one")
	}
	o := &origin{trunk: s.Trunk, rate: newBuckets(s.Rate, s.Burst)}
	for _, p := range s.Addrs {
		if !p.IsValid() {
			return errors.New("addrs: not a network")
		}
		if p.Addr().Is4In6() {
			if p.Bits() < 96 {
				return fmt.Errorf("addrs: %v is neither of IPv4 nor of IPv6", p)
			}
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		g.networks = append(g.networks, network{p.Masked(), o})
	}
	for _, n := range s.Certificates {
		name := strings.ToLower(strings.TrimSpace(n))
		if other := g.names[name]; name == "" || other != nil {
			return fmt.Errorf("certificates: %q is empty or another trunk's", n)
		}
		g.names[name] = o
	}
	return nil
}

// at is the trunk that has a source address; nil is none.
func (g *Gate) at(addr netip.Addr) *origin {
	addr = addr.Unmap().WithZone("")
	for _, n := range g.networks {
		if n.prefix.Contains(addr) {
			return n.of
		}
	}
	return nil
}

// shows is the trunk that a client certificate is of; nil is none.
func (g *Gate) shows(cert *x509.Certificate) *origin {
	if cert == nil || len(g.names) == 0 {
		return nil
	}
	for _, n := range identities(cert) {
		if o := g.names[n]; o != nil {
			return o
		}
	}
	return nil
}

// trunk finds the trunk that a call comes by: by its registration, by the
// certificate of its connection, by its address.
func (g *Gate) trunk(f *flow, reg *Registration) (a Admission, o *origin) {
	byCert := (*origin)(nil)
	if f.conn != nil {
		byCert = g.shows(f.conn.peer)
	}
	byAddr := g.at(f.remote.Addr())
	switch {
	case reg != nil && reg.State().Registered:
		a = Admission{Trunk: reg.link.t.Name, By: "registration"}
		for _, other := range []*origin{byCert, byAddr} {
			if other != nil && other.trunk == a.Trunk {
				return a, other
			}
		}
		return a, nil
	case byCert != nil:
		return Admission{Trunk: byCert.trunk, By: "certificate"}, byCert
	case byAddr != nil:
		return Admission{Trunk: byAddr.trunk, By: "source"}, byAddr
	}
	return Admission{}, nil
}

// inside says that the address alone lets a caller in.
func (g *Gate) inside(addr netip.Addr) bool { return g.cfg.Required != RequireAlways && Inside(addr) }

// stranger says that nothing but a password could let this peer in: what it sends
// is held to the rates.
func (g *Gate) stranger(f *flow) bool {
	if g.inside(f.remote.Addr()) || g.at(f.remote.Addr()) != nil {
		return false
	}
	return f.conn == nil || g.shows(f.conn.peer) == nil
}

// Admit says whether a call may go on, and as whose. When the server has the gate
// in its Config the answer was found before; it is the same again. A refusal, to
// be given to Reject, is
//   - 503 by rule "rate_per_source" or "trunk_rate" for too many calls,
//   - 401 by the rules of Invite.Authenticate ("credentials", "password"),
//   - 403 by rule "source_not_allowed" when there is no user whom the caller could
//     be.
//
// The trial order: a trunk by its registration, its certificate or its address; a
// password; an address that is Inside.
func (g *Gate) Admit(inv *Invite) (Admission, *RejectError) {
	if inv.m.admitted != nil && inv.m.gate == g {
		return *inv.m.admitted, nil
	}
	return g.judge(inv.m, inv.reg)
}

// judge is Admit for a message. reg is the registration that it came by.
func (g *Gate) judge(m *message, reg *Registration) (Admission, *RejectError) {
	a, from := g.trunk(m.flow, reg)
	if rej := g.overRate(m.flow, a, from); rej != nil {
		return Admission{}, rej
	}
	if a.By != "" && g.cfg.Required != RequireAlways {
		return a, nil
	}
	inside := g.inside(m.flow.remote.Addr())
	free := inside || g.cfg.Required == RequireNever
	var asked *RejectError
	if len(g.passwords) > 0 && (!free || m.get("authorization") != "") {
		user, rej := g.auth.ask(m, g.password)
		if rej == nil {
			return Admission{Trunk: a.Trunk, User: user, By: "digest"}, nil
		}
		asked = rej
	}
	switch {
	case inside:
		return Admission{By: "inside"}, nil
	case free:
		return Admission{By: "open"}, nil
	case asked != nil:
		return Admission{}, asked
	}
	return Admission{}, &RejectError{Code: 403, Rule: "source_not_allowed", Text: "Calls from this address are not taken"}
}

func (g *Gate) password(user string) (string, bool) {
	p, ok := g.passwords[user]
	return p, ok
}

// overRate counts a new call against the rate of its source.
func (g *Gate) overRate(f *flow, a Admission, from *origin) *RejectError {
	now := time.Now()
	switch {
	case from != nil:
		if !from.rate.take(netip.IPv4Unspecified(), now) {
			return &RejectError{Code: 503, Rule: "trunk_rate", Text: "Too many calls at once from this trunk", RetryAfter: time.Second}
		}
	case a.By == "" && g.stranger(f):
		if !g.strangers.take(f.remote.Addr(), now) {
			return &RejectError{Code: 503, Rule: "rate_per_source", Text: "Too many calls from this address", RetryAfter: time.Second}
		}
	}
	return nil
}

// Inside says that an address cannot be one of the public internet: loopback,
// private (RFC 1918, RFC 4193) or link-local.
func Inside(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast()
}
