package opus

import (
	"testing"
	"time"
)

// One second of speech an iteration.
func BenchmarkSecond(b *testing.B) {
	pcm := voice(time.Second, SampleRate)
	c := codec(b, DefaultConfig(), "useinbandfec=1")
	coded := packets(b, coder(b, c), pcm, 20*time.Millisecond)
	for name, params := range map[string]string{"encode": "", "encode with FEC": "useinbandfec=1"} {
		b.Run(name, func(b *testing.B) {
			e, out := coder(b, codec(b, DefaultConfig(), params)), make([]byte, 0, 160)
			b.ReportAllocs()
			for b.Loop() {
				for i := 0; i < len(pcm); i += 320 {
					out, _ = e.Encode(out[:0], pcm[i:i+320])
				}
			}
		})
	}
	b.Run("decode", func(b *testing.B) {
		d, out := decoder(b), make([]int16, 0, 320)
		b.ReportAllocs()
		for b.Loop() {
			for _, p := range coded {
				out, _ = d.Decode(out[:0], p)
			}
		}
	})
	b.Run("conceal", func(b *testing.B) {
		d, out := decoder(b), make([]int16, 0, 320)
		decode(b, d, coded)
		b.ReportAllocs()
		for b.Loop() {
			for range 50 {
				out, _ = d.Conceal(out[:0], 320)
			}
		}
	})
}
