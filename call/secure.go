package call

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"parley/rtp"
	"parley/sip/sdp"
)

// handshakeTimeout is how long a peer may take from the answer to the end of its DTLS
// handshake, the search for a way through its NAT included.
const handshakeTimeout = 15 * time.Second

// errUnprotected is the cause of a call whose sound could not be encrypted.
var errUnprotected = errors.New(CauseUnprotected)

// The words of Config.SRTP and Trunk.SRTP.
const (
	srtpOff      = "off"
	srtpOptional = "optional"
	srtpRequired = "required"
)

// suites are the suites for keys in session descriptions, in the order of our offers:
// those with the least work in front.
var suites = []struct {
	name  string
	suite rtp.Suite
}{
	{"AEAD_AES_256_GCM", rtp.AES256GCM},
	{"AEAD_AES_128_GCM", rtp.AES128GCM},
	{"AES_256_CM_HMAC_SHA1_80", rtp.AES256CM80},
	{"AES_CM_128_HMAC_SHA1_80", rtp.AES128CM80},
	{"AES_256_CM_HMAC_SHA1_32", rtp.AES256CM32},
	{"AES_CM_128_HMAC_SHA1_32", rtp.AES128CM32},
}

func suiteNamed(name string) rtp.Suite {
	for _, s := range suites {
		if s.name == name {
			return s.suite
		}
	}
	return 0
}

func nameOf(suite rtp.Suite) string {
	for _, s := range suites {
		if s.suite == suite {
			return s.name
		}
	}
	return ""
}

// guarding is the part of a negotiation that protects the stream.
type guarding struct {
	// signalling is the transport that descriptions go over: keys in them are only
	// as safe as it is, and a browser is known by it.
	signalling  string
	certificate *rtp.Certificate
	log         *zap.Logger
	// plain keeps offers of ours unencrypted unless the policy or what is agreed wants
	// otherwise.
	plain bool
	// told is given the suite in force, "" for none, or why there is none; it may be
	// called from any goroutine.
	told func(suite string, err error)

	warned bool
	agreed protection
}

// protection is what was agreed last, to tell what is new in the next description.
type protection struct {
	sdes *sdp.SDES
	srtp *rtp.SRTP

	dtls      *sdp.DTLS
	handshake *rtp.DTLS
	peer      *sdp.ICE
	ice       *rtp.ICE
}

// protect gives a negotiation what it needs for the call's policy towards t.
func (c *Call) protect(n *negotiation, t *trunk) {
	policy := c.server.cfg.SRTP
	if t != nil {
		policy = cmp.Or(t.cfg.SRTP, srtpOptional)
		n.guard.signalling, n.guard.plain = t.cfg.SIP.Transport, true
	}
	n.guard.certificate, n.guard.log, n.guard.told = c.server.certificate, c.log, c.protected
	n.protect(policy)
}

// protected takes note of how the sound is protected now, or ends the call.
func (c *Call) protected(suite string, err error) {
	if err != nil {
		c.log.Warn("media encryption failed", zap.Error(err))
		c.end(fmt.Errorf("%w: %w", errUnprotected, err))
		return
	}
	if before := c.suite.Swap(&suite); before == nil && suite != "" || before != nil && *before != suite {
		c.log.Info("media encryption", zap.String("suite", suite))
	}
}

// protect sets the policy, and draws keys and credentials if there may be need.
func (n *negotiation) protect(policy string) {
	switch policy {
	case srtpRequired:
		n.local.SRTP = sdp.PolicyRequired
	case srtpOptional:
		n.local.SRTP = sdp.PolicyOptional
	default:
		return
	}
	n.drawKeys()
	n.drawCredentials()
	if n.guard.certificate != nil {
		n.local.Fingerprint = sdp.Fingerprint(n.guard.certificate.Fingerprint())
	}
}

// drawKeys draws what we send with: another key for each suite, for a key must not
// serve two (RFC 4568 section 6.1).
func (n *negotiation) drawKeys() {
	total := 0
	for _, s := range suites {
		total += sdp.KeySize(s.name)
	}
	n.local.Crypto = make([]sdp.Crypto, 0, len(suites))
	drawn := random(total) // at once: each draw costs
	for _, s := range suites {
		size := sdp.KeySize(s.name)
		n.local.Crypto = append(n.local.Crypto, sdp.Crypto{Suite: s.name, Key: drawn[:size:size]})
		drawn = drawn[size:]
	}
}

// drawCredentials draws those of ICE: 32 bits for the name and 144 for the password,
// more than RFC 8445 section 5.3 asks for.
func (n *negotiation) drawCredentials() {
	n.local.ICE = sdp.ICE{
		User: base64.RawStdEncoding.EncodeToString(random(6)), Password: base64.RawStdEncoding.EncodeToString(random(18)),
	}
}

func random(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.Read(b) // never fails: crypto/rand crashes the process instead
	return b
}

// offers is how an offer of ours is protected. What is agreed stays as it is; a
// browser can do nothing but DTLS; a caller of whom nothing is known but that its
// signalling is encrypted is offered encrypted sound; and all others, trunks among
// them, get an offer that everybody understands, unless the policy forbids it.
func (n *negotiation) offers() sdp.Protection {
	browser := n.guard.signalling == "ws" || n.guard.signalling == "wss"
	switch {
	case n.local.SRTP == sdp.PolicyOff:
		return sdp.Plain
	case n.guard.agreed.dtls != nil:
		return sdp.ByDTLS
	case n.guard.agreed.sdes != nil:
		return sdp.BySDES
	case n.now != nil && n.local.SRTP == sdp.PolicyOptional && n.now.flow.Peer.IsValid() && n.now.flow.SRTP == nil && n.now.flow.DTLS == nil:
		return sdp.Plain
	case browser && n.local.Fingerprint.Hash != "":
		return sdp.ByDTLS
	case n.local.SRTP == sdp.PolicyRequired, n.guard.signalling == "tls" && !n.guard.plain:
		return sdp.BySDES
	}
	return sdp.Plain
}

// renewed draws anew what the peer's description asks for by what is new in it, and
// says whether the answer is another one for it.
//
// Other keys of the peer's mean that it may be somebody else now, behind a PBX, who
// must not know what the one before knew. Other credentials are a restart of ICE,
// which wants ours to be others too (RFC 8445 section 9).
func (n *negotiation) renewed(m sdp.Media) (changed bool) {
	was := &n.guard.agreed
	if was.sdes != nil && m.SDES != nil && !same(was.sdes.Recv, m.SDES.Recv) {
		n.drawKeys()
		changed = true
	}
	if was.peer != nil && m.ICE != nil && *was.peer != *m.ICE {
		n.drawCredentials()
		changed = true
	}
	if m.DTLS != nil && n.local.DTLSClient && !was.shakes(m.DTLS) {
		n.local.DTLSClient = false
		changed = true
	}
	return changed
}

func same(a, b sdp.Crypto) bool {
	return a.Suite == b.Suite && bytes.Equal(a.Key, b.Key) && bytes.Equal(a.MKI, b.MKI)
}

// shakes says whether a description is of the handshake that was agreed on.
func (p *protection) shakes(d *sdp.DTLS) bool {
	return p.dtls != nil && p.dtls.ID == d.ID && slices.EqualFunc(p.dtls.Fingerprints, d.Fingerprints, func(a, b sdp.Fingerprint) bool {
		return a.Hash == b.Hash && bytes.Equal(a.Sum, b.Sum)
	})
}

// secure puts the protection that was agreed into a flow. What has not changed stays
// the same object, so that counters, replay lists and handshakes go on.
func (n *negotiation) secure(m sdp.Media, f *rtp.Flow) error {
	was, now := &n.guard.agreed, protection{}
	switch m.Protection {
	case sdp.BySDES:
		now.sdes, now.srtp = m.SDES, was.srtp
		if was.sdes == nil || !same(was.sdes.Send, m.SDES.Send) || !same(was.sdes.Recv, m.SDES.Recv) {
			var err error
			now.srtp, err = rtp.NewSRTP(rtp.Keys{
				Suite: suiteNamed(m.SDES.Send.Suite), Send: m.SDES.Send.Key, Recv: m.SDES.Recv.Key, MKI: m.SDES.Recv.MKI,
			})
			if err != nil {
				return err
			}
		}
		n.warn()
		n.tell(m.SDES.Send.Suite, nil)
	case sdp.ByDTLS:
		n.shake(m, was, &now)
	default:
		n.tell("", nil)
	}
	f.SRTP, f.DTLS, f.ICE = now.srtp, now.handshake, now.ice
	*was = now
	return nil
}

// shake is secure for DTLS and ICE.
func (n *negotiation) shake(m sdp.Media, was, now *protection) {
	now.dtls, now.handshake = m.DTLS, was.handshake
	if !was.shakes(m.DTLS) || was.handshake.Client != m.DTLS.Client {
		fingerprints := make([]rtp.Fingerprint, 0, len(m.DTLS.Fingerprints))
		for _, f := range m.DTLS.Fingerprints {
			fingerprints = append(fingerprints, rtp.Fingerprint(f))
		}
		now.handshake = &rtp.DTLS{
			Certificate: n.guard.certificate, Fingerprints: fingerprints, Client: m.DTLS.Client, Timeout: handshakeTimeout,
			Done: func(suite rtp.Suite, err error) { n.tell(nameOf(suite), err) },
		}
	}
	n.local.DTLSClient = m.DTLS.Client
	if m.ICE == nil {
		return
	}
	now.peer, now.ice = m.ICE, was.ice
	if was.ice == nil || was.ice.PeerUser != m.ICE.User || was.ice.User != n.local.ICE.User {
		now.ice = &rtp.ICE{User: n.local.ICE.User, Password: n.local.ICE.Password, PeerUser: m.ICE.User}
	}
}

func (n *negotiation) tell(suite string, err error) {
	if n.guard.told != nil {
		n.guard.told(suite, err)
	}
}

// warn says once that keys went over a wire that anybody could read.
func (n *negotiation) warn() {
	if n.guard.warned || n.guard.log == nil || n.guard.signalling == "tls" || n.guard.signalling == "wss" {
		return
	}
	n.guard.warned = true
	n.guard.log.Warn("the keys of the media encryption went over an unencrypted transport; use TLS",
		zap.String("transport", n.guard.signalling))
}
