package rtp

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	random "math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"
)

const (
	// minInterval is the least time between two reports (RFC 3550 section 6.2).
	// Two parties with a packet of some 100 octets each need no more than a fifth of
	// their 5 % of the bandwidth then, so the minimum always holds.
	minInterval = 5 * time.Second
	// pollEvery is how often the RTCP port is drained. Arrivals are stamped by the
	// system, so nothing is measured wrong for it.
	pollEvery = 100 * time.Millisecond
	// remembered is how many SRs of ours a report may refer to.
	remembered = 8
	// controlQueue is the queue of the RTCP port under the goroutine driver.
	controlQueue = 8
)

// Playout is what a Handler may implement as well, so that what the listener loses
// after the network is in the reports and the MOS. It is asked on the wheel, once in
// about 5 s and at Bye.
type Playout interface {
	// Playout is how long a packet waits at the most before it is played, and how
	// many came too late for that so far.
	Playout() (delay time.Duration, discarded uint64)
}

// control is the RTCP of a session. But for sock it is the wheel's alone.
type control struct {
	sock    atomic.Pointer[socket] // of the RTCP port; nil: none
	playout Playout                // handler, if it is one
	cname   [cnameSize]byte

	due    time.Duration // when there is something to do; the earlier of the next two
	report time.Duration // when the next report is due
	poll   time.Duration // when the port is drained next
	left   bool          // BYE was said

	source netip.AddrPort // of the peer's RTCP, believed
	locked bool           // no other is, until the next offer/answer

	began time.Duration      // Join
	sent  [2]uint64          // packets sent by the last report and the one before
	ours  [remembered]uint32 // the middles of the NTP times of our last SRs
	at    int                // where the next goes
	lsr   uint32             // that of the peer's last SR
	lsrAt time.Duration      // when it came
	lsrOf uint32             // its SSRC
}

// name makes the CNAME: random, and another one for every session, so that it
// cannot be used to follow a caller from call to call (RFC 7022 section 5).
func (c *control) name() {
	var b [cnameSize * 3 / 4]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand crashes the process instead
	base64.RawStdEncoding.Encode(c.cname[:], b[:])
}

// ListenRTCP binds a port for RTCP, if that was not done: the one above the RTP
// port, or any when that one is taken. It returns the port, which belongs into the
// session description when it is not the one above (RFC 3605). Until then, and
// without Flow.Mux, no RTCP is sent or read. The error wraps ErrClosed after Close.
func (s *Session) ListenRTCP() (port uint16, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return 0, ErrClosed
	}
	if sock := s.control.sock.Load(); sock != nil {
		return (*sock).local().Port(), nil
	}
	err = errors.New("no port above")
	var sock socket
	if above := s.local.Port() + 1; above > 1 {
		sock, err = s.wheel.bind(s.wheel, above, controlQueue)
	}
	if err != nil {
		if sock, err = s.wheel.bind(s.wheel, 0, controlQueue); err != nil {
			return 0, fmt.Errorf("rtp: bind %v for RTCP: %w", s.wheel.cfg.Addr, err)
		}
	}
	if r, ok := sock.(refuser); ok {
		r.onRefusal(s.refused)
	}
	sock.age() // from now on arrivals are stamped
	s.control.sock.Store(&sock)
	return sock.local().Port(), nil
}

// Bye says that our stream is over: an RTCP BYE is sent where RTCP is agreed on and
// anything had been sent before (RFC 3550 section 6.3.7), and nothing any more. It
// returns when that is done, a tick later at the most. Close alone says nothing: the
// peer may have gone, and its port may be another's. Not to be called from a Handler.
func (s *Session) Bye() {
	s.mu.Lock()
	wanted := s.joined && !s.closed.Load()
	s.mu.Unlock()
	if !wanted {
		return
	}
	done := make(chan struct{})
	s.wheel.command(&command{session: s, bye: done})
	select {
	case <-done:
	case <-s.wheel.stopped:
	}
}

// interval is the time to the next report (RFC 3550 section 6.3.1).
func interval(least time.Duration) time.Duration {
	return time.Duration((0.5 + random.Float64()) / (math.E - 1.5) * float64(least))
}

// begin is called at Join.
func (c *control) begin(h Handler, now time.Duration) {
	c.playout, _ = h.(Playout)
	c.began = now
	c.report = now + interval(minInterval/2)
	c.poll = now + random.N(pollEvery)
	c.due = min(c.report, c.poll)
	if sock := c.sock.Load(); sock != nil {
		for range maxStale {
			if _, _, ok := (*sock).recv(); !ok {
				return
			}
		}
	}
}

// rearm lets another source be believed.
func (c *control) rearm() { c.locked = false }

// reports does what is due.
func (s *Session) reports(now time.Duration) {
	c := &s.control
	f := s.current(now)
	if now >= c.poll {
		c.poll = now + pollEvery
		if f != nil {
			s.drainControl(f)
		}
	}
	if now >= c.report {
		c.report = now + interval(minInterval)
		if f != nil {
			s.sendReport(f, false)
		}
	}
	c.due = min(c.poll, c.report)
}

// goodbye is Bye, on the wheel.
func (s *Session) goodbye() {
	if s.index < 0 || s.control.left {
		return
	}
	if f := s.current(s.wheel.Now()); f != nil && s.count.sent.Load()+s.count.reports.sent.Load() > 0 {
		s.sendReport(f, true)
	}
	s.control.left = true
}

// reportTo is where our RTCP goes and from which socket; to is invalid for nowhere.
func (s *Session) reportTo(f *Flow, now time.Duration) (from socket, to netip.AddrPort) {
	rtp := s.destination(f, now)
	if f.Mux {
		return s.sock, rtp
	}
	sock := s.control.sock.Load()
	switch {
	case sock == nil || !usable(f.RTCP) || s.guard.wanted && s.guard.keys == nil:
		return nil, netip.AddrPort{}
	case f.Asymmetric:
		return *sock, f.RTCP
	case s.control.source.IsValid():
		return *sock, s.control.source
	case rtp.IsValid() && rtp.Addr() != f.Peer.Addr() && rtp.Port() < math.MaxUint16:
		// The address of the SDP is not that of the stream: behind a NAT that keeps
		// pairs of ports together this reaches the peer, and the SDP's does not.
		return *sock, netip.AddrPortFrom(rtp.Addr(), rtp.Port()+1)
	}
	return *sock, f.RTCP
}

// usable says whether packets can be sent to a.
func usable(a netip.AddrPort) bool { return a.IsValid() && a.Port() != 0 && !a.Addr().IsUnspecified() }

// sendReport sends a compound packet, with a BYE at its end or not.
func (s *Session) sendReport(f *Flow, bye bool) {
	s.askPlayout()
	s.count.reports.packetTime.Store(int64(f.PacketTime))
	from, to := s.reportTo(f, s.wheel.Now())
	s.publishControl(to)
	if !to.IsValid() || s.closed.Load() || s.control.left {
		return
	}
	b := s.compound(f, bye)
	if s.guard.wanted {
		var ok bool
		if b, ok = s.guard.keys.sealRTCP(b); !ok {
			s.count.reports.sendErrors.Add(1)
			return
		}
	}
	if !from.send(b, to) {
		s.count.reports.sendErrors.Add(1)
		return
	}
	s.count.reports.sent.Add(1)
}

// publishControl shows where RTCP goes, for Stats.
func (s *Session) publishControl(to netip.AddrPort) {
	if r := s.count.reports.remote.Load(); r == nil || *r != to {
		changed := to // allocated here and not in every report
		s.count.reports.remote.Store(&changed)
	}
}

// askPlayout takes note of what the listener makes of the stream.
func (s *Session) askPlayout() {
	if p := s.control.playout; p != nil {
		delay, discarded := p.Playout()
		s.count.reports.playout.Store(int64(delay))
		s.count.reports.discarded.Store(discarded)
	}
}

// compound builds SR or RR, SDES, XR if wanted and BYE if it is the end, in the
// wheel's buffer.
func (s *Session) compound(f *Flow, bye bool) []byte {
	c := &s.control
	ssrc, now := s.out.ssrc, s.wheel.Now()
	block, heard := s.seq.report()
	if heard && c.lsr != 0 && c.lsrOf == block.ssrc {
		block.lsr, block.dlsr = c.lsr, fixed(now-c.lsrAt)
	}
	sent := s.count.sent.Load()
	info := senderInfo{ntp: s.wheel.ntp(now), rtp: s.out.clock(now, f.ClockRate), packets: uint32(sent - s.out.packets), octets: uint32(s.count.sentBytes.Load() - s.out.octets)}
	about, sender := &block, &info
	if !heard {
		about = nil
	}
	if sent == c.sent[1] { // nothing in the last two intervals: RFC 3550 section 6.4
		sender = nil
	} else {
		c.ours[c.at] = uint32(info.ntp >> 16)
		c.at = (c.at + 1) % remembered
	}
	c.sent = [2]uint64{sent, c.sent[0]}
	b := appendReport(s.wheel.out[:0], ssrc, sender, about)
	b = appendCNAME(b, ssrc, &c.cname)
	if f.Extended && s.seq.started {
		m := s.metrics(now)
		b = appendVoIP(b, ssrc, &m)
	}
	if bye {
		b = appendBYE(b, ssrc)
	}
	return b
}

// ntp is the wall clock at a time of the wheel, as RTCP writes it.
func (w *Wheel) ntp(now time.Duration) uint64 {
	const since1900 = 2208988800
	at := w.began.UnixNano() + int64(now)
	return uint64(at/1e9+since1900)<<32 | uint64(at%1e9)<<32/1e9
}

// fixed is d in 1/65536 s.
func fixed(d time.Duration) uint32 {
	return uint32(min(math.MaxUint32, uint64(max(0, d))<<16/uint64(time.Second)))
}

// clock is the timestamp of a sample that would be taken now.
func (o *sender) clock(now time.Duration, rate int) uint32 {
	return o.ts + uint32(int64(now-o.next)/1000*int64(rate)/1e6)
}

// metrics are the figures for an XR packet.
func (s *Session) metrics(now time.Duration) voipMetrics {
	c := &s.count
	lost, discarded := c.lost.Load(), c.reports.discarded.Load()
	expected := c.received.Load() + lost
	delay, rtt := c.delay(), time.Duration(c.reports.rtt.Load())
	loss := share(lost+discarded, expected)
	conversational := rFactor(loss, delay)
	return voipMetrics{
		ssrc: s.seq.ssrc, loss: of256(share(lost, expected)), discard: of256(share(discarded, expected)),
		duration: millis(now - s.control.began), roundTrip: millis(rtt), delay: millis(delay - rtt/2),
		r: uint8(math.Round(conversational)), mosLQ: uint8(math.Round(10 * opinion(rFactor(loss, 0)))),
		mosCQ: uint8(math.Round(10 * opinion(conversational))), playout: millis(time.Duration(c.reports.playout.Load())),
	}
}

func of256(f float64) uint8 { return uint8(min(255, f*256)) }

func millis(d time.Duration) uint16 {
	return uint16(min(math.MaxUint16, max(0, d/time.Millisecond)))
}
