package jitter

import "time"

// Pop gives the next item that is ready. Call it after every Push and at every
// turn, until ok is false.
func (b *Buffer) Pop(now time.Duration) (it Item, ok bool) {
	for {
		if b.kept == 0 {
			if !b.flushing {
				return Item{}, false
			}
			if it, ok := b.restart(); ok {
				return it, true
			}
			continue
		}
		s := b.slot(b.next)
		switch s.state {
		case kept:
			return b.play(s), true
		case skipped:
			b.release(s)
			b.kept--
			b.skip()
			continue
		}
		n, first, since := b.ahead()
		if now-since < b.wait.delay() && !b.flushing {
			return Item{}, false
		}
		if it, ok := b.giveUp(n, first, since); ok {
			return it, true
		}
	}
}

// play gives the packet at next, or first the pause before it.
func (b *Buffer) play(s *slot) Item {
	if d := b.pause(s.at, s.ts, s.marker); d > 0 {
		it := Item{Gap: true, Timestamp: b.end, Samples: int(d)}
		b.end, b.exact = s.ts, true
		b.stats.Gaps++
		return it
	}
	b.resync(s.at, s.ts)
	it := Item{Payload: s.b, Timestamp: s.ts, At: s.at}
	at, seq, ts := s.at, s.seq, s.ts
	b.release(s)
	b.kept--
	b.pass(at, seq, ts, it.Payload)
	return it
}

// ahead is how many positions from next are missing, the first slot that is not,
// and since when that is known: the earliest arrival of all that wait.
func (b *Buffer) ahead() (n int, first *slot, since time.Duration) {
	found := 0
	for i := 1; i < b.depth && found < b.kept; i++ {
		s := b.slot(b.next + uint16(i))
		if s.state == free {
			continue
		}
		if found == 0 {
			n, first, since = i, s, s.at
		}
		found++
		since = min(since, s.at)
	}
	return n, first, since
}

// giveUp loses the n positions from next to first. ok is false when they took no
// time.
func (b *Buffer) giveUp(n int, first *slot, since time.Duration) (it Item, ok bool) {
	for i := range min(n, 64) {
		b.noticed[(b.next+uint16(n-1-i))%64] = since
	}
	b.advance(n, false)
	long := int32(n) * int32(b.step)
	switch d := int32(first.ts - b.end); {
	case first.state == skipped && b.silent: // within a telephone-event
		long = 0
	case first.state == skipped:
	case d >= 0 && d < 2*long: // what is missing, to the sample
		long = d
	case d < 0 && d >= -b.limits.packet:
		long = 0
	}
	if long == 0 {
		return Item{}, false
	}
	it = Item{Lost: true, Timestamp: b.end, Samples: int(long)}
	b.end += uint32(long)
	if first.state == kept && first.ts == b.end {
		it.Next = first.b
	}
	b.exact = true
	b.stats.Lost += uint64(n)
	return it, true
}

// restart goes on with the suspects once all before them came out: after a long
// loss, which is given, or in a new space, which begins here.
func (b *Buffer) restart() (it Item, ok bool) {
	first := &b.suspects[0]
	if d := int32(first.ts - b.end); b.outage(first) {
		if n := int(first.seq - b.next); n > 0 && d > 0 {
			it, ok = Item{Lost: true, Timestamp: b.end, Samples: int(d), Next: first.b}, true
			b.end = first.ts
			b.stats.Lost += uint64(n)
		}
	} else {
		b.end = first.ts
		b.stats.Resyncs++
	}
	b.next, b.lastSeq, b.exact, b.history, b.silent = first.seq, first.seq, true, 0, false
	for i := range b.doubt {
		*b.slot(b.suspects[i].seq) = b.suspects[i]
		b.suspects[i] = slot{}
		b.kept++
	}
	b.doubt, b.flushing = 0, false
	return it, ok
}
