package rtp

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"time"

	"github.com/pion/dtls/v3"
	"github.com/pion/logging"
)

// The reasons for which a handshake gives no keys; they are wrapped with what is
// known beside.
var (
	// ErrHandshakeTimeout says that the peer did not come, or did not finish.
	ErrHandshakeTimeout = errors.New("rtp: no DTLS handshake in time")
	// ErrFingerprint says that the peer's certificate is not that of its session
	// description: somebody is between.
	ErrFingerprint = errors.New("rtp: the DTLS certificate is not that of the session description")
	// ErrHandshake is any other failure of a handshake.
	ErrHandshake = errors.New("rtp: DTLS handshake failed")
)

// DTLS says how a session agrees on its keys with the peer itself (RFC 5763, 5764).
// Flow.DTLS with another pointer than before is another association.
type DTLS struct {
	// Certificate is ours.
	Certificate *Certificate
	// Fingerprints are those of the peer's session description. The peer's
	// certificate must have one of those made with the strongest hash among them
	// (RFC 8122 section 5).
	Fingerprints []Fingerprint
	// Client says that we begin: the peer is passive.
	Client bool
	// Timeout is how long it may take from SetFlow on, what ICE needs included.
	Timeout time.Duration
	// Done is told the outcome once, on a goroutine of the session: the suite, or why
	// there are no keys. It is not called when the session was closed before.
	Done func(suite Suite, err error)
}

// Certificate is a key pair with a certificate that it signed itself: it is its
// fingerprint that peers go by.
type Certificate struct {
	pair        tls.Certificate
	fingerprint Fingerprint
}

// NewCertificate makes one for ECDSA on P-256. One serves all calls of a process.
func NewCertificate() (*Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("rtp: certificate: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("rtp: certificate: %w", err)
	}
	now := time.Now()
	// Nobody checks the dates; a process may run for years.
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "parley"},
		NotBefore: now.AddDate(0, 0, -1), NotAfter: now.AddDate(10, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("rtp: certificate: %w", err)
	}
	sum := sha256.Sum256(der)
	return &Certificate{
		pair:        tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		fingerprint: Fingerprint{Hash: "sha-256", Sum: sum[:]},
	}, nil
}

// Fingerprint is that of the certificate, for the session description.
func (c *Certificate) Fingerprint() Fingerprint { return c.fingerprint }

// Fingerprint is a hash of a certificate (RFC 8122 section 5).
type Fingerprint struct {
	// Hash is its name in lower case: sha-256, sha-384 or sha-512.
	Hash string
	Sum  []byte
}

// hashes are those that are strong enough, the weakest first.
var hashes = []struct {
	name string
	sum  func([]byte) []byte
}{
	{"sha-256", func(b []byte) []byte { s := sha256.Sum256(b); return s[:] }},
	{"sha-384", func(b []byte) []byte { s := sha512.Sum384(b); return s[:] }},
	{"sha-512", func(b []byte) []byte { s := sha512.Sum512(b); return s[:] }},
}

// verify checks a certificate against the fingerprints of the strongest hash.
func verify(der []byte, fingerprints []Fingerprint) error {
	for i := len(hashes) - 1; i >= 0; i-- {
		known := false
		sum := hashes[i].sum(der)
		for _, f := range fingerprints {
			if strings.EqualFold(f.Hash, hashes[i].name) {
				known = true
				if bytes.Equal(f.Sum, sum) {
					return nil
				}
			}
		}
		if known {
			return ErrFingerprint
		}
	}
	return fmt.Errorf("%w: it has none of sha-256 or stronger", ErrFingerprint)
}

// profiles are the SRTP suites that we take, the one that costs least first. The
// peer's list says which of them it can (RFC 5764 section 4.1.2).
var profiles = []dtls.SRTPProtectionProfile{
	dtls.SRTP_AEAD_AES_128_GCM, dtls.SRTP_AEAD_AES_256_GCM, dtls.SRTP_AES128_CM_HMAC_SHA1_80, dtls.SRTP_AES128_CM_HMAC_SHA1_32,
}

func suiteOf(p dtls.SRTPProtectionProfile) Suite {
	switch p {
	case dtls.SRTP_AEAD_AES_128_GCM:
		return AES128GCM
	case dtls.SRTP_AEAD_AES_256_GCM:
		return AES256GCM
	case dtls.SRTP_AES128_CM_HMAC_SHA1_80:
		return AES128CM80
	case dtls.SRTP_AES128_CM_HMAC_SHA1_32:
		return AES128CM32
	}
	return 0
}

// shake does the handshake over conn and returns the connection, which must be
// closed, with the keys.
func (d *DTLS) shake(ctx context.Context, conn net.PacketConn, to net.Addr) (*dtls.Conn, Keys, error) {
	shared := []dtls.Option{
		dtls.WithCertificates(d.Certificate.pair),
		dtls.WithSRTPProtectionProfiles(profiles...),
		dtls.WithLoggerFactory(&logging.DefaultLoggerFactory{Writer: io.Discard, DefaultLogLevel: logging.LogLevelDisabled}),
		dtls.WithInsecureSkipVerify(true), // the fingerprint is what counts
		dtls.WithVerifyPeerCertificate(func(raw [][]byte, _ [][]*x509.Certificate) error {
			if len(raw) == 0 {
				return ErrFingerprint
			}
			return verify(raw[0], d.Fingerprints)
		}),
	}
	var c *dtls.Conn
	var err error
	if d.Client {
		options := make([]dtls.ClientOption, 0, len(shared))
		for _, o := range shared {
			options = append(options, o)
		}
		c, err = dtls.ClientWithOptions(conn, to, options...)
	} else {
		options := []dtls.ServerOption{dtls.WithClientAuth(dtls.RequireAnyClientCert)}
		for _, o := range shared {
			options = append(options, o)
		}
		c, err = dtls.ServerWithOptions(conn, to, options...)
	}
	if err != nil {
		return nil, Keys{}, fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	if err := c.HandshakeContext(ctx); err != nil {
		_ = c.Close() // there is nobody to tell
		return nil, Keys{}, d.why(ctx, err)
	}
	keys, err := export(c, d.Client)
	if err != nil {
		_ = c.Close()
		return nil, Keys{}, err
	}
	return c, keys, nil
}

// why names the reason of a failure.
func (d *DTLS) why(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, ErrFingerprint):
		return ErrFingerprint
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %v", ErrHandshakeTimeout, d.Timeout)
	}
	return fmt.Errorf("%w: %w", ErrHandshake, err)
}

// export takes the SRTP keys out of a connection (RFC 5764 section 4.2): client key,
// server key, client salt, server salt.
func export(c *dtls.Conn, client bool) (Keys, error) {
	profile, ok := c.SelectedSRTPProtectionProfile()
	suite := suiteOf(profile)
	if !ok || suite == 0 {
		return Keys{}, fmt.Errorf("%w: no SRTP suite in common", ErrHandshake)
	}
	state, ok := c.ConnectionState()
	if !ok {
		return Keys{}, fmt.Errorf("%w: it has no state", ErrHandshake)
	}
	key, salt := suites[suite].key, suites[suite].salt
	b, err := state.ExportKeyingMaterial("EXTRACTOR-dtls_srtp", nil, 2*(key+salt))
	if err != nil {
		return Keys{}, fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	join := func(i int) []byte {
		return append(append(make([]byte, 0, key+salt), b[i*key:(i+1)*key]...), b[2*key+i*salt:2*key+(i+1)*salt]...)
	}
	keys := Keys{Suite: suite, Send: join(1), Recv: join(0)}
	if client {
		keys.Send, keys.Recv = keys.Recv, keys.Send
	}
	return keys, nil
}
