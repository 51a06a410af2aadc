package sip

import (
	"strconv"
	"strings"
	"time"
)

// contact is the address that we register. Its line parameter comes back in the
// Request-URI of calls.
func (r *Registration) contact(f *flow) string {
	c := contactOf(f, r.link.t.User, false)
	return strings.TrimSuffix(c, ">") + ";line=" + r.line + ">"
}

// granted is the lifetime of our binding: that of our own Contact among those of
// other devices, else of Expires, else what we asked for (RFC 3261 section 10.2.4).
func (r *Registration) granted(m *message, contact string) time.Duration {
	own, _ := ParseAddress(contact)
	expires := r.lifetime()
	if v := m.get("expires"); v != "" {
		expires = headerSeconds(v)
	}
	all := ParseAddresses(m.all("contact"))
	for _, a := range all {
		mine := a.URI.Params["line"] == r.line ||
			a.URI.Params["line"] == "" && a.URI.User == own.URI.User && a.URI.Host == own.URI.Host && a.URI.Port == own.URI.Port
		if !mine && len(all) > 1 {
			continue
		}
		if v, ok := a.Params["expires"]; ok {
			return headerSeconds(v)
		}
		return expires
	}
	return expires
}

// learn keeps the way that the registrar wants calls of ours to take (RFC 3608).
func (l *link) learn(values []string) {
	var routes []string
	for _, v := range values {
		routes = append(routes, splitComma(v)...)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.routes = routes
}

// headerSeconds reads a number of seconds; 0 for nonsense. More than a day is
// taken for one.
func headerSeconds(v string) time.Duration {
	v, _, _ = strings.Cut(v, ";")
	v, _, _ = strings.Cut(v, "(") // Retry-After may have a comment
	n, err := strconv.ParseUint(strings.TrimSpace(v), 10, 32)
	if err != nil {
		return 0
	}
	return time.Duration(min(n, 86400)) * time.Second
}

func retryAfter(m *message) time.Duration { return headerSeconds(m.get("retry-after")) }

// Registration is the one by which the call came: its line stands in the
// Request-URI, whatever the host is, or else it came from the registrar for the
// registered user. nil: none. It says where a call belongs, and authenticates
// nobody.
func (i *Invite) Registration() *Registration {
	i.s.mu.Lock()
	lines := make([]*Registration, 0, len(i.s.lines))
	for _, r := range i.s.lines {
		lines = append(lines, r)
	}
	i.s.mu.Unlock()
	for _, r := range lines {
		if i.uri.Params["line"] == r.line {
			return r
		}
	}
	var found *Registration
	for _, r := range lines {
		to, ok := r.link.settled()
		if !ok || to.addr.Addr() != i.m.flow.remote.Addr() {
			continue
		}
		if user := r.link.t.User; i.uri.User == user || i.m.to.URI.User == user {
			return r
		}
		if found == nil || found.link.t.Name > r.link.t.Name {
			found = r // another number of the same trunk
		}
	}
	return found
}
