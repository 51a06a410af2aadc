package rtp

import "time"

// Age is how long ago the packet that is being handled arrived at the socket: what
// the wheel's ticks add to its way. Only a Handler may ask, within Packet. On Linux
// the first answer of a session is 0: the system stamps arrivals from then on.
func (s *Session) Age() time.Duration { return s.sock.age() }
