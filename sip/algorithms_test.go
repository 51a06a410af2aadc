package sip

import (
	"context"
	"strings"
	"testing"
	"time"
)

// Algorithms are asked for in the order that the operator wants, and one that is not
// among them proves nothing.
func TestAuthenticateAlgorithms(t *testing.T) {
	for _, c := range []struct{ set, asked []string }{
		{nil, []string{"SHA-256", "MD5"}},
		{[]string{"MD5", "SHA-256"}, []string{"MD5", "SHA-256"}},
		{[]string{"SHA-256"}, []string{"SHA-256"}},
	} {
		t.Run(strings.Join(c.set, " "), func(t *testing.T) {
			a := NewAuthenticator("example.com", time.Minute, c.set...)
			b := start(t, func(_ context.Context, inv *Invite) {
				_, rej := inv.Authenticate(a, passwords)
				if rej == nil {
					rej = &RejectError{Code: 486, Rule: "test"}
				}
				inv.Reject(rej)
			})
			p := b.phone("tcp")
			try := func(auth string, code int) []string {
				t.Helper()
				inv := newInvite()
				if auth != "" {
					inv.extra = []string{"Authorization: " + auth}
				}
				p.send(inv)
				m := p.expect("INVITE", code)
				p.send(ackOf(inv, m))
				return m.head["www-authenticate"]
			}
			asked := try("", 401)
			if len(asked) != len(c.asked) {
				t.Fatalf("asked for %q", asked)
			}
			for i, name := range c.asked {
				if !strings.HasSuffix(asked[i], ",algorithm="+name) {
					t.Errorf("asked for %q, want %s there", asked[i], name)
				}
			}
			const uri = "sip:bot@example.com"
			try(authorization(t, asked[0], "INVITE", uri, "alice", "secret", 1), 486)
			if len(asked) == 1 {
				weak := strings.Replace(asked[0], "SHA-256", "MD5", 1)
				try(authorization(t, weak, "INVITE", uri, "alice", "secret", 2), 401)
				try(authorization(t, strings.Replace(weak, ",algorithm=MD5", "", 1), "INVITE", uri, "alice", "secret", 3), 401)
			}
		})
	}
}
