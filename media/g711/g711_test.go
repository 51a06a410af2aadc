package g711

import (
	"testing"

	"github.com/zaf/g711"

	"parley/media"
)

var laws = []struct {
	codec  media.Codec
	pt     uint8
	idle   byte
	encode func(int16) uint8
	decode func(uint8) int16
}{
	{PCMU(), 0, IdlePCMU, g711.EncodeUlawFrame, g711.DecodeUlawFrame},
	{PCMA(), 8, IdlePCMA, g711.EncodeAlawFrame, g711.DecodeAlawFrame},
}

func TestEveryValue(t *testing.T) {
	for _, l := range laws {
		t.Run(l.codec.Name, func(t *testing.T) {
			enc, _ := l.codec.NewEncoder()
			dec, _ := l.codec.NewDecoder()
			for v := -32768; v <= 32767; v++ {
				got, err := enc.Encode(nil, []int16{int16(v)})
				if err != nil || len(got) != 1 || got[0] != l.encode(int16(v)) {
					t.Fatalf("encode %d: %x, %v; want %x", v, got, err, l.encode(int16(v)))
				}
			}
			for b := range 256 {
				got, err := dec.Decode(nil, []byte{byte(b)})
				if err != nil || len(got) != 1 || got[0] != l.decode(uint8(b)) {
					t.Fatalf("decode %x: %d, %v; want %d", b, got, err, l.decode(uint8(b)))
				}
				// A decoded value is a fixed point: transit through us adds no noise.
				// (mu-law's negative zero comes back as positive zero.)
				back, _ := enc.Encode(nil, got)
				again, _ := dec.Decode(nil, back)
				if again[0] != got[0] {
					t.Errorf("byte %x: %d re-encodes to %x = %d", b, got[0], back[0], again[0])
				}
			}
		})
	}
}

func TestDescription(t *testing.T) {
	for _, l := range laws {
		c := l.codec
		if c.PayloadType != l.pt || c.ClockRate != 8000 || c.SampleRate != 8000 {
			t.Errorf("%s: %+v", c.Name, c)
		}
		enc, _ := c.NewEncoder()
		dec, _ := c.NewDecoder()
		got, _ := enc.Encode([]byte{1}, []int16{0})
		if got[0] != 1 || got[1] != l.idle {
			t.Errorf("%s: silence is %x, want 01%x", c.Name, got, l.idle)
		}
		pcm, _ := dec.Decode(nil, []byte{l.idle})
		if pcm[0] < -8 || pcm[0] > 8 {
			t.Errorf("%s: idle byte decodes to %d", c.Name, pcm[0])
		}
		if pcm, err := dec.Decode(nil, nil); err != nil || len(pcm) != 0 {
			t.Errorf("%s: empty payload: %v %v", c.Name, pcm, err)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	pcm, out := make([]int16, 0, 160), make([]byte, 0, 160)
	frame := make([]int16, 160)
	for _, l := range laws {
		enc, _ := l.codec.NewEncoder()
		dec, _ := l.codec.NewDecoder()
		if n := testing.AllocsPerRun(100, func() {
			b, _ := enc.Encode(out, frame)
			_, _ = dec.Decode(pcm, b)
		}); n != 0 {
			t.Errorf("%s: %v allocations a frame", l.codec.Name, n)
		}
	}
}

func BenchmarkDecodeSecond(b *testing.B) {
	dec, _ := PCMU().NewDecoder()
	payload, pcm := make([]byte, 160), make([]int16, 0, 160)
	b.ReportAllocs()
	for b.Loop() {
		for range 50 {
			_, _ = dec.Decode(pcm, payload)
		}
	}
}

func BenchmarkEncodeSecond(b *testing.B) {
	enc, _ := PCMA().NewEncoder()
	payload, pcm := make([]byte, 0, 160), make([]int16, 160)
	for i := range pcm {
		pcm[i] = int16(i * 397)
	}
	b.ReportAllocs()
	for b.Loop() {
		for range 50 {
			_, _ = enc.Encode(payload, pcm)
		}
	}
}
