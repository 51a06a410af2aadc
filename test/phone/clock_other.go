//go:build !linux

package phone

import (
	"net"
	"runtime"
	"time"
)

// stampArrivals does nothing here: arrivals are stamped when they are read.
func stampArrivals(*net.UDPConn) error { return nil }

func kernelTime([]byte) time.Time { return time.Time{} }

// ownThread binds the goroutine to a thread of its own.
func ownThread() { runtime.LockOSThread() }

// sleepUntil sleeps until the clock shows at.
func (c clock) sleepUntil(at time.Duration) { time.Sleep(at - c.now()) }
