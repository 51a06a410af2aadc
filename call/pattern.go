package call

import (
	"errors"
	"fmt"
	"strings"
)

// A pattern is the condition Route.Called, taken apart.
type pattern struct {
	text string // as it was written
	uri  bool   // has a scheme: the host counts too
	user part
	host part // of uri
}

// part is a pattern of a user or of a host.
type part struct {
	any    bool
	prefix bool   // the text must only begin so
	suffix bool   // the text must only end so, as in *.example.com
	text   string // in lower case; of numbers without separators
	number bool
	e164   map[string]string // of a whole number: its E.164 form by region
}

const maxPattern = 256

var (
	errPatternLong = fmt.Errorf("is longer than %d bytes", maxPattern)
	errPatternHost = errors.New(`a host may be "*", a name, or begin with "*."`)
	errPatternUser = errors.New(`must have a user: write "sip:*@host" for any`)
)

// parsePattern reads what may stand in Route.Called.
func parsePattern(s string) (pattern, error) {
	p := pattern{text: s, host: part{any: true}}
	if len(s) > maxPattern {
		return p, errPatternLong
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return p, fmt.Errorf("%q holds control characters", s)
	}
	s = strings.TrimSpace(s)
	scheme, rest, ok := strings.Cut(s, ":")
	switch scheme = strings.ToLower(scheme); {
	case ok && (scheme == "sip" || scheme == "sips"):
		p.uri = true
		user, host, ok := strings.Cut(rest, "@")
		if !ok || user == "" || host == "" {
			return p, fmt.Errorf("%q %w", s, errPatternUser)
		}
		var err error
		if p.host, err = hostPattern(host); err != nil {
			return p, fmt.Errorf("%q: %w", s, err)
		}
		p.user = userPattern(user)
	case ok && scheme == "tel":
		if p.user = userPattern(rest); !p.user.number {
			return p, fmt.Errorf("%q has no number", s)
		}
	case strings.ContainsAny(s, "@;<>\" "):
		if plainNumber(strings.TrimSuffix(s, "*")) == "" { // a number may have spaces
			return p, fmt.Errorf("%q is no number, no name and no URI; a URI begins with sip:", s)
		}
		p.user = userPattern(s)
	default:
		p.user = userPattern(s)
	}
	return p, nil
}

// userPattern reads a number or a name. A star is one of the keys too: only the last
// one stands for anything.
func userPattern(s string) part {
	if s == "" || s == "*" {
		return part{any: true}
	}
	text, prefix := strings.CutSuffix(s, "*")
	if digits := plainNumber(text); digits != "" {
		return part{text: digits, prefix: prefix, number: true, e164: map[string]string{}}
	}
	return part{text: strings.ToLower(text), prefix: prefix}
}

// hostPattern reads a host.
func hostPattern(s string) (part, error) {
	if s == "*" {
		return part{any: true}, nil
	}
	host, suffix := strings.CutPrefix(s, "*.")
	if strings.ContainsAny(host, "*;?/ ") || host == "" {
		return part{}, errPatternHost
	}
	if suffix {
		return part{suffix: true, text: "." + strings.ToLower(host)}, nil
	}
	return part{text: bareHost(host)}, nil
}

// learn works out the E.164 forms of a whole number for the regions that it can be
// compared in, so that a call costs no more than its own number.
func (p *pattern) learn(r *Routes, trunk string) {
	if !p.user.number || p.user.prefix {
		return
	}
	of := func(region string) {
		if e164 := r.number(p.user.text, region); e164 != "" {
			p.user.e164[region] = e164
		}
	}
	if trunk != "" {
		of(r.region(trunk))
		return
	}
	of("")
	for _, region := range r.regions {
		of(region)
	}
}

// match asks whether d is what the pattern wants, and says why.
func (p *pattern) match(d dialled) (ok bool, why string) {
	if p.uri && !p.host.any {
		switch {
		case p.host.suffix && !strings.HasSuffix(d.host, p.host.text), !p.host.suffix && d.host != p.host.text:
			return false, fmt.Sprintf("%q wants another host than %q", p.text, d.host)
		}
	}
	if p.user.any {
		if p.uri && !p.host.any {
			return true, fmt.Sprintf("the host is that of %q", p.text)
		}
		return true, "takes any called number"
	}
	if p.user.number {
		return p.matchNumber(d)
	}
	user := strings.ToLower(d.user)
	if user == p.user.text || p.user.prefix && strings.HasPrefix(user, p.user.text) {
		return true, fmt.Sprintf("%q is %q", d.user, p.text)
	}
	return false, fmt.Sprintf("%q is not %q", d.user, p.text)
}

// matchNumber compares numbers: as they were dialled, and in E.164.
func (p *pattern) matchNumber(d dialled) (ok bool, why string) {
	want := p.user.text
	switch {
	case d.digits == "":
		return false, fmt.Sprintf("%q is no number, %q wants one", d.user, p.text)
	case p.user.prefix && strings.HasPrefix(d.digits, want):
		return true, fmt.Sprintf("%s begins with %q", d.digits, p.text)
	case p.user.prefix && d.e164 != "" && strings.HasPrefix(d.e164, want):
		return true, fmt.Sprintf("%s is %s, which begins with %q", d.digits, d.e164, p.text)
	case p.user.prefix:
		return false, fmt.Sprintf("%s does not begin with %q", orElse(d.e164, d.digits), p.text)
	case d.digits == want:
		return true, fmt.Sprintf("%s is %q", d.digits, p.text)
	case d.e164 != "" && (d.e164 == p.user.e164[d.region] || d.e164 == p.user.e164[""]):
		return true, fmt.Sprintf("%s is %q: both are %s", d.digits, p.text, d.e164)
	}
	return false, fmt.Sprintf("%s is not %q", orElse(d.e164, d.digits), p.text)
}

// covers says that all that other wants is wanted by p too, when numbers are dialled
// as in region.
func (p *pattern) covers(other pattern, region string) bool {
	return (!p.uri || p.host.covers(other.host, region)) && p.user.covers(other.user, region)
}

func (p part) covers(other part, region string) bool {
	switch {
	case p.any:
		return true
	case other.any || p.number != other.number:
		return false
	case p.suffix:
		return strings.HasSuffix(other.text, p.text)
	case p.prefix && other.e164[region] != "": // it may be dialled in full, or not
		return strings.HasPrefix(p.text, "+") && strings.HasPrefix(other.e164[region], p.text)
	case p.prefix:
		return strings.HasPrefix(other.text, p.text)
	case other.prefix || other.suffix:
		return false
	}
	e164 := p.e164[region]
	return p.text == other.text || e164 != "" && e164 == other.e164[region]
}

// plainNumber strips the visual separators of RFC 3966 section 5.1.1 off a number;
// nothing when s is none. Stars and pounds are no part of one here: codes such as
// "*97" are names.
func plainNumber(s string) string {
	var b strings.Builder
	for i, c := range []byte(strings.TrimSpace(s)) {
		switch {
		case c >= '0' && c <= '9', c == '+' && i == 0:
			b.WriteByte(c)
		case strings.IndexByte("-.() ", c) >= 0:
		default:
			return ""
		}
	}
	if s := b.String(); s != "+" {
		return s
	}
	return ""
}

// splitURI takes a SIP or tel URI apart (RFC 3261 section 19.1.1, RFC 3966 section
// 3), as far as routes look at it. What is not one has neither user nor host.
func splitURI(s string) (user, host string) {
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok {
		return "", ""
	}
	if strings.EqualFold(scheme, "tel") {
		user, _, _ = strings.Cut(rest, ";")
		return user, ""
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 { // a user part may hold ";" and "?"
		user, rest = rest[:i], rest[i+1:]
	}
	if i := strings.IndexAny(rest, ";?"); i >= 0 {
		rest = rest[:i]
	}
	user, _, _ = strings.Cut(user, ":")
	return user, bareHost(rest)
}

// bareHost is a host in lower case without its port.
func bareHost(s string) string {
	if strings.HasPrefix(s, "[") { // IPv6
		if end := strings.IndexByte(s, ']'); end > 0 {
			return strings.ToLower(s[:end+1])
		}
	}
	s, _, _ = strings.Cut(s, ":")
	return strings.ToLower(strings.TrimSuffix(s, "."))
}

func orElse(s, other string) string {
	if s != "" {
		return s
	}
	return other
}
