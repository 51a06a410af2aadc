package dtmf

import (
	"encoding/binary"
	"time"
)

const (
	// ends is how often the last report is sent (RFC 4733 section 2.5.1.4).
	ends = 3
	// pause is the least silence between two presses; detectors ask for 40 ms.
	pause = 60 * time.Millisecond
	// shortest is the least a key is held.
	shortest = 50 * time.Millisecond
	// volume is the level in -dBm0 of the tone that the event stands for.
	volume = 10
	// queue is how many presses wait.
	queue = 32
)

// Encoder makes the event packets of a queue of presses. One goroutine uses it.
type Encoder struct {
	ptime  time.Duration
	step   uint32 // clock units of a packet
	pauses int    // slots between two presses

	waiting []key // the first is being sent
	sent    uint32
	ended   int // end packets sent
	rest    int // slots of the pause to go
}

// key is a digit and for how long it is held, in clock units.
type key struct {
	event byte
	long  uint32
}

// NewEncoder makes an encoder for a timestamp clock in Hz and the packet time.
func NewEncoder(clockRate int, ptime time.Duration) *Encoder {
	ptime = max(ptime, time.Millisecond)
	return &Encoder{
		step:    uint32(int64(clockRate) * int64(ptime) / int64(time.Second)),
		ptime:   ptime,
		pauses:  int((pause + ptime - 1) / ptime),
		waiting: make([]key, 0, queue),
	}
}

// Press queues a digit to be held for length, which is made 50 ms at least and at
// most what the duration of one event can say (8 s at 8 kHz, 1.3 s at 48 kHz).
// False: not a digit, or the queue is full.
func (e *Encoder) Press(digit byte, length time.Duration) bool {
	event, ok := Event(digit)
	if !ok || len(e.waiting) == cap(e.waiting) || e.step == 0 {
		return false
	}
	packets := uint32((max(length, shortest) + e.ptime - 1) / e.ptime)
	packets = min(packets, (1<<16-1)/e.step)
	e.waiting = append(e.waiting, key{event, packets * e.step})
	return true
}

// Busy says whether a press is being sent or waits.
func (e *Encoder) Busy() bool { return len(e.waiting) > 0 }

// Next appends the event payload that is due in this slot to dst. ok false: no
// event now, send audio. first marks the first packet of a press, whose timestamp
// all its packets bear; last the third of its end packets.
func (e *Encoder) Next(dst []byte) (payload []byte, first, last, ok bool) {
	if e.rest > 0 {
		e.rest--
		return dst, false, false, false
	}
	if len(e.waiting) == 0 {
		return dst, false, false, false
	}
	k := e.waiting[0]
	first = e.sent == 0
	e.sent = min(e.sent+e.step, k.long)
	flags := byte(volume)
	if e.sent == k.long {
		flags |= 0x80
		e.ended++
	}
	dst = append(dst, k.event, flags)
	dst = binary.BigEndian.AppendUint16(dst, uint16(e.sent))
	if last = e.ended == ends; last {
		e.waiting = e.waiting[:copy(e.waiting, e.waiting[1:])]
		e.sent, e.ended, e.rest = 0, 0, e.pauses
	}
	return dst, first, last, true
}
