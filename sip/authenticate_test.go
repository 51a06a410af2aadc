package sip

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/icholy/digest"
)

func passwords(user string) (string, bool) {
	return map[string]string{"alice": "secret", "": ""}[user], user == "alice"
}

// authorization answers a challenge as a client would.
func authorization(t *testing.T, challenge, method, uri, user, password string, count int) string {
	t.Helper()
	all := authValues(challenge)
	if len(all) != 1 {
		t.Fatalf("%d challenges in %q", len(all), challenge)
	}
	c, ok := readChallenge(all[0])
	if !ok {
		t.Fatalf("challenge %s", challenge)
	}
	f, err := c.credentials(user, password, method, uri, count)
	if err != nil {
		t.Fatal(err)
	}
	return f.value
}

// BR-168.
func TestAuthenticate(t *testing.T) {
	a := NewAuthenticator("example.com", time.Minute)
	users := make(chan string, 8)
	b := start(t, func(_ context.Context, inv *Invite) {
		user, rej := inv.Authenticate(a, passwords)
		if rej == nil {
			users <- user
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
	if len(asked) != 2 || !strings.Contains(asked[0], "algorithm=SHA-256") || !strings.Contains(asked[1], "algorithm=MD5") || strings.Contains(asked[0], "stale") {
		t.Fatalf("challenges %q", asked)
	}
	const uri = "sip:bot@example.com"
	for _, c := range asked {
		good := authorization(t, c, "INVITE", uri, "alice", "secret", 1)
		if c == asked[0] {
			try(good, 486)
			if u := wait(t, users, "the user"); u != "alice" {
				t.Errorf("user %q", u)
			}
		}
		// The same again, on another Call-ID: a new nonce, and no bad password.
		again := try(good, 401)
		if len(again) != 2 || !strings.Contains(again[0], "stale=true") {
			t.Errorf("replay: %q", again)
		}
	}
	try(authorization(t, asked[0], "INVITE", uri, "alice", "secret", 2), 486) // long after, with the next count
	wait(t, users, "the user")
	if again := try(authorization(t, asked[0], "INVITE", "sip:+1900@example.com", "alice", "secret", 3), 401); strings.Contains(again[0], "stale") {
		t.Error("for another number")
	}
	for _, bad := range []string{
		authorization(t, asked[0], "INVITE", uri, "alice", "wrong", 4),
		authorization(t, asked[0], "INVITE", uri, "bob", "", 4),
		authorization(t, asked[0], "REGISTER", uri, "alice", "secret", 4),
		strings.Replace(authorization(t, asked[0], "INVITE", uri, "alice", "secret", 4), "example.com", "example.net", 1),
		"Bearer x", "Digest", `Digest username="alice`, "Basic YWxpY2U6c2VjcmV0",
		strings.Replace(authorization(t, asked[0], "INVITE", uri, "alice", "secret", 4), "qop=auth", "qop=auth-int", 1),
	} {
		if again := try(bad, 401); strings.Contains(again[0], "stale") {
			t.Errorf("stale for %s", bad)
		}
	}
	if n := b.logs.FilterMessage("sip: call refused").FilterField(zapRule("password")).Len(); n != 1 { // one a second
		t.Errorf("%d lines about a password", n)
	}
	// Without qop a nonce is good once (RFC 2069).
	ch := digest.Challenge{Realm: "example.com"}
	for _, param := range authValues(try("", 401)[1]) {
		ch.Nonce = param["nonce"]
	}
	old, err := digest.Digest(&ch, digest.Options{Method: "INVITE", URI: uri, Username: "alice", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	try(old.String(), 486)
	try(old.String(), 401)
}

func TestNonces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAuthenticator("example.com", time.Minute)
		here, there := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
		check := func(from netip.Addr, auth string) error {
			m := &message{method: "INVITE", uri: "sip:bot@example.com", flow: &flow{remote: netip.AddrPortFrom(from, 5060)}}
			m.add("Authorization", auth)
			_, err := a.check(m, passwords)
			return err
		}
		c := a.challenge(here, false)[0]
		answer := func(n int) string { return authorization(t, c, "INVITE", "sip:bot@gw", "alice", "secret", n) }
		if err := check(there, answer(1)); err != errStale {
			t.Errorf("from elsewhere: %v", err)
		}
		time.Sleep(time.Minute)
		if err := check(here, answer(1)); err != nil {
			t.Errorf("at its end: %v", err)
		}
		time.Sleep(time.Millisecond)
		if err := check(here, answer(2)); err != errStale {
			t.Errorf("expired: %v", err)
		}
		if err := check(here, strings.Replace(answer(2), "nonce=\"", "nonce=\"x", 1)); err != errProof {
			t.Errorf("changed: %v", err)
		}
		// The table is bounded: what expired makes room, else all begins anew.
		for i := range maxUsed - 1 {
			a.used[fmt.Sprint(i)] = used{1, time.Now().Add(time.Hour)}
		}
		c = a.challenge(here, false)[0]
		if err := check(here, answer(1)); err != nil || len(a.used) != maxUsed {
			t.Errorf("%v, %d in use", err, len(a.used))
		}
		c = a.challenge(here, false)[0]
		if err := check(here, answer(1)); err != nil || len(a.used) != 0 {
			t.Errorf("%v, %d in use", err, len(a.used))
		}
		if err := check(here, answer(2)); err != errStale {
			t.Errorf("after the renewal: %v", err)
		}
	})
}

func TestChallenges(t *testing.T) {
	m := &message{}
	m.add("WWW-Authenticate", `Basic realm="x", Digest realm="a, b",nonce="1" , qop="auth-int, auth",Digest  realm="c",nonce="2",algorithm=SHA-256,opaque="o\"p"`)
	m.add("WWW-Authenticate", `NTLM abc=`)
	m.add("WWW-Authenticate", `Digest realm="d",nonce=""`)
	m.add("WWW-Authenticate", `Digest nonce="x"`)
	m.add("WWW-Authenticate", `Digest realm="d",nonce="3",qop="auth-int"`)
	m.add("WWW-Authenticate", `digest Realm=plain,NONCE=4==,Stale="TRUE"`)
	m.add("Proxy-Authenticate", `Digest realm="",nonce="5"`)
	var got []string
	for _, c := range m.challenges() {
		got = append(got, fmt.Sprintf("%v %q %s %s %v %v %s", c.proxy, c.sum.Realm, c.sum.Nonce, c.sum.Algorithm, c.sum.QOP, c.stale, c.sum.Opaque))
	}
	want := []string{
		`false "a, b" 1  [auth] false `, `false "c" 2 SHA-256 [] false o"p`, `false "plain" 4==  [] true `, `true "" 5  [] false `,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// RFC 7616 section 3.9.1, and userhash.
func TestDigestVectors(t *testing.T) {
	c := challenge{sum: digest.Challenge{Realm: `a"b`, Nonce: "n", Opaque: "o", QOP: []string{"auth"}, Algorithm: "SHA-256", Userhash: true}}
	f, err := c.credentials("Mufasa", "Circle of Life", "INVITE", "sip:x@y", 255)
	if err != nil || f.name != "Authorization" {
		t.Fatal(f, err)
	}
	for _, want := range []string{`realm="a\"b"`, ",nc=000000ff", ",qop=auth", ",userhash=true", `opaque="o"`, "algorithm=SHA-256"} {
		if !strings.Contains(f.value, want) {
			t.Errorf("%s is not in %s", want, f.value)
		}
	}
	p := proof{user: "Mufasa", realm: "http-auth@example.org", nonce: "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", uri: "/dir/index.html",
		algorithm: "SHA-256", cnonce: "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ", qop: true, count: 1}
	if got := p.expected("GET", "Circle of Life"); got != "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1" {
		t.Errorf("SHA-256: %s", got)
	}
	p.algorithm = "MD5"
	if got := p.expected("GET", "Circle of Life"); got != "8ca523f5e9506fed4657c9700eebdbec" {
		t.Errorf("MD5: %s", got)
	}
}

func FuzzAuthValues(f *testing.F) {
	f.Add(`Digest realm="a",nonce="b",qop="auth,auth-int",algorithm=MD5, Basic realm="x"`)
	f.Add(`Digest username="a\"",response="b",nc=00000001,cnonce=",",uri="sip:x"`)
	f.Fuzz(func(t *testing.T, v string) {
		m := &message{}
		m.add("WWW-Authenticate", v)
		for _, c := range m.challenges() {
			got, err := c.credentials("u", "p", "INVITE", "sip:x", 1)
			if err != nil || strings.ContainsAny(got.value, "\r\n") {
				t.Errorf("%q: %v", got.value, err)
			}
		}
		for _, p := range authValues(v) {
			readProof(p)
		}
	})
}
