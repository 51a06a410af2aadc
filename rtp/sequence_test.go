package rtp

import (
	"testing"
	"time"
)

func TestSequenceFollowsOneSource(t *testing.T) {
	const a, b = 0xA, 0xB
	type in struct {
		ssrc uint32
		seq  uint16
		want order
	}
	tests := []struct {
		name     string
		packets  []in
		received uint64
		lost     uint64
	}{
		{"in order", []in{{a, 1, orderFirst}, {a, 2, orderNext}, {a, 3, orderNext}}, 3, 0},
		{"a gap is loss", []in{{a, 1, orderFirst}, {a, 5, orderNext}}, 2, 3},
		{"behind makes it good", []in{{a, 1, orderFirst}, {a, 3, orderNext}, {a, 2, orderBehind}, {a, 2, orderDuplicate}, {a, 3, orderDuplicate}}, 3, 0},
		{"the second overtook the first", []in{{a, 2, orderFirst}, {a, 1, orderBehind}, {a, 5, orderNext}}, 3, 2},
		{"the wrap", []in{{a, 65534, orderFirst}, {a, 65535, orderNext}, {a, 1, orderNext}, {a, 0, orderBehind}}, 4, 0},
		{"far behind is not known to be double", []in{{a, 100, orderFirst}, {a, 170, orderNext}, {a, 101, orderBehind}}, 3, 68},
		{"a new source at its second packet", []in{{a, 21294, orderFirst}, {b, 12676, orderSuspect}, {b, 12677, orderResync}, {b, 12678, orderNext}}, 2, 0},
		{"a stray packet of another", []in{{a, 1, orderFirst}, {b, 900, orderSuspect}, {a, 2, orderNext}, {b, 901, orderSuspect}, {a, 3, orderNext}}, 3, 0},
		{"a far jump of the same", []in{{a, 1, orderFirst}, {a, 30000, orderSuspect}, {a, 30001, orderResync}}, 1, 0},
		{"a far jump back", []in{{a, 30000, orderFirst}, {a, 1, orderSuspect}, {a, 2, orderResync}}, 1, 0},
		{"not in order, not believed", []in{{a, 1, orderFirst}, {a, 30000, orderSuspect}, {a, 30002, orderSuspect}, {a, 30003, orderResync}}, 1, 0},
		{"loss of the space before is kept", []in{{a, 1, orderFirst}, {a, 5, orderNext}, {b, 7, orderSuspect}, {b, 8, orderResync}, {b, 10, orderNext}}, 2, 4},
		{"a drop-out of a minute is loss", []in{{a, 0, orderFirst}, {a, 2999, orderNext}}, 2, 2998},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var q sequence
			if q.lostSoFar() != 0 {
				t.Error("lost before anything came")
			}
			for i, p := range tt.packets {
				if got := q.accept(p.ssrc, p.seq); got != p.want {
					t.Errorf("packet %d: %d, want %d", i, got, p.want)
				}
			}
			if q.received != tt.received || q.lostSoFar() != tt.lost {
				t.Errorf("received %d, lost %d; want %d, %d", q.received, q.lostSoFar(), tt.received, tt.lost)
			}
		})
	}
}

func TestJitterIsThatOfRFC3550(t *testing.T) {
	const ms = time.Millisecond
	feed := func(arrivals ...time.Duration) time.Duration {
		var q sequence
		for i, at := range arrivals {
			q.time(at, uint32(160*i), 8000)
		}
		return q.jitterTime(8000)
	}
	if j := feed(0, 20*ms, 40*ms, 60*ms); j != 0 {
		t.Errorf("a steady stream: %v", j)
	}
	// One packet 16 ms late: |D| is 128 units twice, J = 8 + (128-8)/16 ≈ 15 units.
	if j := feed(0, 36*ms, 40*ms); j < 1800*time.Microsecond || j > 2*ms {
		t.Errorf("one late packet: %v", j)
	}
	steady := make([]time.Duration, 500)
	for i := range steady {
		steady[i] = time.Duration(i)*20*ms + time.Duration(i%2)*10*ms
	}
	if j := feed(steady...); j < 9*ms || j > 10*ms {
		t.Errorf("10 ms up and down: %v", j)
	}
	var q sequence
	q.time(0, 0, 8000)
	q.time(20*ms, 0, 8000)      // the same timestamp: an event
	q.time(40*ms, 800000, 8000) // a jump
	q.time(60*ms, 800160, 8000)
	if j := q.jitterTime(8000); j != 0 {
		t.Errorf("an event and a jump: %v", j)
	}
	if q.time(0, 1, 0); q.jitterTime(0) != 0 {
		t.Error("a clock of 0 Hz")
	}
}
