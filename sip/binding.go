package sip

import (
	"maps"
	"slices"
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
func (i *Invite) Registration() *Registration { return i.reg }

// registrationOf finds the registration that an INVITE came by. home says that it
// came from the registrar's address.
func (s *Server) registrationOf(m *message, uri URI) (found *Registration, home bool) {
	s.mu.Lock()
	lines := slices.Collect(maps.Values(s.lines))
	s.mu.Unlock()
	best := 0
	for _, r := range lines {
		to, ok := r.link.settled()
		here := ok && to.addr.Addr() == m.flow.remote.Addr()
		user := r.link.t.User
		fits := 0
		switch {
		case uri.Params["line"] == r.line:
			fits = 3
		case here && (uri.User == user || m.to.URI.User == user):
			fits = 2
		case here: // another number of the same trunk
			fits = 1
		}
		if fits > best || fits > 0 && fits == best && r.link.t.Name < found.link.t.Name {
			found, home, best = r, here, fits
		}
	}
	return found, home
}
