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

// earlyLook is which share of the looks at a regular stream come a tick before the
// packet is due: those find out that it runs ahead of our clock.
const earlyLook = 8

// calm is the jitter up to which packets are taken to come when they are due. Above it
// every look comes a tick early, as one that is ahead would else be taken for punctual.
const calm = 1250 * time.Microsecond

// looks is how many datagrams drain will want at the tick, as far as is known: none,
// one, or more.
func (s *Session) looks(tick time.Duration) int {
	switch {
	case tick < s.rest:
		return 0
	case s.rested():
		return 2
	}
	return 1
}

// rested says that more than one packet may wait: when the socket was empty a tick ago,
// the one that was awaited is the only one.
func (s *Session) rested() bool { return s.rest != 0 || !s.empty }

// drain takes what has arrived. While packets come one after the other on time the
// socket is left alone until the next is due: most looks at it would find nothing,
// and a look costs as much as a packet. It says whether it looked.
func (s *Session) drain(tick, now time.Duration) (looked bool) {
	if tick < s.rest {
		return false
	}
	rested, quiet := s.rested(), true
	s.rest, s.empty = 0, false
	for range maxDrain {
		b, from, ok := s.sock.recv()
		if !ok {
			s.empty = true
			break
		}
		f := s.current(now)
		if f == nil {
			s.count.stale.Add(1)
			continue
		}
		if s.guard.wanted && demux(b) == kindRTP {
			if b, ok = s.open(b, from, f, now); !ok {
				rested, quiet = true, false
				continue
			}
		}
		if kind := parse(b, &s.packet); kind != kindRTP {
			s.reject(kind, b, from, f, now)
			continue
		}
		if !s.admit(f, from, now) {
			rested, quiet = true, false // a flood must not push our packets out of the buffer
			continue
		}
		if !s.sequenced(f, now) {
			continue
		}
		if every := s.pace(f); every > 0 && quiet {
			s.rest = tick + every
			if s.regular++; s.regular%earlyLook == 0 || s.seq.jitterTime(f.ClockRate) > calm {
				s.rest -= s.wheel.cfg.Tick
			}
		}
		s.deliver(f, now)
		if s.rest != 0 && !rested {
			break
		}
	}
	return true
}

// The interval between packets that the socket may be left alone for.
const (
	shortestPace = 15 * time.Millisecond
	longestPace  = 20 * time.Millisecond
)

// pace is how long after this packet the next one is due: 0 when it did not follow
// its predecessor, or they are too close together to rest between them.
func (s *Session) pace(f *Flow) time.Duration {
	p := &s.packet
	follows, step := p.Sequence == s.paced.seq+1, p.Timestamp-s.paced.ts
	s.paced.seq, s.paced.ts = p.Sequence, p.Timestamp
	if !follows || p.Resync || f.ClockRate <= 0 {
		return 0
	}
	every := time.Duration(step) * time.Second / time.Duration(f.ClockRate)
	if every < shortestPace {
		return 0
	}
	return min(every, longestPace)
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

func (s *Session) reject(k kind, b []byte, from netip.AddrPort, f *Flow, now time.Duration) {
	switch k {
	case kindRTCP:
		s.muxed(b, from, f, now)
	case kindSTUN:
		s.count.stun.Add(1)
		if f.ICE != nil {
			s.check(b, from, now)
		}
	case kindDTLS:
		s.record(b, from, f, now)
	default:
		s.count.malformed.Add(1)
	}
}

// admit asks the latch about the packet, or ICE, which needs no packets to tell
// whose an address is.
func (s *Session) admit(f *Flow, from netip.AddrPort, now time.Duration) bool {
	p := &s.packet
	if f.ICE != nil {
		if s.ice.passed(from, now) {
			return true
		}
		s.count.strange.Add(1)
		return false
	}
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
