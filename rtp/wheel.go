package rtp

import (
	"net"
	"net/netip"
	"time"
)

// PacketConn is the part of net.UDPConn that the goroutine driver needs.
type PacketConn interface {
	ReadFromUDPAddrPort(b []byte) (n int, addr netip.AddrPort, err error)
	WriteToUDPAddrPort(b []byte, addr netip.AddrPort) (n int, err error)
	LocalAddr() net.Addr
	Close() error
}

// Option changes how NewWheel works.
type Option func(*Wheel)

// WithListen gives the function that binds sockets, in place of the system's. It
// implies the goroutine driver. The port is 0 for "any".
func WithListen(listen func(addr netip.AddrPort) (PacketConn, error)) Option {
	return func(*Wheel) {}
}

// Wheel turns the sessions of many calls on one goroutine.
type Wheel struct{}

// NewWheel checks cfg, probes that the address can be bound and starts turning.
func NewWheel(cfg Config, options ...Option) (*Wheel, error) { return &Wheel{}, nil }

// Listen reserves a port and binds its socket. The session is not turned before
// Join. The error wraps ErrNoPort when the range is used up.
func (w *Wheel) Listen() (*Session, error) { return nil, ErrNoPort }

// Now is the monotonic time since the wheel began.
func (w *Wheel) Now() time.Duration { return 0 }

// Stats are the figures so far.
func (w *Wheel) Stats() WheelStats { return WheelStats{} }

// Close closes all sessions and returns when every goroutine has ended.
func (w *Wheel) Close() error { return nil }
