package sip

import (
	"errors"
	"fmt"
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
	// registration of ours.
	RequireOutside = "outside"
	// RequireAlways asks everybody, trunks too.
	RequireAlways = "always"
)

// nonceLife is how long the nonce of a Gate is good: a call is set up in seconds,
// and telephones use one for several calls.
const nonceLife = 5 * time.Minute

// Access says which callers must prove who they are.
type Access struct {
	// Realm is what callers are asked for a password of; telephones show it.
	Realm string
	// Required is RequireNever, RequireOutside or RequireAlways.
	Required string
}

// DefaultAccess asks callers from outside.
func DefaultAccess() Access { return Access{Realm: "parley", Required: RequireOutside} }

// Validate returns all that is wrong with a, joined into one error, each part
// beginning with the field's name.
func (a Access) Validate() error {
	var errs []error
	if a.Realm == "" || len(a.Realm) > 128 || strings.ContainsFunc(a.Realm, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		errs = append(errs, fmt.Errorf("sip: realm: %q is not a line of 1 to 128 bytes", a.Realm))
	}
	if known := []string{RequireNever, RequireOutside, RequireAlways}; !slices.Contains(known, a.Required) {
		errs = append(errs, fmt.Errorf("sip: required: %q is not never, outside or always", a.Required))
	}
	return errors.Join(errs...)
}

// Gate lets callers in by an Access and the passwords of users. Its methods may be
// called from any goroutine.
type Gate struct {
	cfg       Access
	passwords map[string]string
	auth      *Authenticator
}

// NewGate makes one. The map is by user and must not be changed afterwards.
func NewGate(cfg Access, passwords map[string]string) (*Gate, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Gate{cfg: cfg, passwords: passwords, auth: NewAuthenticator(cfg.Realm, nonceLife)}, nil
}

// Admit says whether a call may go on. A refusal, to be given to Reject, is 401 by
// the rules of Invite.Authenticate, or 403 by rule "source_not_allowed" when there
// is no user whom the caller could be.
func (g *Gate) Admit(inv *Invite) *RejectError {
	if !g.asks(inv.Source().Addr(), inv.registered()) {
		return nil
	}
	if len(g.passwords) == 0 {
		return &RejectError{Code: 403, Rule: "source_not_allowed", Text: "Calls from this address are not taken"}
	}
	_, rej := inv.Authenticate(g.auth, func(user string) (string, bool) {
		p, ok := g.passwords[user]
		return p, ok
	})
	return rej
}

// asks says whether a call from there must authenticate. trunk says that it came by
// a registration that stands.
func (g *Gate) asks(source netip.Addr, trunk bool) bool {
	switch g.cfg.Required {
	case RequireNever:
		return false
	case RequireOutside:
		return !trunk && !Inside(source)
	}
	return true
}

// registered says that the call came by a registration of ours that stands: from
// the registrar's address, or with the unguessable line of our Contact, which the
// registrar alone was told.
func (i *Invite) registered() bool { return i.reg != nil && i.reg.State().Registered }

// Inside says that an address cannot be one of the public internet: loopback,
// private (RFC 1918, RFC 4193) or link-local.
func Inside(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast()
}
