package rtp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pion/rtcp"
	pion "github.com/pion/rtp"
	"github.com/pion/srtp/v3"
)

const (
	// replayWindow is how far behind the latest a packet may come and still be told
	// from a replayed one (RFC 3711 section 3.3.2 wants 64 at the least). The jitter
	// buffer has given up on anything older.
	replayWindow = 128
	// maxSources is how many SSRCs one set of keys is used with: a PBX that transfers
	// and plays music needs a few. Each costs memory for as long as the keys live.
	maxSources = 16
	// MaxMKI is the longest master key identifier in octets that is taken.
	MaxMKI = 16
	// trailer is what protection adds to a packet at the most: the tag of GCM or of
	// HMAC-SHA1, an MKI, and the index of SRTCP.
	trailer = 16 + MaxMKI + 4
)

// Suite is a set of transforms that protects RTP and RTCP.
type Suite uint8

// The suites there are: AES in counter mode with HMAC-SHA1 of 80 or 32 bits (RFC
// 3711, 6188), and AES in Galois counter mode (RFC 7714).
const (
	AES128CM80 Suite = iota + 1
	AES128CM32
	AES256CM80
	AES256CM32
	AES128GCM
	AES256GCM
)

// suites are what the library calls them, with the lengths of key and salt.
var suites = map[Suite]struct {
	profile   srtp.ProtectionProfile
	key, salt int
}{
	AES128CM80: {srtp.ProtectionProfileAes128CmHmacSha1_80, 16, 14},
	AES128CM32: {srtp.ProtectionProfileAes128CmHmacSha1_32, 16, 14},
	AES256CM80: {srtp.ProtectionProfileAes256CmHmacSha1_80, 32, 14},
	AES256CM32: {srtp.ProtectionProfileAes256CmHmacSha1_32, 32, 14},
	AES128GCM:  {srtp.ProtectionProfileAeadAes128Gcm, 16, 12},
	AES256GCM:  {srtp.ProtectionProfileAeadAes256Gcm, 32, 12},
}

// KeySize is the length of a master key with its salt in octets; 0 for a suite that
// there is not.
func (s Suite) KeySize() int { return suites[s].key + suites[s].salt }

// Keys are the master keys of both directions, each followed by its salt, as SDES
// writes them (RFC 4568 section 6.1). They have no readable form: fmt and loggers
// print the word "keys".
type Keys struct {
	Suite      Suite
	Send, Recv []byte
	// MKI is the master key identifier that packets carry, nil for none.
	MKI []byte
}

// String implements fmt.Stringer, and hides.
func (Keys) String() string { return "keys" }

// GoString implements fmt.GoStringer, and hides.
func (Keys) GoString() string { return "keys" }

// SRTP protects the packets of one session with one set of keys (RFC 3711), with
// replay protection both for RTP and RTCP. It is made anywhere and then belongs to
// the wheel; it serves one session.
type SRTP struct {
	seal, open *srtp.Context
	least      [2]int // what an RTP packet has beyond its header, and an RTCP packet
	header     pion.Header
	control    rtcp.Header
	known      [maxSources]uint32
	sources    int
}

// NewSRTP makes the protection for keys. The error never holds a key.
func NewSRTP(k Keys) (*SRTP, error) {
	suite, ok := suites[k.Suite]
	switch {
	case !ok:
		return nil, fmt.Errorf("rtp: no SRTP suite %d", k.Suite)
	case len(k.Send) != suite.key+suite.salt, len(k.Recv) != suite.key+suite.salt:
		return nil, fmt.Errorf("rtp: SRTP keys of %d and %d octets, want %d", len(k.Send), len(k.Recv), suite.key+suite.salt)
	case len(k.MKI) > MaxMKI:
		return nil, fmt.Errorf("rtp: a master key identifier of %d octets, at most %d", len(k.MKI), MaxMKI)
	}
	options := []srtp.ContextOption{srtp.SRTPReplayProtection(replayWindow), srtp.SRTCPReplayProtection(replayWindow)}
	if len(k.MKI) > 0 {
		options = append(options, srtp.MasterKeyIndicator(k.MKI))
	}
	p := &SRTP{least: [2]int{len(k.MKI), len(k.MKI) + 4}}
	var err error
	if p.seal, err = srtp.CreateContext(k.Send[:suite.key], k.Send[suite.key:], suite.profile, options...); err != nil {
		return nil, fmt.Errorf("rtp: SRTP: %w", err)
	}
	if p.open, err = srtp.CreateContext(k.Recv[:suite.key], k.Recv[suite.key:], suite.profile, options...); err != nil {
		return nil, fmt.Errorf("rtp: SRTP: %w", err)
	}
	profile := suite.profile
	for i, lengths := range [2][2]func() (int, error){{profile.AuthTagRTPLen, profile.AEADAuthTagLen}, {profile.AuthTagRTCPLen, profile.AEADAuthTagLen}} {
		for _, length := range lengths {
			n, err := length()
			if err != nil {
				return nil, fmt.Errorf("rtp: SRTP: %w", err)
			}
			p.least[i] += n
		}
	}
	return p, nil
}

// opened is what became of a protected packet.
type opened uint8

const (
	openedWell     opened = iota
	openedForged          // it is not the peer's, or was changed on the way
	openedReplayed        // it came before, or is too old to say
)

// openRTP decrypts a packet into dst, which must be able to hold it.
func (p *SRTP) openRTP(dst, b []byte) ([]byte, opened) {
	if len(b) < headerSize+p.least[0] {
		return nil, openedForged
	}
	ssrc := binary.BigEndian.Uint32(b[8:])
	known := p.knows(ssrc)
	if !known && p.sources == maxSources {
		return nil, openedForged
	}
	out, err := p.open.DecryptRTP(dst[:0], b, &p.header)
	if err != nil {
		return nil, verdictOf(err)
	}
	if !known {
		p.known[p.sources] = ssrc
		p.sources++
	}
	return out, openedWell
}

func (p *SRTP) knows(ssrc uint32) bool {
	for _, k := range p.known[:p.sources] {
		if k == ssrc {
			return true
		}
	}
	return false
}

// openRTCP is openRTP for RTCP. Its sources are bounded too, by the number of those
// that were heard: a peer reports on its own stream.
func (p *SRTP) openRTCP(dst, b []byte) ([]byte, opened) {
	if len(b) < 8+p.least[1] {
		return nil, openedForged
	}
	ssrc := binary.BigEndian.Uint32(b[4:])
	known := p.knows(ssrc)
	if !known && p.sources == maxSources {
		return nil, openedForged
	}
	out, err := p.open.DecryptRTCP(dst[:0], b, &p.control)
	if err != nil {
		return nil, verdictOf(err)
	}
	if !known {
		p.known[p.sources] = ssrc
		p.sources++
	}
	return out, openedWell
}

// verdictOf reads the library's error. Lengths were checked before, so what is
// neither a wrong tag nor a wrong MKI is the replay list's refusal.
func verdictOf(err error) opened {
	if errors.Is(err, srtp.ErrFailedToVerifyAuthTag) || errors.Is(err, srtp.ErrMKINotFound) {
		return openedForged
	}
	return openedReplayed
}

// sealRTP protects a packet in place; b has room for the trailer. Not ok: the keys
// are used up (RFC 3711 section 9.2).
func (p *SRTP) sealRTP(b []byte) (out []byte, ok bool) {
	out, err := p.seal.EncryptRTP(b, b, &p.header)
	return out, err == nil
}

// sealRTCP is sealRTP for RTCP.
func (p *SRTP) sealRTCP(b []byte) (out []byte, ok bool) {
	out, err := p.seal.EncryptRTCP(b, b, &p.control)
	return out, err == nil
}
