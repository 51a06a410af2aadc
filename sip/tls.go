package sip

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"
)

// handshakeTimeout bounds a TLS handshake, also against peers that connect and
// say nothing.
const handshakeTimeout = 10 * time.Second

// TLS is what one end of TLS connections needs (RFC 3261 section 26.3.1, RFC
// 5922). Copy it freely. Connections speak TLS 1.2 or newer.
type TLS struct {
	// CertFile and KeyFile are our certificate, with what is between it and the
	// root, and its key, in PEM. Listeners need them; on connections of ours they
	// are shown to servers that ask. Changed files are used from the next
	// handshake on.
	CertFile, KeyFile string
	// Certificates are more of them, for listeners that are reached under several
	// names: the first that is good for the name a client asks for (SNI, RFC 6066
	// section 3) and for what the client speaks is shown. CertFile, or the first
	// when that is empty, is for clients that ask for another name or for none.
	Certificates []CertPair
	// CAFile holds the certificates that peers' certificates must lead to, in PEM.
	// Empty: those of the system.
	CAFile string
	// ClientAuth says what a listener asks of clients.
	ClientAuth ClientAuth
	// ServerName is the name that the certificate of a server we connect to must
	// have, and that is sent as SNI. Empty: the host as it is configured.
	ServerName string
}

// CertPair is a certificate with what is between it and the root, and its key, in
// PEM files.
type CertPair struct{ CertFile, KeyFile string }

// ClientAuth says whether clients show a certificate.
type ClientAuth string

const (
	// ClientAuthNone, the empty string, asks for none.
	ClientAuthNone ClientAuth = ""
	// ClientAuthOptional verifies the one that a client shows, and takes clients
	// without one.
	ClientAuthOptional ClientAuth = "optional"
	// ClientAuthRequire refuses clients without one.
	ClientAuthRequire ClientAuth = "require"
)

// validate names what is wrong, without looking at files.
func (t TLS) validate(listens bool) error {
	var errs []error
	if (t.CertFile == "") != (t.KeyFile == "") {
		errs = append(errs, errors.New("cert_file and key_file belong together"))
	}
	for i, p := range t.Certificates {
		if p.CertFile == "" || p.KeyFile == "" {
			errs = append(errs, fmt.Errorf("certificates[%d]: needs cert_file and key_file", i))
		}
	}
	if listens && t.CertFile == "" && len(t.Certificates) == 0 {
		errs = append(errs, errors.New("a listener needs cert_file and key_file"))
	}
	switch t.ClientAuth {
	case ClientAuthNone:
	case ClientAuthOptional, ClientAuthRequire:
		if t.CAFile == "" {
			// Anybody can have a certificate that leads to the system's roots.
			errs = append(errs, errors.New("client_auth needs ca_file"))
		}
	default:
		errs = append(errs, fmt.Errorf("client_auth: %q is not optional or require", t.ClientAuth))
	}
	return errors.Join(errs...)
}

// or is t, or other when t says nothing.
func (t TLS) or(other TLS) TLS {
	if reflect.DeepEqual(t, TLS{}) {
		return other
	}
	return t
}

// pairs are all certificates, the one for everybody else first.
func (t TLS) pairs() []CertPair {
	if t.CertFile == "" {
		return t.Certificates
	}
	return append([]CertPair{{t.CertFile, t.KeyFile}}, t.Certificates...)
}

// server makes the settings of a listener.
func (t TLS) server() (*tls.Config, error) {
	var certs certificates
	for _, p := range t.pairs() {
		c := &certificate{files: p}
		if _, err := c.load(); err != nil {
			return nil, err
		}
		certs = append(certs, c)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certs.choose}
	if t.ClientAuth == ClientAuthNone {
		return cfg, nil
	}
	var err error
	if cfg.ClientCAs, err = t.roots(); err != nil {
		return nil, err
	}
	cfg.ClientAuth = tls.VerifyClientCertIfGiven
	if t.ClientAuth == ClientAuthRequire {
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return cfg, nil
}

// client makes the settings of a connection of ours to a server that must prove
// one of the names.
func (t TLS) client(names []string) (*tls.Config, error) {
	roots, err := t.roots()
	if err != nil {
		return nil, err
	}
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12,
		// The library verifies one name; VerifyConnection does all of its work.
		InsecureSkipVerify: true,
		VerifyConnection:   func(cs tls.ConnectionState) error { return verifyServer(cs, roots, names) },
	}
	for _, n := range names {
		if _, err := netip.ParseAddr(n); err != nil {
			cfg.ServerName = n // addresses are no SNI (RFC 6066 section 3)
			break
		}
	}
	if t.CertFile != "" {
		certs := &certificate{files: CertPair{t.CertFile, t.KeyFile}}
		if _, err := certs.load(); err != nil {
			return nil, err
		}
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certs.load() }
	}
	return cfg, nil
}

// verifyServer checks the chain and that the certificate is for one of the names
// (RFC 5922 section 7).
func verifyServer(cs tls.ConnectionState, roots *x509.CertPool, names []string) error {
	opts := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, c := range cs.PeerCertificates[1:] {
		opts.Intermediates.AddCert(c)
	}
	leaf := cs.PeerCertificates[0]
	if _, err := leaf.Verify(opts); err != nil {
		return err
	}
	for _, n := range names {
		if leaf.VerifyHostname(n) == nil {
			return nil
		}
	}
	return fmt.Errorf("sip: the certificate is for %s, not for %s", strings.Join(certNames(leaf), ", "), strings.Join(names, " or "))
}

// roots is nil for the system's.
func (t TLS) roots() (*x509.CertPool, error) {
	if t.CAFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(t.CAFile)
	if err != nil {
		return nil, fmt.Errorf("sip: ca_file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("sip: ca_file: no certificate in %s", t.CAFile)
	}
	return pool, nil
}

// certificate is a pair of files that is read again when it changed: a renewed
// certificate must not need a restart.
type certificate struct {
	files    CertPair
	mu       sync.Mutex
	cert     *tls.Certificate
	modified time.Time
}

// certificates are those of a listener.
type certificates []*certificate

// choose is the one to show a client.
func (all certificates) choose(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if hello.ServerName != "" && len(all) > 1 {
		for _, c := range all {
			if cert, err := c.load(); err == nil && hello.SupportsCertificate(cert) == nil {
				return cert, nil
			}
		}
	}
	return all[0].load()
}

// load returns the certificate. When a changed pair cannot be used, as between
// the writing of one file and of the other, the one before goes on.
func (c *certificate) load() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(c.files.CertFile)
	if err == nil && c.cert != nil && info.ModTime().Equal(c.modified) {
		return c.cert, nil
	}
	pair, perr := tls.LoadX509KeyPair(c.files.CertFile, c.files.KeyFile)
	if err := errors.Join(err, perr); err != nil {
		if c.cert != nil {
			return c.cert, nil
		}
		return nil, fmt.Errorf("sip: cert_file: %w", err)
	}
	c.cert, c.modified = &pair, info.ModTime()
	return c.cert, nil
}

// certNames are the names and addresses that a certificate is for.
func certNames(c *x509.Certificate) []string {
	names := append([]string(nil), c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// identities are the names by which a client's certificate may be known (RFC 5922
// section 7.1): those of its sip: URIs, else its DNS names, and its common name
// when it has neither. They are in lower case.
func identities(c *x509.Certificate) []string {
	var names []string
	for _, u := range c.URIs {
		if parsed, err := ParseURI(u.String()); err == nil && parsed.Scheme == "sip" && parsed.User == "" {
			names = append(names, parsed.Host)
		}
	}
	if len(names) == 0 {
		names = append(names, c.DNSNames...)
	}
	if len(names) == 0 && c.Subject.CommonName != "" {
		names = append(names, c.Subject.CommonName)
	}
	for i, n := range names {
		names[i] = strings.ToLower(n)
	}
	return names
}

// handshake finishes the TLS handshake of an accepted connection. Over TCP there
// is none, and it is done on connections of ours. A verified certificate of the client gives the names by which it can
// be connected to again.
func (c *tcpConn) handshake() error {
	t, ok := c.conn.(*tls.Conn)
	if !ok || t.ConnectionState().HandshakeComplete {
		return nil
	}
	if err := t.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return err
	}
	if err := t.Handshake(); err != nil {
		return err
	}
	if c.peer = c.certificate(); c.peer != nil {
		c.names = certNames(c.peer)
	}
	return t.SetDeadline(time.Time{})
}

// certificate is the verified one of the peer, nil when there is none.
func (c *tcpConn) certificate() *x509.Certificate {
	t, ok := c.conn.(*tls.Conn)
	if !ok {
		return nil
	}
	chains := t.ConnectionState().VerifiedChains
	if len(chains) == 0 {
		return nil
	}
	return chains[0][0]
}

// secure runs TLS over a connection of ours.
func secure(conn net.Conn, t TLS, names []string) (net.Conn, error) {
	if t.ServerName != "" {
		names = []string{t.ServerName}
	}
	cfg, err := t.client(names)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, err
	}
	c := tls.Client(conn, cfg)
	if err := c.Handshake(); err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Time{})
}
