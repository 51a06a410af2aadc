package jitter

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// arrival is one packet of a table: payload is its name.
type arrival struct {
	at   int // ms
	seq  uint16
	ts   uint32
	name string
	mark bool
	skip bool
}

// g711 says how long a payload of the tables lasts: 160, or what its name says.
func g711([]byte) int { return 160 }

// run pushes arrivals, popping after each and every 5 ms between, and prints what
// came out: names of packets, L160 for losses, G160 for pauses.
func run(b *Buffer, arrivals []arrival, until int) string {
	var out []string
	pop := func(at int) {
		for {
			it, ok := b.Pop(time.Duration(at) * ms)
			if !ok {
				return
			}
			switch {
			case it.Lost:
				out = append(out, fmt.Sprintf("L%d@%d", it.Samples, at))
			case it.Gap:
				out = append(out, fmt.Sprintf("G%d", it.Samples))
			default:
				out = append(out, string(it.Payload))
			}
		}
	}
	i := 0
	for at := 0; at <= until; at++ {
		for ; i < len(arrivals) && arrivals[i].at == at; i++ {
			a := arrivals[i]
			if a.skip {
				b.Skip(time.Duration(at)*ms, a.seq)
			} else if b.Push(time.Duration(at)*ms, a.seq, a.ts, a.mark, []byte(a.name)) {
				out = append(out, a.name+"!")
			}
			pop(at)
		}
		if at%5 == 0 {
			pop(at)
		}
	}
	return strings.Join(out, " ")
}

func TestBufferOrdersPacketsAndSaysWhatIsLost(t *testing.T) {
	tests := []struct {
		name     string
		arrivals []arrival
		want     string // ! marks packets that passed without a copy
		stats    Stats
	}{
		{"in order packets pass at once", []arrival{
			{at: 0, seq: 1, ts: 0, name: "a"}, {at: 20, seq: 2, ts: 160, name: "b"}, {at: 40, seq: 3, ts: 320, name: "c"},
		}, "a! b! c!", Stats{Played: 3}},
		{"two that changed places", []arrival{
			{at: 0, seq: 1, ts: 0, name: "a"}, {at: 20, seq: 3, ts: 320, name: "c"}, {at: 30, seq: 2, ts: 160, name: "b"},
		}, "a! b! c", Stats{Played: 3, Early: 1}},
		{"a lost one is given up after the wait", []arrival{
			{at: 0, seq: 1, ts: 0, name: "a"}, {at: 40, seq: 3, ts: 320, name: "c"}, {at: 60, seq: 4, ts: 480, name: "d"}, {at: 81, seq: 5, ts: 640, name: "e"},
		}, "a! L160@80 c d e!", Stats{Played: 4, Early: 2, Lost: 1}},
		{"three in a row are one loss", []arrival{
			{at: 0, seq: 1, ts: 0, name: "a"}, {at: 80, seq: 5, ts: 640, name: "e"},
		}, "a! L480@120 e", Stats{Played: 2, Early: 1, Lost: 3}},
		{"late is dropped, and late again is a duplicate", []arrival{
			{at: 0, seq: 1, ts: 0, name: "a"}, {at: 20, seq: 3, ts: 320, name: "c"}, {at: 200, seq: 2, ts: 160, name: "b"}, {at: 201, seq: 2, ts: 160, name: "b"},
		}, "a! L160@60 c", Stats{Played: 2, Early: 1, Lost: 1, Late: 1, Duplicate: 1}},
		{"duplicates of played and of kept", []arrival{
			{at: 0, seq: 1, ts: 0, name: "a"}, {at: 1, seq: 1, ts: 0, name: "a"}, {at: 20, seq: 3, ts: 320, name: "c"}, {at: 21, seq: 3, ts: 320, name: "c"},
			{at: 25, seq: 2, ts: 160, name: "b"}, {at: 26, seq: 3, ts: 320, name: "c"},
		}, "a! b! c", Stats{Played: 3, Early: 1, Duplicate: 3}},
		{"the numbers wrap, with a loss at the wrap", []arrival{ // BR-094
			{at: 0, seq: 65534, ts: 1<<32 - 320, name: "a"}, {at: 20, seq: 65535, ts: 1<<32 - 160, name: "b"}, {at: 60, seq: 1, ts: 160, name: "d"}, {at: 80, seq: 2, ts: 320, name: "e"},
		}, "a! b! L160@100 d e", Stats{Played: 4, Early: 2, Lost: 1}},
		{"a muted phone is a pause, not a loss", []arrival{ // BR-088
			{at: 0, seq: 1, ts: 0, name: "a"}, {at: 400, seq: 2, ts: 3200, name: "b", mark: true}, {at: 420, seq: 3, ts: 3360, name: "c"},
		}, "a! G3040 b c!", Stats{Played: 3, Gaps: 1}},
		{"a leap forward costs no delay", []arrival{ // BR-093
			{at: 0, seq: 1, ts: 0, name: "a"}, {at: 20, seq: 2, ts: 480160, name: "b"}, {at: 40, seq: 3, ts: 480320, name: "c"},
		}, "a! b! c!", Stats{Played: 3, Resyncs: 1}},
		{"nor does a leap back, with the marker", []arrival{
			{at: 0, seq: 1, ts: 200000, name: "a"}, {at: 20, seq: 2, ts: 40160, name: "b", mark: true}, {at: 40, seq: 3, ts: 40320, name: "c"},
		}, "a! b! c!", Stats{Played: 3, Resyncs: 1}},
		{"a new sequence space is believed at its second packet, and none is lost", []arrival{ // BR-087
			{at: 0, seq: 21294, ts: 0, name: "a"}, {at: 20, seq: 12676, ts: 900000, name: "x"}, {at: 40, seq: 12677, ts: 900160, name: "y"}, {at: 60, seq: 12678, ts: 900320, name: "z"},
		}, "a! x y z!", Stats{Played: 4, Resyncs: 1}},
		{"what waits comes out before a new space", []arrival{
			{at: 0, seq: 1, ts: 0, name: "a"}, {at: 20, seq: 3, ts: 320, name: "c"}, {at: 25, seq: 30000, ts: 7, name: "x"}, {at: 26, seq: 30001, ts: 167, name: "y"},
		}, "a! L160@26 c x y", Stats{Played: 4, Early: 1, Lost: 1, Resyncs: 1}},
		{"a stray packet changes nothing", []arrival{
			{at: 0, seq: 1, ts: 0, name: "a"}, {at: 10, seq: 40000, ts: 5, name: "x"}, {at: 20, seq: 2, ts: 160, name: "b"}, {at: 30, seq: 40001, ts: 165, name: "y"}, {at: 40, seq: 3, ts: 320, name: "c"},
		}, "a! b! c!", Stats{Played: 3, Late: 2}},
		{"a stray first packet is left behind", []arrival{
			{at: 0, seq: 40000, ts: 5, name: "x"}, {at: 20, seq: 1, ts: 0, name: "a"}, {at: 40, seq: 2, ts: 160, name: "b"},
		}, "x! a b", Stats{Played: 3, Resyncs: 1}},
		{"two seconds of nothing are given as lost", []arrival{
			{at: 0, seq: 1, ts: 0, name: "a"}, {at: 2000, seq: 101, ts: 16000, name: "b"}, {at: 2020, seq: 102, ts: 16160, name: "c"},
		}, "a! L15840@2000 b c!", Stats{Played: 3, Lost: 99}},
		{"a telephone-event is a pause", []arrival{
			{at: 0, seq: 1, ts: 0, name: "a"}, {at: 20, seq: 2, skip: true}, {at: 40, seq: 3, skip: true}, {at: 60, seq: 4, ts: 480, name: "d"},
		}, "a! G320 d", Stats{Played: 2, Gaps: 1}},
		{"an event packet that is lost is no lost audio", []arrival{
			{at: 0, seq: 1, ts: 0, name: "a"}, {at: 20, seq: 2, skip: true}, {at: 60, seq: 4, skip: true}, {at: 80, seq: 5, ts: 640, name: "e"},
		}, "a! G480 e", Stats{Played: 2, Gaps: 1, Early: 1}},
		{"lost audio before an event is", []arrival{
			{at: 0, seq: 1, ts: 0, name: "a"}, {at: 40, seq: 3, skip: true}, {at: 60, seq: 4, ts: 480, name: "d"},
		}, "a! L160@80 G160 d", Stats{Played: 2, Gaps: 1, Early: 1, Lost: 1}},
		{"a number that took no time is not waited for", []arrival{
			{at: 0, seq: 1, ts: 0, name: "a"}, {at: 20, seq: 3, ts: 160, name: "b"}, {at: 40, seq: 4, ts: 320, name: "c"},
		}, "a! b! c!", Stats{Played: 3}},
		{"a loss and a pause together", []arrival{
			{at: 0, seq: 1, ts: 0, name: "a"}, {at: 400, seq: 3, ts: 3200, name: "c", mark: true},
		}, "a! L160@440 G2880 c", Stats{Played: 2, Early: 1, Lost: 1, Gaps: 1}},
		{"too long to keep", []arrival{
			{at: 0, seq: 1, ts: 0, name: "a"}, {at: 20, seq: 3, ts: 320, name: strings.Repeat("x", 300)}, {at: 40, seq: 2, ts: 160, name: "b"},
		}, "a! b!", Stats{Played: 2, Overflow: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := New(Config{ClockRate: 8000, Min: 40 * ms, Max: 100 * ms, Depth: 60, MaxPacket: 256, Duration: g711})
			last := tt.arrivals[len(tt.arrivals)-1].at
			if got := run(b, tt.arrivals, last+200); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			st := b.Stats()
			st.Delay = 0
			// A kept skip is counted by nobody.
			if st.Early = tt.stats.Early; st != tt.stats {
				t.Errorf("stats %+v\nwant  %+v", st, tt.stats)
			}
		})
	}
}

func TestWithoutDurationThePacketTimeIsSeenFromTimestamps(t *testing.T) {
	b := New(Config{ClockRate: 8000, Min: 40 * ms, Max: 100 * ms})
	got := run(b, []arrival{
		{at: 0, seq: 1, ts: 0, name: "a"}, {at: 10, seq: 2, ts: 80, name: "b"}, // 10 ms each
		{at: 20, seq: 3, ts: 160, name: "c"}, {at: 60, seq: 4, ts: 480, name: "d"}, // c was 40 ms
		{at: 140, seq: 6, ts: 1120, name: "f"}, // d too, e is lost
		{at: 180, seq: 7, ts: 1440, name: "g"}, {at: 190, seq: 8, ts: 1520, name: "h"},
		{at: 700, seq: 9, ts: 5600, name: "i"}, // too long for a packet: a pause
	}, 700)
	if want := "a! b! c! d! L320@180 f g h! G4000 i"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTheWaitFollowsHowLatePacketsAre(t *testing.T) {
	b := New(Config{ClockRate: 8000, Min: 20 * ms, Max: 120 * ms, Duration: g711})
	if d := b.Stats().Delay; d != 20*ms {
		t.Fatalf("begins with %v", d)
	}
	at, seq, ts := time.Duration(0), uint16(0), uint32(0)
	push := func(now time.Duration, seq uint16, ts uint32) {
		b.Push(now, seq, ts, false, []byte{1})
		for {
			if _, ok := b.Pop(now); !ok {
				return
			}
		}
	}
	// One in ten comes 60 ms after the one behind it: too late for 20 ms at first.
	for range 20 {
		push(at, seq, ts)
		push(at+40*ms, seq+2, ts+320)
		push(at+60*ms, seq+3, ts+480)
		push(at+80*ms, seq+4, ts+640)
		b.Pop(at + 95*ms)
		push(at+100*ms, seq+1, ts+160)
		push(at+100*ms, seq+5, ts+800)
		at, seq, ts = at+120*ms, seq+6, ts+960
	}
	st := b.Stats()
	if st.Delay < 60*ms || st.Delay > 90*ms || st.Late > 2 {
		t.Errorf("packets late by 60 ms: %+v", st)
	}
	for range 60 * 50 {
		push(at, seq, ts)
		at, seq, ts = at+20*ms, seq+1, ts+160
	}
	if d := b.Stats().Delay; d != 20*ms {
		t.Errorf("a minute of order leaves %v", d)
	}
}

func TestResetBeginsANewStream(t *testing.T) {
	b := New(Config{Duration: g711, Max: 60 * ms, Min: 60 * ms})
	b.Push(0, 1, 0, false, []byte("a"))
	b.Push(0, 3, 320, false, []byte("c"))
	b.Push(0, 40000, 320, false, []byte("x"))
	b.Reset()
	if it, ok := b.Pop(time.Hour); ok {
		t.Errorf("popped %+v", it)
	}
	if !b.Push(0, 9000, 77, false, []byte("z")) || !b.Push(0, 9001, 237, false, []byte("z")) {
		t.Error("the new stream does not pass")
	}
}

func TestNothingIsAllocated(t *testing.T) {
	b := New(Config{ClockRate: 8000, Min: 40 * ms, Max: 60 * ms, Duration: g711})
	payload := make([]byte, 160)
	now, seq, ts := time.Duration(0), uint16(0), uint32(0)
	step := func(order ...uint16) {
		for _, o := range order {
			b.Push(now, seq+o, ts+160*uint32(o), false, payload)
			for {
				if _, ok := b.Pop(now); !ok {
					break
				}
			}
			now += 20 * ms
		}
	}
	round := func() {
		step(0, 1, 3, 2, 4, 6, 7, 8, 9) // 2 late, 5 lost
		seq, ts = seq+10, ts+1600
	}
	round()
	if n := testing.AllocsPerRun(200, round); n != 0 {
		t.Errorf("%v allocations a round", n)
	}
}

func BenchmarkInOrder(b *testing.B) {
	buf := New(Config{ClockRate: 8000, Min: 40 * ms, Max: 60 * ms, Duration: g711})
	payload := make([]byte, 160)
	for i := range b.N {
		now := time.Duration(i) * 20 * ms
		buf.Push(now, uint16(i), uint32(i)*160, false, payload)
		buf.Pop(now)
	}
}

// Most streams come in order for as long as they last: they take no room for packets
// that wait.
func TestAStreamInOrderTakesNoRoom(t *testing.T) {
	b := New(Config{ClockRate: 8000, Depth: 32, Duration: g711})
	for i := range 200 {
		now := time.Duration(i) * 20 * ms
		if i == 100 {
			b.Skip(now, uint16(i)) // a key between
		} else if !b.Push(now, uint16(i), uint32(min(i, 100))*160+uint32(max(0, i-101))*160, false, []byte("a")) {
			t.Fatalf("packet %d was kept", i)
		}
		b.Pop(now)
	}
	if b.slots != nil {
		t.Errorf("%d slots were made", len(b.slots))
	}
	b.Push(5*time.Second, 202, 202*160, false, []byte("a"))
	if len(b.slots) != 32 {
		t.Errorf("%d slots for a packet that waits", len(b.slots))
	}
}
