package sip

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"math"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestInside(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "10.1.2.3": true, "172.16.0.1": true, "172.32.0.1": false, "192.168.1.1": true,
		"169.254.1.1": true, "fe80::1%eth0": true, "fd00::1": true, "::ffff:10.0.0.1": true, "::ffff:203.0.113.1": false,
		"203.0.113.1": false, "100.64.0.1": false, "2001:db8::1": false, "0.0.0.0": false, "::": false, "224.0.0.1": false,
	} {
		if got := Inside(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
}

func TestAccessNamesEveryMistake(t *testing.T) {
	if err := DefaultAccess().Validate(); err != nil {
		t.Error(err)
	}
	err := Access{Realm: "a\r\nb", Required: "sometimes", RatePerSource: math.NaN(), RateBurst: -1, Unknown: "perhaps", Algorithms: []string{"MD5", "MD5"}}.Validate()
	for _, field := range []string{"realm: ", "required: ", "rate_per_source: ", "rate_burst: ", "unknown: ", "algorithms: "} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not in %v", field, err)
		}
	}
	if err := (Access{Realm: "x", Required: RequireNever, RatePerSource: 1}).Validate(); err == nil || !strings.Contains(err.Error(), "rate_burst") {
		t.Errorf("a rate without a burst: %v", err)
	}
	if _, err := NewGate(Access{}, nil, nil); err == nil {
		t.Error("a gate of nothing")
	}
}

func TestSourcesNameEveryMistake(t *testing.T) {
	for want, s := range map[string][]Source{
		"sources[0]: trunk":        {{Addrs: prefixes("192.0.2.0/24")}},
		"sources[1]: addrs":        {{Trunk: "a"}, {Trunk: "b", Addrs: []netip.Prefix{{}}}},
		"neither of IPv4":          {{Trunk: "a", Addrs: prefixes("::ffff:0:0/90")}},
		"sources[0]: rate":         {{Trunk: "a", Rate: 5}},
		"sources[1]: certificates": {{Trunk: "a", Certificates: []string{"sip.example.com"}}, {Trunk: "b", Certificates: []string{"SIP.example.com"}}},
	} {
		if _, err := NewGate(DefaultAccess(), nil, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func prefixes(all ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range all {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// Whose call it is: registration, certificate, address; the longest network wins.
func TestGateSources(t *testing.T) {
	standing := &Registration{link: &link{t: Trunk{Name: "pbx"}}, state: RegistrationState{Registered: true, Expires: time.Now().Add(time.Hour)}}
	uri, _ := url.Parse("sip:Carrier.example.com")
	bySAN := &x509.Certificate{URIs: []*url.URL{uri}, DNSNames: []string{"other.example.com"}, Subject: pkix.Name{CommonName: "cn.example.com"}}
	byDNS := &x509.Certificate{DNSNames: []string{"sbc.example.com"}, Subject: pkix.Name{CommonName: "cn.example.com"}}
	byCN := &x509.Certificate{Subject: pkix.Name{CommonName: "cn.example.com"}}
	wild := &x509.Certificate{DNSNames: []string{"*.example.com"}}
	sources := []Source{
		{Trunk: "wide", Addrs: prefixes("198.51.100.0/24", "2001:db8::/32", "::ffff:192.0.2.0/120")},
		{Trunk: "narrow", Addrs: prefixes("198.51.100.7/32")},
		{Trunk: "carrier", Certificates: []string{"carrier.example.com"}},
		{Trunk: "sbc", Certificates: []string{"SBC.example.com"}},
		{Trunk: "cn", Certificates: []string{"cn.example.com"}},
	}
	for _, c := range []struct {
		required, source string
		cert             *x509.Certificate
		reg              *Registration
		want             Admission
		code             int
	}{
		{RequireOutside, "198.51.100.9", nil, nil, Admission{Trunk: "wide", By: "source"}, 0},
		{RequireOutside, "198.51.100.7", nil, nil, Admission{Trunk: "narrow", By: "source"}, 0},
		{RequireOutside, "::ffff:198.51.100.7", nil, nil, Admission{Trunk: "narrow", By: "source"}, 0},
		{RequireOutside, "192.0.2.1", nil, nil, Admission{Trunk: "wide", By: "source"}, 0},
		{RequireOutside, "2001:db8:1::1", nil, nil, Admission{Trunk: "wide", By: "source"}, 0},
		{RequireOutside, "203.0.113.1", bySAN, nil, Admission{Trunk: "carrier", By: "certificate"}, 0},
		{RequireOutside, "203.0.113.1", byDNS, nil, Admission{Trunk: "sbc", By: "certificate"}, 0},
		{RequireOutside, "203.0.113.1", byCN, nil, Admission{Trunk: "cn", By: "certificate"}, 0},
		{RequireOutside, "203.0.113.1", wild, nil, Admission{}, 403},
		{RequireOutside, "198.51.100.7", bySAN, nil, Admission{Trunk: "carrier", By: "certificate"}, 0},
		{RequireOutside, "198.51.100.7", bySAN, standing, Admission{Trunk: "pbx", By: "registration"}, 0},
		{RequireOutside, "10.0.0.1", nil, nil, Admission{By: "inside"}, 0},
		{RequireNever, "203.0.113.1", nil, nil, Admission{By: "open"}, 0},
		{RequireNever, "198.51.100.7", nil, nil, Admission{Trunk: "narrow", By: "source"}, 0},
		{RequireAlways, "198.51.100.7", nil, nil, Admission{}, 403},
		{RequireAlways, "10.0.0.1", nil, nil, Admission{}, 403},
	} {
		g, err := NewGate(Access{Realm: "example.com", Required: c.required}, nil, sources)
		if err != nil {
			t.Fatal(err)
		}
		f := &flow{remote: netip.AddrPortFrom(netip.MustParseAddr(c.source), 5060)}
		if c.cert != nil {
			f.conn = &tcpConn{peer: c.cert}
		}
		got, rej := g.Admit(&Invite{m: &message{flow: f}, reg: c.reg})
		if got != c.want || (rej != nil) != (c.code != 0) || rej != nil && rej.Code != c.code {
			t.Errorf("%+v: %+v %v", c, got, rej)
		}
	}
}

// Who is asked for what, by where the call comes from.
func TestGate(t *testing.T) {
	users := map[string]string{"alice": "secret"}
	standing := &Registration{link: &link{}, state: RegistrationState{Registered: true, Expires: time.Now().Add(time.Hour)}}
	lapsed := &Registration{link: &link{}, state: RegistrationState{Registered: true, Expires: time.Now().Add(-time.Second)}}
	for _, c := range []struct {
		required, source string
		reg              *Registration
		users            map[string]string
		code             int
		rule             string
	}{
		{RequireOutside, "127.0.0.1", nil, nil, 0, ""},
		{RequireOutside, "10.0.0.7", nil, users, 0, ""},
		{RequireOutside, "fd00::7", nil, users, 0, ""},
		{RequireOutside, "203.0.113.7", nil, nil, 403, "source_not_allowed"},
		{RequireOutside, "203.0.113.7", nil, users, 401, "credentials"},
		{RequireOutside, "::ffff:203.0.113.7", nil, nil, 403, "source_not_allowed"},
		{RequireOutside, "203.0.113.7", standing, nil, 0, ""},
		{RequireOutside, "203.0.113.7", lapsed, nil, 403, "source_not_allowed"},
		{RequireOutside, "203.0.113.7", lapsed, users, 401, "credentials"},
		{RequireAlways, "127.0.0.1", nil, users, 401, "credentials"},
		{RequireAlways, "203.0.113.7", standing, users, 401, "credentials"},
		{RequireAlways, "127.0.0.1", nil, nil, 403, "source_not_allowed"},
		{RequireNever, "203.0.113.7", nil, nil, 0, ""},
	} {
		g, err := NewGate(Access{Realm: "example.com", Required: c.required}, c.users, nil)
		if err != nil {
			t.Fatal(err)
		}
		inv := &Invite{m: &message{flow: &flow{remote: netip.AddrPortFrom(netip.MustParseAddr(c.source), 5060)}}, reg: c.reg}
		_, rej := g.Admit(inv)
		switch {
		case rej == nil && c.code != 0:
			t.Errorf("%+v: taken", c)
		case rej != nil && (rej.Code != c.code || rej.Rule != c.rule || (len(rej.Challenges) > 0) != (c.code == 401)):
			t.Errorf("%+v: %v %q", c, rej, rej.Challenges)
		}
	}
}

// The whole way: asked, answered, and let in.
func TestGateOnTheWire(t *testing.T) {
	g, err := NewGate(Access{Realm: "example.com", Required: RequireAlways}, map[string]string{"alice": "secret"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := start(t, func(_ context.Context, inv *Invite) {
		who, rej := g.Admit(inv)
		if rej == nil && (who.User != "alice" || who.By != "digest") {
			t.Errorf("%+v", who)
		}
		if rej == nil {
			rej = &RejectError{Code: 486, Rule: "test"}
		}
		inv.Reject(rej)
	})
	p := b.phone("tcp")
	try := func(auth string, code int) string {
		t.Helper()
		inv := newInvite()
		if auth != "" {
			inv.extra = []string{"Authorization: " + auth}
		}
		p.send(inv)
		m := p.expect("INVITE", code)
		p.send(ackOf(inv, m))
		return m.get("WWW-Authenticate")
	}
	asked := try("", 401)
	try(authorization(t, asked, "INVITE", "sip:bot@example.com", "alice", "guess", 1), 401)
	try(authorization(t, asked, "INVITE", "sip:bot@example.com", "bob", "", 1), 401)
	try(authorization(t, asked, "INVITE", "sip:bot@example.com", "alice", "secret", 1), 486)
}
