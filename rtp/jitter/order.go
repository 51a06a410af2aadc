package jitter

import "time"

// slot is the place of position seq. The slots are made when the first packet does not
// come in its turn: most streams of a good line never need them.
func (b *Buffer) slot(seq uint16) *slot {
	if b.slots == nil {
		b.slots = make([]slot, b.depth)
	}
	return &b.slots[int(seq)&(b.depth-1)]
}

// put copies a packet into s. Copies are made into buffers that go around, so that
// a stream takes as many as it ever had packets waiting.
func (b *Buffer) put(s *slot, now time.Duration, seq uint16, ts uint32, marker bool, payload []byte) {
	var buf []byte
	if n := len(b.spare); n > 0 {
		buf, b.spare = b.spare[n-1], b.spare[:n-1]
	}
	if cap(buf) < len(payload) {
		buf = make([]byte, 0, (len(payload)+63)&^63)
	}
	*s = slot{state: kept, marker: marker, seq: seq, ts: ts, at: now, b: append(buf[:0], payload...)}
}

// release frees s. Its bytes stay as they are until the next put.
func (b *Buffer) release(s *slot) {
	if s.b != nil {
		b.spare = append(b.spare, s.b)
	}
	*s = slot{}
}

// keep stores a packet that came early.
func (b *Buffer) keep(now time.Duration, seq uint16, ts uint32, marker bool, payload []byte) {
	s := b.slot(seq)
	switch {
	case s.state != free:
		b.stats.Duplicate++
	case len(payload) > b.cfg.MaxPacket:
		b.stats.Overflow++
	default:
		b.put(s, now, seq, ts, marker, payload)
		b.kept++
		b.stats.Early++
	}
}

// past counts a packet whose position is over.
func (b *Buffer) past(now time.Duration, seq uint16) {
	back := b.next - 1 - seq
	if back < 64 && b.history&(1<<back) != 0 {
		b.stats.Duplicate++
		return
	}
	b.stats.Late++
	if back < 64 {
		b.history |= 1 << back // a second one is a duplicate
		b.wait.late(now - b.noticed[seq%64])
	}
}

// advance moves next on by n positions that were played, or given up.
func (b *Buffer) advance(n int, played bool) {
	b.next += uint16(n)
	b.history <<= uint(n)
	if played {
		b.history |= 1<<uint(n) - 1
	}
}

// skip takes position next as one without audio. What it stood for shows in the
// timestamp of the next packet: a pause.
func (b *Buffer) skip() {
	b.advance(1, true)
	b.exact, b.silent = true, true
}

// pass takes the packet at next as played.
func (b *Buffer) pass(at time.Duration, seq uint16, ts uint32, payload []byte) {
	long := 0
	if b.cfg.Duration != nil {
		long = b.cfg.Duration(payload)
	}
	seen := int32(ts - b.lastTS)
	switch {
	case long > 0:
		b.step = uint32(long)
	case !b.exact && b.stats.Played > 0 && seq == b.lastSeq+1 && seen > 0 && seen <= b.limits.packet:
		b.step, b.measured = uint32(seen), true
	}
	b.exact = long > 0
	b.lastSeq, b.lastTS, b.lastAt, b.silent = seq, ts, at, false
	b.end = ts + b.step
	b.advance(1, true)
	b.stats.Played++
	b.wait.played()
}

// pause is how long the sender was silent before a packet at next, 0 if it was
// not. A timestamp that leaps further than time has passed is no pause but a new
// beginning (a call parked and fetched).
func (b *Buffer) pause(at time.Duration, ts uint32, marker bool) int32 {
	d := int32(ts - b.end)
	switch {
	case d <= 0 || !b.plausible(at, d):
		return 0
	case !b.exact && !marker && d+int32(b.step) <= b.limits.packet:
		return 0 // the packet before may just have been longer
	}
	return d
}

// plausible says whether the sender's clock may have moved on by d since the
// packet played last.
func (b *Buffer) plausible(at time.Duration, d int32) bool {
	passed := int64((at-b.lastAt)/time.Microsecond) * int64(b.cfg.ClockRate) / 1e6
	return d >= 0 && int64(d) <= passed+b.limits.slack
}

// resync counts a timestamp at next that belongs to another time line. The packet
// plays at once: positions are what orders, so a leap costs no delay.
func (b *Buffer) resync(at time.Duration, ts uint32) {
	d := int32(ts - b.end)
	if d < -b.limits.packet || d > b.limits.packet && !b.plausible(at, d) {
		b.stats.Resyncs++
	}
}

// far takes a packet too far from next to be of this stream, unless nothing was
// heard for as long as it says. Else it is believed when the next in order to it
// is the next that comes (RFC 3550 section A.1).
func (b *Buffer) far(now time.Duration, seq uint16, ts uint32, marker bool, payload []byte) {
	if len(payload) > b.cfg.MaxPacket {
		b.stats.Overflow++
		return
	}
	confirms := b.doubt == 1 && seq == b.suspects[0].seq+1
	if !confirms {
		b.trust()
	}
	b.put(&b.suspects[b.doubt], now, seq, ts, marker, payload)
	b.doubt++
	b.flushing = confirms || b.outage(&b.suspects[0])
}

// outage says whether s is of this stream, after a long loss.
func (b *Buffer) outage(s *slot) bool {
	d := int16(s.seq - b.next)
	return d >= 0 && d < maxDropout && b.plausible(s.at, int32(s.ts-b.end))
}

// trust drops a suspect: the stream goes on as it was.
func (b *Buffer) trust() {
	for i := range b.doubt {
		b.release(&b.suspects[i])
		b.stats.Late++
	}
	b.doubt = 0
}
