package sip

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// authority is a certificate authority in a folder.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	n    int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.issue("ca", true)
	return a
}

// issue writes name.pem and name.key.
func (a *authority) issue(name string, ca bool, hosts ...string) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.n++
	tpl := &x509.Certificate{
		SerialNumber: big.NewInt(a.n), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			tpl.IPAddresses = append(tpl.IPAddresses, ip)
		} else {
			tpl.DNSNames = append(tpl.DNSNames, h)
		}
	}
	parent, signer := a.cert, a.key
	if ca {
		tpl.IsCA, tpl.BasicConstraintsValid, tpl.KeyUsage = true, true, x509.KeyUsageCertSign
		parent, signer = tpl, key
	}
	der, err := x509.CreateCertificate(rand.Reader, tpl, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{".pem": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "EC PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(a.dir, name+file), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// files are the settings for a certificate that was issued.
func (a *authority) files(name string) TLS {
	return TLS{CertFile: filepath.Join(a.dir, name+".pem"), KeyFile: filepath.Join(a.dir, name+".key"), CAFile: filepath.Join(a.dir, "ca.pem")}
}

// client is what a phone uses; name may be empty for no certificate.
func (a *authority) client(name string) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	cfg := &tls.Config{RootCAs: pool, ServerName: "gw.example.com"}
	if name != "" {
		pair, err := tls.LoadX509KeyPair(filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key"))
		if err != nil {
			a.t.Fatal(err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg
}

// overTLS makes a server listen on TLS only, with the certificate "gw".
func overTLS(a *authority, change func(*TLS)) func(*Config) {
	a.issue("gw", false, "gw.example.com")
	return func(c *Config) {
		t := a.files("gw")
		change(&t)
		c.Listen = []Listener{{Network: "tls", Addr: "127.0.0.1:0", TLS: t}, {Network: "udp", Addr: "127.0.0.1:0"}}
	}
}

func tlsPhone(t *testing.T, to netip.AddrPort, cfg *tls.Config) *phone {
	t.Helper()
	conn, err := tls.Dial("tcp", to.String(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &phone{t: t, conn: conn, rd: newReader(conn), via: "TLS", addr: conn.LocalAddr().String()}
}

func TestCallOverTLS(t *testing.T) {
	a := newAuthority(t)
	h := answering(&script{})
	b := start(t, h.handle, overTLS(a, func(*TLS) {}))
	server := b.Addrs()[0].Addr
	p := tlsPhone(t, server, a.client(""))
	for scheme, contact := range map[string]string{
		"sip":  fmt.Sprintf("<sip:bot@%s;transport=tls>", server),
		"sips": fmt.Sprintf("<sips:bot@%s>", server),
	} {
		inv := newInvite()
		inv.uri = scheme + ":bot@gw.example.com"
		c := p.dial(inv)
		if c.ok.get("Contact") != contact {
			t.Errorf("Contact %q, want %q", c.ok.get("Contact"), contact)
		}
		c.ack(1, "")
		d, inv2 := wait(t, h.calls, "the call"), wait(t, h.invites, "the INVITE")
		if inv2.Transport() != "tls" || inv2.Certificate() != nil || inv2.Source().String() != p.addr {
			t.Errorf("%s from %v, certificate %v", inv2.Transport(), inv2.Source(), inv2.Certificate())
		}
		result := make(chan error, 1)
		go func() { result <- d.Bye(context.Background(), Reason{}) }()
		bye := p.request("BYE") // on the connection of the INVITE
		if !strings.HasPrefix(bye.get("Via"), "SIP/2.0/TLS "+server.String()+";") {
			t.Errorf("Via %q", bye.get("Via"))
		}
		p.reply(bye, 200)
		if err := wait(t, result, "Bye"); err != nil {
			t.Error(err)
		}
	}
	// What speaks no TLS, or asks for too little of it, gets nowhere.
	plain := dialPhone(t, "tcp", server)
	plain.send(newInvite())
	if m := plain.read(patience); m != nil {
		t.Errorf("answered in clear: %s", m.raw)
	}
	old := a.client("")
	old.MaxVersion = tls.VersionTLS11
	if conn, err := tls.Dial("tcp", server.String(), old); err == nil {
		conn.Close()
		t.Error("TLS 1.1 is spoken")
	}
}

func TestClientCertificates(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	a.issue("pbx", false, "pbx.example.com")
	stranger.issue("pbx", false, "pbx.example.com")
	h := answering(&script{})
	for _, tt := range []struct {
		auth   ClientAuth
		cert   *tls.Config
		served bool
		names  []string
	}{
		{ClientAuthRequire, a.client("pbx"), true, []string{"pbx.example.com"}},
		{ClientAuthRequire, a.client(""), false, nil},
		{ClientAuthOptional, a.client("pbx"), true, []string{"pbx.example.com"}},
		{ClientAuthOptional, a.client(""), true, nil},
		{ClientAuthOptional, stranger.client("pbx"), false, nil},
		{ClientAuthNone, a.client("pbx"), true, nil},
	} {
		b := start(t, h.handle, overTLS(a, func(t *TLS) { t.ClientAuth = tt.auth }))
		cfg := tt.cert
		cfg.RootCAs = a.client("").RootCAs
		// A refusal shows in the first read (TLS 1.3).
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(cfg.Certificates) == 0 {
				return &tls.Certificate{}, nil
			}
			return &cfg.Certificates[0], nil
		}
		p := tlsPhone(t, b.Addrs()[0].Addr, cfg)
		p.send(newInvite())
		if m := p.read(patience); (m != nil) != tt.served {
			t.Errorf("%q with %d certificates: %+v", tt.auth, len(cfg.Certificates), m)
		}
		if !tt.served {
			continue
		}
		inv := wait(t, h.invites, "the INVITE")
		wait(t, h.calls, "the call")
		var names []string
		if c := inv.Certificate(); c != nil {
			names = c.DNSNames
		}
		if !slices.Equal(names, tt.names) {
			t.Errorf("%q: names %q, want %q", tt.auth, names, tt.names)
		}
		b.stop()
	}
}

// BR-067: the TLS connection of a call is gone. Another one is made to the
// Contact, an address, and must prove the name that the first had shown, or that
// the peer calls itself by.
func TestByeOverNewTLSConnection(t *testing.T) {
	a := newAuthority(t)
	a.issue("pbx", false, "pbx.example.com")
	a.issue("domain", false, "example.com") // of the From of our phones
	a.issue("other", false, "other.example.com")
	for _, tt := range []struct {
		name         string
		before, then string
		found        bool
	}{
		{"verified name", "pbx", "pbx", true},
		{"name of the peer's domain", "", "domain", true},
		{"another name", "pbx", "other", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := answering(&script{})
			b := start(t, h.handle, overTLS(a, func(t *TLS) { t.ClientAuth = ClientAuthOptional }))
			cfg := a.client(tt.then)
			cfg.ServerName = ""
			l, err := tls.Listen("tcp4", "127.0.0.1:0", cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			p := tlsPhone(t, b.Addrs()[0].Addr, a.client(tt.before))
			inv := newInvite()
			inv.contact = "<sip:a@" + l.Addr().String() + ";transport=tls>"
			c := p.dial(inv)
			c.ack(1, "")
			d := wait(t, h.calls, "the call")
			wait(t, d.Confirmed(), "the ACK")
			p.conn.Close()
			for !d.flow.conn.gone.Load() {
				b.pause(testT1)
			}
			result := make(chan error, 1)
			go func() { result <- d.Bye(context.Background(), Reason{}) }()
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if !tt.found {
				conn.(*tls.Conn).Handshake()
				if err := wait(t, result, "Bye"); err == nil || !strings.Contains(err.Error(), "other.example.com, not for pbx.example.com") {
					t.Errorf("Bye: %v", err)
				}
				return
			}
			p2 := &phone{t: t, conn: conn, rd: newReader(conn)}
			bye := p2.request("BYE")
			if !strings.HasPrefix(bye.get("Via"), "SIP/2.0/TLS ") {
				t.Errorf("Via %q", bye.get("Via"))
			}
			p2.reply(bye, 200)
			if err := wait(t, result, "Bye"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRenewedCertificate(t *testing.T) {
	a := newAuthority(t)
	b := start(t, quiet, overTLS(a, func(*TLS) {}))
	serial := func() int64 {
		conn, err := tls.Dial("tcp", b.Addrs()[0].Addr.String(), a.client(""))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	file := filepath.Join(a.dir, "gw.pem")
	touch := func(after time.Duration) {
		if err := os.Chtimes(file, time.Time{}, time.Now().Add(after)); err != nil {
			t.Fatal(err)
		}
	}
	before := serial()
	a.issue("gw", false, "gw.example.com")
	touch(time.Minute)
	if after := serial(); after == before {
		t.Error("the renewed certificate is not used")
	}
	renewed := serial()
	if err := os.WriteFile(file, []byte("half of it"), 0o600); err != nil {
		t.Fatal(err)
	}
	touch(2 * time.Minute)
	if serial() != renewed {
		t.Error("a broken file replaced the certificate")
	}
}

func TestTLSConfig(t *testing.T) {
	a := newAuthority(t)
	a.issue("gw", false, "gw.example.com")
	good := a.files("gw")
	broken := filepath.Join(a.dir, "broken.pem")
	if err := os.WriteFile(broken, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		change         func(*TLS)
		invalid, fails string
	}{
		{func(t *TLS) { t.KeyFile = "" }, "belong together", ""},
		{func(t *TLS) { *t = TLS{CAFile: t.CAFile} }, "a listener needs cert_file", ""},
		{func(t *TLS) { t.ClientAuth = "perhaps" }, "client_auth", ""},
		{func(t *TLS) { t.ClientAuth, t.CAFile = ClientAuthRequire, "" }, "client_auth needs ca_file", ""},
		{func(t *TLS) { t.CertFile = broken }, "", "cert_file"},
		{func(t *TLS) { t.CertFile = "missing.pem" }, "", "missing.pem"},
		{func(t *TLS) { t.ClientAuth, t.CAFile = ClientAuthRequire, broken }, "", "no certificate in"},
		{func(t *TLS) { t.ClientAuth, t.CAFile = ClientAuthRequire, "missing.pem" }, "", "missing.pem"},
	} {
		cfg := DefaultConfig()
		cfg.TLS = good
		tt.change(&cfg.TLS)
		cfg.Listen = []Listener{{Network: "tls", Addr: "127.0.0.1:0"}} // takes Config.TLS
		s, err := NewServer(cfg, nil)
		if tt.invalid != "" {
			if err == nil || !strings.Contains(err.Error(), tt.invalid) {
				t.Errorf("want %q, got %v", tt.invalid, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Listen(); err == nil || !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("want %q, got %v", tt.fails, err)
		}
	}
}
