package call

import (
	"sync"
	"sync/atomic"
	"time"
)

// ring is the queue of encoded speech between the agent's goroutine, which
// pushes, and the wheel, which pops. One of each may use it at once; neither ever
// waits for the other inside it. Payloads may have any length up to the ring's.
//
//	packets  │ g7 end=320 n=160 │ g7 end=640 n=160 │ …
//	bytes    │◂──── payload ───▸│◂──── payload ───▸│ …   (wraps)
type ring struct {
	packets []packet
	bytes   []byte
	head    atomic.Uint64 // next packet to pop; written by the wheel
	tail    atomic.Uint64 // next packet to push; written by the agent's goroutine
	read    atomic.Uint64 // next byte to pop; written by the wheel
	write   uint64        // next byte to push; the agent's goroutine's own
}

// packet describes one payload in the ring.
type packet struct {
	line *line
	// generation is the mouth's when this was said; Stop makes older ones void.
	generation uint32
	// end is the position on the speech timeline after this packet, in samples at
	// the agent's rate.
	end uint32
	// said is when the agent gave the first sample of a reply that begins with this
	// packet, on the mouth's clock; 0 for packets amid speech.
	said moment
	n    uint16
	// level is how loud it is, in dBFS.
	level int8
}

// moment is a time on a mouth's clock in units of 100 µs, for five days; 0: none.
type moment uint32

const momentUnit = 100 * time.Microsecond

func momentOf(d time.Duration) moment { return moment(max(1, d/momentUnit)) }

func (m moment) time() time.Duration { return time.Duration(m) * momentUnit }

func newRing(packets, bytes int) *ring {
	return &ring{packets: make([]packet, packets), bytes: make([]byte, bytes)}
}

// newRingFor makes a ring for so much encoded speech, in packets of 20 ms or more; of
// shorter ones it holds less.
func newRingFor(buffer time.Duration) *ring {
	return newRing(int(buffer/(20*time.Millisecond))+2*reserve,
		max(bytesPerSecond*int(buffer/time.Millisecond)/1000, maxPayload)+2*maxPayload)
}

// rings are those of calls that are over, for new calls: memory that the process has
// never touched costs a page fault every 4 KB.
type rings struct{ free sync.Pool }

func (s *rings) take(buffer time.Duration) *ring {
	if r, ok := s.free.Get().(*ring); ok {
		return r
	}
	return newRingFor(buffer)
}

// give takes back a ring that nobody pushes to or pops from any more.
func (s *rings) give(r *ring) {
	clear(r.packets)
	r.head.Store(0)
	r.tail.Store(0)
	r.read.Store(0)
	r.write = 0
	s.free.Put(r)
}

// push queues a payload and leaves room for reserve more packets like it; false
// when there is not that much room.
func (r *ring) push(p packet, payload []byte, reserve int) bool {
	if !r.room(len(payload), reserve) {
		return false
	}
	at := int(r.write % uint64(len(r.bytes)))
	n := copy(r.bytes[at:], payload)
	copy(r.bytes, payload[n:])
	r.write += uint64(len(payload))
	p.n = uint16(len(payload))
	tail := r.tail.Load()
	r.packets[tail%uint64(len(r.packets))] = p
	r.tail.Store(tail + 1)
	return true
}

// room tells whether a packet of n bytes fits, and reserve packets of any length
// after it. Only the pushing side asks.
func (r *ring) room(n, reserve int) bool {
	packets := len(r.packets) - int(r.tail.Load()-r.head.Load())
	bytes := len(r.bytes) - int(r.write-r.read.Load())
	return packets > reserve && bytes >= n+reserve*maxPayload
}

// peek is the oldest packet; ok is false when there is none.
func (r *ring) peek() (p packet, ok bool) {
	head := r.head.Load()
	if head == r.tail.Load() {
		return packet{}, false
	}
	return r.packets[head%uint64(len(r.packets))], true
}

// pop removes the oldest packet, which peek has shown, and copies its payload
// behind dst.
func (r *ring) pop(dst []byte) []byte {
	head, read := r.head.Load(), r.read.Load()
	n := int(r.packets[head%uint64(len(r.packets))].n)
	at := int(read % uint64(len(r.bytes)))
	first := min(n, len(r.bytes)-at)
	dst = append(dst, r.bytes[at:at+first]...)
	dst = append(dst, r.bytes[:n-first]...)
	r.read.Store(read + uint64(n))
	r.head.Store(head + 1)
	return dst
}

// length is how many packets wait.
func (r *ring) length() int { return int(r.tail.Load() - r.head.Load()) }
