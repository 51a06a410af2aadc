package sip

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Trunk is a peer that we register with or call through: a carrier, a PBX, a
// proxy. It is a plain value.
type Trunk struct {
	// Name is the trunk's name in logs, metrics and configuration, and how calls
	// find its registration.
	Name string
	// Hosts are where it is reached, host[:port], tried in order. The addresses of
	// a name are all tried; one without a port is looked up for SRV records first
	// (RFC 3263).
	Hosts []string
	// Proxy are outbound proxies that what we send has to pass, in order (RFC 3261
	// section 8.1.2): host[:port] or a whole sip: URI, which becomes a loose route. The
	// first is where requests are sent to, in place of Hosts, which then only names the
	// domain; it is looked up like one of them. Requests in a call go the way that the
	// call was recorded.
	Proxy []string
	// Domain is the host of the addresses in From and To, and of what is dialled.
	// Empty: the first of Hosts without its port.
	Domain string
	// Transport is "udp", "tcp" or "tls".
	Transport string
	// User is the user part of our address at the trunk.
	User string
	// Username and Password answer its challenges. An empty Username is User.
	Username, Password string
	// Realms are those whose challenges are answered. Empty: those that the
	// registrar has, and those that are one of the names above.
	Realms []string
	// Expires is the lifetime of a registration to ask for.
	Expires time.Duration
	// KeepAlive is how often a flow is kept open while registered: mappings of UDP
	// often last 30 seconds (RFC 5626 section 4.4). 0 does not.
	KeepAlive time.Duration
	// Probe keeps alive with OPTIONS in place of line ends, and takes a registrar
	// that does not answer for gone.
	Probe bool
	// Backoff is the wait after a registration failed. It doubles with each
	// failure up to MaxBackoff; half of it is random (RFC 5626 section 4.5).
	Backoff, MaxBackoff time.Duration
	// TLS is for connections to this trunk. The zero value is Config.TLS.
	TLS TLS
}

// DefaultTrunk is a trunk over UDP without a name or an address.
func DefaultTrunk() Trunk {
	return Trunk{
		Transport:  "udp",
		Expires:    time.Hour,
		KeepAlive:  25 * time.Second,
		Backoff:    2 * time.Second,
		MaxBackoff: 5 * time.Minute,
	}
}

// Validate returns all that is wrong with t, joined into one error, each part
// beginning with the field's name.
func (t Trunk) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("sip: "+format, args...)) }
	if !isToken(t.Name) {
		bad("trunk.name: %q is not a word", t.Name)
	}
	if len(t.Hosts) == 0 {
		bad("trunk.hosts: at least one is needed")
	}
	for i, h := range t.Hosts {
		if _, _, err := splitHostPort(h); err != nil {
			bad("trunk.hosts[%d]: %q is not host or host:port", i, h)
		}
	}
	for i, p := range t.Proxy {
		if _, err := proxyURI(p); err != nil {
			bad("trunk.proxy[%d]: %q is not host, host:port or a sip: URI", i, p)
		}
	}
	if t.Domain != "" {
		if _, port, err := splitHostPort(t.Domain); err != nil || port != 0 {
			bad("trunk.domain: %q is not a host", t.Domain)
		}
	}
	if !slices.Contains([]string{"udp", "tcp", "tls"}, t.Transport) {
		bad("trunk.transport: %q is not udp, tcp or tls", t.Transport)
	}
	if strings.ContainsAny(t.User+t.Username, "\r\n") {
		bad("trunk.user: must be one line")
	}
	if t.Password != "" && t.User == "" && t.Username == "" {
		bad("trunk.username: a password needs one")
	}
	if t.Expires < 10*time.Second || t.Expires > 24*time.Hour {
		bad("trunk.expires: %v is not between 10s and 24h", t.Expires)
	}
	if t.KeepAlive < 0 {
		bad("trunk.keep_alive: %v is negative", t.KeepAlive)
	}
	if t.Backoff <= 0 || t.MaxBackoff < t.Backoff {
		bad("trunk.backoff %v, max_backoff %v: the first must be positive and the second at least that", t.Backoff, t.MaxBackoff)
	}
	if err := t.TLS.validate(false); err != nil {
		bad("trunk.tls: %v", err)
	}
	return errors.Join(errs...)
}

// domain is the host of the trunk's addresses, as it stands in a URI.
func (t Trunk) domain() string {
	d := t.Domain
	if d == "" && len(t.Hosts) > 0 {
		d, _, _ = splitHostPort(t.Hosts[0])
	}
	if addr, err := netip.ParseAddr(strings.Trim(d, "[]")); err == nil {
		return hostText(addr)
	}
	return d
}

// aor is our address at the trunk (RFC 3261 section 10).
func (t Trunk) aor(user string) string {
	if user == "" {
		return "sip:" + t.domain()
	}
	return "sip:" + escapeUser(user) + "@" + t.domain()
}

// proxyURI reads an outbound proxy.
func proxyURI(p string) (URI, error) {
	if host, _, ok := strings.Cut(p, ":"); !ok || host != "sip" && host != "sips" {
		p = "sip:" + p
	}
	u, err := ParseURI(p)
	if err == nil && (strings.ContainsAny(p, "?@") || u.Host == "") {
		err = errURI
	}
	return u, err
}

// proxies are the Route headers that lead by the outbound proxies.
func (t Trunk) proxies() []string {
	var routes []string
	for _, p := range t.Proxy {
		u, _ := proxyURI(p) // Validate has read it
		route := u.Scheme + ":" + u.Host
		if addr, err := netip.ParseAddr(u.Host); err == nil {
			route = u.Scheme + ":" + hostText(addr)
		}
		if u.Port != 0 {
			route += ":" + strconv.Itoa(u.Port)
		}
		if via := transportOf(u); via != "" && u.Scheme == "sip" {
			route += ";transport=" + via
		}
		routes = append(routes, "<"+route+";lr>")
	}
	return routes
}

// entry are the places where requests for the trunk are sent to.
func (t Trunk) entry() []string {
	if len(t.Proxy) == 0 {
		return t.Hosts
	}
	u, _ := proxyURI(t.Proxy[0])
	host := u.Host
	if u.Port != 0 {
		host = net.JoinHostPort(u.Host, strconv.Itoa(u.Port))
	} else if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return []string{host}
}

// Resolver finds names. *net.Resolver is one.
type Resolver interface {
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

func (s *Server) resolver() Resolver {
	if s.cfg.Resolver != nil {
		return s.cfg.Resolver
	}
	return net.DefaultResolver
}

// target is one place where a trunk may be.
type target struct {
	addr netip.AddrPort
	name string // that its certificate must have
}

// maxTargets bounds the places tried for one request.
const maxTargets = 16

// targets finds where a trunk may be, in the order of preference (RFC 3263 section
// 4). An error is only returned when there is none at all.
func (s *Server) targets(ctx context.Context, t Trunk) ([]target, error) {
	var all []target
	var errs []error
	for _, h := range t.entry() {
		found, err := s.lookUp(ctx, t.Transport, h)
		errs = append(errs, err)
		for _, f := range found {
			if !slices.ContainsFunc(all, func(o target) bool { return o.addr == f.addr }) && len(all) < maxTargets {
				all = append(all, f)
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("sip: no address for trunk %s: %w", t.Name, errors.Join(errs...))
	}
	return all, nil
}

func (s *Server) lookUp(ctx context.Context, network, hostport string) ([]target, error) {
	host, port, err := splitHostPort(hostport)
	if err != nil {
		return nil, err
	}
	usual := 5060
	service, proto := "sip", network
	if network == "tls" {
		usual, service, proto = 5061, "sips", "tcp"
	}
	_, perr := netip.ParseAddr(host)
	if port == 0 && perr != nil {
		// The resolver has sorted them by priority and weight (RFC 2782).
		_, records, err := s.resolver().LookupSRV(ctx, service, proto, host)
		var all []target
		for _, r := range records {
			found, aerr := s.addresses(ctx, strings.TrimSuffix(r.Target, "."), int(r.Port), host)
			all, err = append(all, found...), errors.Join(err, aerr)
		}
		if len(records) > 0 {
			return all, err
		}
	}
	if port == 0 {
		port = usual
	}
	return s.addresses(ctx, host, port, host)
}

// addresses finds those of a host. name is what the certificate must have: of a
// name found by SRV that is the name asked for (RFC 5922 section 4).
func (s *Server) addresses(ctx context.Context, host string, port int, name string) ([]target, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []target{{netip.AddrPortFrom(addr.Unmap(), uint16(port)), name}}, nil
	}
	addrs, err := s.resolver().LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("sip: resolving %s: %w", host, err)
	}
	var all []target
	for _, a := range addrs {
		all = append(all, target{netip.AddrPortFrom(a.Unmap(), uint16(port)), name})
	}
	return all, nil
}

// link is a trunk at work: its credentials, its nonces, and the way to it.
type link struct {
	s    *Server
	t    Trunk
	keys *keyring

	mu     sync.Mutex
	flows  map[target]*flow // connections
	home   target           // where it last worked; zero when it never did
	routes []string         // of Service-Route
}

// linkOf is the link of a trunk. One that is at work with other settings is not
// disturbed: the settings win.
func (s *Server) linkOf(t Trunk) *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.links[t.Name]; l != nil && reflect.DeepEqual(l.t, t) {
		return l
	}
	l := &link{s: s, t: t, keys: newKeyring(t), flows: make(map[target]*flow)}
	s.links[t.Name] = l
	return l
}

// way is the route of a new call: by the outbound proxies, and then as the registrar
// wants it (RFC 3608 section 6.1).
func (l *link) way() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	routes := l.t.proxies()
	for _, r := range l.routes {
		if len(routes) == 0 || !sameRoute(routes[len(routes)-1], r) {
			routes = append(routes, r)
		}
	}
	return routes
}

// sameRoute says that two routes name one proxy: registrars repeat the one that a
// REGISTER came by.
func sameRoute(a, b string) bool {
	x, err := ParseAddress(a)
	y, err2 := ParseAddress(b)
	return err == nil && err2 == nil && x.URI.User == y.URI.User && strings.EqualFold(x.URI.Host, y.URI.Host) && x.URI.Port == y.URI.Port
}

// reach gives a flow to a target: over TCP and TLS the connection that is open
// already, if there is one.
func (l *link) reach(ctx context.Context, to target) (*flow, error) {
	l.mu.Lock()
	f := l.flows[to]
	l.mu.Unlock()
	if f != nil && f.usable() {
		return f, nil
	}
	f, err := l.s.flowTo(ctx, l.t.Transport, to.addr, l.t.TLS.or(l.s.cfg.TLS), []string{to.name})
	if err != nil || f.conn == nil {
		return f, err // our own address over UDP may change: it is not kept
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.flows, func(_ target, f *flow) bool { return !f.usable() })
	l.flows[to] = f
	return f, nil
}

// settle notes where the trunk works. A registration decides that for its calls;
// without one the last call does.
func (l *link) settle(to target, registered bool) {
	l.s.mu.Lock()
	decides := registered || l.s.lines[l.t.Name] == nil
	l.s.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if decides {
		l.home = to
	}
}

// settled is the target that worked last; ok is false when there is none.
func (l *link) settled() (to target, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.home, l.home.addr.IsValid()
}

// flowTo makes a way to an address: of UDP our socket, else a new connection.
func (s *Server) flowTo(ctx context.Context, network string, to netip.AddrPort, t TLS, names []string) (*flow, error) {
	if network != "udp" {
		return s.connect(ctx, network, to, t, names)
	}
	l, err := s.listenerFor(network, to.Addr())
	if err != nil {
		return nil, err
	}
	local := l.bound()
	if local.Addr().IsUnspecified() {
		local = netip.AddrPortFrom(routeTo(to), local.Port())
	}
	return &flow{lis: l, remote: to, local: local}, nil
}
