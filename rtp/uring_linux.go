package rtp

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// How many datagrams one system call reads and writes: enough that entering the
// system, which costs as much as reading two datagrams, is shared by many; few
// enough that the thread is away for some 50 µs.
const (
	batchReads  = 32
	batchWrites = 32
)

// The numbers of the kernel's io_uring.h that are used here.
const (
	opSendMsg, opRecvMsg = 9, 10
	setupClamp           = 1 << 4
	featureSingleMap     = 1 << 0
	offsetRings          = 0
	offsetEntries        = 0x10000000
)

// The structs of the kernel's io_uring.h.
type (
	ringParams struct {
		sqEntries, cqEntries, flags, cpu, idle, features, wq uint32
		_                                                    [3]uint32
		sq                                                   struct {
			head, tail, mask, entries, flags, dropped, array, _ uint32
			_                                                   uint64
		}
		cq struct {
			head, tail, mask, entries, overflow, entry, flags, _ uint32
			_                                                    uint64
		}
	}
	submission struct {
		op, flags uint8
		_         uint16
		fd        int32
		_         uint64
		message   uint64
		length    uint32
		msgFlags  uint32
		user      uint64
		_         [3]uint64
	}
	completion struct {
		user   uint64
		result int32
		_      uint32
	}
)

// uring does the reads and writes of many sockets in one system call (io_uring, Linux
// 5.4). Every operation says MSG_DONTWAIT, so all are done when the call returns:
// nothing is ever under way while the wheel does something else, and neither the
// poller nor a thread of the kernel's has a part in it. The wheel alone uses it.
//
//	reads of the next sessions ┐
//	writes of the last ones ───┴─> one call ─> results, in order
type uring struct {
	fd    int
	rings []byte // both queues, shared with the kernel
	table []byte // the submissions

	tail             *uint32 // of the queue to the kernel
	head, end        *uint32 // of the queue back
	mask, cqMask     uint32
	submissions      []submission
	completions      []completion
	queued           uint32 // submissions that the kernel has not been told of
	broken           bool   // each socket by itself from now on
	in               [batchReads]operation
	out              [batchWrites]operation
	reading, writing int
	round            uint32 // of reads
}

// operation is one read or write and all that the kernel is shown of it.
type operation struct {
	header unix.Msghdr
	vector unix.Iovec
	name   unix.RawSockaddrInet6
	result int32
	sock   *batchSocket
	b      [maxDatagram]byte
}

// openUring sets the queues up and makes sure that they work as told above: some
// systems have none, containers often forbid them.
func openUring() (u *uring, err error) {
	var p ringParams
	p.flags = setupClamp
	fd, _, errno := syscall.Syscall(unix.SYS_IO_URING_SETUP, batchReads+batchWrites, uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, os.NewSyscallError("io_uring_setup", errno)
	}
	u = &uring{fd: int(fd), mask: p.sqEntries - 1, cqMask: p.cqEntries - 1}
	defer func() {
		if err != nil {
			u.close()
		}
	}()
	if p.features&featureSingleMap == 0 || p.sqEntries < batchReads+batchWrites {
		return nil, fmt.Errorf("io_uring of before Linux 5.4: %w", unix.ENOSYS)
	}
	size := max(p.sq.array+4*p.sqEntries, p.cq.entry+p.cqEntries*uint32(unsafe.Sizeof(completion{})))
	if u.rings, err = unix.Mmap(u.fd, offsetRings, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	size = p.sqEntries * uint32(unsafe.Sizeof(submission{}))
	if u.table, err = unix.Mmap(u.fd, offsetEntries, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	word := func(at uint32) *uint32 { return (*uint32)(unsafe.Pointer(&u.rings[at])) }
	u.tail, u.head, u.end = word(p.sq.tail), word(p.cq.head), word(p.cq.tail)
	u.submissions = unsafe.Slice((*submission)(unsafe.Pointer(&u.table[0])), p.sqEntries)
	u.completions = unsafe.Slice((*completion)(unsafe.Pointer(&u.rings[p.cq.entry])), p.cqEntries)
	for i, array := uint32(0), unsafe.Slice(word(p.sq.array), p.sqEntries); i < p.sqEntries; i++ {
		array[i] = i
	}
	return u, u.try()
}

// try reads from a socket that has nothing.
func (u *uring) try() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	s := &batchSocket{rawSocket: rawSocket{fd: fd}, u: u}
	u.begin()
	u.want(s, 1)
	u.in[0].result = 0
	u.do()
	if r := u.in[0].result; u.broken || r != -int32(unix.EAGAIN) {
		return fmt.Errorf("io_uring: reading nothing gave %d: %w", r, unix.ENOSYS)
	}
	return nil
}

// begin drops the datagrams of the last round.
func (u *uring) begin() {
	u.reading = 0
	u.round++
}

// room says that n more reads fit.
func (u *uring) room(n int) bool { return u.reading+n <= batchReads }

// want asks for up to n datagrams of s, for which there has to be room.
func (u *uring) want(s *batchSocket, n int) {
	s.round, s.first, s.count, s.at = u.round, u.reading, n, 0
	for range n {
		o := &u.in[u.reading]
		o.vector = unix.Iovec{Base: &o.b[0], Len: maxDatagram}
		o.header = unix.Msghdr{Name: (*byte)(unsafe.Pointer(&o.name)), Namelen: uint32(unsafe.Sizeof(o.name)), Iov: &o.vector, Iovlen: 1}
		u.push(opRecvMsg, s.fd, o, uint64(u.reading))
		u.reading++
	}
}

// write queues a datagram whose bytes and address are in the next of out.
func (u *uring) write(s *batchSocket, o *operation, n int, nameSize uint32) {
	o.sock = s
	o.vector.Base = &o.b[0]
	o.vector.SetLen(n)
	o.header = unix.Msghdr{Name: (*byte)(unsafe.Pointer(&o.name)), Namelen: nameSize, Iov: &o.vector, Iovlen: 1}
	u.push(opSendMsg, s.fd, o, uint64(batchReads+u.writing))
	u.writing++
}

func (u *uring) push(op uint8, fd int, o *operation, user uint64) {
	o.result = -int32(unix.EAGAIN)
	u.submissions[(*u.tail+u.queued)&u.mask] = submission{
		op: op, fd: int32(fd), message: uint64(uintptr(unsafe.Pointer(&o.header))), length: 1,
		msgFlags: unix.MSG_DONTWAIT | unix.MSG_TRUNC, user: user,
	}
	u.queued++
}

// do does all that was asked for. What the kernel has no memory for is as if the
// sockets were empty, or full.
func (u *uring) do() {
	if u.queued == 0 {
		return
	}
	flying := 0
	for u.queued > 0 {
		tail := *u.tail
		atomic.StoreUint32(u.tail, tail+u.queued)
		n, _, errno := syscall.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(u.fd), uintptr(u.queued), 0, 0, 0, 0)
		if errno != 0 || n == 0 {
			atomic.StoreUint32(u.tail, tail)
			break
		}
		// The kernel took n; the rest is offered again.
		atomic.StoreUint32(u.tail, tail+uint32(n))
		u.queued -= uint32(n)
		flying += int(n)
	}
	u.queued = 0
	u.reap(flying)
	u.report()
}

// reap takes the results.
func (u *uring) reap(flying int) {
	head := *u.head
	for ; head != atomic.LoadUint32(u.end); head++ {
		c := &u.completions[head&u.cqMask]
		if c.user < batchReads {
			u.in[c.user].result = c.result
		} else if c.user < batchReads+batchWrites {
			u.out[c.user-batchReads].result = c.result
		}
		flying--
	}
	atomic.StoreUint32(u.head, head)
	u.broken = u.broken || flying != 0 // not as try found it: never again
}

// report tells the owners of datagrams that were not sent.
func (u *uring) report() {
	for i := range u.writing {
		o := &u.out[i]
		if o.result < 0 && o.sock.refused != nil {
			o.sock.refused(o.b[:o.vector.Len])
		}
		o.sock = nil
	}
	u.writing = 0
}

// close gives the queues back to the system.
func (u *uring) close() {
	if u.table != nil {
		_ = unix.Munmap(u.table)
	}
	if u.rings != nil {
		_ = unix.Munmap(u.rings)
	}
	_ = unix.Close(u.fd)
}
