package rtp

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// slice is the time that the wheel asks of the system's scheduler at once. Since
// Linux 6.12 who asks for less is served sooner; a turn rarely needs more, and it
// takes no privilege.
const slice = 100 * time.Microsecond

// takeThread gives the calling goroutine a thread of its own, until it ends and
// the thread with it: the thread is not as others are any more.
func takeThread() {
	runtime.LockOSThread()
	if attr, err := unix.SchedGetAttr(0, 0); err == nil && attr.Policy == unix.SCHED_NORMAL {
		attr.Runtime = uint64(slice)
		_ = unix.SchedSetAttr(0, attr, 0) // an older system keeps its own slice
	}
}

// preciseSleep sleeps for d to within the timer slack of the thread, 50 µs. The
// runtime's timers wait in epoll, whose unit is a millisecond: with time.Sleep the
// median turn began 0.7 ms late, with this 0.2 ms (200 calls, two cores). It wants
// a thread of its own: a goroutine without one is handed a processor by others
// when it wakes.
func preciseSleep(d time.Duration) {
	left := unix.NsecToTimespec(int64(d))
	// The runtime's preemption signals end the sleep early.
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &left, &left) == unix.EINTR {
	}
}
