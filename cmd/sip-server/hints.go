package main

import (
	"fmt"
	"net"
	"net/netip"

	"parley/sip"
)

// localAddr is an address under which others can reach this machine: the first
// IPv4 one of its network interfaces, or loopback when there is none.
func localAddr() netip.Addr {
	addrs, err := net.InterfaceAddrs()
	if err == nil {
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() {
				return p.Addr()
			}
		}
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// dialHints says what to dial in a softphone, one line per address. advertised has the
// names by which peers reach the addresses, in their order; empty: the address.
func dialHints(bound []sip.Bound, advertised []string, local netip.Addr) []string {
	type target struct{ host, transports string }
	var targets []target
	for i, b := range bound {
		if b.Network == "ws" || b.Network == "wss" {
			continue // for browsers
		}
		addr := b.Addr
		if addr.Addr().IsUnspecified() {
			addr = netip.AddrPortFrom(local, addr.Port())
		}
		host := addr.String()
		if i < len(advertised) && advertised[i] != "" {
			host = advertised[i]
		}
		known := false
		for i := range targets {
			if targets[i].host == host {
				targets[i].transports += ", " + b.Network
				known = true
			}
		}
		if !known {
			targets = append(targets, target{host, b.Network})
		}
	}
	var lines []string
	for _, t := range targets {
		lines = append(lines, fmt.Sprintf("Dial sip:hello@%s in a softphone (%s).", t.host, t.transports))
	}
	return lines
}
