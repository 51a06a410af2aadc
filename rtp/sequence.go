package rtp

import "time"

// Limits of RFC 3550 section A.1: a forward jump below maxDropout is loss, a
// backward one below maxMisorder is reordering, anything else is suspect.
const (
	maxDropout  = 3000
	maxMisorder = 100
)

// order is what the sequence number of a packet says about it.
type order uint8

const (
	orderNext      order = iota // later than all before
	orderBehind                 // came behind a later one
	orderDuplicate              // came before
	orderSuspect                // of another space, not yet confirmed
	orderFirst                  // first of the stream
	orderResync                 // second of a new space, which begins here
)

// sequence follows the sequence numbers of one source (RFC 3550 section A.1). A
// new SSRC, or a far jump, is believed when two packets follow each other with
// nothing of the old space between them: a transfer behind a PBX costs one
// packet, and a stray packet nothing.
type sequence struct {
	started  bool
	ssrc     uint32
	base     int64  // first extended sequence number
	highest  int64  // highest extended sequence number
	history  uint64 // bit i: highest-i was received
	received uint64 // in this space
	lost     uint64 // in former spaces

	reportedExpected, reportedReceived int64 // as of the last report

	suspected bool // the next two describe the packet that would confirm
	nextSSRC  uint32
	nextSeq   uint16

	timed     bool // the next three are set
	timestamp uint32
	transit   int32
	jitter    int64 // clock units × 16
}

// accept classifies a packet and takes it into account.
func (q *sequence) accept(ssrc uint32, seq uint16) order {
	if !q.started {
		q.begin(ssrc, seq)
		return orderFirst
	}
	delta := seq - uint16(q.highest)
	if ssrc != q.ssrc || delta >= maxDropout && delta <= 1<<16-1-maxMisorder {
		if q.suspected && ssrc == q.nextSSRC && seq == q.nextSeq {
			q.lost = q.lostSoFar()
			q.begin(ssrc, seq)
			return orderResync
		}
		q.suspected, q.nextSSRC, q.nextSeq = true, ssrc, seq+1
		return orderSuspect
	}
	q.suspected = false
	if delta < maxDropout {
		return q.forward(int64(delta))
	}
	return q.behind(int64(uint16(q.highest) - seq))
}

func (q *sequence) begin(ssrc uint32, seq uint16) {
	*q = sequence{started: true, ssrc: ssrc, base: int64(seq), highest: int64(seq), history: 1, received: 1, lost: q.lost}
}

func (q *sequence) forward(by int64) order {
	if by == 0 {
		return orderDuplicate
	}
	q.highest += by
	q.history = q.history<<uint(by) | 1 // a shift of 64 and more gives 0
	q.received++
	return orderNext
}

func (q *sequence) behind(by int64) order {
	if by < 64 {
		if q.history&(1<<uint(by)) != 0 {
			return orderDuplicate
		}
		q.history |= 1 << uint(by)
	}
	// The stream may have begun with a packet that overtook the first.
	q.base = min(q.base, q.highest-by)
	q.received++
	return orderBehind
}

// lostSoFar is RFC 3550 section A.3 over all spaces, never negative.
func (q *sequence) lostSoFar() uint64 {
	if !q.started {
		return q.lost
	}
	return q.lost + uint64(max(0, q.highest-q.base+1-int64(q.received)))
}

// report is a report block on the present space, without LSR and DLSR; not when
// nothing came since the last (RFC 3550 sections 6.4 and A.3).
func (q *sequence) report() (b reportBlock, ok bool) {
	received := int64(q.received)
	if !q.started || received == q.reportedReceived {
		return b, false
	}
	expected := q.highest - q.base + 1
	due, lost := expected-q.reportedExpected, (expected-q.reportedExpected)-(received-q.reportedReceived)
	q.reportedExpected, q.reportedReceived = expected, received
	if due > 0 && lost > 0 {
		b.fraction = uint8(min(255, lost<<8/due))
	}
	b.ssrc, b.highest, b.jitter = q.ssrc, uint32(q.highest), uint32(q.jitter>>4)
	b.lost = int32(min(1<<23-1, max(-1<<23, expected-received)))
	return b, true
}

// time updates the interarrival jitter of RFC 3550 sections 6.4.1 and A.8.
// Packets that share a timestamp (telephone-events) say nothing about the
// network, nor does a jump of the timestamp (RFC 3551 section 4.1).
func (q *sequence) time(now time.Duration, ts uint32, rate int) {
	if rate <= 0 || q.timed && ts == q.timestamp {
		return
	}
	transit := int32(uint32(int64(now)/1000*int64(rate)/1e6) - ts)
	if q.timed {
		d := int64(transit - q.transit)
		if d < 0 {
			d = -d
		}
		if d < int64(rate) { // a second
			q.jitter += d - (q.jitter+8)>>4
		}
	}
	q.timed, q.timestamp, q.transit = true, ts, transit
}

// jitterTime is the jitter so far as a duration.
func (q *sequence) jitterTime(rate int) time.Duration {
	if rate <= 0 {
		return 0
	}
	return time.Duration(q.jitter>>4) * time.Second / time.Duration(rate)
}
