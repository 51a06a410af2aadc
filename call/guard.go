package call

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nyaruka/phonenumbers"

	"parley/sip"
)

// What the zero Outbound allows agents in one call, and all of them in an hour.
const (
	defaultPerCall = 3
	defaultPerHour = 60
)

// far are numbers of no country: satellites, networks of their own, international
// premium rate (ITU-T E.164 section 6). They are dear, and where they ring nobody
// knows.
var far = []string{"+870", "+878", "+881", "+882", "+883", "+979"}

// maxTarget bounds what is asked to be dialled.
const maxTarget = 256

// target is somebody who may be called.
type target struct {
	// to is what sip is given: a number, or a URI.
	to string
	// e164 is the number, empty of an extension or a URI.
	e164 string
}

// who asks for a call.
type who uint8

const (
	byOperator who = iota // the HTTP side
	byAgent               // whatever a caller has talked it into
	byPeer                // a REFER
)

// guard says whether to may be called through the trunk. What it gives is written
// anew: nothing of the text of to but digits, or the checked URI, is left.
func (t *trunk) guard(to string, by who) (target, error) {
	refuse := func(rule, format string, a ...any) (target, error) {
		return target{}, &GuardError{Rule: rule, Text: fmt.Sprintf(format, a...)}
	}
	if t == nil {
		return refuse("no_trunk", "the call has no trunk to go through, and [transfer] allows nothing")
	}
	if t.strict && by == byOperator {
		by = byAgent
	}
	to = strings.TrimSpace(to)
	if to == "" || len(to) > maxTarget || strings.ContainsFunc(to, func(r rune) bool { return r < ' ' || r > '~' }) {
		return refuse("target", "a number or a URI of 1 to %d printable characters is needed", maxTarget)
	}
	digits := to
	if strings.Contains(to, ":") {
		u, err := sip.ParseURI(to)
		switch {
		case err != nil, strings.Contains(to, "?"), strings.ContainsFunc(u.User, control), !slices.Contains([]string{"sip", "sips", "tel"}, u.Scheme):
			return refuse("target", "only sip:, sips: and tel: URIs without headers can be called")
		case u.Scheme != "tel" && t.hosts(u.Host):
			return target{to: cleanURI(u)}, nil
		case u.Scheme != "tel" && !t.home(u.Host):
			return refuse("host", "the host is not one that may be called")
		}
		digits = u.User // parameters of either kind are left behind
		if context := cmp.Or(u.Params["phone-context"], u.UserParams["phone-context"]); context != "" {
			return refuse("target", "a number with a phone-context is no number to call")
		}
	}
	number, ok := t.number(digits)
	if !ok {
		return refuse("target", "this is not a telephone number")
	}
	if err := t.permit(number, by); err != nil {
		return target{}, err
	}
	if strings.HasPrefix(number, "+") {
		return target{to: number, e164: number}, nil
	}
	return target{to: number}, nil
}

// control says that a character has no place in a header.
func control(r rune) bool { return r < ' ' || r == 0x7f }

// uri is a target as it stands in Refer-To.
func (t *trunk) uri(to target) string {
	domain := t.cfg.SIP.Domain
	if domain == "" && len(t.cfg.SIP.Hosts) > 0 {
		domain = hostOf(t.cfg.SIP.Hosts[0])
	}
	if strings.Contains(to.to, ":") || domain == "" {
		return to.to
	}
	return cleanURI(sip.URI{Scheme: "sip", User: to.to, Host: domain})
}

// hostOf is a host without its port and brackets.
func hostOf(hostport string) string {
	if i := strings.LastIndexByte(hostport, ':'); i >= 0 && (strings.Count(hostport, ":") == 1 || strings.HasSuffix(hostport[:i], "]")) {
		hostport = hostport[:i]
	}
	return strings.Trim(hostport, "[]")
}

// cleanURI writes the parts of a URI that count.
func cleanURI(u sip.URI) string {
	s := u.Scheme + ":"
	if u.User != "" {
		s += escapeUser(u.User) + "@"
	}
	if strings.Contains(u.Host, ":") {
		s += "[" + u.Host + "]"
	} else {
		s += u.Host
	}
	if u.Port != 0 {
		s += fmt.Sprintf(":%d", u.Port)
	}
	if v := u.Params["transport"]; slices.Contains([]string{"udp", "tcp", "tls", "ws", "wss"}, v) {
		s += ";transport=" + v
	}
	return s
}

// escapeUser writes a user part; what is not plain is escaped.
func escapeUser(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-_.!~*'()+&=$,", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// hosts says whether sip URIs at a host may be called.
func (t *trunk) hosts(host string) bool {
	return slices.ContainsFunc(t.cfg.Outbound.Hosts, func(pattern string) bool {
		if below, ok := strings.CutPrefix(pattern, "*"); ok {
			return strings.HasPrefix(below, ".") && len(host) > len(below) && strings.EqualFold(host[len(host)-len(below):], below)
		}
		return strings.EqualFold(pattern, host)
	})
}

// home says whether a host is the trunk's own.
func (t *trunk) home(host string) bool {
	if t.cfg.SIP.Domain != "" {
		return strings.EqualFold(host, t.cfg.SIP.Domain)
	}
	return slices.ContainsFunc(t.cfg.SIP.Hosts, func(h string) bool { return strings.EqualFold(hostOf(h), host) })
}

// number is the E.164 form of what is dialled, or the bare digits, with * and #, of
// what is none: an extension.
func (t *trunk) number(dialled string) (string, bool) {
	bare, plus := strings.CutPrefix(dialled, "+")
	bare = strings.Map(func(r rune) rune {
		if strings.ContainsRune(" -.()", r) {
			return -1
		}
		return r
	}, bare)
	if bare == "" || len(bare) > 32 || strings.Trim(bare, "0123456789*#") != "" {
		return "", false
	}
	if plus {
		n, err := phonenumbers.Parse("+"+bare, "")
		if err != nil || !phonenumbers.IsPossibleNumber(n) && !slices.ContainsFunc(far, func(p string) bool { return strings.HasPrefix("+"+bare, p) }) {
			return "", false
		}
		return "+" + bare, true
	}
	if n, err := phonenumbers.Parse(bare, t.cfg.Region); err == nil && t.cfg.Region != "" && phonenumbers.IsValidNumber(n) {
		return phonenumbers.Format(n, phonenumbers.E164), true
	}
	return bare, true
}

// permit decides about a number.
func (t *trunk) permit(number string, by who) error {
	o := t.cfg.Outbound
	allowed, denied := longest(o.Allow, number), longest(o.Deny, number)
	refuse := func(rule, text string) error { return &GuardError{Rule: rule, Text: text} }
	switch {
	case denied > 0 && denied >= allowed:
		return refuse("denied", "a denied prefix fits")
	case allowed == 0 && by != byOperator:
		return refuse("not_allowed", "agents may call only what fits an allowed prefix")
	case allowed == 0 && len(o.Allow) > 0:
		return refuse("not_allowed", "no allowed prefix fits")
	case !strings.HasPrefix(number, "+"):
		if allowed == 0 {
			return refuse("extension", "short numbers must be allowed by a prefix")
		}
		return nil
	case allowed == len(number):
		return nil // the operator means this very number
	}
	return t.afford(number)
}

// longest is the length of the longest prefix that fits, 0 for none.
func longest(prefixes []string, number string) int {
	n := 0
	for _, p := range prefixes {
		if p != "" && strings.HasPrefix(number, p) {
			n = max(n, len(p))
		}
	}
	return n
}

// afford refuses what may cost a fortune: premium rates, satellites, and other
// countries unless they are wanted.
func (t *trunk) afford(number string) error {
	refuse := func(rule, text string) error { return &GuardError{Rule: rule, Text: text} }
	if slices.ContainsFunc(far, func(p string) bool { return strings.HasPrefix(number, p) }) {
		return refuse("premium", "numbers of satellites and of no country must be allowed one by one")
	}
	n, err := phonenumbers.Parse(number, "")
	if err != nil {
		return refuse("target", "this is not a telephone number")
	}
	switch phonenumbers.GetNumberType(n) {
	case phonenumbers.PREMIUM_RATE, phonenumbers.SHARED_COST, phonenumbers.UAN, phonenumbers.PERSONAL_NUMBER, phonenumbers.PAGER:
		return refuse("premium", "premium-rate numbers must be allowed one by one")
	}
	if t.cfg.Outbound.International {
		return nil
	}
	// Countries share codes: +1 is the United States and also islands that are
	// dear to call.
	region := phonenumbers.GetRegionCodeForNumber(n)
	if region == "" {
		region = phonenumbers.GetRegionCodeForCountryCode(int(n.GetCountryCode()))
	}
	if t.cfg.Region == "" || region != t.cfg.Region {
		return refuse("international", "numbers abroad are not called unless international = true")
	}
	return nil
}

// charge counts what an agent begins, against both caps. made is how many it has
// begun in its call.
func (t *trunk) charge(made int, now time.Time) error {
	o := t.cfg.Outbound
	if most := cmp.Or(o.MaxPerCall, defaultPerCall); made >= most {
		return &GuardError{Rule: "max_per_call", Text: fmt.Sprintf("an agent may begin %d calls and transfers in one call", most)}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if most := cmp.Or(o.MaxPerHour, defaultPerHour); !t.hour.add(now, most) {
		return &GuardError{Rule: "max_per_hour", Text: fmt.Sprintf("agents may begin %d calls and transfers an hour through this trunk", most)}
	}
	return nil
}

// shown is the number to show as ours.
func (t *trunk) shown(from string) (string, error) {
	ids := t.cfg.Outbound.CallerIDs
	switch {
	case from == "" && len(ids) > 0:
		return ids[0], nil
	case from == "" || from == t.cfg.SIP.User || slices.Contains(ids, from):
		return from, nil
	}
	return "", &GuardError{Rule: "caller_id", Text: "the number to show is not one of caller_ids"}
}

// passed are the headers that whoever places a call may add: none that says who
// calls or where to.
func passed(headers map[string]string) ([]sip.Header, error) {
	if len(headers) > maxHeaders {
		return nil, &GuardError{Rule: "header", Text: fmt.Sprintf("at most %d headers can be added", maxHeaders)}
	}
	var out []sip.Header
	for name, value := range headers {
		lower := strings.ToLower(name)
		known := len(name) > 2 && strings.HasPrefix(lower, "x-") || slices.Contains([]string{"user-to-user", "subject", "privacy"}, lower)
		if !known || len(name) > maxHeaderName || !headerName(name) {
			return nil, &GuardError{Rule: "header", Text: "only X- headers, User-to-User, Subject and Privacy can be added"}
		}
		if len(value) > maxHeaderValue || strings.ContainsFunc(value, control) {
			return nil, &GuardError{Rule: "header", Text: fmt.Sprintf("a header's value is one line of at most %d bytes", maxHeaderValue)}
		}
		out = append(out, sip.Header{Name: name, Value: value})
	}
	slices.SortFunc(out, func(a, b sip.Header) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// headerName says that a text can be a header's name (token of RFC 3261 section 25.1).
func headerName(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	})
}
