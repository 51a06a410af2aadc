// Package g722 is ITU-T G.722 at 64 kbit/s: 16 kHz sound, 7 kHz wide, in one byte
// for two samples. A pair of filters splits the sound into a lower and a higher
// band; each is coded by ADPCM, the lower with six bits and the higher with two.
//
//	      ┌ QMF ─ low  ─ ADPCM, 6 bits ┐                       ┌ low  ┐
//	16 kHz┤                            ├ byte: hhllllll ─ ADPCM┤      ├ QMF ─ 16 kHz
//	      └     ─ high ─ ADPCM, 2 bits ┘                       └ high ┘
//
// It is written from the Recommendation (11/88): names in comments such as UPPOL2
// are those of its section 6 blocks. The RTP clock says 8000 although the sound is
// at 16 kHz, an old mistake that RFC 3551 section 4.5.2 keeps.
package g722

import (
	"math"

	"parley/media"
)

// Rates in Hz: of the sound, and of the RTP timestamps.
const (
	SampleRate = 16000
	ClockRate  = 8000
)

// G722 is G.722 at 64 kbit/s, static payload type 9.
func G722() media.Codec {
	return media.Codec{
		Name:        "G722",
		PayloadType: 9,
		ClockRate:   ClockRate,
		SampleRate:  SampleRate,
		Channels:    1,
		Duration:    Duration,
		NewEncoder:  func() (media.Encoder, error) { return NewEncoder(), nil },
		NewDecoder:  func() (media.Decoder, error) { return NewDecoder(), nil },
	}
}

// Duration is how long a payload lasts in units of ClockRate: a byte is one.
func Duration(payload []byte) int { return len(payload) }

// Encoder codes one stream. One goroutine at a time may use it; it does not
// allocate.
type Encoder struct {
	split     split
	low, high band
	odd       int16 // a sample that waits for its second
	half      bool  // there is one
}

// NewEncoder makes an encoder that follows upon silence.
func NewEncoder() *Encoder { return &Encoder{low: newLow(), high: newHigh()} }

// Encode implements media.Encoder: a byte for every two samples. An odd sample at
// the end waits for the next call. It never fails.
func (e *Encoder) Encode(dst []byte, pcm []int16) ([]byte, error) {
	if e.half && len(pcm) > 0 {
		dst = append(dst, e.pair(e.odd, pcm[0]))
		pcm, e.half = pcm[1:], false
	}
	for ; len(pcm) > 1; pcm = pcm[2:] {
		dst = append(dst, e.pair(pcm[0], pcm[1]))
	}
	if len(pcm) == 1 {
		e.odd, e.half = pcm[0], true
	}
	return dst, nil
}

// pair codes two samples.
func (e *Encoder) pair(a, b int16) byte {
	low, high := e.split.analyse(int32(a), int32(b))
	l := quantizeLow(clamp16(low-e.low.s), e.low.scale)
	h := quantizeHigh(clamp16(high-e.high.s), e.high.scale)
	e.take(l, h)
	return byte(h<<6 | l)
}

// take moves both bands by what goes out.
func (e *Encoder) take(l, h int32) {
	e.low.adapt(lowStep(l>>2, e.low.scale))
	e.low.scaleLow(l >> 2)
	e.high.adapt(highStep(h, e.high.scale))
	e.high.scaleHigh(h)
}

// Decoder decodes one stream. One goroutine at a time may use it; it does not
// allocate.
type Decoder struct {
	join      split
	low, high band
}

// NewDecoder makes a decoder that follows upon silence.
func NewDecoder() *Decoder { return &Decoder{low: newLow(), high: newHigh()} }

// Decode implements media.Decoder: two samples for every byte. Every byte is
// valid, so it never fails; an empty payload gives no samples.
func (d *Decoder) Decode(dst []int16, payload []byte) ([]int16, error) {
	for _, c := range payload {
		l, h := int32(c&0x3f), int32(c>>6)
		low := clamp15(d.low.s + d.low.scale*fine[l]>>15)
		d.low.adapt(lowStep(l>>2, d.low.scale))
		d.low.scaleLow(l >> 2)
		step := highStep(h, d.high.scale)
		high := clamp15(d.high.s + step)
		d.high.adapt(step)
		d.high.scaleHigh(h)
		a, b := d.join.synthesise(low, high)
		dst = append(dst, int16(a), int16(b))
	}
	return dst, nil
}

// clamp16 limits to 16 bits, as the Recommendation's arithmetic does.
func clamp16(v int32) int32 { return min(max(v, math.MinInt16), math.MaxInt16) }

// clamp15 limits the sound of a band to 15 bits (LIMIT).
func clamp15(v int32) int32 { return min(max(v, -16384), 16383) }
