// Package g711 is the telephone's own codec (ITU-T G.711, RFC 3551 section
// 4.5.14): one byte a sample at 8 kHz, mu-law (PCMU) or A-law (PCMA).
//
// Both directions are table look-ups. The tables are computed once from the frame
// functions of zaf/g711, whose slice functions allocate on every call.
package g711

import (
	"sync"

	"github.com/zaf/g711"

	"parley/media"
)

// Rate is the sampling and RTP clock rate of both laws in Hz.
const Rate = 8000

// The bytes that decode to silence. A gap filled with zero bytes instead is a
// click and an offset: zero means full negative scale in mu-law.
const (
	IdlePCMU byte = 0xFF
	IdlePCMA byte = 0xD5
)

// PCMU is G.711 mu-law, static payload type 0.
func PCMU() media.Codec { return codec("PCMU", 0, muLaw()) }

// PCMA is G.711 A-law, static payload type 8.
func PCMA() media.Codec { return codec("PCMA", 8, aLaw()) }

func codec(name string, pt uint8, l *law) media.Codec {
	return media.Codec{
		Name:        name,
		PayloadType: pt,
		ClockRate:   Rate,
		SampleRate:  Rate,
		Channels:    1,
		NewEncoder:  func() (media.Encoder, error) { return l, nil },
		NewDecoder:  func() (media.Decoder, error) { return l, nil },
	}
}

// law is the tables of one companding law. It is never changed after it was made,
// so every call shares the two of them.
type law struct {
	linear [256]int16
	// code is indexed by the upper 14 bits of a sample: neither law looks at the
	// lower two, which keeps the table at 16 KB and in the processor's cache.
	code [1 << 14]byte
}

const codeShift = 2

// The two laws, made at first use and immutable from then on.
var (
	muLaw = sync.OnceValue(func() *law { return newLaw(g711.EncodeUlawFrame, g711.DecodeUlawFrame) })
	aLaw  = sync.OnceValue(func() *law { return newLaw(g711.EncodeAlawFrame, g711.DecodeAlawFrame) })
)

func newLaw(encode func(int16) uint8, decode func(uint8) int16) *law {
	l := new(law)
	for i := range l.linear {
		l.linear[i] = decode(uint8(i))
	}
	for i := range l.code {
		l.code[i] = encode(int16(i << codeShift))
	}
	return l
}

// Encode implements media.Encoder. It never fails.
func (l *law) Encode(dst []byte, pcm []int16) ([]byte, error) {
	n := len(dst)
	dst = grow(dst, len(pcm))
	out := dst[n:][:len(pcm)]
	for i, s := range pcm {
		out[i] = l.code[uint16(s)>>codeShift]
	}
	return dst, nil
}

// Decode implements media.Decoder. Every byte is a valid sample, so it never
// fails; an empty payload gives no samples.
func (l *law) Decode(dst []int16, payload []byte) ([]int16, error) {
	n := len(dst)
	dst = grow(dst, len(payload))
	out := dst[n:][:len(payload)]
	for i, b := range payload {
		out[i] = l.linear[b]
	}
	return dst, nil
}

// grow returns s longer by n elements of whatever value. It allocates only when
// there is no room.
func grow[T any](s []T, n int) []T {
	if m := len(s) + n; m <= cap(s) {
		return s[:m]
	}
	return append(s, make([]T, n)...)
}
