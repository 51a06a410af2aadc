package sdp

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The limits of what a crypto attribute may hold.
const (
	maxCrypto = 32 // lines of a stream
	maxMKI    = 16 // octets
)

// Crypto is a suite with a master key and its salt that somebody sends with (RFC
// 4568 section 4). fmt and loggers print the suite without the key.
type Crypto struct {
	// Suite is one of those that Suites knows, in its own spelling.
	Suite string
	// Key is the master key followed by the salt.
	Key []byte
	// MKI is the master key identifier in the packets, nil for none.
	MKI []byte
}

// String implements fmt.Stringer, and hides the key.
func (c Crypto) String() string { return c.Suite }

// GoString implements fmt.GoStringer, and hides the key.
func (c Crypto) GoString() string { return c.Suite }

// SDES is what the parties of a stream protected by keys in the descriptions send
// with.
type SDES struct {
	Send, Recv Crypto
}

// KeySize is the length of the key of a suite with its salt in octets (RFC 4568
// section 6.2, RFC 6188, RFC 7714 section 14.2); 0 for one that is not known.
func KeySize(suite string) int {
	switch suite {
	case "AES_CM_128_HMAC_SHA1_80", "AES_CM_128_HMAC_SHA1_32":
		return 30
	case "AES_256_CM_HMAC_SHA1_80", "AES_256_CM_HMAC_SHA1_32":
		return 46
	case "AEAD_AES_128_GCM":
		return 28
	case "AEAD_AES_256_GCM":
		return 44
	}
	return 0
}

// spelling is how a suite is called here: RFC 6188's names turned the number round,
// and linphone, FreeSWITCH and others kept to the pattern of before.
func spelling(suite string) string {
	suite = strings.ToUpper(suite)
	switch suite {
	case "AES_CM_256_HMAC_SHA1_80":
		return "AES_256_CM_HMAC_SHA1_80"
	case "AES_CM_256_HMAC_SHA1_32":
		return "AES_256_CM_HMAC_SHA1_32"
	}
	return suite
}

// offered is a crypto attribute of the peer's that can be used.
type offered struct {
	Crypto
	tag      int
	spelling string // its own name for the suite
	mki      string // as written, such as "1:4"
}

// crypto reads the value of a crypto attribute:
//
//	tag suite inline:key||lifetime|mki:length[;inline:…] [session parameters]
//
// Not ok: it makes no sense, or asks for what we do not do; such a line is passed
// over (RFC 4568 section 6.3.7, section 7.1.2).
func crypto(value string) (offered, bool) {
	parts := strings.Fields(value)
	if len(parts) < 3 || len(parts[0]) > 9 {
		return offered{}, false
	}
	tag, err := strconv.ParseUint(parts[0], 10, 31)
	if err != nil {
		return offered{}, false
	}
	o := offered{tag: int(tag), spelling: parts[1], Crypto: Crypto{Suite: spelling(parts[1])}}
	size := KeySize(o.Suite)
	if size == 0 || !o.inline(parts[2], size) {
		return offered{}, false
	}
	for _, p := range parts[3:] {
		if !tolerable(p) {
			return offered{}, false
		}
	}
	return o, true
}

// inline reads the key parameters. Of several keys the first is the one that is sent
// with; the others would follow it at the end of its life, which no call lives to see.
func (o *offered) inline(text string, size int) bool {
	first, _, more := strings.Cut(text, ";")
	method, info, _ := strings.Cut(first, ":")
	if !strings.EqualFold(method, "inline") {
		return false
	}
	fields := strings.Split(info, "|")
	if len(fields) > 3 {
		return false
	}
	// Padding is left out by some; what is there must be right.
	key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(fields[0], "="))
	if err != nil || len(key) != size {
		return false
	}
	o.Key = key
	for _, f := range fields[1:] {
		if !strings.Contains(f, ":") {
			continue // a lifetime: 2^31 or a number
		}
		if o.MKI, o.mki = identifier(f), f; o.MKI == nil {
			return false
		}
	}
	return !more || o.MKI != nil // several keys are told apart by their MKI
}

// identifier is the MKI "value:length" as packets carry it; nil when it is not one.
func identifier(text string) []byte {
	value, length, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(length, 10, 8)
	v, err2 := strconv.ParseUint(value, 10, 64)
	if err != nil || err2 != nil || n == 0 || n > maxMKI {
		return nil
	}
	mki := make([]byte, n)
	for i := len(mki) - 1; i >= 0 && v > 0; i-- {
		mki[i], v = byte(v), v>>8
	}
	if v > 0 {
		return nil
	}
	return mki
}

// tolerable says whether a line with that session parameter can be used (RFC 4568
// section 6.3): one that begins with a minus sign may be passed over, WSH only
// matters to who sends far out of order, a key derivation rate of 0 is none.
// Anything else is either not known or leaves something without protection.
func tolerable(parameter string) bool {
	name, value, _ := strings.Cut(parameter, "=")
	switch {
	case strings.HasPrefix(parameter, "-"), strings.EqualFold(name, "WSH"), strings.EqualFold(name, "FEC_ORDER"):
		return true
	case strings.EqualFold(name, "KDR"):
		return value == "0"
	}
	return false
}

// cryptos are the usable crypto attributes of a stream, in its order.
func (m *media) cryptos() []offered {
	var all []offered
	for _, a := range m.attrs {
		if a.name != "crypto" || len(all) == maxCrypto {
			continue
		}
		if o, ok := crypto(a.value); ok {
			all = append(all, o)
		}
	}
	return all
}

// pick finds the first crypto line of the peer's, which it likes best, that is for a
// suite of ours.
func (m *media) pick(ours []Crypto) (sdes *SDES, theirs offered, ok bool) {
	for _, o := range m.cryptos() {
		for _, own := range ours {
			if own.Suite == o.Suite && len(own.Key) == len(o.Key) {
				own.MKI = o.MKI // whoever wants it in packets wants it both ways
				return &SDES{Send: own, Recv: o.Crypto}, o, true
			}
		}
	}
	return nil, offered{}, false
}

// answered finds what the peer chose of the crypto lines that we offered: the same
// tag and suite (RFC 4568 section 5.1.3).
func (m *media) answered(offer *media, ours []Crypto) (*SDES, bool) {
	theirs, own := m.cryptos(), offer.cryptos()
	if len(theirs) == 0 {
		return nil, false
	}
	i := slices.IndexFunc(own, func(o offered) bool { return o.tag == theirs[0].tag && o.Suite == theirs[0].Suite })
	if i < 0 {
		return nil, false
	}
	for _, c := range ours {
		if c.Suite == own[i].Suite && bytes.Equal(c.Key, own[i].Key) {
			c.MKI = theirs[0].MKI
			return &SDES{Send: c, Recv: theirs[0].Crypto}, true
		}
	}
	return nil, false
}

// writeCrypto writes a crypto attribute.
func writeCrypto(b *bytes.Buffer, tag int, spelling string, key []byte, mki string) {
	fmt.Fprintf(b, "a=crypto:%d %s inline:%s", tag, spelling, base64.StdEncoding.EncodeToString(key))
	if mki != "" {
		fmt.Fprintf(b, "|2^31|%s", mki)
	}
	b.WriteString("\r\n")
}
