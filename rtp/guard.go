package rtp

import (
	"math/rand/v2"
	"net/netip"
	"time"
)

// guard is the protection of a session as the wheel sees it.
//
//	flow ──┬ SRTP (keys by SDES) ───────────────────────┐
//	       └ DTLS ─> association ─ handshake ─> keys ───┴─> guard.keys
//
// While protection is wanted and there are no keys, nothing of the peer's is
// believed and nothing is sent.
type guard struct {
	wanted bool
	keys   *SRTP
	// before are the keys of before a change, which packets under way still have.
	before *SRTP
	until  time.Duration
}

// protect brings the guard up to the flow.
func (s *Session) protect(f *Flow, now time.Duration) {
	keys := f.SRTP
	if f.DTLS != nil {
		keys = nil
		if a := s.association.Load(); a != nil && a.of == f.DTLS {
			keys = a.keys.Load()
		}
	}
	g := &s.guard
	g.wanted = f.SRTP != nil || f.DTLS != nil
	if keys == g.keys {
		return
	}
	if g.keys != nil {
		g.before, g.until = g.keys, now+settle
	}
	if keys != nil {
		s.renew()
	}
	g.keys = keys
}

// renew begins another stream out, so that no key ever seals two packets with the
// same SSRC and number, whatever was sealed before. Under new keys the peer may go on counting the
// rollovers of the sequence number or begin with 0: for an SSRC it has not seen
// there is only 0 (RFC 3711 section 3.3.1). The first sequence number is in the
// lower half, so that the loss of the first packets hides no rollover.
func (s *Session) renew() {
	o := &s.out
	if s.count.sent.Load() > o.packets {
		s.count.ssrc.Store(rand.Uint32())
		o.packets, o.octets = s.count.sent.Load(), s.count.sentBytes.Load()
		s.control.sent = [2]uint64{o.packets, o.packets}
	}
	o.ssrc, o.seq, o.mark = s.count.ssrc.Load(), uint16(rand.Uint32()>>17), true
}

// open decrypts an RTP packet into the wheel's second buffer.
func (s *Session) open(b []byte, from netip.AddrPort, f *Flow, now time.Duration) ([]byte, bool) {
	g := &s.guard
	switch {
	case g.keys == nil:
		s.count.unkeyed.Add(1)
		return nil, false
	case !s.mayBeHeard(from, f, now):
		s.count.strange.Add(1)
		return nil, false
	}
	out, v := g.keys.openRTP(s.wheel.plain[:], b)
	if v == openedForged && g.before != nil {
		if now < g.until {
			out, v = g.before.openRTP(s.wheel.plain[:], b)
		} else {
			g.before = nil
		}
	}
	return out, s.judged(v, from, f, now)
}

// mayBeHeard spares the work of decrypting what could not be the peer's anyway.
func (s *Session) mayBeHeard(from netip.AddrPort, f *Flow, now time.Duration) bool {
	if f.ICE != nil {
		return s.ice.passed(from, now)
	}
	return !s.latch.closedTo(from, now, f.Strict)
}

// openControl decrypts an RTCP packet likewise.
func (s *Session) openControl(b []byte, from netip.AddrPort, f *Flow, now time.Duration) ([]byte, bool) {
	g := &s.guard
	if g.keys == nil {
		s.count.unkeyed.Add(1)
		return nil, false
	}
	out, v := g.keys.openRTCP(s.wheel.plain[:], b)
	if v == openedForged && g.before != nil && now < g.until {
		out, v = g.before.openRTCP(s.wheel.plain[:], b)
	}
	return out, s.judged(v, from, f, now)
}

// judged counts, and takes what was proven for what it says beside: that the peer
// is at that address still, and has ended the handshake.
func (s *Session) judged(v opened, from netip.AddrPort, f *Flow, now time.Duration) bool {
	switch v {
	case openedForged:
		s.count.forged.Add(1)
		return false
	case openedReplayed:
		s.count.replayed.Add(1)
		return false
	}
	if f.ICE != nil {
		s.ice.proved(from, now)
	}
	if f.DTLS != nil {
		if a := s.association.Load(); a != nil {
			a.confirm()
		}
	}
	return true
}

// destination is where our packets go now; invalid for nowhere.
func (s *Session) destination(f *Flow, now time.Duration) netip.AddrPort {
	switch {
	case s.guard.wanted && s.guard.keys == nil:
		return netip.AddrPort{}
	case f.ICE != nil:
		return s.ice.destination(now, &s.count)
	}
	return s.latch.destination(f.Asymmetric)
}
