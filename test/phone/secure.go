package phone

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/pion/dtls/v3"
	"github.com/pion/dtls/v3/pkg/crypto/selfsign"
	"github.com/pion/srtp/v3"
	"github.com/pion/stun/v3"
	"github.com/pion/transport/v5/deadline"
)

// The values of Config.Encryption.
const (
	// SDES offers RTP/SAVP with keys in the session description (RFC 4568).
	SDES = "sdes"
	// OptionalSDES offers them with RTP/AVP, so that a plain answer suits too (RFC
	// 8643).
	OptionalSDES = "sdes-optional"
	// DTLS offers what a browser does: UDP/TLS/RTP/SAVPF with ICE, of which the phone
	// is the full and controlling agent (RFC 5763, 8445).
	DTLS = "dtls"
)

// suite is one way of SRTP, with the length of the master key and its salt.
type suite struct {
	profile   srtp.ProtectionProfile
	key, salt int
}

var suites = map[string]suite{
	"AES_CM_128_HMAC_SHA1_80": {srtp.ProtectionProfileAes128CmHmacSha1_80, 16, 14},
	"AES_CM_128_HMAC_SHA1_32": {srtp.ProtectionProfileAes128CmHmacSha1_32, 16, 14},
	"AES_256_CM_HMAC_SHA1_80": {srtp.ProtectionProfileAes256CmHmacSha1_80, 32, 14},
	"AES_256_CM_HMAC_SHA1_32": {srtp.ProtectionProfileAes256CmHmacSha1_32, 32, 14},
	"AEAD_AES_128_GCM":        {srtp.ProtectionProfileAeadAes128Gcm, 16, 12},
	"AEAD_AES_256_GCM":        {srtp.ProtectionProfileAeadAes256Gcm, 32, 12},
}

// cryptoTag is the tag of the phone's one crypto line: not the first, to see whether
// it comes back.
const cryptoTag = 7

// guard encrypts one stream. A nil guard does nothing.
type guard struct {
	kind, name string
	suite      suite
	cert       tls.Certificate
	user, pass string
	keys       []byte // ours, of SDES

	checks, records chan []byte

	mu         sync.Mutex
	seal, open *srtp.Context
	failed     error
	ready      chan struct{} // closed when both contexts are there
	opened     int           // packets of the peer's that the keys opened
	refused    int           // and that they did not
}

func newGuard(config Config) (*guard, error) {
	if config.Encryption == "" {
		return nil, nil
	}
	g := &guard{
		kind: config.Encryption, name: config.Suite, user: token()[:8], pass: token() + token(),
		checks: make(chan []byte, 16), records: make(chan []byte, 64), ready: make(chan struct{}),
	}
	if g.name == "" {
		g.name = "AES_CM_128_HMAC_SHA1_80"
	}
	var ok bool
	if g.suite, ok = suites[g.name]; !ok {
		return nil, fmt.Errorf("phone: no SRTP suite %q", g.name)
	}
	switch g.kind {
	case SDES, OptionalSDES:
		g.draw()
	case DTLS:
		var err error
		if g.cert, err = selfsign.GenerateSelfSigned(); err != nil {
			return nil, fmt.Errorf("phone: certificate: %w", err)
		}
	default:
		return nil, fmt.Errorf("phone: no encryption %q", g.kind)
	}
	return g, nil
}

// draw makes a new key to send with.
func (g *guard) draw() {
	g.keys = make([]byte, g.suite.key+g.suite.salt)
	_, _ = rand.Read(g.keys) // it never fails
}

// dress turns a plain description into the guard's.
func (g *guard) dress(body []byte) []byte {
	if g == nil {
		return body
	}
	proto := map[string]string{SDES: "RTP/SAVP", OptionalSDES: "RTP/AVP", DTLS: "UDP/TLS/RTP/SAVPF"}[g.kind]
	body = bytes.Replace(body, []byte(" RTP/AVP "), []byte(" "+proto+" "), 1)
	if g.kind != DTLS {
		return fmt.Appendf(body, "a=crypto:%d %s inline:%s|2^31\r\n", cryptoTag, g.name, base64.StdEncoding.EncodeToString(g.keys))
	}
	sum := sha256.Sum256(g.cert.Certificate[0])
	return fmt.Appendf(body, "a=rtcp-mux\r\na=mid:0\r\na=setup:actpass\r\na=fingerprint:sha-256 %s\r\na=ice-ufrag:%s\r\na=ice-pwd:%s\r\n",
		colons(sum[:]), g.user, g.pass)
}

// reply turns a plain answer to an offer of RTP/SAVP into one with the phone's key, and
// begins to seal and open: the line of the phone's suite is taken.
func (g *guard) reply(body []byte, offer answer) []byte {
	if g == nil || g.kind != SDES {
		return body
	}
	for _, line := range offer.crypto {
		f := strings.Fields(line)
		if len(f) < 3 || f[1] != g.name {
			continue
		}
		text, _, _ := strings.Cut(strings.TrimPrefix(f[2], "inline:"), "|")
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(key) != g.suite.key+g.suite.salt {
			continue
		}
		g.mu.Lock()
		began := g.seal != nil
		g.mu.Unlock()
		if !began {
			if err := g.use(g.keys, key, g.suite.profile); err != nil {
				g.fail(err)
				return body
			}
		}
		body = bytes.Replace(body, []byte(" RTP/AVP "), []byte(" RTP/SAVP "), 1)
		return fmt.Appendf(body, "a=crypto:%s %s inline:%s\r\n", f[0], g.name, base64.StdEncoding.EncodeToString(g.keys))
	}
	g.fail(fmt.Errorf("phone: no key of %s is offered", g.name))
	return body
}

func colons(sum []byte) string {
	parts := make([]string, len(sum))
	for i, b := range sum {
		parts[i] = fmt.Sprintf("%02X", b)
	}
	return strings.Join(parts, ":")
}

// take judges an answer. It must be of the profile that was offered, with the one
// crypto line that was offered; a plain one is an error unless that was offered too.
func (g *guard) take(a answer) error {
	switch {
	case g == nil:
		if len(a.crypto) > 0 || a.fingerprint != "" {
			return fmt.Errorf("phone: an answer with keys to a plain offer")
		}
		return nil
	case g.kind == DTLS:
		if a.proto != "UDP/TLS/RTP/SAVPF" || a.fingerprint == "" || a.user == "" || a.pass == "" || a.setup != "passive" || !a.mux {
			return fmt.Errorf("phone: an answer for DTLS without what it needs: %+v", a)
		}
		return nil
	}
	if want := map[string]string{SDES: "RTP/SAVP", OptionalSDES: "RTP/AVP"}[g.kind]; a.proto != want {
		return fmt.Errorf("phone: profile %s for %s", a.proto, want)
	}
	if len(a.crypto) == 0 && g.kind == OptionalSDES {
		return nil
	}
	if len(a.crypto) != 1 {
		return fmt.Errorf("phone: %d crypto lines in the answer", len(a.crypto))
	}
	f := strings.Fields(a.crypto[0])
	if len(f) != 3 || f[0] != fmt.Sprint(cryptoTag) || f[1] != g.name {
		return fmt.Errorf("phone: a crypto line of another tag or suite")
	}
	text, ok := strings.CutPrefix(f[2], "inline:")
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) != g.suite.key+g.suite.salt || bytes.Equal(key, g.keys) {
		return fmt.Errorf("phone: a crypto line without a key of its own")
	}
	return g.use(g.keys, key, g.suite.profile)
}

// use begins to seal and open with keys.
func (g *guard) use(send, receive []byte, p srtp.ProtectionProfile) error {
	n, err := p.KeyLen()
	if err != nil {
		return err
	}
	seal, err := srtp.CreateContext(send[:n], send[n:], p)
	if err != nil {
		return err
	}
	open, err := srtp.CreateContext(receive[:n], receive[n:], p, srtp.SRTPReplayProtection(256))
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seal, g.open = seal, open
	select {
	case <-g.ready:
	default:
		close(g.ready)
	}
	return nil
}

// encrypt seals a packet; not ok while there are no keys that the call needs.
func (g *guard) encrypt(b []byte) ([]byte, bool) {
	if g == nil {
		return b, true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.seal == nil {
		return b, g.kind == OptionalSDES
	}
	out, err := g.seal.EncryptRTP(nil, b, nil)
	return out, err == nil
}

// decrypt opens what came from the peer; not ok for what is no RTP of its.
func (g *guard) decrypt(b []byte) ([]byte, bool) {
	if g == nil || len(b) == 0 {
		return b, true
	}
	if g.kind == DTLS && b[0] < 64 {
		into := g.records
		if b[0] < 4 {
			into = g.checks
		}
		select {
		case into <- bytes.Clone(b):
		default:
		}
		return nil, false
	}
	if len(b) > 1 && b[1]&0x7f >= 64 && b[1]&0x7f < 96 {
		return nil, false // RTCP
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil {
		return b, g.kind == OptionalSDES
	}
	out, err := g.open.DecryptRTP(nil, b, nil)
	if err != nil {
		g.refused++
		return nil, false
	}
	g.opened++
	return out, true
}

// meet is the goroutine of a DTLS call: checks, handshake, and checks for consent.
func (g *guard) meet(s *stream, a answer) {
	if err := g.check(s, a, 200, 50*time.Millisecond); err != nil {
		g.fail(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	wire := &wire{g: g, s: s, to: a.peer, past: deadline.New()}
	conn, err := dtls.ClientWithOptions(wire, net.UDPAddrFromAddrPort(a.peer), dtls.WithCertificates(g.cert),
		dtls.WithInsecureSkipVerify(true), // the fingerprint is compared below
		dtls.WithSRTPProtectionProfiles(dtls.SRTPProtectionProfile(g.suite.profile)))
	if err == nil {
		err = conn.HandshakeContext(ctx)
	}
	if err != nil {
		g.fail(err)
		return
	}
	defer func() { _ = conn.Close() }()
	state, _ := conn.ConnectionState()
	sum := sha256.Sum256(state.PeerCertificates[0])
	if want := "sha-256 " + colons(sum[:]); !strings.EqualFold(a.fingerprint, want) {
		g.fail(fmt.Errorf("phone: fingerprint %s, want %s", a.fingerprint, want))
		return
	}
	keys := srtp.Config{Profile: g.suite.profile}
	if err := keys.ExtractSessionKeysFromDTLS(&state, true); err != nil {
		g.fail(err)
		return
	}
	k := keys.Keys
	if err := g.use(append(k.LocalMasterKey, k.LocalMasterSalt...), append(k.RemoteMasterKey, k.RemoteMasterSalt...), g.suite.profile); err != nil {
		g.fail(err)
		return
	}
	for g.check(s, a, 1, 5*time.Second) == nil {
	}
}

// check sends connectivity checks, with USE-CANDIDATE, until one is answered.
func (g *guard) check(s *stream, a answer, tries int, every time.Duration) error {
	for range tries {
		m, err := stun.Build(stun.TransactionID, stun.BindingRequest, stun.NewUsername(a.user+":"+g.user),
			stun.RawAttribute{Type: stun.AttrPriority, Value: []byte{0x6e, 0, 1, 0xff}},
			stun.RawAttribute{Type: stun.AttrICEControlling, Value: []byte{1, 2, 3, 4, 5, 6, 7, 8}},
			stun.RawAttribute{Type: stun.AttrUseCandidate},
			stun.NewShortTermIntegrity(a.pass), stun.Fingerprint)
		if err != nil {
			return err
		}
		_, _ = s.socket().WriteToUDPAddrPort(m.Raw, a.peer)
		answered := g.await(s, m, a, every)
		if s.isClosed() {
			return ErrEnded
		}
		if answered {
			return nil
		}
	}
	return fmt.Errorf("phone: no connectivity check was answered")
}

// await waits for the answer to a check, and for all of the time when that is long:
// then it is the time between checks.
func (g *guard) await(s *stream, m *stun.Message, a answer, d time.Duration) (answered bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case b := <-g.checks:
			r := &stun.Message{Raw: b}
			if r.Decode() == nil && r.TransactionID == m.TransactionID && r.Type == stun.BindingSuccess &&
				r.Check(stun.NewShortTermIntegrity(a.pass), stun.Fingerprint) == nil {
				answered = true
				if d < time.Second {
					return true
				}
			}
		case <-timer.C:
			return answered
		case <-s.closed:
			return answered
		}
	}
}

func (g *guard) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed = err
}

// wire is the net.PacketConn under a handshake.
type wire struct {
	g    *guard
	s    *stream
	to   netip.AddrPort
	past *deadline.Deadline
}

func (w *wire) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case d := <-w.g.records:
		return copy(b, d), net.UDPAddrFromAddrPort(w.to), nil
	case <-w.past.Done():
		return 0, nil, context.DeadlineExceeded
	case <-w.s.closed:
		return 0, nil, net.ErrClosed
	}
}

func (w *wire) WriteTo(b []byte, _ net.Addr) (int, error) {
	return w.s.socket().WriteToUDPAddrPort(b, w.to)
}

func (w *wire) Close() error                       { w.past.Set(time.Unix(1, 0)); return nil }
func (w *wire) LocalAddr() net.Addr                { return w.s.socket().LocalAddr() }
func (w *wire) SetDeadline(t time.Time) error      { w.past.Set(t); return nil }
func (w *wire) SetReadDeadline(t time.Time) error  { w.past.Set(t); return nil }
func (w *wire) SetWriteDeadline(t time.Time) error { return nil }

// WaitEncrypted returns when the sound of the call is encrypted both ways, or why it
// is not.
func (c *Call) WaitEncrypted(ctx context.Context) error {
	g := c.stream.guard
	if g == nil {
		return fmt.Errorf("phone: the call is not to be encrypted")
	}
	var failed error
	err := c.until(ctx, func(time.Duration) bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		failed = g.failed
		return g.opened > 0 || failed != nil
	})
	return errors.Join(err, failed)
}

// Opened is how many packets the keys opened, and how many they did not.
func (c *Call) Opened() (opened, refused int) {
	g := c.stream.guard
	if g == nil {
		return 0, 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened, g.refused
}

// Rekey offers another key (SDES) in a re-INVITE.
func (c *Call) Rekey(ctx context.Context) error {
	c.stream.guard.draw()
	c.mu.Lock()
	direction := c.direction
	c.mu.Unlock()
	return c.Reinvite(ctx, direction, false)
}

// Key is the hexadecimal form of the phone's own key of SDES, to look for where it
// must not be.
func (c *Call) Key() (inHex, inBase64 string) {
	return hex.EncodeToString(c.stream.guard.keys), base64.StdEncoding.EncodeToString(c.stream.guard.keys)
}
