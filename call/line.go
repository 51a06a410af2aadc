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
	// params is the peer's fmtp that codec was made for.
	params string
	enc    media.Encoder
	dec    media.Decoder
	// plc conceals loss, nil when dec conceals by itself.
	plc *plc.Concealer
	// packetTime and samples are the length of the packets we send.
	packetTime time.Duration
	samples    int
	// idle is the payload of one packet of silence.
	idle []byte
	// bridge takes over what was encoded for the line before; nil on the first one.
	bridge *bridge
}

// newLine makes the coders for a codec towards a peer whose fmtp is params. before
// is the line that it follows upon, or nil: with the same codec its coders go on,
// for the peer's do too.
func newLine(codec media.Codec, params string, packetTime time.Duration, before *line) (*line, error) {
	l := &line{codec: codec, params: params, packetTime: packetTime, samples: media.Samples(packetTime, codec.SampleRate)}
	if codec.For != nil {
		l.codec = codec.For(params)
	}
	fail := func(what string, err error) (*line, error) {
		return nil, fmt.Errorf("call: %s %s: %w", codec.Name, what, err)
	}
	var err error
	if before.same(codec, params) {
		l.enc, l.dec, l.plc = before.enc, before.dec, before.plc
	} else {
		if l.enc, err = l.codec.NewEncoder(); err != nil {
			return fail("encoder", err)
		}
		if l.dec, err = l.codec.NewDecoder(); err != nil {
			return fail("decoder", err)
		}
		if _, own := l.dec.(media.Concealer); !own {
			l.plc = plc.New(codec.SampleRate)
		}
	}
	silence, err := l.codec.NewEncoder() // enc may be at work
	if err != nil {
		return fail("encoder", err)
	}
	if idler, ok := silence.(media.Idler); ok {
		l.idle = idler.Idle(nil, l.samples)
		if !before.same(codec, params) {
			follow(l.enc, l.idle, int(converge/packetTime))
		}
	} else if l.idle, err = silence.Encode(nil, make([]int16, l.samples)); err != nil {
		return fail("silence", err)
	}
	if before != nil {
		if l.bridge, err = newBridge(before, l); err != nil {
			return fail("change", err)
		}
	}
	return l, nil
}

// same says whether l is for that codec and those parameters of the peer.
func (l *line) same(codec media.Codec, params string) bool {
	return l != nil && l.codec.Name == codec.Name && l.params == params
}

// follow tells an encoder that n idle packets went out.
func follow(enc media.Encoder, idle []byte, n int) {
	if f, ok := enc.(media.Idler); ok {
		for range n {
			f.Follow(idle)
		}
	}
}

// conceal appends n samples for a packet that is lost: what next, the one behind
// it, repeats of it, and what can be made up.
func (l *line) conceal(dst []int16, n int, next []byte) []int16 {
	if l.plc != nil {
		return l.plc.Conceal(dst, n)
	}
	var out []int16
	var err error
	if r, ok := l.dec.(media.Recoverer); ok && next != nil {
		out, err = r.Recover(dst, next, n)
	} else {
		out, err = l.dec.(media.Concealer).Conceal(dst, n)
	}
	if err != nil {
		return append(dst, make([]int16, n)...)
	}
	return out
}
