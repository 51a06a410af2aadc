package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/call"
	"parley/sip"
)

func TestTrunksWithoutRegistration(t *testing.T) {
	c := load(t, `
[tls]
ca_file = "/etc/ca.pem"
client_auth = "optional"
[identity]
region = "FR"
[[trunk]]
name = "carrier"
register = false
sources = ["192.0.2.0/24", "2001:db8::1", "::ffff:198.51.100.1"]
certificates = ["sip.example.com"]
hosts = ["sip.example.com:5061"]
transport = "tls"
codecs = ["PCMA", "PCMU"]
srtp = "required"
region = "DE"
trust_identity = true
max_calls = 30
calls_per_second = 2.5
accept_refer = true
refer_headers = true
advertise = "203.0.113.9"
allow = ["+49", "2"]
deny = ["+49900"]
allow_hosts = ["*.example.com"]
international = true
max_per_call = 1
max_per_hour = 10
caller_ids = ["+4930901820"]
[[trunk]]
name = "registered"
hosts = ["h"]
user = "u"
`, nil)
	if r := c.Registrations(); len(r) != 1 || r[0].Name != "registered" {
		t.Errorf("registers at %+v", r)
	}
	all := c.Trunks()
	got := all[0]
	got.SIP = sip.Trunk{}
	want := call.Trunk{
		Name: "carrier", Codecs: []string{"PCMA", "PCMU"}, SRTP: "required", Region: "DE", TrustIdentity: true, MaxCalls: 30, CallsPerSecond: 2.5,
		AcceptRefer: true, ReferHeaders: true, Advertise: netip.MustParseAddr("203.0.113.9"), Outbound: call.Outbound{
			Allow: []string{"+49", "2"}, Deny: []string{"+49900"}, Hosts: []string{"*.example.com"}, International: true, MaxPerCall: 1, MaxPerHour: 10, CallerIDs: []string{"+4930901820"},
		},
	}
	if diff := cmp.Diff(want, got, compareAddr); diff != "" {
		t.Error(diff)
	}
	if all[1].Region != "FR" || all[1].SRTP != "optional" || all[1].Outbound.MaxPerCall != 3 || all[1].Outbound.MaxPerHour != 60 {
		t.Errorf("%+v", all[1])
	}
	sources, err := c.Sources()
	if err != nil || len(sources) != 1 || fmt.Sprint(sources[0]) != "{carrier [192.0.2.0/24 2001:db8::1/128 198.51.100.1/32] [sip.example.com] 2.5 3}" {
		t.Errorf("%v %v", sources, err)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("%q", c.Warnings)
	}
}

func TestMistakesInTrunks(t *testing.T) {
	const a = "[[trunk]]\nname = \"a\"\nregister = false\nhosts = [\"h\"]\n" // 4 lines
	for _, c := range []struct {
		why, text string
		want      []string
	}{
		{"no way at all", "[[trunk]]\nname = \"a\"\nregister = false\n", []string{`FILE:1: trunk[0]: nothing says how calls come or go`}},
		{"who is registered", "[[trunk]]\nname = \"a\"\nhosts = [\"h\"]\n", []string{`FILE:1: trunk[0].user: must be set: who is registered; or register = false`}},
		{"values", a + "sources = [\"192.0.2.1/24\", \"h\"]\ncodecs = [\"PCMU\", \"opus2\", \"PCMU\"]\nsrtp = \"always\"\nregion = \"XX\"\nmax_calls = -1\nallow = [\"+1a\"]\nmax_per_call = 0\nadvertise = \"h\"\n", []string{
			`FILE:5: trunk[0].sources: "192.0.2.1/24" has bits beyond its length: 192.0.2.0/24`, `FILE:5: trunk[0].sources: "h" is no address`,
			`FILE:6: trunk[0].codecs: "opus2", must be one of opus, G722, PCMU, PCMA; did you mean "opus"?`, `FILE:6: trunk[0].codecs: "PCMU" is named twice`,
			`FILE:7: trunk[0].srtp: "always", must be one of off, optional, required`, `FILE:8: trunk[0].region: "XX" is not an ISO 3166`,
			`FILE:9: trunk[0].max_calls: must not be negative`, `FILE:10: trunk[0].allow: "+1a" is not the beginning of a number`,
			`FILE:11: trunk[0].max_per_call: must be at least 1`, `FILE:12: trunk[0].advertise: "h"`,
		}},
		{"a rate", a + "calls_per_second = -1\nmax_per_hour = 0\n", []string{`FILE:5: trunk[0].calls_per_second: must not`, `FILE:6: trunk[0].max_per_hour: must be at least 1`}},
		{"codecs that calls do not have", "[call]\ncodecs = [\"PCMU\"]\n" + a + "codecs = [\"PCMA\"]\n", []string{`FILE:7: trunk[0].codecs: "PCMA", must be one of PCMU`}},
		{"allowed and denied", a + "allow = [\"+1\"]\ndeny = [\"+1\"]\n", []string{`FILE:5: trunk[0].allow: "+1" is denied too, and deny wins`}},
		{"rules without a way out", "[[trunk]]\nname = \"a\"\nregister = false\nsources = [\"192.0.2.1\"]\ninternational = true\n", []string{`FILE:1: trunk[0].hosts: must be set: there are rules`}},
		{"one source of two trunks", a + "sources = [\"192.0.2.1\"]\n" + strings.ReplaceAll(a, `"a"`, `"b"`) + "sources = [\"192.0.2.1/32\"]\n", []string{`FILE:10: trunk[1].sources: 192.0.2.1/32 is a source of trunk "a" already`}},
		{"certificates", a + "certificates = [\"x\"]\n" + strings.ReplaceAll(a, `"a"`, `"b"`) + "certificates = [\"X\"]\n", []string{
			`FILE:5: trunk[0].certificates: nobody is asked for one: set tls.client_auth`, `FILE:10: trunk[1].certificates: nobody is asked`, `FILE:10: trunk[1].certificates: "x" is a certificate of trunk "a" already`,
		}},
		{"more of our certificates", "[[tls.certificates]]\ncert_file = \"a\"\nkey_fil = \"b\"\n[[tls.certificates]]\ncert_file = \"a\"\nkey_file = \"b\"\n", []string{
			`FILE:3: tls.certificates[0].key_fil: no such key; did you mean "key_file"?`, `FILE:2: tls.certificates[0].cert_file: needs cert_file and key_file`,
		}},
		{"listeners", "[sip]\nlisten = [\"udp://127.0.0.1:5060?advertise=\", \"udp://127.0.0.1:5060?x=y\", \"ws://h:1\", \"wss://127.0.0.1:1\"]\n", []string{
			`FILE:2: sip.listen: "udp://127.0.0.1:5060?advertise=", after "?" only`, `FILE:2: sip.listen: "udp://127.0.0.1:5060?x=y", after "?" only`, `FILE:2: sip.listen: "ws://h:1", must be such as`,
		}},
		{"keys of the API", "[api]\nlisten = \"0.0.0.0:80\"\ntokens = true\n[api.keys]\nshort = \"secret\"\nn = 4\nf = { key_file = \"/nonexistent\" }\ns = { key = \"0123456789abcdef0123456789abcdef\", scopes = [\"x\"] }\n", []string{
			`FILE:3: api.tokens: no token counts: set [identity.token]`, `FILE:5: api.keys.short: must be of 32 to 512`, `FILE:6: api.keys.n: must be a key in quotes`,
			`FILE:7: api.keys.f.key_file: open /nonexistent`, `FILE:8: api.keys.s: there is no scope "x"`,
		}},
		{"recordings", "[recording]\nwhen = \"sometimes\"\nformat = \"mp3\"\n", []string{`FILE:2: recording.when: "sometimes", must be`, `FILE:3: recording.format: "mp3", must be`}},
	} {
		mistakes(t, c.why, c.text, c.want)
	}
	mistakes(t, "tokens", "[identity.token]\nsecret = \"short\"\nleway = \"1s\"\n[identity.sign]\nalgorithm = \"none\"\nsecret = \"x\"\naudience = \"a\"\n", []string{
		`FILE:3: identity.token.leway: no such key; did you mean "leeway"?`, `FILE:1: identity.token.algorithms: must name`, `FILE:1: identity.token.issuer: must be set`,
		`FILE:1: identity.token.audience: must be set`, `FILE:5: identity.sign.algorithm: "none", must be one of`,
	})
}

func TestWarningsAboutTrunks(t *testing.T) {
	file := write(t, `[[trunk]]
name = "a"
register = false
sources = ["192.0.2.0/24"]
[[trunk]]
name = "b"
hosts = ["h"]
user = "u"
sources = ["192.0.2.7"]
srtp = "required"
max_calls = 1000
`)
	c, err := Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "warnings", file, c.Warnings, []string{
		`FILE:9: trunk[1].sources: 192.0.2.7/32 and 192.0.2.0/24 of trunk "a" overlap: the smaller one decides`,
		`FILE:10: trunk[1].srtp: over transport "udp" whoever reads the signalling reads the keys`, `FILE:11: trunk[1].max_calls: 1000, of which call.max_calls lets 500 be up`,
	})
}

func TestTransfersWithoutATrunk(t *testing.T) {
	c := load(t, "[identity]\nregion = \"DE\"\n", nil)
	if got := c.CallConfig().Transfer; len(got.Allow)+len(got.Hosts) > 0 || got.Region != "DE" || got.MaxPerCall != 3 || got.MaxPerHour != 60 {
		t.Errorf("by default %+v", got)
	}
	c = load(t, `
[transfer]
allow = ["+1212", "2"]
deny = ["+1900"]
allow_hosts = ["pbx.example.com"]
international = true
max_per_call = 1
max_per_hour = 10
refer_headers = true
domain = "pbx.example.com"
region = "US"
`, nil)
	want := call.TransferConfig{Domain: "pbx.example.com", Region: "US", ReferHeaders: true, Outbound: call.Outbound{
		Allow: []string{"+1212", "2"}, Deny: []string{"+1900"}, Hosts: []string{"pbx.example.com"}, International: true, MaxPerCall: 1, MaxPerHour: 10,
	}}
	if diff := cmp.Diff(want, c.CallConfig().Transfer); diff != "" || len(c.Warnings) > 0 {
		t.Errorf("%s %q", diff, c.Warnings)
	}
	file := write(t, "[transfer]\nallow = [\"x\"]\ndomain = \"a b\"\nregion = \"XX\"\nmax_per_call = 0\ncaller_ids = [\"1\"]\n")
	_, err := Load(file, nil)
	for _, want := range []string{":2: transfer.allow: \"x\" is not the beginning of a number", ":3: transfer.domain: \"a b\" is no host", ":4: transfer.region: \"XX\" is not an ISO 3166", ":5: transfer.max_per_call: must be at least 1", ":6: transfer.caller_ids: no such key"} {
		if err == nil || !strings.Contains(err.Error(), file+want) {
			t.Errorf("no %s in\n%v", want, err)
		}
	}
	c = load(t, "[transfer]\ninternational = true\n", nil)
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "sent nowhere") {
		t.Errorf("%q", c.Warnings)
	}
}

func TestListeners(t *testing.T) {
	c := load(t, "[sip]\nadvertise = \"sip.example.com\"\nlisten = [\"udp://127.0.0.1:5060?advertise=203.0.113.7:5070\", \"ws://[::1]:8080\"]\n", nil)
	s, err := c.SIPConfig()
	if err != nil || len(s.Listen) != 2 || s.Listen[0].Addr != "127.0.0.1:5060" || s.Listen[0].Advertise != "203.0.113.7:5070" || s.Listen[1].Network != "ws" || s.Listen[1].Advertise != "sip.example.com" {
		t.Errorf("%+v %v", s.Listen, err)
	}
}

func TestAPIKeysAndTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("fedcba9876543210fedcba9876543210\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := load(t, fmt.Sprintf(`
[api]
listen = "0.0.0.0:8080"
[api.keys]
b = "0123456789abcdef0123456789abcdef"
a = { key_file = %q, scopes = ["calls:read"] }
[identity.token]
algorithms = ["HS256"]
issuer = "i"
audience = "a"
[identity.sign]
algorithm = "HS256"
secret_file = %q
audience = "agent"
[recording]
when = "always"
announce = "This call is recorded."
`, file, file), []string{"PARLEY_IDENTITY_TOKEN_SECRET=0123456789abcdef0123456789abcdef"})
	keys := c.APIConfig().Keys
	if len(keys) != 2 || keys[0].Name != "a" || keys[0].Secret[:4] != "fedc" || keys[0].Scopes[0] != "calls:read" || keys[1].Secret[:4] != "0123" {
		t.Error("the keys are not those of the file")
	}
	if got := c.TokenConfig(); !got.Enabled() || got.Issuer != "i" || got.Secret[:4] != "0123" {
		t.Error("the token's secret is not that of the environment")
	}
	if got := c.SignerConfig(); !got.Enabled() || got.Secret[:4] != "fedc" {
		t.Error("the signer's secret is not that of the file")
	}
	if text := fmt.Sprintf("%+v %+v %+v %#v", c.API, c.Token, c.Sign, c.API.Keys["b"]); strings.Contains(text, "0123456789") || strings.Contains(text, "fedcba") {
		t.Error("a secret is printed: " + text)
	}
	if r := c.CallConfig().Recording; r.When != "always" || r.Announce != "This call is recorded." {
		t.Errorf("%+v", r)
	}
}

func TestCheckFiles(t *testing.T) {
	cert, key := selfSigned(t)
	good := load(t, fmt.Sprintf("[tls]\ncert_file = %q\nkey_file = %q\nca_file = %q\n[[tls.certificates]]\ncert_file = %q\nkey_file = %q\n", cert, key, cert, cert, key), nil)
	if err := good.CheckFiles(); err != nil {
		t.Error(err)
	}
	file := write(t, fmt.Sprintf(`[tls]
cert_file = "/nonexistent/c"
key_file = "/nonexistent/k"
ca_file = "/nonexistent/a"
[[tls.certificates]]
cert_file = %q
key_file = "/nonexistent/k"
[[trunk]]
name = "a"
hosts = ["h"]
user = "u"
transport = "tls"
ca_file = %q
[identity.token]
algorithms = ["RS256"]
key_files = ["/nonexistent/p"]
issuer = "i"
audience = "a"
[identity.sign]
algorithm = "ES256"
key_file = %q
audience = "a"
`, cert, key, cert))
	c, err := Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "files", file, strings.Split(c.CheckFiles().Error(), "\n"), []string{
		"FILE:2: tls.cert_file: open /nonexistent/c", "FILE:4: tls.ca_file: open /nonexistent/a", "FILE:6: tls.certificates[0].cert_file: open /nonexistent/k",
		"FILE:13: trunk[0].ca_file: no certificate in " + key, "FILE:16: identity.token.key_files: ", "FILE:21: identity.sign.key_file: ",
	})
}

// selfSigned makes a certificate and its key.
func selfSigned(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "h"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	for file, b := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}
