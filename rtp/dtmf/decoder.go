package dtmf

import (
	"encoding/binary"
	"time"
)

const (
	// merge is the time within which a report of the same event with another
	// timestamp is taken for the same press by a sender that gets timestamps
	// wrong. Nobody presses the same key again within it.
	merge = 40 * time.Millisecond
	// old is how far back a timestamp may lie and still be of a press before.
	old = 5 * time.Second
	// remembered is how many presses before are known by their timestamps.
	remembered = 4
)

// Decoder finds key presses among the event packets of one stream. One goroutine
// uses it.
//
// A press is one event at one timestamp (RFC 4733 section 2.2.2). It is reported
// at its first packet, and what follows with that timestamp only prolongs it: the
// marker and the end bit may be missing, and packets lost.
type Decoder struct {
	rate   int64
	now    press
	before [remembered]press // ring
	at     int
}

// press is one key press as far as it is known.
type press struct {
	known    bool
	event    byte
	ts       uint32
	duration uint16        // as last reported
	ended    bool          // the end bit was seen
	last     time.Duration // arrival of the last report
}

// NewDecoder makes a decoder for events with the given timestamp clock in Hz.
func NewDecoder(clockRate int) *Decoder { return &Decoder{rate: int64(clockRate)} }

// SetClock changes the timestamp clock, in Hz, as a new codec does. The presses so
// far stay known.
func (d *Decoder) SetClock(clockRate int) { d.rate = int64(clockRate) }

// Reset forgets all presses: call it for a new SSRC (rtp.Packet.Resync).
func (d *Decoder) Reset() { *d = Decoder{rate: d.rate} }

// Receive takes the payload of one event packet. ok is true once a press, at its
// first packet with a duration, so that an interruption is heard early. What is
// too short, no digit, or of no duration is ignored.
func (d *Decoder) Receive(now time.Duration, ts uint32, marker bool, payload []byte) (digit byte, ok bool) {
	if len(payload) < payloadSize {
		return 0, false
	}
	r := press{
		known: true, event: payload[0], ts: ts, ended: payload[1]&0x80 != 0,
		duration: binary.BigEndian.Uint16(payload[2:]), last: now,
	}
	digit, ok = Digit(r.event)
	if !ok || r.duration == 0 {
		return 0, false
	}
	if d.prolongs(r, marker) || d.past(r) {
		return 0, false
	}
	d.remember(d.now)
	d.now = r
	return digit, true
}

// remember keeps a press, so that a packet of it that was overtaken is known.
func (d *Decoder) remember(p press) {
	d.before[d.at%remembered] = p
	d.at++
}

// prolongs says whether r is of the press now, and takes it into it.
func (d *Decoder) prolongs(r press, marker bool) bool {
	p := &d.now
	if !p.known || p.event != r.event {
		return false
	}
	forward := int32(r.ts - p.ts)
	switch {
	case forward == 0:
	case forward < 0 || marker:
		return false
	case d.segment(p, uint32(forward)):
		d.remember(*p)
		p.ts, p.duration = r.ts, 0
	case int64(forward) < d.rate/5 && slipped(p, r):
		p.ts = r.ts
	default:
		return false
	}
	p.duration = max(p.duration, r.duration)
	p.ended = p.ended || r.ended
	p.last = r.last
	return true
}

// segment says whether a press that long goes on with a new timestamp, as the
// duration has no more room (RFC 4733 section 2.5.1.3). The report that filled it
// may have been lost.
func (d *Decoder) segment(p *press, forward uint32) bool {
	slack := uint32(d.rate * 3 / 50) // three packets of 20 ms
	return !p.ended && p.duration >= 1<<15 && forward <= 1<<16-1 && forward >= uint32(p.duration) && forward <= uint32(p.duration)+slack
}

// slipped says whether a report is of the same press although its timestamp moved
// on: senders are known that do so in the end packets, and some in all.
func slipped(p *press, r press) bool {
	soon := r.last-p.last < merge
	return soon && (p.ended && r.ended || !p.ended && r.duration > p.duration)
}

// past says whether r is of a press before: a packet that was overtaken.
func (d *Decoder) past(r press) bool {
	for i := range d.before {
		if b := &d.before[i]; b.known && b.event == r.event && b.ts == r.ts {
			return true
		}
	}
	back := int64(int32(d.now.ts - r.ts))
	return d.now.known && back > 0 && back < int64(old/time.Second)*d.rate && r.last-d.now.last < old
}
