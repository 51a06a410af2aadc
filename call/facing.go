package call

import (
	"net"
	"net/netip"
)

// facing is the address of ours for a peer that we met on the loopback and whose sound
// comes from elsewhere: a browser or telephone of this machine, which names the
// machine's address in the network, or whoever is behind a proxy here. What we send
// there has another source than the loopback, so naming the loopback would be wrong:
// ICE, and any peer that looks at sources, would not take it. It is local when there
// is no better one.
func facing(local, peer netip.Addr) netip.Addr {
	if !local.IsLoopback() || !peer.IsValid() || peer.IsLoopback() || peer.IsUnspecified() || local.Is4() != peer.Is4() {
		return local
	}
	// Nothing is sent: the system only says which address it would take.
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(peer, 9)))
	if err != nil {
		return local // no way there: whatever we name, nothing arrives
	}
	defer func() { _ = conn.Close() }()
	a, ok := conn.LocalAddr().(*net.UDPAddr)
	if !ok || a.AddrPort().Addr().Unmap().Is4() != local.Is4() {
		return local
	}
	return a.AddrPort().Addr().Unmap()
}
