package sip

import (
	"crypto/tls"
	"path/filepath"
	"strings"
	"testing"
)

// A listener with several certificates shows the one for the name that is asked
// for, and the first to everybody else.
func TestCertificatesByName(t *testing.T) {
	a := newAuthority(t)
	a.issue("gw", false, "gw.example.com")
	a.issue("second", false, "sip.example.org", "*.example.net")
	a.issue("third", false, "pbx.example.com")
	pair := func(name string) CertPair {
		return CertPair{filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")}
	}
	for _, first := range []string{"gw", ""} {
		files := a.files("gw")
		files.Certificates = []CertPair{pair("second"), pair("third")}
		if first == "" {
			files.CertFile, files.KeyFile = "", ""
			files.Certificates = append([]CertPair{pair("gw")}, files.Certificates...)
		}
		b := start(t, quiet, func(c *Config) {
			c.Listen = []Listener{{Network: "tls", Addr: "127.0.0.1:0", TLS: files}, {Network: "wss", Addr: "127.0.0.1:0", TLS: files}}
		})
		for name, want := range map[string]string{
			"gw.example.com": "gw", "sip.example.org": "second", "SIP.example.org": "second", "a.example.net": "second", "pbx.example.com": "third", "other.example.com": "gw", "": "gw",
		} {
			for _, at := range b.Addrs() {
				conn, err := tls.Dial("tcp", at.Addr.String(), &tls.Config{ServerName: name, InsecureSkipVerify: true})
				if err != nil {
					t.Fatal(err)
				}
				if got := conn.ConnectionState().PeerCertificates[0].Subject.CommonName; got != want {
					t.Errorf("%s, %q: the certificate of %s, want %s", at.Network, name, got, want)
				}
				conn.Close()
			}
		}
		b.stop()
	}
	if _, err := (TLS{Certificates: []CertPair{pair("gw"), pair("none")}}).server(); err == nil {
		t.Error("a file that is not there")
	}
	if err := (TLS{Certificates: []CertPair{{CertFile: "x"}}}).validate(true); err == nil || !strings.Contains(err.Error(), "certificates[0]") {
		t.Errorf("%v", err)
	}
	if err := (TLS{Certificates: []CertPair{pair("gw")}}).validate(true); err != nil {
		t.Error(err)
	}
}

// A trunk is known by the certificate of its connection, wherever it calls from.
func TestTrunkByCertificate(t *testing.T) {
	a := newAuthority(t)
	a.issue("pbx", false, "pbx.example.com")
	a.issue("other", false, "other.example.com")
	h := answering(&script{})
	b, in, _ := gated(t, Access{Required: RequireOutside}, nil, []Source{{Trunk: "carrier", Certificates: []string{"pbx.example.com"}}}, h,
		overTLS(a, func(t *TLS) { t.ClientAuth = ClientAuthOptional }))
	for cert, want := range map[string]Admission{"pbx": {Trunk: "carrier", By: "certificate"}, "other": {By: "inside"}, "": {By: "inside"}} {
		tlsPhone(t, b.Addrs()[0].Addr, a.client(cert)).dial(newInvite())
		if who := wait(t, in, "the call"); who != want {
			t.Errorf("%q: %+v, want %+v", cert, who, want)
		}
	}
}
