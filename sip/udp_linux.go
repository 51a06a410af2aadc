package sip

import (
	"encoding/binary"
	"net"
	"net/netip"
	"syscall"
	"unsafe"
)

// wantDestination asks for the destination address of every datagram (ip(7),
// ipv6(7)).
func wantDestination(conn *net.UDPConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	v6 := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Is6()
	var set error
	err = raw.Control(func(fd uintptr) {
		if v6 {
			set = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IPV6, syscall.IPV6_RECVPKTINFO, 1)
		} else {
			set = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, syscall.IP_PKTINFO, 1)
		}
	})
	return err == nil && set == nil
}

// destination reads the destination address out of control messages.
func destination(oob []byte) (netip.Addr, bool) {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return netip.Addr{}, false
	}
	for _, m := range messages {
		switch {
		case m.Header.Level == syscall.IPPROTO_IP && m.Header.Type == syscall.IP_PKTINFO && len(m.Data) >= syscall.SizeofInet4Pktinfo:
			// struct in_pktinfo: interface, local address, header destination. The
			// last may be a broadcast address, which cannot be answered from.
			return netip.AddrFrom4([4]byte(m.Data[4:8])), true
		case m.Header.Level == syscall.IPPROTO_IPV6 && m.Header.Type == syscall.IPV6_PKTINFO && len(m.Data) >= syscall.SizeofInet6Pktinfo:
			return netip.AddrFrom16([16]byte(m.Data[:16])).Unmap(), true
		}
	}
	return netip.Addr{}, false
}

// sourceControl is a control message that sets the source address of a datagram.
func sourceControl(from netip.Addr, v6 bool) []byte {
	if !from.IsValid() || from.IsUnspecified() {
		return nil
	}
	level, kind, size := syscall.IPPROTO_IP, syscall.IP_PKTINFO, syscall.SizeofInet4Pktinfo
	if v6 {
		level, kind, size = syscall.IPPROTO_IPV6, syscall.IPV6_PKTINFO, syscall.SizeofInet6Pktinfo
	}
	b := make([]byte, syscall.CmsgSpace(size))
	// struct cmsghdr: the length is a word of the machine, then level and type.
	if unsafe.Sizeof(uintptr(0)) == 8 {
		binary.NativeEndian.PutUint64(b, uint64(syscall.CmsgLen(size)))
		binary.NativeEndian.PutUint32(b[8:], uint32(level))
		binary.NativeEndian.PutUint32(b[12:], uint32(kind))
	} else {
		binary.NativeEndian.PutUint32(b, uint32(syscall.CmsgLen(size)))
		binary.NativeEndian.PutUint32(b[4:], uint32(level))
		binary.NativeEndian.PutUint32(b[8:], uint32(kind))
	}
	data := b[syscall.CmsgLen(0):]
	if v6 {
		a := from.As16()
		copy(data, a[:])
	} else {
		a := from.Unmap().As4()
		copy(data[4:], a[:])
	}
	return b
}
