package sip

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/icholy/digest"
)

// challenge is one challenge of a WWW-Authenticate or Proxy-Authenticate header
// (RFC 3261 section 22, RFC 8760).
type challenge struct {
	proxy bool
	stale bool
	sum   digest.Challenge // what the hashes need
}

// Bounds of what is read out of the headers of one response.
const (
	maxChallenges = 16
	maxNonce      = 1024
)

// challenges reads those of m that can be answered, in order. Several may stand in
// one header line. An unknown scheme or algorithm is passed over.
func (m *message) challenges() []challenge {
	var all []challenge
	for _, name := range []string{"www-authenticate", "proxy-authenticate"} {
		for _, v := range m.all(name) {
			for _, params := range authValues(v) {
				c, ok := readChallenge(params)
				if !ok || len(all) == maxChallenges {
					continue
				}
				c.proxy = name == "proxy-authenticate"
				all = append(all, c)
			}
		}
	}
	return all
}

// authValues takes a header value of digest challenges or credentials apart: one
// set of parameters each. Other schemes are left out. Names are in lower case.
func authValues(v string) []map[string]string {
	var all []map[string]string
	var params map[string]string // nil in another scheme
	for _, part := range splitComma(v) {
		// A scheme is followed by a blank and the first parameter.
		if scheme, rest, ok := cutSpace(part); ok && isToken(scheme) && !strings.HasPrefix(rest, "=") {
			params = nil
			if strings.EqualFold(scheme, "Digest") {
				params = make(map[string]string)
				all = append(all, params)
			}
			part = rest
		}
		name, value, ok := strings.Cut(part, "=")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
		if !ok || params == nil || !isToken(name) || len(params) == maxParams {
			continue
		}
		if strings.HasPrefix(value, `"`) {
			text, _, closed := cutQuoted(value)
			if !closed {
				continue
			}
			value = text
		}
		if _, twice := params[name]; !twice {
			params[name] = value
		}
	}
	return all
}

func cutSpace(s string) (before, after string, ok bool) {
	i := strings.IndexAny(s, " \t")
	if i < 0 {
		return s, "", false
	}
	return s[:i], strings.TrimLeft(s[i:], " \t"), true
}

func readChallenge(p map[string]string) (challenge, bool) {
	c := challenge{stale: strings.EqualFold(p["stale"], "true")}
	c.sum = digest.Challenge{Realm: p["realm"], Nonce: p["nonce"], Opaque: p["opaque"], Algorithm: p["algorithm"],
		Userhash: strings.EqualFold(p["userhash"], "true")}
	if _, ok := p["realm"]; !ok || c.sum.Nonce == "" || len(c.sum.Nonce) > maxNonce {
		return c, false
	}
	if !knownAlgorithm(c.sum.Algorithm) {
		return c, false
	}
	if qop, ok := p["qop"]; ok && strings.TrimSpace(qop) != "" {
		if !hasItem(qop, "auth") {
			return c, false
		}
		c.sum.QOP = []string{"auth"}
	}
	return c, true
}

// knownAlgorithm says whether we can do it; the empty one is MD5.
func knownAlgorithm(name string) bool {
	switch strings.ToUpper(name) {
	case "", "MD5", "SHA-256":
		return true
	}
	return false
}

// hasItem looks for an item of a comma-separated list.
func hasItem(list, item string) bool {
	for part := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.TrimSpace(part), item) {
			return true
		}
	}
	return false
}

// credentials write the answer to c for its nth use.
func (c *challenge) credentials(user, password, method, uri string, n int) (field, error) {
	sum, err := digest.Digest(&c.sum, digest.Options{Method: method, URI: uri, Count: n, Username: user, Password: password, Cnonce: newID()})
	if err != nil {
		return field{}, fmt.Errorf("sip: digest: %w", err)
	}
	var b strings.Builder
	b.WriteString("Digest username=" + quote(sum.Username) + ",realm=" + quote(sum.Realm) + ",nonce=" + quote(sum.Nonce) +
		",uri=" + quote(uri) + ",response=" + quote(sum.Response))
	if sum.Algorithm != "" {
		b.WriteString(",algorithm=" + sum.Algorithm)
	}
	if sum.QOP != "" {
		b.WriteString(",cnonce=" + quote(sum.Cnonce) + ",qop=" + sum.QOP + fmt.Sprintf(",nc=%08x", n))
	}
	if sum.Opaque != "" {
		b.WriteString(",opaque=" + quote(sum.Opaque))
	}
	if sum.Userhash {
		b.WriteString(",userhash=true")
	}
	name := "Authorization"
	if c.proxy {
		name = "Proxy-Authorization"
	}
	return field{name, b.String()}, nil
}

// proof is what a client sent in Authorization.
type proof struct {
	user, realm, nonce, uri, response, algorithm, cnonce string
	qop                                                  bool
	count                                                int
}

// readProof reads one set of digest credentials.
func readProof(p map[string]string) (proof, bool) {
	c := proof{user: p["username"], realm: p["realm"], nonce: p["nonce"], uri: p["uri"], response: strings.ToLower(p["response"]),
		algorithm: p["algorithm"], cnonce: p["cnonce"], count: 1}
	if qop, ok := p["qop"]; ok {
		n, err := strconv.ParseUint(p["nc"], 16, 31)
		if !strings.EqualFold(qop, "auth") || err != nil || n == 0 || c.cnonce == "" {
			return c, false
		}
		c.qop, c.count = true, int(n)
	}
	return c, c.nonce != "" && len(c.nonce) <= maxNonce && knownAlgorithm(c.algorithm)
}

// expected is the response that belongs to the password.
func (c *proof) expected(method, password string) string {
	challenge := digest.Challenge{Realm: c.realm, Nonce: c.nonce, Algorithm: c.algorithm}
	if c.qop {
		challenge.QOP = []string{"auth"}
	}
	sum, err := digest.Digest(&challenge, digest.Options{Method: method, URI: c.uri, Count: c.count,
		Username: c.user, Password: password, Cnonce: c.cnonce})
	if err != nil {
		return ""
	}
	return sum.Response
}
