package socket_test

import (
	"testing"

	"parley/agent/live/socket"
)

// TestLeadKeepsTheNewest however it is cut into pieces.
func TestLeadKeepsTheNewest(t *testing.T) {
	for _, piece := range []int{1, 160, 799, 3199, 3200, 3201, 10000} {
		l := socket.NewLead(3200)
		var all []byte
		for len(all) < 20000 {
			b := make([]byte, piece)
			for j := range b {
				b[j] = byte((len(all) + j) % 251)
			}
			all = append(all, b...)
			l.Keep(b)
		}
		if got := l.Take(); string(got) != string(all[len(all)-3200:]) {
			t.Errorf("pieces of %d: %d bytes, not the newest", piece, len(got))
		}
		if len(l.Take()) != 0 {
			t.Error("taken twice")
		}
	}
	none := socket.NewLead(0)
	none.Keep([]byte("abc"))
	if len(none.Take()) != 0 {
		t.Error("kept what was not wanted")
	}
}
