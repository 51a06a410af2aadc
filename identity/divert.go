package identity

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxDiverted bounds the user part of an original called number in runes.
const maxDiverted = 64

// maxHistory bounds how many entries of a History-Info are looked at; RFC 3261
// section 16.6 lets a request pass at most 70 proxies.
const maxHistory = 70

// original is the number that was called first and why the call left it, when
// the call was diverted. History-Info is the standard (RFC 7044) and goes before
// Diversion (RFC 5806, historic), as RFC 7544 maps one into the other.
func (n numbers) original(s Source) (number, why string) {
	if !s.Trusted || slices.Contains(privacyValues(s.Privacy), "history") {
		return "", ""
	}
	if len(s.History) > 0 {
		if number, why, diverted := n.history(s.History); diverted {
			return number, why
		}
	}
	if len(s.Diversion) == 0 {
		return "", ""
	}
	// The last diversion is written first (RFC 5806), so the first one is at the
	// end.
	first := s.Diversion[len(s.Diversion)-1]
	if hidden, _ := hides(first); hidden {
		return "", ""
	}
	return n.called(first, first.Params["reason"])
}

// called is the number of the party that was called, and why it was left.
func (n numbers) called(p Party, reason string) (number, why string) {
	uri := p.URI
	if anonymousURI(uri) {
		return "", ""
	}
	if number = n.of(uri); number == "" {
		number = CleanText(uri.User, maxDiverted)
	}
	if number == "" {
		return "", ""
	}
	return number, divertReason(reason)
}

// divertReason is a reason in the words of RFC 5806. What is no token,
// and so cannot be told apart from an attack, is "unknown".
func divertReason(s string) string {
	s = strings.ToLower(strings.Trim(strings.TrimSpace(s), `"`))
	if s == "" || len(s) > 32 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return "unknown"
	}
	return s
}

// visit is one entry of a History-Info: a target that the request had.
type visit struct {
	Party
	index   []int // "1.2.1"
	private bool
	reason  string // of RFC 5806, "" when the entry does not say
	cause   string // the same, when the target was reached by a diversion
}

// history finds the first target by index (RFC 7044 section 5: the index tells
// the history, not the order of the lines). Not diverted: there is one target and
// nothing says that it was left.
func (n numbers) history(all []Party) (number, why string, diverted bool) {
	var visits []visit
	for _, p := range all[:min(len(all), maxHistory)] {
		if index, ok := historyIndex(p.Params["index"]); ok {
			visits = append(visits, readVisit(p, index))
		}
	}
	slices.SortStableFunc(visits, func(a, b visit) int { return slices.Compare(a.index, b.index) })
	if len(visits) == 0 {
		return "", "", false
	}
	first, why := visits[0], visits[0].reason
	for _, v := range visits[1:] {
		if why == "" { // the cause stands at the new target (RFC 4458)
			why = v.cause
		}
		if !n.sameUser(first.URI, v.URI) {
			diverted = true
		}
	}
	if !diverted && first.reason == "" {
		return "", "", false
	}
	if first.private {
		return "", "", true
	}
	number, why = n.called(first.Party, why)
	return number, why, true
}

// sameUser says whether a request went to another address of the same user, such
// as the one a telephone registered or the number in another form: that is no
// diversion.
func (n numbers) sameUser(a, b URI) bool {
	if strings.EqualFold(a.User, b.User) {
		return true
	}
	number := n.of(a)
	return number != "" && number == n.of(b)
}

// readVisit reads the reason and the wish for privacy out of the headers within
// an entry's URI: <sip:+1555@x?Reason=SIP%3Bcause%3D486&Privacy=history>.
func readVisit(p Party, index []int) visit {
	v := visit{Party: p, index: index}
	if cause, ok := p.URI.Params["cause"]; ok {
		v.cause = causeReason(cause)
	}
	_, headers, _ := strings.Cut(p.Raw, "?")
	for len(headers) > 0 {
		var one string
		one, headers, _ = strings.Cut(headers, "&")
		name, value, _ := strings.Cut(one, "=")
		value, err := url.PathUnescape(value) // a plus sign is one
		if err != nil {
			continue
		}
		switch strings.ToLower(name) {
		case "privacy":
			v.private = v.private || slices.ContainsFunc(privacyValues([]string{value}), func(s string) bool { return s != "none" && s != "critical" })
		case "reason":
			if v.reason == "" {
				v.reason = headerReason(value)
			}
		}
	}
	return v
}

// headerReason reads a Reason header (RFC 3326): "SIP;cause=486;text=…".
func headerReason(value string) string {
	protocol, rest, _ := strings.Cut(value, ";")
	if !strings.EqualFold(strings.TrimSpace(protocol), "SIP") {
		return "unknown"
	}
	return causeReason(parameters(nil, rest)["cause"])
}

// causeReason is the reason of RFC 5806 for a SIP cause, as RFC 7544 maps them.
func causeReason(cause string) string {
	switch strings.TrimSpace(cause) {
	case "302":
		return "unconditional"
	case "404":
		return "unknown"
	case "408":
		return "no-answer"
	case "480", "487":
		return "deflection"
	case "486":
		return "user-busy"
	case "503":
		return "unavailable"
	}
	return "unknown"
}

// historyIndex reads "1.2.1". Not ok: there is none, or it is no index.
func historyIndex(s string) ([]int, bool) {
	if s == "" || len(s) > 256 {
		return nil, false
	}
	var index []int
	for _, part := range strings.Split(s, ".") {
		i, err := strconv.ParseUint(part, 10, 16)
		if err != nil {
			return nil, false
		}
		index = append(index, int(i))
	}
	return index, true
}
