package sip

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go.uber.org/zap"
)

// hop is where a request inside a dialog goes and what it says.
type hop struct {
	uri    string   // the Request-URI
	routes []string // Route headers
	flow   *flow
	to     netip.AddrPort
}

// nextHop works out the Request-URI, the Route headers and the destination of a
// request inside the dialog (RFC 3261 section 12.2.1.1). A connection that is
// still open is used whatever the URIs say: the peer reached us over it. A
// destination that cannot be found falls back to where the INVITE came from.
func (d *Dialog) nextHop(ctx context.Context) (hop, error) {
	d.mu.Lock()
	h := hop{uri: d.target.RawURI, routes: d.routes, flow: d.flow, to: d.flow.remote}
	next, reachable := d.target, d.reachable
	d.mu.Unlock()

	if len(h.routes) > 0 {
		first, err := ParseAddress(h.routes[0])
		if err == nil {
			next = first
			if _, loose := first.URI.Params["lr"]; !loose {
				// A strict router takes the next URI from the last Route.
				h.uri = first.RawURI
				h.routes = append(h.routes[1:len(h.routes):len(h.routes)], "<"+d.target.RawURI+">")
			}
		}
	}
	if h.flow.conn != nil && h.flow.usable() {
		return h, nil
	}
	if h.flow.conn == nil && len(h.routes) == 0 && (!reachable || d.s.behindNAT(next.URI.Host, h.flow.remote.Addr())) {
		return h, nil
	}
	if h.flow.lis.websocket() { // a browser cannot be called back, and its Contact resolves to nothing
		return h, fmt.Errorf("%w: the connection of the browser is gone", ErrTransport)
	}
	network, t, names := h.flow.again(next.URI)
	to, err := d.s.resolve(ctx, next.URI, h.flow.remote)
	if err != nil {
		d.s.noise.warn("resolve", "sip: next hop not found, using the source of the INVITE", append(d.logFields(), zap.Error(err))...)
		to = h.flow.remote
	}
	h.to = to
	if network == "udp" {
		return h, nil
	}
	if a, err := ParseAddress(d.to); err == nil && a.URI.Host != "" {
		names = append(names, a.URI.Host) // a Contact is often an address, where certificates are for the domain
	}
	f, err := d.s.connect(ctx, network, to, t, names)
	switch {
	case err == nil:
		h.flow = f
	case h.flow.conn != nil:
		return h, err
	default:
		h.to = h.flow.remote // over the UDP that is known to work
	}
	return h, nil
}

// again says how to reach a peer when this flow cannot be used: over what, with
// which settings, and as whom. A call that came over TLS never goes on without.
func (f *flow) again(u URI) (network string, t TLS, names []string) {
	network, t = f.lis.cfg.Network, f.lis.cfg.TLS
	if f.conn != nil {
		t, names = f.conn.tls, slices.Clone(f.conn.names)
	} else if want := transportOf(u); want != "" {
		network = want
	}
	return network, t, append(names, u.Host)
}

// transportOf is the network that a URI asks for; empty when it leaves that open.
func transportOf(u URI) string {
	network := strings.ToLower(u.Params["transport"])
	switch {
	case u.Scheme == "sips" || network == "tls":
		return "tls"
	case network == "tcp" || network == "udp":
		return network
	}
	return ""
}

// behindNAT says whether a Contact is to be disbelieved.
func (s *Server) behindNAT(host string, source netip.Addr) bool {
	switch s.cfg.NAT {
	case NATAlways:
		return true
	case NATNever:
		return false
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || addr.Unmap() == source.Unmap() {
		return false
	}
	addr = addr.Unmap()
	return addr.IsPrivate() || addr.IsLinkLocalUnicast() || addr.IsUnspecified() || sharedSpace.Contains(addr) ||
		addr.IsLoopback() && !source.IsLoopback()
}

// sharedSpace is the address space of carrier-grade NAT (RFC 6598).
var sharedSpace = netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64, 0, 0}), 10)

// resolve finds the address of a URI. Names are looked up for addresses only; of
// several the first of the family of like is taken.
func (s *Server) resolve(ctx context.Context, u URI, like netip.AddrPort) (netip.AddrPort, error) {
	port := u.Port
	if port == 0 {
		port = 5060
		if transportOf(u) == "tls" {
			port = 5061
		}
	}
	host := u.Host
	if m := u.Params["maddr"]; m != "" {
		host = strings.Trim(m, "[]")
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return netip.AddrPortFrom(addr.Unmap(), uint16(port)), nil
	}
	addrs, err := s.resolver().LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("sip: resolving a Contact or Route: %w", err)
	}
	for _, a := range addrs {
		if a.Unmap().Is4() == like.Addr().Is4() {
			return netip.AddrPortFrom(a.Unmap(), uint16(port)), nil
		}
	}
	return netip.AddrPort{}, fmt.Errorf("sip: %q has no address of the family in use", clean(host, 64))
}
