package call

import (
	"parley/identity"
	"parley/sip"
)

// maxCalled bounds the called user part in runes.
const maxCalled = 64

// identify finds out who calls whom. trusted and region are the trunk's. The error
// is an *identity.TokenError: the call carries a token that does not count.
func (c *Call) identify(trusted bool, region string) (err error) {
	c.called = identity.CleanText(c.inv.RequestURI().User, maxCalled)
	who := c.server.parts.Identity
	s := source(c.inv)
	s.Trusted, s.Region, s.Bearer = trusted, region, who.Bearer(c.inv.Header)
	c.caller, err = who.Resolve(s)
	return err
}

// source is what an INVITE tells about its caller.
func source(inv *sip.Invite) identity.Source {
	s := identity.Source{
		From:        party(inv.From()),
		Asserted:    parties(inv.Header("P-Asserted-Identity")),
		RemoteParty: parties(inv.Header("Remote-Party-ID")),
		Privacy:     inv.Header("Privacy"),
		Diversion:   parties(inv.Header("Diversion")),
		History:     parties(inv.Header("History-Info")),
	}
	if ids := inv.Header("X-StreamCore-Resource-Id"); len(ids) == 1 {
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
