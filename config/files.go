package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"reflect"

	"parley/identity"
	"parley/sip"
)

// readCertificates reads tls.certificates.
func (l *loader) readCertificates(raw any) {
	l.readList("tls.certificates", raw, func() reflect.Value {
		l.config.TLS.Certificates = append(l.config.TLS.Certificates, sip.CertPair{})
		return reflect.ValueOf(&l.config.TLS.Certificates).Elem()
	})
}

// CheckFiles looks at the files that are named, which Load does not: certificates
// and keys. The error lists everything that is wrong, with its place.
func (c *Config) CheckFiles() error {
	var errs []error
	wrong := func(section string, err error) {
		if err := c.Complain(section, err); err != nil {
			errs = append(errs, err)
		}
	}
	wrong("tls", checkPair(c.TLS.CertFile, c.TLS.KeyFile))
	for i, p := range c.TLS.Certificates {
		wrong(fmt.Sprintf("tls.certificates[%d]", i), checkPair(p.CertFile, p.KeyFile))
	}
	wrong("tls", checkAuthorities(c.TLS.CAFile))
	for i, t := range c.Trunk {
		wrong(trunkSection(i), checkPair(t.CertFile, t.KeyFile))
		wrong(trunkSection(i), checkAuthorities(t.CAFile))
	}
	if token := c.TokenConfig(); token.Enabled() {
		wrong("identity.token", token.Check())
	}
	if sign := c.SignerConfig(); sign.Enabled() {
		_, err := identity.NewSigner(sign)
		wrong("identity.sign", err)
	}
	return errors.Join(errs...)
}

// checkPair says what is wrong with a certificate and its key.
func checkPair(cert, key string) error {
	if cert == "" && key == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		return fmt.Errorf("cert_file: %w", err)
	}
	return nil
}

// checkAuthorities says what is wrong with a file of certificates.
func checkAuthorities(file string) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("ca_file: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(text) {
		return fmt.Errorf("ca_file: no certificate in %s", file)
	}
	return nil
}
