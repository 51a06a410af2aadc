package rtp

import (
	"net/netip"
	"time"
)

// socket is a bound UDP port, as the wheel uses it: no method blocks.
type socket interface {
	// recv takes the next datagram; b is valid until the next recv on the wheel.
	// A datagram too long for the buffer is empty.
	recv() (b []byte, from netip.AddrPort, ok bool)
	// age is how long ago the datagram that recv gave last had arrived, as well as
	// the system can tell.
	age() time.Duration
	// send says whether the system took the datagram.
	send(b []byte, to netip.AddrPort) bool
	// local is the bound address.
	local() netip.AddrPort
	// close ends it, and any goroutine it has. Not while recv or send run.
	close()
}

// maxDatagram is the longest datagram received whole.
const maxDatagram = 2048

// binder makes sockets for a wheel. Port 0 is any; queue, a power of two, is how
// many datagrams wait for the wheel where it is not the system that keeps them.
type binder func(w *Wheel, port uint16, queue uint32) (socket, error)

// batch reads and writes the sockets of many sessions by one system call. The wheel
// alone uses it.
type batch interface {
	// begin drops what was read ahead.
	begin()
	// want asks that up to n datagrams, 1 or 2, are read ahead from a socket. It
	// says false when there is no room for more sockets.
	want(s socket, n int) bool
	// do reads and writes all that was asked for.
	do()
	close()
}

// refuser is a socket whose send is done later.
type refuser interface {
	// onRefusal is called with every datagram that send has taken and the system
	// has not.
	onRefusal(f func(b []byte))
}
