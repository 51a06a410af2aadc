//go:build cgo

package opus

import (
	"testing"
	"time"
)

// gopus allocates when it encodes with error correction; libopus never does.
func TestNothingIsAllocated(t *testing.T) {
	e, d := coder(t, codec(t, DefaultConfig(), "useinbandfec=1")), decoder(t)
	pcm := voice(20*time.Millisecond, SampleRate)
	b, out := make([]byte, 0, 160), make([]int16, 0, 320)
	if n := testing.AllocsPerRun(100, func() {
		var err error
		if b, err = e.Encode(b[:0], pcm); err != nil {
			t.Fatal(err)
		}
		if out, err = d.Decode(out[:0], b); err != nil {
			t.Fatal(err)
		}
		if out, err = d.Conceal(out[:0], 320); err != nil {
			t.Fatal(err)
		}
		if out, err = d.Recover(out[:0], b, 320); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a frame", n)
	}
}
