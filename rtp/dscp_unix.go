//go:build unix

package rtp

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// markDSCP is a net.ListenConfig.Control that marks what the socket sends. A
// system that refuses the mark still gets the sound.
func markDSCP(dscp int) func(network, address string, c syscall.RawConn) error {
	return func(network, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { setDSCP(int(fd), dscp, !strings.HasSuffix(network, "4")) })
	}
}

func setDSCP(fd, dscp int, six bool) {
	if six {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, dscp<<2)
	}
	// On a socket for both this is for the IPv4 packets.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, dscp<<2)
}
