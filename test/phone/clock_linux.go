package phone

import (
	"encoding/binary"
	"net"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// stampArrivals asks the kernel to note when each datagram arrived.
func stampArrivals(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	if err := raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	}); err != nil {
		return err
	}
	return set
}

// kernelTime finds the arrival time among the control messages of a datagram; the
// zero time when it is not there.
func kernelTime(oob []byte) time.Time {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return time.Time{}
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16 {
			return time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
		}
	}
	return time.Time{}
}

// ownThread binds the goroutine to a thread of its own and asks for the attention
// of a real-time thread. Without the right to it the thread stays an ordinary one.
// The goroutine must end without unlocking, which ends the thread too.
func ownThread() {
	runtime.LockOSThread()
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 1, Flags: unix.SCHED_FLAG_RESET_ON_FORK}, 0)
}

// sleepUntil sleeps until the clock shows at. The deadline is absolute: being woken
// late once does not make the next one late.
func (c clock) sleepUntil(at time.Duration) {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		time.Sleep(at - c.now())
		return
	}
	deadline := unix.NsecToTimespec(now.Nano() + int64(at-c.now()))
	// The runtime's own signals end the sleep early; the deadline stands.
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &deadline, nil) == unix.EINTR {
	}
}
