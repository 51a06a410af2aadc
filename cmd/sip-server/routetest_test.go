package main

import (
	"strings"
	"testing"
)

const routed = `
[auth]
unknown = "refuse"
[auth.users]
alice = "secret"
[identity]
region = "US"
[[trunk]]
name = "carrier"
register = false
sources = ["203.0.113.0/24"]
trust_identity = true
max_calls = 30
codecs = ["PCMA"]
srtp = "required"
[[trunk]]
name = "berlin"
hosts = ["sip.example.de"]
user = "u"
region = "DE"
[[trunk]]
name = "out"
register = false
hosts = ["sip.example.com"]
[[route]]
name = "hotline"
called = "202-555-0100"
agent = "sales"
[[route]]
name = "carrier"
trunk = "carrier"
[[route]]
name = "late"
trunk = "carrier"
called = "reception"
[[route]]
name = "berlin"
trunk = "berlin"
called = "+4930*"
[agents.sales.llm]
provider = "echo"
`

func TestRouteTest(t *testing.T) {
	file := write(t, routed)
	always := "PARLEY_AUTH_REQUIRED=always"
	for _, c := range []struct {
		why  string
		args string
		env  []string
		code int
		want []string // in this order
	}{
		{"a source of a trunk, and a trusted header", "--to +1(202)5550100 --from sip:x@h --source 203.0.113.7 --header P-Asserted-Identity:<sip:+12125550123@h>", nil, 0, []string{
			"called sip:+1(202)5550100@localhost", `let in 203.0.113.7 is a source of trunk "carrier"`, "caller resource id +12125550123, by pai",
			`route hotline yes +12025550100 is "202-555-0100": both are +12025550100`, `route carrier late trunk "carrier", takes any called number`,
			`route berlin no wants trunk "berlin", the call is by trunk "carrier"`, `taken by agent sales, route "hotline"`,
			"503 at 500 calls of all", `503 at 30 calls of trunk "carrier"`, "488 without one of the codecs PCMA", "488 without encrypted sound",
		}},
		{"a registered trunk, a national number", "--to 030901820 --from 01715550123 --trunk berlin", nil, 0, []string{
			`let in by trunk "berlin": its registration`, "caller resource id +491715550123, by from", `route berlin yes trunk "berlin", 030901820 is +4930901820`, `taken by agent default`,
		}},
		{"nothing tells the calls of a trunk", "--to 1 --trunk out", nil, 4, []string{"nothing tells its calls", "caller anonymous", "refused 404"}},
		{"a name, by no trunk", "--to sip:reception@example.com --from reception", nil, 4, []string{"let in 127.0.0.1 is inside", "caller nobody known", `route late no wants trunk "carrier", the call is by no trunk`, "refused 404"}},
		{"a stranger is asked", "--to 2025550100 --source 198.51.100.1", nil, 0, []string{"once a user of auth.users", "taken by agent sales"}},
		{"trunks are asked too", "--to 1 --trunk carrier", []string{always}, 0, []string{`auth.required is "always"`, "taken by agent default"}},
		{"everybody", "--to 2025550100 --source 198.51.100.1", []string{"PARLEY_AUTH_REQUIRED=never"}, 0, []string{`everybody is: auth.required is "never"`}},
		{"an untrusted header tells nothing", "--to 2025550100 --source 10.0.0.1 --header P-Asserted-Identity:<sip:+12125550123@h>", nil, 0, []string{"caller anonymous"}},
		{"an extension is not one person's", "--to 2025550100 --from tel:+12025550123;ext=9", nil, 0, []string{"caller +12025550123, which is not one person's"}},
		{"a name and a diversion", `--to 1 --trunk carrier --from "Ann"<sip:2025550123@h> --header Diversion:<sip:+12025550188@h>;reason=user-busy`, nil, 0, []string{`name "Ann"`, "diverted from +12025550188, user-busy"}},
		{"no such trunk", "--to 1 --trunk carier", nil, 1, []string{`--trunk: there is no trunk "carier"`}},
		{"no address", "--to 1 --source here", nil, 1, []string{`--source: "here" is no IP address`}},
		{"no URI", "--to si p:@", nil, 1, []string{"unexpected argument"}},
		{"no scheme of ours", "--to foo:x@h", nil, 1, []string{"--to: "}},
		{"no header", "--to 1 --header x", nil, 1, []string{"is not NAME: VALUE"}},
		{"no caller", "--to 1 --from <sip:", nil, 1, []string{"--from: "}},
		{"nobody called", "", nil, 1, []string{"missing flags: --to"}},
		{"both ways", "--to 1 --trunk a --source b", nil, 1, []string{"can't be used together"}},
	} {
		code, out, errOut := execute(t, c.env, append([]string{"route-test", "-c", file}, strings.Fields(c.args)...)...)
		text := strings.Join(strings.Fields(out+errOut), " ")
		at, ok := 0, code == c.code || c.code == 1 && code > 0 && code != 3 && code != 4
		for _, want := range c.want {
			i := strings.Index(text[at:], want)
			if i < 0 {
				t.Errorf("%s: missing %q", c.why, want)
				ok = false
				continue
			}
			at += i
		}
		if !ok {
			t.Errorf("%s: exit %d, want %d\n%s%s", c.why, code, c.code, out, errOut)
		}
	}
}

func TestRouteTestRefuses(t *testing.T) {
	for _, c := range []struct {
		why, text, want string
		args            []string
		code            int
	}{
		{"strangers", "", `refused 403 by rule source_not_allowed`, []string{"--source", "198.51.100.1"}, 3},
		{"strangers hear nothing", "[auth]\nunknown = \"drop\"\n", `gets no answer, by rule source_not_allowed`, []string{"--source", "198.51.100.1"}, 3},
		{"inside without routes", "", "taken by agent default: there are no routes", []string{"--source", "::1"}, 0},
		{"a token that does not count", token, "refused its token does not count", []string{"--header", "Authorization: Bearer abc"}, 3},
		{"no token", token, "caller anonymous", nil, 0},
		{"a mistake", "[auth]\nrequired = \"x\"\n", "auth.required: ", nil, 1},
	} {
		code, out, errOut := execute(t, nil, append([]string{"route-test", "-c", write(t, c.text), "--to", "1"}, c.args...)...)
		if text := strings.Join(strings.Fields(out), " "); code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s: exit %d\n%s%s", c.why, code, out, errOut)
		}
	}
}

const token = `[identity.token]
algorithms = ["HS256"]
secret = "0123456789abcdef0123456789abcdef"
issuer = "i"
audience = "a"
`
