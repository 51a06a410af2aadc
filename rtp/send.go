package rtp

import (
	"net/netip"
	"time"
)

const (
	// catchUp is how many packets are sent at once after a short stall, so that
	// no sound is lost, and maxAge how old the first of them may be. Beyond either
	// all but the latest are given up: the listener would hear them late for the
	// rest of the call.
	catchUp = 3
	maxAge  = 60 * time.Millisecond
)

// sender is the stream out.
type sender struct {
	ssrc    uint32
	seq     uint16
	ts      uint32        // of the next slot
	next    time.Duration // when the next slot is due; 0 before the first
	ptime   time.Duration // of the flow that next was reckoned with
	eventTS uint32        // of the telephone-event being sent
	owed    int           // skipped slots the Handler has not been told of
	mark    bool          // set the marker of the next packet
	packets uint64        // sent, and octets, when the SSRC was chosen
	octets  uint64
	sealing int // octets by which protection makes a packet longer
}

// slots serves the slots that are due at the tick.
func (s *Session) slots(tick, now time.Duration) {
	f := s.current(now)
	if f == nil || f.PacketTime <= 0 || f.ClockRate <= 0 {
		return
	}
	o := &s.out
	switch {
	case o.next == 0:
		o.next = s.wheel.start(s.phase, tick)
	case o.ptime != f.PacketTime:
		o.next += f.PacketTime - o.ptime
	}
	o.ptime = f.PacketTime
	if tick < o.next {
		return
	}
	late := tick - o.next
	due := int(late/f.PacketTime) + 1
	if due > 1 && (due > catchUp || late > maxAge) {
		s.skip(f, due-1)
		due = 1
	}
	for range due {
		o.next += f.PacketTime
		s.slot(f, now)
	}
}

// step is how far the timestamp advances in a slot.
func step(f *Flow) uint32 {
	return uint32(int64(f.PacketTime) * int64(f.ClockRate) / int64(time.Second))
}

// skip gives up n slots: their time passes, and nothing is sent for them.
func (s *Session) skip(f *Flow, n int) {
	s.out.next += time.Duration(n) * f.PacketTime
	s.out.ts += uint32(n) * step(f)
	if !f.Send {
		return
	}
	s.out.owed += n
	s.out.mark = true
	s.count.skippedSlots.Add(uint64(n))
	s.wheel.skipped.Add(uint64(n))
}

// slot serves one slot.
func (s *Session) slot(f *Flow, now time.Duration) {
	o := &s.out
	ts := o.ts
	o.ts += step(f)
	to := s.destination(f, now)
	s.publish(to)
	if !f.Send || !to.IsValid() || s.closed.Load() || s.control.left {
		o.mark, o.owed = true, 0
		return
	}
	if s.events != nil {
		if payload, pt, first := s.events.Event(now); payload != nil {
			if first {
				o.eventTS = ts
			}
			s.send(to, payload, pt, first, o.eventTS)
			return
		}
	}
	skipped := o.owed
	o.owed = 0
	payload, marker := s.handler.Slot(now, skipped)
	if payload == nil {
		return
	}
	s.send(to, payload, f.PayloadType, marker || o.mark, ts)
	o.mark = false
}

func (s *Session) send(to netip.AddrPort, payload []byte, pt uint8, marker bool, ts uint32) {
	if len(payload) > maxPayload {
		s.count.sendErrors.Add(1)
		return
	}
	b := s.wheel.out[:headerSize+len(payload)]
	writeHeader(b, pt, marker, s.out.seq, ts, s.out.ssrc)
	copy(b[headerSize:], payload)
	s.out.seq++
	if s.guard.wanted {
		var ok bool
		if b, ok = s.guard.keys.sealRTP(b); !ok {
			s.count.sendErrors.Add(1)
			return
		}
	}
	s.out.sealing = len(b) - headerSize - len(payload)
	if !s.sock.send(b, to) {
		s.count.sendErrors.Add(1)
		return
	}
	s.count.sent.Add(1)
	s.count.sentBytes.Add(uint64(len(payload)))
}

// refused takes back what was said of a datagram that the system did not send after
// all.
func (s *Session) refused(b []byte) {
	switch demux(b) {
	case kindRTP:
		s.count.sent.Add(^uint64(0))
		s.count.sentBytes.Add(-uint64(len(b) - headerSize - s.out.sealing))
		s.count.sendErrors.Add(1)
	case kindRTCP:
		s.count.reports.sent.Add(^uint64(0))
		s.count.reports.sendErrors.Add(1)
	default:
		s.count.sendErrors.Add(1)
	}
}
