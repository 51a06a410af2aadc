package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"parley/call"
	"parley/test/phone"
)

// record waits for the one journal of a server and reads it.
func (s *server) record(t *testing.T) (call.Record, []string) {
	t.Helper()
	eventually(t, patience, "a journal", func() bool { return len(s.journals()) == 1 })
	files := s.journals()
	_, record := readJournal(t, files[0])
	return record, files
}

// TestACallersToken: a JWT on the INVITE, in Authorization (RFC 8898) or in the header
// that is configured, says who calls, whatever the number; one that does not count
// refuses the call and is told so, and nothing of it is in the log.
func TestACallersToken(t *testing.T) {
	const secret = "a secret of at least thirty-two bytes"
	made := func(key string, change func(jwt.MapClaims)) string {
		claims := jwt.MapClaims{"sub": "customer-4711", "iss": "https://login.example.com/", "aud": "parley", "exp": time.Now().Add(time.Minute).Unix()}
		if change != nil {
			change(claims)
		}
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(key))
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	none, err := jwt.NewWithClaims(jwt.SigningMethodNone, jwt.MapClaims{"sub": "customer-4711"}).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	const invalid = `Bearer realm="127.0.0.1", error="invalid_token"`
	good := made(secret, nil)
	for _, c := range []struct {
		name, header string // configured; empty: Authorization alone
		required     bool
		send         []phone.Header
		id           string // empty: refused
		challenge    string
	}{
		{"in Authorization", "", false, []phone.Header{{Name: "Authorization", Value: "Bearer " + good}}, "customer-4711", ""},
		{"with the scheme in small letters", "", true, []phone.Header{{Name: "Authorization", Value: "bearer " + good}}, "customer-4711", ""},
		{"in the configured header", "X-Caller-Token", true, []phone.Header{{Name: "X-Caller-Token", Value: good}}, "customer-4711", ""},
		{"none, and none is needed", "", false, nil, "+14155550100", ""},
		{"none", "", true, nil, "", `Bearer realm="127.0.0.1"`},
		{"in a header that is not the one", "", true, []phone.Header{{Name: "X-Caller-Token", Value: good}}, "", `Bearer realm="127.0.0.1"`},
		{"of another's making", "", false, []phone.Header{{Name: "Authorization", Value: "Bearer " + made(strings.Repeat("x", 32), nil)}}, "", invalid},
		{"expired", "X-Caller-Token", false, []phone.Header{{Name: "X-Caller-Token", Value: made(secret, func(c jwt.MapClaims) { c["exp"] = time.Now().Add(-time.Hour).Unix() })}}, "", invalid},
		{"for somebody else", "", false, []phone.Header{{Name: "Authorization", Value: "Bearer " + made(secret, func(c jwt.MapClaims) { c["aud"] = "other" })}}, "", invalid},
		{"without a signature", "", false, []phone.Header{{Name: "Authorization", Value: "Bearer " + none}}, "", invalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, settings{"identity.token": fmt.Sprintf("algorithms = [\"HS256\"]\nsecret = %q\nissuer = \"https://login.example.com/\"\naudience = \"parley\"\nheader = %q\nrequired = %v",
				secret, c.header, c.required)}).ready(t)
			p := newPhone(t, phone.Config{Number: "+14155550100", T1: 200 * time.Millisecond})
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			up, err := p.Dial(ctx, s.uri("a"), c.send...)
			var refused *phone.StatusError
			switch {
			case c.id != "" && err != nil:
				t.Fatal(err)
			case c.id != "":
				hangUp(t, up)
				if r, _ := s.record(t); r.ResourceID != c.id {
					t.Errorf("the record is of %q", r.ResourceID)
				}
			case !errors.As(err, &refused) || refused.Code != 401:
				t.Fatalf("refused by %v, want 401", err)
			default:
				if got := refused.Response.Get("WWW-Authenticate"); got != c.challenge {
					t.Errorf("WWW-Authenticate %q, want %q", got, c.challenge)
				}
			}
			for _, h := range c.send {
				if _, token, _ := strings.Cut(h.Value, "."); strings.Contains(s.Output(), token[:20]) {
					t.Errorf("the token is in the log:\n%s", s.Output())
				}
			}
		})
	}
}
