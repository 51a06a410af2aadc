package sip

import (
	"runtime"
	"testing"
)

// TestTablesGiveTheirRoomBack fills a map and empties it but for a few.
func TestTablesGiveTheirRoomBack(t *testing.T) {
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := held()
	const n = 100_000
	m, most := map[int][4]int{}, tide(0)
	for i := range n {
		m[i] = [4]int{i}
	}
	full := held()
	for i := range n - 10 {
		m = ebb(m, i, &most)
		if len(m) != n-1-i {
			t.Fatalf("%d entries after %d were deleted", len(m), i+1)
		}
	}
	after := held()
	for i := n - 10; i < n; i++ {
		if m[i][0] != i {
			t.Errorf("%d is gone", i)
		}
	}
	if full < before+2<<20 || after > before+(full-before)/8 {
		t.Errorf("%d bytes before, %d full, %d afterwards", before, full, after)
	}
	runtime.KeepAlive(m)
}

func TestASmallTableIsLeftAlone(t *testing.T) {
	m, most := map[int]int{1: 1, 2: 2}, tide(0)
	same := ebb(m, 1, &most)
	m[3] = 3 // seen in the other only if it is the same
	if same[3] != 3 || len(same) != 2 {
		t.Errorf("%v", same)
	}
}
