package rtp

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"time"
)

// slack is by how much a peer's clock may run ahead of ours in the time that it
// held an SR of ours: 100 ms in 1/65536 s.
const slack = 6554

// Reports are the figures of a session's RTCP and what they say of its sound.
type Reports struct {
	// Sent and Received count compound packets; received ones are valid and the
	// peer's.
	Sent, Received uint64
	// Malformed counts datagrams that are no RTCP (RFC 3550 section A.2), Strange
	// those of somebody else, SendErrors those that the system refused to send.
	Malformed, Strange, SendErrors uint64
	// SenderReports, ReceiverReports, Extended and Byes count packets received
	// within the compounds.
	SenderReports, ReceiverReports, Extended, Byes uint64
	// Last is Wheel.Now of the last packet received, 0 for none.
	Last time.Duration
	// RTT is the round-trip time as last measured, MaxRTT the longest; 0 when none
	// was.
	RTT, MaxRTT time.Duration
	// Reported says that the peer has reported on our stream; the next four are
	// what it said last: packets lost in all, their share of those sent, the share
	// between its last two reports, and its interarrival jitter.
	Reported     bool
	PeerLost     uint64
	PeerLossRate float64
	PeerFraction float64
	PeerJitter   time.Duration
	// Discarded counts packets that came too late to be played (Playout).
	Discarded uint64
	// MOS is an estimate of how the peer sounds here, PeerMOS of how we sound
	// there, 1 to 4.5; 0 when there is nothing to judge by. PeerMOS is the peer's own
	// figure if it sends one (RFC 3611). See quality.go for the model.
	MOS, PeerMOS float64
	// Remote is where RTCP goes now; invalid when nowhere is known.
	Remote netip.AddrPort
}

// reportCounters are Reports while the wheel counts.
type reportCounters struct {
	sent, received                           atomic.Uint64
	malformed, strange, sendErrors           atomic.Uint64
	senderReports, receiverReports, extended atomic.Uint64
	byes, peerLost, discarded                atomic.Uint64
	last, rtt, maxRTT                        atomic.Int64
	peerJitter, playout, packetTime          atomic.Int64
	peerFraction, peerMOS                    atomic.Uint32
	reported                                 atomic.Bool
	remote                                   atomic.Pointer[netip.AddrPort]
}

// reports is the snapshot of the RTCP part, with what follows from it.
func (c *counters) snapshotReports() Reports {
	k := &c.reports
	r := Reports{
		Sent: k.sent.Load(), Received: k.received.Load(),
		Malformed: k.malformed.Load(), Strange: k.strange.Load(), SendErrors: k.sendErrors.Load(),
		SenderReports: k.senderReports.Load(), ReceiverReports: k.receiverReports.Load(),
		Extended: k.extended.Load(), Byes: k.byes.Load(), Last: time.Duration(k.last.Load()),
		RTT: time.Duration(k.rtt.Load()), MaxRTT: time.Duration(k.maxRTT.Load()),
		Reported: k.reported.Load(), PeerLost: k.peerLost.Load(), PeerFraction: float64(k.peerFraction.Load()) / 256,
		PeerJitter: time.Duration(k.peerJitter.Load()), Discarded: k.discarded.Load(),
	}
	if a := k.remote.Load(); a != nil {
		r.Remote = *a
	}
	received, lost := c.received.Load(), c.lost.Load()
	if received > 0 {
		r.MOS = opinion(rFactor(share(lost+r.Discarded, received+lost), c.delay()))
	}
	if sent := c.sent.Load(); r.Reported && sent > 0 {
		r.PeerLost = min(r.PeerLost, sent)
		r.PeerLossRate = share(r.PeerLost, sent)
		there := r.RTT/2 + 2*r.PeerJitter + time.Duration(k.packetTime.Load())
		r.PeerMOS = opinion(rFactor(r.PeerLossRate, there))
	}
	if told := k.peerMOS.Load(); told > 0 {
		r.PeerMOS = float64(told) / 10
	}
	return r
}

// delay is the way from the peer's mouth to our ear: the network one way, a packet,
// and what it may wait here. Without Playout that is taken to be twice the jitter.
func (c *counters) delay() time.Duration {
	k := &c.reports
	wait := k.playout.Load()
	if wait == 0 {
		wait = 2 * c.jitter.Load()
	}
	return time.Duration(k.rtt.Load()/2 + wait + k.packetTime.Load())
}

// drainControl takes what has arrived on the RTCP port.
func (s *Session) drainControl(f *Flow) {
	sock := s.control.sock.Load()
	if sock == nil {
		return
	}
	for range maxDrain {
		b, from, ok := (*sock).recv()
		if !ok {
			return
		}
		if s.guard.wanted && demux(b) == kindRTCP { // not STUN, and not a handshake for this port alone
			if b, ok = s.openControl(b, from, f, s.wheel.Now()); !ok {
				continue
			}
		}
		switch {
		case !validCompound(b):
			s.count.reports.malformed.Add(1)
		case !s.control.admit(b, from, f, &s.latch, &s.seq):
			s.count.reports.strange.Add(1)
		default:
			s.hear(b, s.wheel.Now()-(*sock).age(), f)
		}
	}
}

// muxed takes RTCP that came on the RTP port (RFC 5761). It is read whether that was
// agreed on or not, when it is of the source of the RTP.
func (s *Session) muxed(b []byte, from netip.AddrPort, f *Flow, now time.Duration) {
	s.count.rtcp.Add(1)
	known := from == s.latch.source || from == s.latch.peer
	if f.ICE != nil {
		known = s.ice.passed(from, now)
	}
	if known && s.guard.wanted {
		var ok bool
		if b, ok = s.openControl(b, from, f, now); !ok {
			return
		}
	}
	switch {
	case !known && s.guard.wanted:
		s.count.reports.strange.Add(1)
	case !validCompound(b):
		s.count.reports.malformed.Add(1)
	case !known:
		s.count.reports.strange.Add(1)
	default:
		s.hear(b, s.wheel.Now()-s.sock.age(), f)
	}
}

// admit decides whose reports are the peer's: those from the address of the SDP
// always; those from another port of the peer's host when they are of the SSRC that
// we hear, and then of no other port until the next offer/answer.
func (c *control) admit(b []byte, from netip.AddrPort, f *Flow, l *latch, q *sequence) bool {
	switch {
	case from == f.RTCP:
	case f.Strict:
		return false
	case from == c.source:
	case c.locked:
		return false
	case from.Addr() != f.RTCP.Addr() && from.Addr() != f.Peer.Addr() && from.Addr() != l.source.Addr():
		return false
	case q.started && binary.BigEndian.Uint32(b[4:]) != q.ssrc:
		return false
	}
	c.source, c.locked = from, true
	return true
}

// hear reads a valid compound packet that arrived at a time of the wheel.
func (s *Session) hear(b []byte, at time.Duration, f *Flow) {
	k := &s.count.reports
	if binary.BigEndian.Uint32(b[4:]) == s.out.ssrc { // our own, sent back
		k.strange.Add(1)
		return
	}
	k.received.Add(1)
	k.last.Store(int64(at))
	for len(b) > 0 {
		kind, count := b[1], int(b[0]&0x1f)
		var body []byte
		body, b = cut(b)
		switch kind {
		case typeSR:
			k.senderReports.Add(1)
			s.control.lsrOf = binary.BigEndian.Uint32(body)
			s.control.lsr = binary.BigEndian.Uint32(body[6:]) // the middle of the NTP time
			s.control.lsrAt = at
			s.blocks(body[4+senderSize:], count, at, f)
		case typeRR:
			k.receiverReports.Add(1)
			s.blocks(body[4:], count, at, f)
		case typeBYE:
			k.byes.Add(1)
		case typeXR:
			k.extended.Add(1)
			if mos, ok := findVoIP(body[4:], s.out.ssrc); ok {
				k.peerMOS.Store(uint32(mos))
			}
		}
	}
}

// blocks reads what the peer reports of our stream.
func (s *Session) blocks(b []byte, count int, at time.Duration, f *Flow) {
	k := &s.count.reports
	for range count {
		r := readBlock(b)
		b = b[blockSize:]
		if r.ssrc != s.out.ssrc {
			continue
		}
		k.peerLost.Store(uint64(max(0, r.lost)))
		k.peerFraction.Store(uint32(r.fraction))
		if f.ClockRate > 0 {
			k.peerJitter.Store(int64(time.Duration(r.jitter) * time.Second / time.Duration(f.ClockRate)))
		}
		k.reported.Store(true)
		if rtt, ok := s.roundTrip(&r, at); ok {
			k.rtt.Store(int64(rtt))
			k.maxRTT.Store(max(k.maxRTT.Load(), int64(rtt)))
		}
	}
}

// roundTrip is A − LSR − DLSR of RFC 3550 section 6.4.1. It is believed only for an
// SR that we sent of late, so that no peer can make it up.
func (s *Session) roundTrip(r *reportBlock, at time.Duration) (time.Duration, bool) {
	known := false
	for _, sent := range s.control.ours {
		known = known || sent != 0 && sent == r.lsr
	}
	passed := uint32(s.wheel.ntp(at)>>16) - r.lsr
	if !known || passed > 1<<31 || uint64(r.dlsr) > uint64(passed)+slack {
		return 0, false
	}
	trip := max(1, passed-min(passed, r.dlsr)) // 0 is for none
	return time.Duration(trip) * time.Second >> 16, true
}
