package jitter

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// timeline checks what a buffer gives against what was sent: numbered packets of
// 160 units, so that position i begins at i*160 from ts0.
type timeline struct {
	t          *testing.T
	seq0       uint16
	ts0        uint32
	played     map[int]bool
	at         uint32 // where the next item has to begin
	begun      bool
	last       int
	positions  int // played or lost
	samplesOut int
}

func (l *timeline) packet(payload []byte) {
	i := int(binary.BigEndian.Uint32(payload))
	ts := l.ts0 + uint32(i)*160
	if l.begun && ts != l.at {
		l.t.Fatalf("packet %d begins at %d, want %d", i, ts-l.ts0, l.at-l.ts0)
	}
	if l.played[i] {
		l.t.Fatalf("packet %d again", i)
	}
	l.played[i], l.begun, l.last, l.at = true, true, i, ts+160
	l.positions++
	l.samplesOut += 160
}

func (l *timeline) pop(b *Buffer, now time.Duration) {
	for {
		it, ok := b.Pop(now)
		switch {
		case !ok:
			return
		case it.Gap:
			l.t.Fatalf("a pause of %d where none was", it.Samples)
		case it.Lost:
			if it.Timestamp != l.at || it.Samples <= 0 || it.Samples%160 != 0 {
				l.t.Fatalf("loss %+v, want at %d", it, l.at-l.ts0)
			}
			l.at += uint32(it.Samples)
			l.positions += it.Samples / 160
			l.samplesOut += it.Samples
		default:
			l.packet(it.Payload)
		}
	}
}

// TestEveryPositionOnceAndInOrder sends streams with random loss, duplication and
// delay across wraps of the sequence number and the timestamp.
func TestEveryPositionOnceAndInOrder(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := &timeline{t: t, seq0: uint16(r.Uint32()), ts0: r.Uint32(), played: map[int]bool{}}
		loss, dup, spread := r.Float64()*0.3, r.Float64()*0.1, r.IntN(200)
		type packet struct{ at, i int }
		var sent []packet
		n := 400
		for i := range n {
			if i > 0 && i < n-1 && r.Float64() < loss {
				continue
			}
			at := 20 * i
			if r.Float64() < 0.3 && i > 0 && i < n-1 {
				at += r.IntN(spread + 1)
			}
			sent = append(sent, packet{at, i})
			if r.Float64() < dup {
				sent = append(sent, packet{at + r.IntN(100), i})
			}
		}
		slices.SortStableFunc(sent, func(a, b packet) int { return a.at - b.at })
		cfg := Config{ClockRate: 8000, Min: 20 * ms, Max: 100 * ms}
		if seed%2 == 0 {
			cfg.Duration = g711
		}
		b := New(cfg)
		k := 0
		for at := 0; at <= 20*n+1000; at += 5 {
			now := time.Duration(at) * ms
			for ; k < len(sent) && sent[k].at <= at; k++ {
				p := binary.BigEndian.AppendUint32(nil, uint32(sent[k].i))
				if b.Push(now, l.seq0+uint16(sent[k].i), l.ts0+uint32(sent[k].i)*160, false, p) {
					l.packet(p)
				}
				l.pop(b, now)
			}
			l.pop(b, now)
		}
		st := b.Stats()
		if l.last != n-1 || l.positions != n || l.samplesOut != 160*n {
			t.Fatalf("seed %d: ended at %d with %d positions, %d samples; %+v", seed, l.last, l.positions, l.samplesOut, st)
		}
		if int(st.Played+st.Lost) != n || int(st.Played+st.Late+st.Duplicate) != len(sent) || st.Resyncs != 0 {
			t.Fatalf("seed %d: %d packets arrived: %+v", seed, len(sent), st)
		}
	}
}

// FuzzJitter pushes what the fuzzer likes and checks what must hold for any input:
// an end to popping, nothing from nowhere, no packet twice.
func FuzzJitter(f *testing.F) {
	f.Add([]byte{0, 1, 0, 10, 0, 3, 2, 10, 0, 2, 1, 10, 1, 4, 3, 10}, true)
	f.Add([]byte{0, 1, 0, 10, 2, 200, 9, 1, 2, 201, 10, 1, 4, 3, 3, 255, 3, 0, 0, 0}, false)
	f.Add([]byte{0, 255, 255, 20, 0, 0, 0, 20, 0, 2, 2, 20, 5, 3, 3, 200}, true)
	f.Fuzz(func(t *testing.T, ops []byte, exact bool) {
		cfg := Config{ClockRate: 8000, Min: 20 * ms, Max: 60 * ms, Depth: 8, MaxPacket: 4}
		if exact {
			cfg.Duration = g711
		}
		b := New(cfg)
		var now time.Duration
		var pushed, out uint64
		seen := map[uint32]bool{}
		take := func(p []byte) {
			id := binary.BigEndian.Uint32(p)
			if seen[id] || uint64(id) >= pushed {
				t.Fatalf("packet %d of %d again or from nowhere", id, pushed)
			}
			seen[id] = true
			out++
		}
		for len(ops) >= 4 {
			op, x, y, wait := ops[0], ops[1], ops[2], ops[3]
			ops = ops[4:]
			now += time.Duration(wait) * ms
			seq, ts := uint16(x), uint32(y)*160
			if op&2 != 0 {
				seq += uint16(y) << 8
				ts <<= 7
			}
			id := binary.BigEndian.AppendUint32(nil, uint32(pushed))
			switch {
			case op&12 == 12:
				b.Reset()
			case op&4 != 0:
				b.Skip(now, seq)
			default:
				pushed++
				if b.Push(now, seq, ts, op&1 != 0, id) {
					take(id)
				}
			}
			if op&16 != 0 {
				continue // a caller that forgets to pop
			}
			for i := 0; ; i++ {
				it, ok := b.Pop(now)
				if !ok {
					break
				}
				if i > 64 {
					t.Fatal("popping does not end")
				}
				switch {
				case it.Lost || it.Gap:
					if it.Samples <= 0 || it.Payload != nil {
						t.Fatalf("%+v", it)
					}
				default:
					take(it.Payload)
				}
			}
		}
		if st := b.Stats(); st.Played+st.Late+st.Duplicate+st.Overflow > pushed || b.kept > b.depth || b.kept < 0 {
			t.Fatalf("%d pushed, %d kept: %+v", pushed, b.kept, st)
		}
	})
}

// FuzzArrivalOrder sends a stream whose packets the fuzzer delays, drops and doubles,
// one byte for each, and checks what must hold for any order of arrival: every
// position is given once, in order, played or lost; nothing that waits is waited for
// longer than Max; the figures add up; and once the line is good again packets pass
// without waiting.
func FuzzArrivalOrder(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0}, uint16(65530), uint32(1<<32-500), true)
	f.Add([]byte{0, 9, 1, 255, 3, 130, 0, 0, 40, 4, 255, 255, 255, 2}, uint16(7), uint32(9), false)
	f.Add([]byte{63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53}, uint16(65500), uint32(0), true)
	f.Fuzz(func(t *testing.T, fate []byte, seq0 uint16, ts0 uint32, exact bool) {
		fate = fate[:min(len(fate), 500)]
		l := &timeline{t: t, seq0: seq0, ts0: ts0, played: map[int]bool{}}
		type packet struct{ at, i int }
		var sent []packet
		n := len(fate) + 50
		for i := range n {
			late, lost, twice := 0, false, false
			if i > 0 && i <= len(fate) {
				b := fate[i-1]
				late, lost, twice = int(b&63)*3, b == 255, b&64 != 0 // up to 189 ms
			}
			if lost {
				continue
			}
			sent = append(sent, packet{20*i + late, i})
			if twice {
				sent = append(sent, packet{20*i + 2*late, i})
			}
		}
		slices.SortStableFunc(sent, func(a, b packet) int { return a.at - b.at })
		cfg := Config{ClockRate: 8000, Min: 20 * ms, Max: 100 * ms, Depth: 64}
		if exact {
			cfg.Duration = g711
		}
		b := New(cfg)
		waits := map[int]int{} // since when packets wait
		k, last := 0, 20*n+400
		for at := 0; at <= last; at += 5 {
			now := time.Duration(at) * ms
			for ; k < len(sent) && sent[k].at <= at; k++ {
				i := sent[k].i
				p := binary.BigEndian.AppendUint32(nil, uint32(i))
				passed := b.Push(now, seq0+uint16(i), ts0+uint32(i)*160, false, p)
				if passed {
					l.packet(p)
				}
				if i >= n-10 && !passed {
					t.Fatalf("packet %d is held back though the line is good", i)
				}
				if _, known := waits[i]; !known {
					waits[i] = at
				}
				l.pop(b, now)
			}
			l.pop(b, now)
			for i, since := range waits {
				if l.played[i] || l.begun && i < l.last {
					delete(waits, i)
				} else if at-since > 105 {
					t.Fatalf("packet %d waits for %d ms", i, at-since)
				}
			}
		}
		st := b.Stats()
		if l.last != n-1 || l.positions != n || int(st.Played+st.Lost) != n || int(st.Played+st.Late+st.Duplicate) != len(sent) || st.Resyncs != 0 {
			t.Fatalf("ended at %d of %d with %d positions; %d packets arrived: %+v", l.last, n, l.positions, len(sent), st)
		}
	})
}
