package call

import (
	"errors"

	"parley/identity"
	"parley/sip"
)

// maxCalled bounds the called user part in runes.
const maxCalled = 64

// identify finds out who calls whom. The error is a *sip.RejectError: the call carries
// a token that does not count, or none.
func (c *Call) identify(inv *sip.Invite) (err error) {
	c.called = identity.CleanText(inv.RequestURI().User, maxCalled)
	who := c.server.parts.Identity
	s := CallerSource(inv.From(), inv.Header)
	s.Bearer = who.Bearer(inv.Header)
	if c.trunk != nil {
		s.Trusted, s.Region = c.trunk.cfg.TrustIdentity, c.trunk.cfg.Region
	}
	if c.caller, err = who.Resolve(s); err != nil {
		realm := inv.RequestURI().Host
		if realm == "" { // a tel: URI
			realm = inv.Local().Addr().String()
		}
		return refuseToken(err, realm)
	}
	if s.Trusted {
		c.headers = extensionHeaders(inv)
	}
	return nil
}

// refuseToken asks for a token, or for a better one (RFC 8898 section 4): one that was
// not sent has no fault (RFC 6750 section 3.1).
func refuseToken(err error, realm string) error {
	var token *identity.TokenError
	if !errors.As(err, &token) {
		return err
	}
	challenge := `Bearer realm="` + realm + `"`
	if token.Rule != identity.RuleMissing {
		challenge += `, error="invalid_token"`
	}
	return &sip.RejectError{Code: 401, Text: "the token does not count", Rule: "token_" + token.Rule, Challenges: []string{challenge}}
}

// CallerSource is what an INVITE tells about its caller: by its From and the headers
// of identity, of which header gives all values.
func CallerSource(from sip.Address, header func(name string) []string) identity.Source {
	s := identity.Source{
		From:        party(from),
		Asserted:    parties(header("P-Asserted-Identity")),
		RemoteParty: parties(header("Remote-Party-ID")),
		Privacy:     header("Privacy"),
		Diversion:   parties(header("Diversion")),
		History:     parties(header("History-Info")),
	}
	if ids := header("X-StreamCore-Resource-Id"); len(ids) == 1 {
		s.ResourceID = ids[0] // of several none is the right one
	}
	return s
}

// maxParties bounds how many addresses of one header are looked at.
const maxParties = 100

func parties(values []string) []identity.Party {
	all := sip.ParseAddresses(values)
	out := make([]identity.Party, 0, min(len(all), maxParties))
	for _, a := range all[:min(len(all), maxParties)] {
		out = append(out, party(a))
	}
	return out
}

func party(a sip.Address) identity.Party {
	return identity.Party{Name: a.Name, URI: identity.URI(a.URI), Params: a.Params, Raw: a.RawURI}
}
