package call

import (
	"fmt"
	"time"

	"parley/media"
	"parley/media/plc"
)

// line is how the two directions of a call are coded now. A re-INVITE that
// changes codec or packet time makes a new line, and the wheel swaps the pointer
// between two packets; a line itself is never changed.
//
//	                 ┌ dec, plc: the wheel's goroutine only
//	line ── codec ──┤
//	                 └ enc: the goroutine that calls Say only
type line struct {
	codec media.Codec
	enc   media.Encoder
	dec   media.Decoder
	// plc conceals loss, nil when dec conceals by itself.
	plc *plc.Concealer
	// packetTime and samples are the length of the packets we send.
	packetTime time.Duration
	samples    int
	// idle is the payload of one packet of silence.
	idle []byte
	// spare is an encoder for the wheel.
	spare media.Encoder
}

// newLine makes the coders for codec.
func newLine(codec media.Codec, packetTime time.Duration) (*line, error) {
	l := &line{codec: codec, packetTime: packetTime, samples: media.Samples(packetTime, codec.SampleRate)}
	var err error
	if l.enc, err = codec.NewEncoder(); err != nil {
		return nil, fmt.Errorf("call: %s encoder: %w", codec.Name, err)
	}
	if l.dec, err = codec.NewDecoder(); err != nil {
		return nil, fmt.Errorf("call: %s decoder: %w", codec.Name, err)
	}
	if _, own := l.dec.(media.Concealer); !own {
		l.plc = plc.New(codec.SampleRate)
	}
	if l.spare, err = codec.NewEncoder(); err != nil {
		return nil, fmt.Errorf("call: %s encoder: %w", codec.Name, err)
	}
	if l.idle, err = l.spare.Encode(nil, make([]int16, l.samples)); err != nil {
		return nil, fmt.Errorf("call: %s silence: %w", codec.Name, err)
	}
	return l, nil
}

// conceal appends n made-up samples to dst.
func (l *line) conceal(dst []int16, n int) []int16 {
	if l.plc != nil {
		return l.plc.Conceal(dst, n)
	}
	out, err := l.dec.(media.Concealer).Conceal(dst, n)
	if err != nil {
		return append(dst, make([]int16, n)...)
	}
	return out
}
