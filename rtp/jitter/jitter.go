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
	// Lost says that Samples clock units are missing and to be concealed.
	Lost bool
	// Gap says that the sender was silent for Samples clock units (DTX, or a
	// telephone-event in place of audio): silence, not loss.
	Gap bool
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
type Buffer struct{}

// New makes an empty buffer.
func New(cfg Config) *Buffer { return &Buffer{} }

// Push offers a packet that arrived at now. play true: it is the next in order
// and no copy was made; the caller plays payload at once and then calls Pop until
// it has no more. play false: it was copied and kept, or dropped as late or
// duplicate.
func (b *Buffer) Push(now time.Duration, seq uint16, ts uint32, marker bool, payload []byte) (play bool) {
	return true
}

// Skip says that packet seq arrived but holds no audio (a telephone-event, comfort
// noise): it is neither waited for nor lost. Call Pop until it has no more.
func (b *Buffer) Skip(now time.Duration, seq uint16) {}

// Pop gives the next item that is ready. Call it after every Push and at every
// turn, until ok is false.
func (b *Buffer) Pop(now time.Duration) (it Item, ok bool) { return Item{}, false }

// Reset forgets the stream, not the figures: the next packet begins a new one.
func (b *Buffer) Reset() {}

// Stats are the figures so far.
func (b *Buffer) Stats() Stats { return Stats{} }
