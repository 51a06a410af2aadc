// Package jitter puts the packets of one RTP stream back in order and says which
// of them are lost and when to give up waiting.
package jitter

import "time"

// Config bounds a Buffer.
type Config struct {
	// ClockRate is the timestamp clock of the stream in Hz.
	ClockRate int
	// Min and Max bound how long a missing packet is waited for, from the moment
	// a later one shows that it is missing.
	Min, Max time.Duration
	// Depth is how many packets are kept behind a missing one, rounded up to a
	// power of two.
	Depth int
	// MaxPacket is the longest payload in bytes that is kept.
	MaxPacket int
	// Duration says how long a payload lasts in clock units, 0 if it cannot tell.
	// With it pauses and changes of packet time are told apart exactly. Nil: both
	// are judged by the timestamps alone.
	Duration func(payload []byte) int
}

// Item is one thing to play: a packet, a loss to conceal, or a pause.
type Item struct {
	// Payload is a packet that was kept, valid until the next Push. Nil for a
	// loss or a pause.
	Payload []byte
	// Timestamp is where the item begins, in clock units.
	Timestamp uint32
	// At is when the packet arrived; 0 for a loss or a pause.
	At time.Duration
	// Lost says that Samples clock units are missing and to be concealed.
	Lost bool
	// Gap says that the sender was silent for Samples clock units (DTX, or a
	// telephone-event in place of audio): silence, not loss.
	Gap bool
	// Next is the packet directly behind a loss, if it is there: it comes out as the
	// next item, and may repeat some of what is lost. Valid until the next Push.
	Next []byte
	// Samples is the length of a loss or a pause in clock units. It can be long
	// (a muted phone): the caller decides how much of it to play.
	Samples int
}

// Stats are the figures of a Buffer since New.
type Stats struct {
	// Played counts packets passed or popped, Early those of them that were kept.
	Played, Early uint64
	// Late and Duplicate count packets dropped; Lost the positions given up.
	Late, Duplicate, Lost uint64
	// Gaps counts pauses, Resyncs new beginnings after a jump, Overflow packets
	// that could not be kept.
	Gaps, Resyncs, Overflow uint64
	// Delay is how long a missing packet is waited for now.
	Delay time.Duration
}

// Buffer orders one stream. It has no clock, no goroutine and no lock: one
// goroutine uses it.
//
//	positions    … 7 8 9 │ 10  11  12  13
//	             played  │  ?  kept kept ?
//	                     └ next, begins at end
//
// A packet at next passes without a copy. One behind it is kept in the slot of its
// number. When next is still missing after the wait, counted from the arrival of
// the first packet behind it, it is lost up to the first kept one.
type Buffer struct {
	cfg    Config
	depth  int    // a power of two
	slots  []slot // by sequence number modulo depth; nil as long as all came in order
	spare  [][]byte
	kept   int // slots that are not free
	wait   wait
	stats  Stats
	limits limits

	started  bool
	next     uint16        // the position wanted
	end      uint32        // the timestamp at which it should begin
	exact    bool          // end is known, not reckoned with step
	step     uint32        // length of a packet, as last seen
	measured bool          // step was seen, not assumed
	lastSeq  uint16        // of the packet played last
	lastTS   uint32        // likewise
	lastAt   time.Duration // likewise: its arrival
	silent   bool          // the position before next was skipped

	history uint64            // bit i: position next-1-i was played
	noticed [64]time.Duration // by position modulo 64: when a lost one was missed

	suspects [2]slot // packets of what may be a new stream
	doubt    int     // how many
	flushing bool    // what is kept comes out at once, then the suspects
}

// limits are times of the configuration in clock units.
type limits struct {
	packet int32 // no packet is longer
	slack  int64 // by how much a pause may seem longer than the time that passed
}

type state uint8

const (
	free    state = iota
	kept          // a packet
	skipped       // arrived, holds no audio
)

// slot is a packet that waits, or the mark that one has been.
type slot struct {
	state  state
	marker bool
	seq    uint16
	ts     uint32
	at     time.Duration
	b      []byte
}

// Bounds of RFC 3550 section A.1: beyond them a sequence number is of another
// space.
const (
	maxDropout  = 3000
	maxMisorder = 100
)

// New makes an empty buffer. Values of cfg that make no sense become usual ones:
// 8000 Hz, 64 packets of 1500 bytes, Max not below Min.
func New(cfg Config) *Buffer {
	if cfg.ClockRate <= 0 {
		cfg.ClockRate = 8000
	}
	if cfg.Depth <= 0 {
		cfg.Depth = 64
	}
	if cfg.MaxPacket <= 0 {
		cfg.MaxPacket = 1500
	}
	cfg.Max = max(cfg.Min, cfg.Max)
	depth := 2
	for depth < cfg.Depth && depth < 4096 {
		depth *= 2
	}
	rate := cfg.ClockRate
	return &Buffer{
		cfg: cfg, depth: depth, wait: wait{min: cfg.Min, max: cfg.Max},
		step:   uint32(rate / 50),
		limits: limits{packet: int32(rate * 12 / 100), slack: int64(rate / 2)},
	}
}

// Push offers a packet that arrived at now. play true: it is the next in order
// and no copy was made; the caller plays payload at once and then calls Pop until
// it has no more. play false: it was copied and kept, or dropped as late or
// duplicate; call Pop all the same.
func (b *Buffer) Push(now time.Duration, seq uint16, ts uint32, marker bool, payload []byte) (play bool) {
	for b.flushing { // the caller did not pop
		if _, ok := b.Pop(now); !ok {
			break
		}
	}
	if !b.started {
		b.started, b.next, b.end, b.lastSeq = true, seq, ts, seq
		b.pass(now, seq, ts, payload)
		return true
	}
	d := int(int16(seq - b.next))
	switch {
	case d < -maxMisorder || d >= b.depth:
		b.far(now, seq, ts, marker, payload)
		return false
	case d < 0:
		b.past(now, seq)
		return false
	}
	b.trust()
	if d > 0 && b.kept == 0 && ts == b.end && (b.exact || b.measured) {
		// The positions between take no time: keep-alives (RFC 6263).
		b.advance(d, true)
		d = 0
	}
	if d > 0 {
		b.keep(now, seq, ts, marker, payload)
		return false
	}
	if b.kept > 0 {
		if b.slot(seq).state != free {
			b.stats.Duplicate++ // the caller did not pop
			return false
		}
		_, _, since := b.ahead()
		b.wait.late(now - since)
	}
	if b.pause(now, ts, marker) > 0 && len(payload) <= b.cfg.MaxPacket {
		b.put(b.slot(seq), now, seq, ts, marker, payload) // Pop has to give the pause first
		b.kept++
		return false
	}
	b.resync(now, ts)
	b.pass(now, seq, ts, payload)
	return true
}

// Skip says that packet seq arrived but holds no audio (a telephone-event, comfort
// noise): it is neither waited for nor lost. Call Pop until it has no more.
func (b *Buffer) Skip(now time.Duration, seq uint16) {
	if !b.started || b.flushing {
		return
	}
	d := int(int16(seq - b.next))
	if d < 0 || d >= b.depth {
		return
	}
	if d == 0 && b.kept == 0 {
		b.skip() // the usual case
		return
	}
	s := b.slot(seq)
	switch {
	case s.state != free:
	case d == 0:
		b.skip()
	default:
		s.state, s.seq, s.at = skipped, seq, now
		b.kept++
	}
}

// Reset forgets the stream, not the figures nor how late packets were: the next
// packet begins a new one.
func (b *Buffer) Reset() {
	for i := range b.slots {
		b.release(&b.slots[i])
	}
	b.trust()
	b.kept, b.history = 0, 0
	b.started, b.flushing, b.exact, b.measured, b.silent = false, false, false, false, false
}

// Stats are the figures so far.
func (b *Buffer) Stats() Stats {
	st := b.stats
	st.Delay = b.wait.delay()
	return st
}
