package rtp

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// The drivers that Config.Driver names.
const (
	// DriverAuto is uring on Linux, raw where that is forbidden, as it is in many
	// containers, and goroutine elsewhere or when WithListen gives the sockets.
	DriverAuto = "auto"
	// DriverUring turns non-blocking sockets, many by one system call. Linux 5.4.
	DriverUring = "uring"
	// DriverRaw turns non-blocking sockets by system call. Linux only.
	DriverRaw = "raw"
	// DriverGoroutine has one reader goroutine for each socket.
	DriverGoroutine = "goroutine"
)

// ErrNoPort is wrapped by the error of Listen when the range has no port left.
var ErrNoPort = errors.New("rtp: no free port")

// ErrClosed is wrapped by the error of Listen on a closed wheel.
var ErrClosed = errors.New("rtp: wheel is closed")

// Config is what an operator may set. Its zero value is not usable; start from
// DefaultConfig.
type Config struct {
	// Addr is the local address to bind. The zero value and an unspecified
	// address mean all; "::" and the zero value take IPv4 as well.
	Addr netip.Addr
	// PortMin and PortMax bound the ports, both included. RTP gets the even ports
	// and the odd one above each is kept for RTCP (RFC 3550 section 11). 0 and 0
	// take any free port of the system.
	PortMin, PortMax uint16
	// Quarantine is how long a freed port is not handed out again, so that late
	// packets of the last call do not reach the next.
	Quarantine time.Duration
	// DSCP marks the packets sent, 0 to 63; 46 is expedited forwarding.
	DSCP int
	// Driver is "auto", "uring", "raw" or "goroutine".
	Driver string
	// Tick is how often the sockets are drained.
	Tick time.Duration
	// LatchPackets is how many packets in a row, of one SSRC and in sequence, an
	// address that the SDP did not name must send before it is believed.
	LatchPackets int
	// LatchWait is how long after an offer/answer the address of the SDP is
	// waited for before another host is believed. Another port of the same host
	// needs no wait.
	LatchWait time.Duration
	// Relatch is the silence of the latched source after which another may be
	// believed without a new offer/answer; 0 means never.
	Relatch time.Duration
}

// DefaultConfig is ports 20000-20999 on all addresses, expedited forwarding and
// a tick of 5 ms.
func DefaultConfig() Config {
	return Config{
		PortMin: 20000, PortMax: 20999,
		Quarantine:   5 * time.Second,
		DSCP:         46,
		Driver:       DriverAuto,
		Tick:         5 * time.Millisecond,
		LatchPackets: 3,
		LatchWait:    250 * time.Millisecond,
	}
}

// Validate says all that is wrong with c, joined.
func (c Config) Validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf("rtp: "+format, args...)) }
	if (c.PortMin != 0 || c.PortMax != 0) && pairs(c.PortMin, c.PortMax) == 0 {
		add("ports %d-%d hold no even port with the odd one above it", c.PortMin, c.PortMax)
	}
	if c.Quarantine < 0 {
		add("quarantine %v is negative", c.Quarantine)
	}
	if c.DSCP < 0 || c.DSCP > 63 {
		add("dscp %d is not in 0-63", c.DSCP)
	}
	switch c.Driver {
	case DriverAuto, DriverUring, DriverRaw, DriverGoroutine:
	default:
		add("driver %q is none of auto, uring, raw, goroutine", c.Driver)
	}
	if c.Tick < time.Millisecond || c.Tick > 20*time.Millisecond {
		add("tick %v is not in 1ms-20ms", c.Tick)
	}
	if c.LatchPackets < 1 || c.LatchPackets > 100 {
		add("latch packets %d is not in 1-100", c.LatchPackets)
	}
	if c.LatchWait < 0 {
		add("latch wait %v is negative", c.LatchWait)
	}
	if c.Relatch < 0 {
		add("relatch %v is negative", c.Relatch)
	}
	return errors.Join(errs...)
}
