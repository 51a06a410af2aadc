package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/sip"
)

const twoTrunks = `
[[trunk]]
name = "pbx-1"
hosts = ["192.0.2.1:5080", "192.0.2.2"]
domain = "pbx.example.com"
transport = "tls"
user = "gw"
username = "auth"
password = "hush"
realms = ["asterisk"]
expires = "10m"
keep_alive = "0s"
probe = true
ca_file = "/etc/ca.pem"

[[trunk]]
name = "carrier"
hosts = ["sip.example.com"]
user = "+12025550100"
`

func TestTrunks(t *testing.T) {
	c := load(t, twoTrunks, nil)
	all := c.Registrations()
	if len(all) != 2 {
		t.Fatalf("%d trunks", len(all))
	}
	a, b := all[0], all[1]
	if a.Name != "pbx-1" || strings.Join(a.Hosts, " ") != "192.0.2.1:5080 192.0.2.2" || a.Domain != "pbx.example.com" || a.Transport != "tls" ||
		a.User != "gw" || a.Username != "auth" || a.Password != "hush" || a.Realms[0] != "asterisk" || a.Expires != 10*time.Minute ||
		a.KeepAlive != 0 || !a.Probe || !reflect.DeepEqual(a.TLS, sip.TLS{CAFile: "/etc/ca.pem"}) {
		t.Error("the first is not as it was written")
	}
	d := sip.DefaultTrunk()
	if b.Name != "carrier" || b.Password != "" || b.Transport != d.Transport || b.Expires != d.Expires || b.Backoff != d.Backoff || !reflect.DeepEqual(b.TLS, sip.TLS{}) {
		t.Error("the second has no defaults")
	}
	if text := fmt.Sprintf("%+v %#v", c, c.Trunk); strings.Contains(text, "hush") {
		t.Error("the password is printed")
	}
}

func TestTrunkPasswords(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("filed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const rest = "[[trunk]]\nname = \"my-pbx.1\"\nhosts = [\"h\"]\nuser = \"u\"\n"
	for _, c := range []struct{ text, env, want string }{
		{rest + "password = \"plain\"\n", "", "plain"},
		{rest + fmt.Sprintf("password_file = %q\n", file), "", "filed"},
		{rest + "password = \"plain\"\n", "PARLEY_TRUNK_MY_PBX_1_PASSWORD=told", "told"},
		{rest, "PARLEY_TRUNK_MY_PBX_1_PASSWORD=told", "told"},
	} {
		loaded := load(t, c.text, []string{c.env})
		if got := loaded.Registrations()[0].Password; got != c.want || len(loaded.Warnings) > 0 {
			t.Errorf("%s%s: %q, %q", c.text, c.env, got, loaded.Warnings)
		}
	}
}

func TestAuth(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("filed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := load(t, fmt.Sprintf("[auth]\nrequired = \"always\"\n[auth.users]\nalice = \"hush\"\n\"bob.1\" = { password_file = %q }\ncarol = { password = \"x\" }\n", file),
		[]string{"PARLEY_AUTH_REALM=sip.example.com"})
	got := c.Passwords()
	if len(got) != 3 || got["alice"] != "hush" || got["bob.1"] != "filed" || got["carol"] != "x" || c.Auth.Realm != "sip.example.com" || c.Auth.Required != "always" {
		t.Errorf("%q %+v", got, c.Auth.Access)
	}
	if text := fmt.Sprintf("%+v %+v", c.Auth, c.Auth.Users["alice"]); strings.Contains(text, "hush") {
		t.Error("the password is printed")
	}
}

func TestMistakesInTrunksAndAuth(t *testing.T) {
	const ok = "[[trunk]]\nname = \"a\"\nhosts = [\"h\"]\nuser = \"u\"\n" // 4 lines
	for _, c := range []struct {
		why, text string
		want      []string
	}{
		{"nothing said", "\n[[trunk]]\n", []string{
			"FILE:2: trunk[0].name: \"\" is not a word", "FILE:2: trunk[0].hosts: at least one is needed", "FILE:2: trunk[0].user: must be set",
		}},
		{"each with its line", ok + "exspires = \"1h\"\n[[trunk]]\nname = \"b b\"\nhosts = [\"h:x\"]\nuser = 4\ntransport = \"sctp\"\nexpires = \"1s\"\n", []string{
			`FILE:5: trunk[0].exspires: no such key; did you mean "expires"?`, `FILE:7: trunk[1].name: "b b" is not a word`,
			`FILE:8: trunk[1].hosts: hosts[0]: "h:x" is not host`, `FILE:9: trunk[1].user: 4, must be text in quotes`,
			`FILE:10: trunk[1].transport: "sctp" is not udp, tcp or tls`, `FILE:11: trunk[1].expires: 1s is not between`,
		}},
		{"one table", "[trunk]\nname = \"a\"\n", []string{`FILE:1: trunk: must be written [[trunk]]`}},
		{"misspelt", "[[trnk]]\nname = \"a\"\n", []string{`FILE:1: trnk: no such section; did you mean "trunk"?`}},
		{"twice", ok + "[[trunk]]\nname = \"a\"\nhosts = [\"h\"]\nuser = \"u\"\n", []string{`FILE:6: trunk[1].name: "a" is the name of another trunk too`}},
		{"stars as in routes", ok + "allow = [\"+1202*\", \"2*\"]\ndeny = [\"*67\", \"+49*\"]\n", []string{
			`FILE:5: trunk[0].allow: "+1202*", must be "+1202"`, `FILE:5: trunk[0].allow: "2*", must be "2"`, `FILE:6: trunk[0].deny: "+49*", must be "+49"`,
		}},
		{"alike", ok + "[[trunk]]\nname = \"A\"\nhosts = [\"h\"]\nuser = \"u\"\n", []string{`FILE:6: trunk[1].name: "A" is too much like "a"`}},
		{"both passwords", ok + "password = \"x\"\npassword_file = \"/dev/null\"\n", []string{`FILE:6: trunk[0].password_file: give password or password_file, not both`}},
		{"a password of digits", ok + "password = 1234\n", []string{`FILE:5: trunk[0].password: must be text in quotes`}},
		{"no such file", ok + "password_file = \"/nonexistent/p\"\n", []string{`FILE:5: trunk[0].password_file: open /nonexistent/p`}},
		{"half a certificate", ok + "transport = \"tls\"\nkey_file = \"k\"\n", []string{`FILE:1: trunk[0].cert_file: cert_file and key_file belong together`}},
		{"no way over UDP", "[sip]\nlisten = [\"tcp://0.0.0.0:5060\"]\n" + ok, []string{`FILE:3: trunk[0].transport: udp needs a udp:// address`}},
		{"a key elsewhere", ok + "[sip]\nhosts = [\"h\"]\n", []string{`FILE:6: sip.hosts: no such key; it belongs into [[trunk]]`}},
		{"auth", "[auth]\nrequired = \"inside\"\nrealm = \"\"\n[auth.users]\nalice = \"\"\nbob = 4\ncarol = { pasword = \"x\" }\ndave = { password_file = \"/nonexistent/p\" }\n", []string{
			`FILE:2: auth.required: "inside" is not never, outside or always`, `FILE:3: auth.realm: "" is not a line`, `FILE:5: auth.users.alice: needs a password`,
			`FILE:6: auth.users.bob: must be a password in quotes`, `FILE:7: auth.users.carol.pasword: no such key; did you mean "password"?`,
			`FILE:8: auth.users.dave.password_file: open /nonexistent/p`,
		}},
		{"nobody left", "[auth]\nrequired = \"always\"\n", []string{`FILE:2: auth.required: "always" needs at least one`}},
		{"no list", "[auth]\nusers = [\"alice\"]\n", []string{`FILE:2: auth.users: must be a section`}},
	} {
		file := write(t, c.text)
		_, err := Load(file, nil)
		if err == nil {
			t.Errorf("%s: no error", c.why)
			continue
		}
		got := strings.Split(err.Error(), "\n")
		if len(got) != len(c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.why, strings.Join(got, "\n     "), strings.Join(c.want, "\n     "))
			continue
		}
		for _, want := range c.want {
			if !strings.Contains("\n"+strings.Join(got, "\n"), "\n"+strings.Replace(want, "FILE", file, 1)) {
				t.Errorf("%s: missing %s in\n%s", c.why, want, strings.Join(got, "\n"))
			}
		}
	}
}

func TestTrunksThatAreAskedAreAWarning(t *testing.T) {
	c := load(t, "[auth]\nrequired = \"always\"\nusers = { a = \"b\" }\n"+twoTrunks, nil)
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "auth.required") {
		t.Errorf("%q", c.Warnings)
	}
}

// What a trunk leaves empty of TLS is as in [tls], key by key.
func TestTLSOfATrunkIsFilledUp(t *testing.T) {
	c := load(t, `[tls]
cert_file = "cert.pem"
key_file = "key.pem"
ca_file = "ca.pem"
[[trunk]]
name = "named"
hosts = ["h"]
user = "u"
server_name = "sip.example.com"
[[trunk]]
name = "own"
hosts = ["h"]
user = "u"
cert_file = "c.pem"
key_file = "k.pem"
ca_file = "a.pem"
`, nil)
	all := c.Registrations()
	for i, want := range []sip.TLS{
		{CertFile: "cert.pem", KeyFile: "key.pem", CAFile: "ca.pem", ServerName: "sip.example.com"},
		{CertFile: "c.pem", KeyFile: "k.pem", CAFile: "a.pem"},
	} {
		if diff := cmp.Diff(want, all[i].TLS); diff != "" {
			t.Error(diff)
		}
	}
}
