// Package dtmf turns telephone-event payloads (RFC 4733) into digits and back.
package dtmf

import "time"

// Decoder finds key presses among the event packets of one stream. One goroutine
// uses it.
type Decoder struct{}

// NewDecoder makes a decoder for events with the given timestamp clock in Hz.
func NewDecoder(clockRate int) *Decoder { return &Decoder{} }

// Receive takes the payload of one event packet. ok is true once a press, at its
// first packet with a duration, so that an interruption is heard early.
func (d *Decoder) Receive(now time.Duration, ts uint32, marker bool, payload []byte) (digit byte, ok bool) {
	return 0, false
}

// Reset forgets all presses: call it for a new SSRC (rtp.Packet.Resync).
func (d *Decoder) Reset() {}

// Encoder makes event packets. One goroutine uses it.
type Encoder struct{}

// NewEncoder makes an encoder for a timestamp clock in Hz and the packet time.
func NewEncoder(clockRate int, ptime time.Duration) *Encoder { return &Encoder{} }

// Press queues a digit to be held for length. False: not a digit, or the queue is
// full.
func (e *Encoder) Press(digit byte, length time.Duration) bool { return false }

// Next appends the event payload that is due in this slot to dst. ok false: no
// event now, send audio. first marks the first packet of a press, last the third
// of its end packets.
func (e *Encoder) Next(dst []byte) (payload []byte, first, last, ok bool) {
	return dst, false, false, false
}

// Digit is the character of an event code: 0-9, *, #, A-D.
func Digit(event byte) (byte, bool) { return 0, false }
