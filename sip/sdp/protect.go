package sdp

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
)

// Policy says whether a stream is to be protected by SRTP.
type Policy uint8

// The policies. With PolicyOptional a protected stream is taken when it is offered,
// and a plain one otherwise; with the others nothing else is taken.
const (
	PolicyOff Policy = iota
	PolicyOptional
	PolicyRequired
)

// Protection is how a stream is protected.
type Protection uint8

// The ways to protect a stream: not at all, with keys in the descriptions (RFC
// 4568), or with keys that the parties agree on by DTLS (RFC 5763).
const (
	Plain Protection = iota
	BySDES
	ByDTLS
)

// Fingerprint is a hash of the certificate that a party shakes hands with (RFC 8122
// section 5).
type Fingerprint struct {
	// Hash is its name in lower case, such as sha-256.
	Hash string
	Sum  []byte
}

// DTLS is what was agreed for a handshake.
type DTLS struct {
	// Fingerprints are the peer's, of hashes not weaker than SHA-256.
	Fingerprints []Fingerprint
	// Client says that we begin the handshake.
	Client bool
	// ID is the peer's tls-id (RFC 8842), "" when it has none. With another one, or
	// other Fingerprints, the handshake is done again.
	ID string
}

// ICE are a party's credentials for connectivity checks (RFC 8839 section 5.4).
type ICE struct {
	User, Password string
}

// security is what a stream of the peer's and we settle on.
type security struct {
	kind   Protection
	sdes   *SDES
	theirs offered // the crypto line that was picked
	dtls   *DTLS
	ice    *ICE // the peer's
}

// protectionOf works out how a stream that is offered can be protected.
func protectionOf(s *Session, line *media, l Local) (security, *Refusal) {
	refuse := func(format string, a ...any) (security, *Refusal) {
		return security{}, &Refusal{Code: 488, Warning: 302, Text: fmt.Sprintf(format, a...)}
	}
	proto := strings.ToUpper(line.proto)
	secure := proto == "RTP/SAVP" || proto == "RTP/SAVPF" || proto == "UDP/TLS/RTP/SAVP" || proto == "UDP/TLS/RTP/SAVPF"
	switch {
	case !secure && !plain(line.proto):
		return refuse("Profile %.32s is not supported, only RTP/AVP and RTP/SAVP are", line.proto)
	case l.SRTP == PolicyOff && secure:
		return refuse("Encrypted media (%.32s) is not supported, only RTP/AVP is", line.proto)
	case l.SRTP == PolicyOff:
		return security{}, nil
	}
	if !strings.HasPrefix(proto, "UDP/") {
		// With RTP/AVP that is an offer which a plain answer suits too (RFC 8643).
		if sdes, theirs, ok := line.pick(l.Crypto); ok {
			return security{kind: BySDES, sdes: sdes, theirs: theirs}, nil
		}
	}
	switch {
	case !secure && l.SRTP == PolicyRequired:
		return refuse("Only encrypted media (SRTP) is taken here, not %.32s", line.proto)
	case !secure:
		return security{}, nil
	case !s.has(line, "fingerprint") && strings.HasPrefix(proto, "UDP/"):
		return refuse("%.32s without a fingerprint", line.proto)
	case !s.has(line, "fingerprint"):
		return refuse("%.32s without a crypto attribute that we can use", line.proto)
	}
	return dtlsOf(s, line, l)
}

// dtlsOf reads what a stream says of a handshake.
func dtlsOf(s *Session, line *media, l Local) (security, *Refusal) {
	refuse := func(text string) (security, *Refusal) {
		return security{}, &Refusal{Code: 488, Warning: 302, Text: text}
	}
	if l.Fingerprint.Hash == "" {
		return refuse("DTLS-SRTP is not available")
	}
	sec := security{kind: ByDTLS, dtls: &DTLS{Fingerprints: s.fingerprints(line)}, ice: s.credentials(line)}
	if len(sec.dtls.Fingerprints) == 0 {
		return refuse("No fingerprint of SHA-256 or stronger")
	}
	sec.dtls.ID, _ = s.find(line, "tls-id")
	setup, _ := s.find(line, "setup")
	switch strings.ToLower(setup) {
	case "active":
	case "passive":
		sec.dtls.Client = true
	case "actpass", "":
		// Whoever checks connectivity knows when a handshake can begin.
		sec.dtls.Client = l.DTLSClient
	default:
		return refuse("No handshake is wanted (setup)")
	}
	if _, mux := line.attr("rtcp-mux"); !mux && sec.ice != nil {
		return refuse("ICE without rtcp-mux is not supported")
	}
	return sec, nil
}

// find returns an attribute of the stream, else of the session.
func (s *Session) find(m *media, name string) (string, bool) {
	for _, attrs := range [][]attribute{m.attrs, s.attrs} {
		for _, a := range attrs {
			if a.name == name {
				return a.value, true
			}
		}
	}
	return "", false
}

func (s *Session) has(m *media, name string) bool {
	_, ok := s.find(m, name)
	return ok
}

// fingerprints are those of the stream, else those of the session.
func (s *Session) fingerprints(m *media) []Fingerprint {
	for _, attrs := range [][]attribute{m.attrs, s.attrs} {
		var all []Fingerprint
		found := false
		for _, a := range attrs {
			if a.name != "fingerprint" || len(all) == 16 {
				continue
			}
			found = true
			if f, ok := fingerprint(a.value); ok {
				all = append(all, f)
			}
		}
		if found {
			return all
		}
	}
	return nil
}

// fingerprint reads "sha-256 AA:BB:…". Not ok: not one, or of a hash that is too
// weak.
func fingerprint(value string) (Fingerprint, bool) {
	hash, sum, _ := strings.Cut(value, " ")
	f := Fingerprint{Hash: strings.ToLower(hash)}
	size := map[string]int{"sha-256": 32, "sha-384": 48, "sha-512": 64}[f.Hash]
	b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(sum), ":", ""))
	f.Sum = b
	return f, err == nil && size > 0 && len(b) == size
}

// String is the fingerprint as it is written.
func (f Fingerprint) String() string {
	var b strings.Builder
	b.WriteString(f.Hash)
	for i, c := range f.Sum {
		b.WriteByte(" :"[min(i, 1)])
		fmt.Fprintf(&b, "%02X", c)
	}
	return b.String()
}

// credentials are the peer's for ICE; nil when it does none, or is as lite as we
// are: then nobody checks, and the addresses of the descriptions hold.
func (s *Session) credentials(m *media) *ICE {
	c := ICE{}
	c.User, _ = s.find(m, "ice-ufrag")
	c.Password, _ = s.find(m, "ice-pwd")
	if s.has(m, "ice-lite") || !isICE(c.User, 4) || !isICE(c.Password, 22) {
		return nil
	}
	return &c
}

// isICE says whether text is made of at least n ice-chars (RFC 8839 section 5.4).
func isICE(text string, n int) bool {
	return len(text) >= n && len(text) <= 256 && strings.IndexFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '+' || r == '/')
	}) < 0
}

// bundled says whether the offer puts the stream with that mid into a bundle (RFC
// 9143).
func (s *Session) bundled(mid string) bool {
	for _, a := range s.attrs {
		if f := strings.Fields(a.value); a.name == "group" && len(f) > 0 && f[0] == "BUNDLE" {
			for _, m := range f[1:] {
				if m == mid {
					return true
				}
			}
		}
	}
	return false
}

// mid is the identification of a stream, "" when it has none that may be repeated.
func (m *media) mid() string {
	v, _ := m.attr("mid")
	if len(v) > 64 || strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return v
}

// sessionAttributes writes what DTLS and ICE have above all streams.
func sessionAttributes(b *bytes.Buffer, mid string, ice bool) {
	if mid != "" {
		fmt.Fprintf(b, "a=group:BUNDLE %s\r\n", mid)
	}
	if ice {
		b.WriteString("a=ice-lite\r\na=msid-semantic: WMS parley\r\n")
	}
}

// dtlsAttributes writes what a stream has for DTLS, and for ICE when the peer does
// that. The one candidate is the address that we have (RFC 8445 section 5.1.2: a
// host candidate of component 1 with the highest local preference).
func dtlsAttributes(b *bytes.Buffer, l Local, setup, mid string, ice bool) {
	fmt.Fprintf(b, "a=fingerprint:%s\r\na=setup:%s\r\n", l.Fingerprint, setup)
	if mid != "" {
		fmt.Fprintf(b, "a=mid:%s\r\n", mid)
	}
	if !ice {
		return
	}
	fmt.Fprintf(b, "a=msid:parley audio\r\na=ice-ufrag:%s\r\na=ice-pwd:%s\r\na=candidate:1 1 udp 2130706431 %s %d typ host\r\na=end-of-candidates\r\n",
		l.ICE.User, l.ICE.Password, l.Addr.Unmap().WithZone(""), l.Port)
}
