package rtp

import (
	"net/netip"
	"time"
)

const (
	// maxDrain is how many datagrams of one session a tick takes: enough to catch
	// up on half a second in one tick, few enough that a flood at one port does
	// not hold up the others.
	maxDrain = 32
	// maxStale is how many datagrams Join drops: more than a default socket
	// buffer holds.
	maxStale = 512
)

// drain takes what has arrived.
func (s *Session) drain(now time.Duration) {
	for range maxDrain {
		b, from, ok := s.sock.recv()
		if !ok {
			return
		}
		f := s.current(now)
		if f == nil {
			s.count.stale.Add(1)
			continue
		}
		if kind := parse(b, &s.packet); kind != kindRTP {
			s.reject(kind, b, from, f)
			continue
		}
		if s.admit(f, from, now) && s.sequenced(f, now) {
			s.deliver(f, now)
		}
	}
}

// dropStale drops what arrived before Join.
func (s *Session) dropStale() {
	for range maxStale {
		if _, _, ok := s.sock.recv(); !ok {
			return
		}
		s.count.stale.Add(1)
	}
}

func (s *Session) reject(k kind, b []byte, from netip.AddrPort, f *Flow) {
	switch k {
	case kindRTCP:
		s.muxed(b, from, f)
	case kindSTUN:
		s.count.stun.Add(1)
	default:
		s.count.malformed.Add(1)
	}
}

// admit asks the latch about the packet.
func (s *Session) admit(f *Flow, from netip.AddrPort, now time.Duration) bool {
	p := &s.packet
	switch s.latch.admit(from, p, now, f.Accept.Has(p.PayloadType), f.Strict) {
	case verdictStrange:
		s.count.strange.Add(1)
		return false
	case verdictProbation:
		s.count.probation.Add(1)
		return false
	}
	if !s.count.latched.Load() {
		s.count.latched.Store(true)
	}
	return true
}

// sequenced takes the packet into the sequence space and the figures of its
// stream, and says whether it is new.
func (s *Session) sequenced(f *Flow, now time.Duration) bool {
	p := &s.packet
	p.Resync = false
	switch s.seq.accept(p.SSRC, p.Sequence) {
	case orderDuplicate:
		s.count.duplicate.Add(1)
		return false
	case orderSuspect:
		s.count.probation.Add(1)
		return false
	case orderBehind:
		s.count.reordered.Add(1)
	case orderResync:
		s.count.resyncs.Add(1)
		p.Resync = true
	case orderFirst:
		p.Resync = true
	}
	s.seq.time(now, p.Timestamp, f.ClockRate)
	c := &s.count
	c.received.Add(1)
	c.receivedBytes.Add(uint64(len(p.Payload)))
	c.lost.Store(s.seq.lostSoFar())
	c.jitter.Store(int64(s.seq.jitterTime(f.ClockRate)))
	c.peerSSRC.Store(p.SSRC)
	if last := c.lastReceived.Swap(int64(now)); last > 0 && int64(now)-last > c.maxGap.Load() {
		c.maxGap.Store(int64(now) - last)
	}
	return true
}

// deliver hands the packet to the Handler, if it is one for it.
func (s *Session) deliver(f *Flow, now time.Duration) {
	p := &s.packet
	switch {
	case len(p.Payload) == 0:
		s.count.empty.Add(1)
	case !f.Accept.Has(p.PayloadType):
		s.count.wrongPT.Add(1)
	case !f.Recv:
		s.count.muted.Add(1)
	default:
		p.Arrival = now
		p.Resync = p.Resync || s.resync
		s.resync = false
		s.handler.Packet(p)
		return
	}
	s.resync = s.resync || p.Resync
}
