// Package opus is the Opus codec (RFC 6716) for telephone calls (RFC 7587): mono
// wideband speech in packets of 2.5 to 120 ms in, 5 to 60 ms out, with in-band
// forward error correction.
//
// The sound is at 16 kHz, the rate at which speech is recognised and synthesised.
// Packets of any bandwidth and of stereo decode to it; the RTP clock is 48 kHz
// whatever the sound is.
//
// With cgo the work is libopus's. Without, it is gopus's: the same sound for a third
// more processor time. docs/decisions/0012-opus.md has the figures.
package opus

import (
	"errors"
	"fmt"
	"time"

	"parley/media"
)

// Rates in Hz: of the sound, and of the RTP timestamps (RFC 7587 section 4.1).
const (
	SampleRate = 16000
	ClockRate  = 48000
)

// PayloadType is the one that offers of ours propose; 111 is what most propose.
const PayloadType = 111

// grain is the step of lengths that Opus knows, 2.5 ms in samples.
const grain = SampleRate / 400

// longest is the longest packet, 120 ms in samples (RFC 6716 section 3.1).
const longest = SampleRate * 120 / 1000

// Errors of Decode and Encode.
var (
	// ErrPacket: a payload is no Opus packet (RFC 6716 section 3.4).
	ErrPacket = errors.New("opus: not a valid packet")
	// ErrLength: the encoder was given a length that Opus has no frame for.
	ErrLength = errors.New("opus: a packet must last 5, 10, 20, 40 or 60 ms")
)

// Config is how speech is encoded.
type Config struct {
	// Bitrate is the average in bit/s, 6000 to 64000.
	Bitrate int
	// Complexity trades processor time for quality, 0 to 10.
	Complexity int
	// FEC repeats speech in the packet behind, for peers that say that they use it.
	FEC bool
	// DTX shrinks packets of silence to a byte or two, for peers that ask for it.
	DTX bool
}

// DefaultConfig is for speech on ordinary networks.
func DefaultConfig() Config { return Config{Bitrate: 32000, Complexity: 5, FEC: true} }

// Validate says what is wrong with c, naming the field.
func (c Config) Validate() error {
	var errs []error
	if c.Bitrate < 6000 || c.Bitrate > 64000 {
		errs = append(errs, fmt.Errorf("bitrate: %d, must be between 6000 and 64000", c.Bitrate))
	}
	if c.Complexity < 0 || c.Complexity > 10 {
		errs = append(errs, fmt.Errorf("complexity: %d, must be between 0 and 10", c.Complexity))
	}
	return errors.Join(errs...)
}

// Opus is Opus as c says. It fails only on what c.Validate refuses.
func Opus(c Config) (media.Codec, error) {
	if err := c.Validate(); err != nil {
		return media.Codec{}, fmt.Errorf("opus: %w", err)
	}
	codec := c.codec(wishes{bandwidth: wideband})
	codec.For = func(params string) media.Codec {
		w := parseWishes(params)
		own := c
		own.FEC = c.FEC && w.fec
		own.DTX = c.DTX && w.dtx
		if w.bitrate > 0 {
			own.Bitrate = min(c.Bitrate, max(w.bitrate, 6000))
		}
		return own.codec(w)
	}
	return codec, nil
}

// params is our side's fmtp: what we can make use of (RFC 7587 section 6.1). More
// than wideband would be sent for nothing.
const params = "maxplaybackrate=16000;sprop-maxcapturerate=16000;useinbandfec=1"

// packetTimes are the lengths that an encoder takes.
func packetTimes() []time.Duration {
	const ms = time.Millisecond
	return []time.Duration{5 * ms, 10 * ms, 20 * ms, 40 * ms, 60 * ms}
}

func (c Config) codec(w wishes) media.Codec {
	return media.Codec{
		Name:        "opus",
		PayloadType: PayloadType,
		ClockRate:   ClockRate,
		SampleRate:  SampleRate,
		Channels:    2, // always, and says nothing (RFC 7587 section 7)
		Params:      params,
		PacketTimes: packetTimes(),
		Duration:    Duration,
		NewEncoder:  func() (media.Encoder, error) { return newEncoder(c, w) },
		NewDecoder:  func() (media.Decoder, error) { return newDecoder() },
	}
}

// Encoder encodes one stream. One goroutine at a time may use it.
type Encoder struct{ lib *libEncoder }

func newEncoder(c Config, w wishes) (*Encoder, error) {
	lib, err := newLibEncoder(c, w)
	if err != nil {
		return nil, err
	}
	return &Encoder{lib}, nil
}

// Encode implements media.Encoder. pcm lasts 5, 10, 20, 40 or 60 ms. A payload is
// never more than half as many bytes as there are samples: 64 kbit/s.
func (e *Encoder) Encode(dst []byte, pcm []int16) ([]byte, error) {
	switch len(pcm) / grain {
	case 2, 4, 8, 16, 24:
	default:
		return dst, ErrLength
	}
	if len(pcm)%grain != 0 {
		return dst, ErrLength
	}
	old := len(dst)
	dst = grow(dst, len(pcm)/2)
	n, err := e.lib.encode(dst[old:], pcm)
	return dst[:old+n], err
}

// Decoder decodes one stream. One goroutine at a time may use it.
type Decoder struct {
	lib  *libDecoder
	made int // samples made up since the last packet
}

// Decoder conceals loss, and finds lost speech in the packet behind.
var (
	_ media.Concealer = (*Decoder)(nil)
	_ media.Recoverer = (*Decoder)(nil)
)

func newDecoder() (*Decoder, error) {
	lib, err := newLibDecoder()
	if err != nil {
		return nil, err
	}
	return &Decoder{lib: lib}, nil
}

// Decode implements media.Decoder for packets of any length up to 120 ms, any
// bandwidth, mono or stereo. A packet of DTX gives comfort noise. What is no packet
// is ErrPacket and changes nothing.
func (d *Decoder) Decode(dst []int16, payload []byte) ([]int16, error) {
	n := Duration(payload) * SampleRate / ClockRate
	if n == 0 {
		return dst, ErrPacket
	}
	old := len(dst)
	dst = grow(dst, n)
	n, err := d.lib.decode(dst[old:], payload)
	if err == nil {
		d.made = 0
	}
	return dst[:old+n], err
}

// Conceal implements media.Concealer. Sound is made up in steps of 2.5 ms; of the
// last one only what is needed is given.
func (d *Decoder) Conceal(dst []int16, samples int) ([]int16, error) {
	return d.pieces(dst, samples, nil)
}

// Recover implements media.Recoverer: the last frame before next is decoded from
// what next repeats of it, what came before it is concealed.
func (d *Decoder) Recover(dst []int16, next []byte, samples int) ([]int16, error) {
	if Duration(next) == 0 {
		return dst, ErrPacket
	}
	repeated := frameSamples(next[0]) * SampleRate / ClockRate
	if repeated > samples || repeated%grain != 0 {
		return d.pieces(dst, samples, nil) // it repeats more than is missing
	}
	dst, err := d.pieces(dst, samples-repeated, nil)
	if err != nil {
		return dst, err
	}
	return d.pieces(dst, repeated, next)
}

// pieces makes up samples in pieces that the library takes at once, from next if
// there is one.
func (d *Decoder) pieces(dst []int16, samples int, next []byte) ([]int16, error) {
	for samples > 0 {
		n := min(samples, longest)
		whole := (n + grain - 1) / grain * grain
		old := len(dst)
		dst = grow(dst, whole)
		if err := d.lib.conceal(dst[old:], next); err != nil {
			return dst[:old], err
		}
		dst = dst[:old+n]
		samples -= n
		if next == nil {
			d.fade(dst[old:])
		}
	}
	return dst, nil
}

// Where made-up sound begins and ends to fade, in samples, and what is left then.
// By itself Opus goes on humming for a second.
const (
	fadeFrom  = SampleRate * 80 / 1000
	fadeTo    = SampleRate * 240 / 1000
	fadeFloor = 0.05
)

// fade lowers made-up sound the longer nothing came.
func (d *Decoder) fade(pcm []int16) {
	if d.made+len(pcm) > fadeFrom {
		for i, s := range pcm {
			gone := min(max(float32(d.made+i-fadeFrom)/(fadeTo-fadeFrom), 0), 1)
			pcm[i] = int16(float32(s) * (1 - (1-fadeFloor)*gone))
		}
	}
	d.made = min(d.made+len(pcm), fadeTo)
}

// grow returns s longer by n elements of whatever value. It allocates only when
// there is no room.
func grow[T any](s []T, n int) []T {
	if m := len(s) + n; m <= cap(s) {
		return s[:m]
	}
	return append(s, make([]T, n)...)
}
