package call

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"parley/media"
)

// tape carries the sound of a call that is recorded from the wheel to the writer of
// recordings. The wheel pushes and never waits: when the writer is behind, blocks
// are dropped and counted, and what follows says that something is missing, so that
// the two sides of the recording stay together.
//
//	wheel ── heard, sent ──> │ entries, bytes │ ──> recording ──> file
type tape struct {
	entries []entry
	bytes   []byte
	head    atomic.Uint64 // next entry to take; the writer's
	tail    atomic.Uint64 // next entry to push; the wheel's
	read    atomic.Uint64 // next byte to take; the writer's
	write   uint64        // next byte to push; the wheel's

	wanted  atomic.Bool  // whether to record; anybody's
	now     atomic.Int64 // when the wheel last turned
	dropped atomic.Uint64

	// The wheel's alone.
	rolling bool
	torn    [2]bool // something of that side is missing since its last block
}

// The sides of a recording, and so its channels.
const (
	callerSide = iota
	agentSide
)

type entryKind uint8

const (
	entryCaller entryKind = callerSide // PCM at the line's rate
	entryAgent  entryKind = agentSide  // a payload of the line
	entryRolls  entryKind = iota       // recording begins or goes on
	entryPauses                        // it pauses
)

// entry describes one block on the tape.
type entry struct {
	kind entryKind
	at   time.Duration // of the wheel
	line *line
	// torn says that something of that side is missing before this block: its time
	// alone says where it belongs.
	torn bool
	n    int32 // bytes
}

// What a tape holds: more than a second of wideband sound of both sides, in packets
// of 10 ms.
const (
	tapeEntries = 256
	tapeBytes   = 64 << 10
)

func newTape() *tape {
	t := &tape{entries: make([]entry, tapeEntries), bytes: make([]byte, tapeBytes)}
	t.wanted.Store(true)
	return t
}

// turn is told of every turn of the wheel.
func (t *tape) turn(now time.Duration, l *line) {
	t.now.Store(int64(now))
	wanted := t.wanted.Load()
	if wanted == t.rolling {
		return
	}
	kind := entryPauses
	if wanted {
		kind = entryRolls
	}
	if t.room(0) {
		t.push(entry{kind: kind, at: now, line: l})
		t.rolling, t.torn = wanted, [2]bool{}
	}
}

// heard takes sound of the caller, as it was given to the agent.
func (t *tape) heard(now time.Duration, l *line, pcm []int16) {
	if !t.rolling {
		return
	}
	if !t.room(2 * len(pcm)) {
		t.dropped.Add(1)
		t.torn[callerSide] = true
		return
	}
	for _, s := range pcm {
		i := t.write % uint64(len(t.bytes)) // even, as the length is
		binary.LittleEndian.PutUint16(t.bytes[i:], uint16(s))
		t.write += 2
	}
	t.push(entry{kind: entryCaller, at: now, line: l, torn: t.torn[callerSide], n: int32(2 * len(pcm))})
	t.torn[callerSide] = false
}

// sent takes a payload that goes to the caller, after slots that were skipped.
func (t *tape) sent(now time.Duration, l *line, payload []byte, skipped int) {
	if !t.rolling {
		return
	}
	t.torn[agentSide] = t.torn[agentSide] || skipped > 0
	padded := len(payload) + len(payload)&1 // keeps PCM on even places
	if !t.room(padded) {
		t.dropped.Add(1)
		t.torn[agentSide] = true
		return
	}
	i := int(t.write % uint64(len(t.bytes)))
	n := copy(t.bytes[i:], payload)
	copy(t.bytes, payload[n:])
	t.write += uint64(padded)
	t.push(entry{kind: entryAgent, at: now, line: l, torn: t.torn[agentSide], n: int32(len(payload))})
	t.torn[agentSide] = false
}

func (t *tape) room(bytes int) bool {
	return t.tail.Load()-t.head.Load() < uint64(len(t.entries)) && t.write-t.read.Load()+uint64(bytes) <= uint64(len(t.bytes))
}

func (t *tape) push(e entry) {
	tail := t.tail.Load()
	t.entries[tail%uint64(len(t.entries))] = e
	t.tail.Store(tail + 1)
}

// take gives the oldest block, its bytes appended to dst; ok is false when there is
// none. Only the writer calls it.
func (t *tape) take(dst []byte) (e entry, b []byte, ok bool) {
	head := t.head.Load()
	if head == t.tail.Load() {
		return entry{}, dst, false
	}
	e = t.entries[head%uint64(len(t.entries))]
	t.entries[head%uint64(len(t.entries))].line = nil
	read := t.read.Load()
	at, n := int(read%uint64(len(t.bytes))), int(e.n)
	first := min(n, len(t.bytes)-at)
	b = append(dst, t.bytes[at:at+first]...)
	b = append(b, t.bytes[:n-first]...)
	t.read.Store(read + uint64(n+n&1))
	t.head.Store(head + 1)
	return e, b, true
}

// samples are PCM bytes of a tape as samples, appended to dst.
func samples(dst []int16, b []byte) []int16 {
	for ; len(b) > 1; b = b[2:] {
		dst = append(dst, int16(binary.LittleEndian.Uint16(b)))
	}
	return dst
}

// at is where a time lies in samples, to the nearest.
func at(d time.Duration, rate int) int64 {
	return int64(media.Samples(d+time.Second/time.Duration(2*rate), rate))
}
