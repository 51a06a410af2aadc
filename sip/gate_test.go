package sip

import (
	"context"
	"net/netip"
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
	err := Access{Realm: "a\r\nb", Required: "sometimes"}.Validate()
	if err == nil || !strings.Contains(err.Error(), "realm: ") || !strings.Contains(err.Error(), "required: ") {
		t.Errorf("%v", err)
	}
	if _, err := NewGate(Access{}, nil); err == nil {
		t.Error("a gate of nothing")
	}
}

// Who is asked for what, by where the call comes from.
func TestGate(t *testing.T) {
	users := map[string]string{"alice": "secret"}
	standing := &Registration{state: RegistrationState{Registered: true, Expires: time.Now().Add(time.Hour)}}
	lapsed := &Registration{state: RegistrationState{Registered: true, Expires: time.Now().Add(-time.Second)}}
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
		g, err := NewGate(Access{Realm: "example.com", Required: c.required}, c.users)
		if err != nil {
			t.Fatal(err)
		}
		inv := &Invite{m: &message{flow: &flow{remote: netip.AddrPortFrom(netip.MustParseAddr(c.source), 5060)}}, reg: c.reg}
		rej := g.Admit(inv)
		switch {
		case rej == nil && c.code != 0:
			t.Errorf("%+v: taken", c)
		case rej != nil && (rej.Code != c.code || rej.Rule != c.rule || (len(rej.challenges) > 0) != (c.code == 401)):
			t.Errorf("%+v: %v %q", c, rej, rej.challenges)
		}
	}
}

// The whole way: asked, answered, and let in.
func TestGateOnTheWire(t *testing.T) {
	g, err := NewGate(Access{Realm: "example.com", Required: RequireAlways}, map[string]string{"alice": "secret"})
	if err != nil {
		t.Fatal(err)
	}
	b := start(t, func(_ context.Context, inv *Invite) {
		rej := g.Admit(inv)
		if rej == nil {
			rej = &RejectError{Code: 486, Rule: "test"}
		}
		inv.Reject(rej)
	})
	p := b.phone("udp")
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
