package sip

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"time"

	"go.uber.org/zap"
)

// maxDatagram is the largest UDP payload there is.
const maxDatagram = 65535

// udpBuffer is how much of what comes may wait to be read, in bytes.
const udpBuffer = 4 << 20

// udpSocket is a bound UDP socket that knows which of our addresses a datagram
// was sent to, and answers from that one.
type udpSocket struct {
	conn  *net.UDPConn
	local netip.AddrPort
	info  bool // the system tells the destination address of datagrams
}

func listenUDP(addr netip.AddrPort) (*udpSocket, error) {
	conn, err := net.ListenUDP(family("udp", addr.Addr()), net.UDPAddrFromAddrPort(addr))
	if err != nil {
		return nil, err
	}
	// Bursts of strangers must not push out what others send. The system may allow
	// less, and any size works.
	_ = conn.SetReadBuffer(udpBuffer)
	u := &udpSocket{conn: conn, local: conn.LocalAddr().(*net.UDPAddr).AddrPort()}
	if u.local.Addr().IsUnspecified() {
		u.info = wantDestination(conn)
	}
	return u, nil
}

// read takes one datagram. to is the address of ours that it was sent to.
func (u *udpSocket) read(b, oob []byte) (n int, from, to netip.AddrPort, err error) {
	n, oobn, _, from, err := u.conn.ReadMsgUDPAddrPort(b, oob)
	if err != nil {
		return 0, from, to, err
	}
	from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
	to = u.local
	if to.Addr().IsUnspecified() {
		addr, ok := netip.Addr{}, false
		if u.info {
			addr, ok = destination(oob[:oobn])
		}
		if !ok {
			addr = routeTo(from)
		}
		to = netip.AddrPortFrom(addr.Unmap(), to.Port())
	}
	return n, from, to, nil
}

// write sends one datagram from the given address of ours.
func (u *udpSocket) write(b []byte, from netip.Addr, to netip.AddrPort) error {
	var oob []byte
	if u.info {
		oob = sourceControl(from, u.local.Addr().Is6())
	}
	if u.local.Addr().Is6() && to.Addr().Is4() {
		to = netip.AddrPortFrom(netip.AddrFrom16(to.Addr().As16()), to.Port())
	}
	_, _, err := u.conn.WriteMsgUDPAddrPort(b, oob, to)
	return err
}

// routeTo asks the system which of our addresses it would use towards a peer. No
// packet is sent. It is the loopback address when there is no route.
func routeTo(peer netip.AddrPort) netip.Addr {
	conn, err := net.Dial("udp", peer.String())
	if err != nil {
		if peer.Addr().Is4() {
			return netip.AddrFrom4([4]byte{127, 0, 0, 1})
		}
		return netip.IPv6Loopback()
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}

// readUDP reads datagrams until the socket is closed.
func (s *Server) readUDP(l *listener) {
	buf := make([]byte, maxDatagram)
	oob := make([]byte, 128)
	for {
		n, from, to, err := l.udp.read(buf, oob)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Errors of one datagram, as of an unreachable peer, are no reason to
			// go deaf; a pause keeps a lasting one from taking a core.
			s.noise.warn("udp", "sip: cannot read", zap.Error(err))
			if !s.pause(10 * time.Millisecond) {
				return
			}
			continue
		}
		data := bytes.TrimLeft(buf[:n], "\r\n\x00")
		if len(data) == 0 {
			continue // a keep-alive (RFC 5626 section 4.4.1 is for streams; UDP answers none)
		}
		s.receive(&flow{lis: l, remote: from, local: to}, data)
	}
}
