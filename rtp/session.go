package rtp

import (
	"net/netip"
)

// Session is one RTP port: a stream in, a stream out. Its methods may be called
// from any goroutine.
type Session struct{}

// Local is the bound address and port.
func (s *Session) Local() netip.AddrPort { return netip.AddrPort{} }

// SetFlow replaces what was agreed; it holds from the next packet on. It may be
// called at any time, also before Join.
func (s *Session) SetFlow(f Flow) {}

// Join lets the wheel turn the session for h from the next tick on. What had
// arrived before is dropped. Once only; later calls do nothing.
func (s *Session) Join(h Handler) {}

// Stats are the figures so far.
func (s *Session) Stats() Stats { return Stats{} }

// Fault is closed when the Handler panicked: the session has left the wheel and
// Err says why. It must still be closed.
func (s *Session) Fault() <-chan struct{} { return nil }

// Err is a *FaultError when the Handler panicked, else nil.
func (s *Session) Err() error { return nil }

// Close takes the session off the wheel, closes its socket and puts the port into
// quarantine. Nothing is sent after the call began, and no Handler method runs
// after it returned, two ticks later at most. It may be called again, but not from
// a Handler.
func (s *Session) Close() {}
