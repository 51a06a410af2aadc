package sip

import (
	"net/netip"
	"testing"
)

func TestForesee(t *testing.T) {
	sources := []Source{{Trunk: "carrier", Addrs: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}}}
	users := map[string]string{"alice": "secret"}
	for _, c := range []struct {
		required, addr string
		users          map[string]string
		by, trunk      string
		code           int
	}{
		{RequireOutside, "203.0.113.7", nil, "source", "carrier", 0},
		{RequireOutside, "::ffff:203.0.113.7", nil, "source", "carrier", 0},
		{RequireOutside, "10.0.0.1", nil, "inside", "", 0},
		{RequireOutside, "198.51.100.1", nil, "", "", 403},
		{RequireOutside, "198.51.100.1", users, "", "", 401},
		{RequireAlways, "203.0.113.7", users, "", "", 401},
		{RequireNever, "198.51.100.1", users, "open", "", 0},
	} {
		access := DefaultAccess()
		access.Required = c.required
		g, err := NewGate(access, c.users, sources)
		if err != nil {
			t.Fatal(err)
		}
		a, rej := g.Foresee(netip.MustParseAddr(c.addr))
		code := 0
		if rej != nil {
			code = rej.Code
		}
		if a.By != c.by || a.Trunk != c.trunk || code != c.code {
			t.Errorf("%s from %s: %+v %v", c.required, c.addr, a, rej)
		}
	}
}
