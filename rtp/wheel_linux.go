package rtp

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawBinder makes the sockets of the raw driver, batchOpener gives the wheel those of
// the uring driver.
var (
	rawBinder   binder = bindRaw
	batchOpener        = openBatch
)

// rawSocket is a non-blocking UDP socket outside the runtime's poller, read and
// written by raw system calls on the wheel's goroutine. A descriptor in the
// poller's epoll set makes each arriving packet wake it, which costs as much again;
// and a raw call does not tell the scheduler, which is right for calls that never
// wait.
type rawSocket struct {
	fd   int
	wide bool // AF_INET6
	addr netip.AddrPort
	w    *Wheel // for its buffer
	name unix.RawSockaddrInet6
	size uint32
	seen unix.Timespec
}

func bindRaw(w *Wheel, port uint16, _ uint32) (socket, error) {
	addr := w.cfg.Addr
	wide := !addr.Is4()
	c, err := openRaw(w, wide, port)
	if err != nil && !addr.IsValid() && isNoIPv6(err) {
		c, err = openRaw(w, false, port)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// isNoIPv6 tells a system without IPv6 from a port that is taken.
func isNoIPv6(err error) bool {
	e, _ := err.(*os.SyscallError)
	return e != nil && (e.Err == unix.EAFNOSUPPORT || e.Err == unix.EADDRNOTAVAIL)
}

func openRaw(w *Wheel, wide bool, port uint16) (*rawSocket, error) {
	family := unix.AF_INET
	if wide {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	c := &rawSocket{fd: fd, wide: wide, w: w}
	if err := c.bind(w.cfg.Addr, port); err != nil {
		unix.Close(fd)
		return nil, err
	}
	setDSCP(fd, w.cfg.DSCP, wide)
	return c, nil
}

func (c *rawSocket) bind(addr netip.Addr, port uint16) error {
	var sa unix.Sockaddr = &unix.SockaddrInet4{Port: int(port)}
	switch {
	case addr.Is4():
		sa = &unix.SockaddrInet4{Port: int(port), Addr: addr.As4()}
	case c.wide:
		six := &unix.SockaddrInet6{Port: int(port)}
		only := 0
		if addr.IsValid() && !addr.IsUnspecified() {
			six.Addr, only = addr.As16(), 1
		}
		if err := unix.SetsockoptInt(c.fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, only); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
		sa = six
	}
	if err := unix.Bind(c.fd, sa); err != nil {
		return os.NewSyscallError("bind", err)
	}
	name, err := unix.Getsockname(c.fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	switch name := name.(type) {
	case *unix.SockaddrInet4:
		c.addr = netip.AddrPortFrom(netip.AddrFrom4(name.Addr), uint16(name.Port))
	case *unix.SockaddrInet6:
		c.addr = netip.AddrPortFrom(netip.AddrFrom16(name.Addr), uint16(name.Port))
	default:
		return fmt.Errorf("getsockname: unexpected %T", name)
	}
	return nil
}

func (c *rawSocket) recv() ([]byte, netip.AddrPort, bool) {
	b := &c.w.in
	c.size = uint32(unsafe.Sizeof(c.name))
	// With MSG_TRUNC the length is that of the datagram, not of the part that fits.
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(c.fd), uintptr(unsafe.Pointer(b)), uintptr(len(b)),
		unix.MSG_DONTWAIT|unix.MSG_TRUNC, uintptr(unsafe.Pointer(&c.name)), uintptr(unsafe.Pointer(&c.size)))
	if errno != 0 {
		return nil, netip.AddrPort{}, false
	}
	if n > uintptr(len(b)) {
		n = 0
	}
	return b[:n], c.source(&c.name), true
}

// source is the address in a name that the system filled in.
func (c *rawSocket) source(name *unix.RawSockaddrInet6) netip.AddrPort {
	if c.wide {
		return netip.AddrPortFrom(netip.AddrFrom16(name.Addr).Unmap(), fromNetwork(&name.Port))
	}
	four := (*unix.RawSockaddrInet4)(unsafe.Pointer(name))
	return netip.AddrPortFrom(netip.AddrFrom4(four.Addr), fromNetwork(&four.Port))
}

// address fills a name in for the system; false when the socket cannot send there.
func (c *rawSocket) address(name *unix.RawSockaddrInet6, to netip.AddrPort) (size uint32, ok bool) {
	switch {
	case c.wide:
		*name = unix.RawSockaddrInet6{Family: unix.AF_INET6, Addr: to.Addr().As16()}
		toNetwork(&name.Port, to.Port())
		return uint32(unsafe.Sizeof(*name)), true
	case to.Addr().Is4():
		four := (*unix.RawSockaddrInet4)(unsafe.Pointer(name))
		*four = unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: to.Addr().As4()}
		toNetwork(&four.Port, to.Port())
		return uint32(unsafe.Sizeof(*four)), true
	}
	return 0, false
}

// age asks when the system took the datagram from the network. The first question
// is answered with now, and makes it keep the times of those to come.
func (c *rawSocket) age() time.Duration {
	_, _, errno := syscall.RawSyscall(unix.SYS_IOCTL, uintptr(c.fd), unix.SIOCGSTAMPNS, uintptr(unsafe.Pointer(&c.seen)))
	if errno != 0 {
		return 0
	}
	// The clock of the stamps may be set at any time: no packet waits for longer.
	return min(time.Second, max(0, time.Duration(time.Now().UnixNano()-c.seen.Nano())))
}

func (c *rawSocket) send(b []byte, to netip.AddrPort) bool {
	size, ok := c.address(&c.name, to)
	if !ok {
		return false
	}
	_, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(c.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(&c.name)), uintptr(size))
	return errno == 0
}

func (c *rawSocket) local() netip.AddrPort { return c.addr }

func (c *rawSocket) close() { unix.Close(c.fd) }

// Ports in socket addresses are big-endian whatever the machine is.
func fromNetwork(port *uint16) uint16 {
	return binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(port))[:])
}

func toNetwork(port *uint16, v uint16) {
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(port))[:], v)
}
