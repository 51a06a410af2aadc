package call

import (
	"time"

	"parley/media"
	"parley/media/resample"
)

// bridge turns speech that is queued for one line into payloads of the line which a
// re-INVITE put in its place. The wheel uses it, for as long as the queue lasts;
// only then does the wheel encode.
//
//	ring: A A A A │ B B …      line A is over, B in force
//	      └ decode ─ resample ─ pcm ─ encode      another codec
//	      └ join, cut                             other lengths
type bridge struct {
	from, to *line
	// cuts says that the bytes are sound that can be cut anywhere.
	cuts bool
	dec  media.Decoder
	rate *resample.Resampler
	enc  media.Encoder

	// What is left of the payloads put in, less than a packet between slots unless
	// theirs were longer: bytes when they are cut, else pcm at the new rate.
	bytes      []byte
	pcm        []int16
	generation uint32 // of the mouth, when that was said
	used       bool   // something was taken, and nothing of the new line sent since
	quiet      int    // packets of silence yet to send: see settles
	old        []int16
	out        []byte
}

func newBridge(from, to *line) (*bridge, error) {
	b := &bridge{from: from, to: to, out: make([]byte, 0, maxPayload)}
	if from.codec.Name == to.codec.Name && to.codec.PacketTimes == nil {
		b.cuts, b.bytes = true, make([]byte, 0, 2*maxPayload)
		return b, nil
	}
	var err error
	// Coders of its own: those of the lines are the ear's and Say's.
	if b.dec, err = from.codec.NewDecoder(); err != nil {
		return nil, err
	}
	if b.enc, err = to.codec.NewEncoder(); err != nil {
		return nil, err
	}
	if b.rate, err = resample.New(from.codec.SampleRate, to.codec.SampleRate, resample.Voice); err != nil {
		return nil, err
	}
	b.pcm = make([]int16, 0, media.Samples(from.packetTime, to.codec.SampleRate)+to.samples)
	b.old = make([]int16, 0, from.samples)
	return b, nil
}

// passes says whether payloads of from may go out as they are.
func (b *bridge) passes() bool {
	return b.from.codec.Name == b.to.codec.Name && b.from.samples == b.to.samples
}

// put takes a payload of the old line.
func (b *bridge) put(payload []byte, generation uint32) {
	b.generation = generation
	if b.cuts {
		b.bytes = append(b.bytes, payload...)
		return
	}
	var err error
	if b.old, err = b.dec.Decode(b.old[:0], payload); err == nil {
		b.pcm = b.rate.Process(b.pcm, b.old)
	}
}

// take is the next payload of the new line, nil when there is too little for one.
// At the end of the queue the last is filled up with silence.
func (b *bridge) take(generation uint32, end bool) []byte {
	if b.generation != generation { // stopped
		b.pcm, b.bytes = b.pcm[:0], b.bytes[:0]
	}
	out := b.encode(end)
	b.used = b.used || out != nil
	return out
}

func (b *bridge) encode(end bool) []byte {
	if b.cuts {
		size := len(b.to.idle)
		if end && len(b.bytes) > 0 && len(b.bytes) < size {
			b.bytes = append(b.bytes, b.to.idle[len(b.bytes):]...)
		}
		if len(b.bytes) < size {
			return nil
		}
		b.out = append(b.out[:0], b.bytes[:size]...)
		b.bytes = b.bytes[:copy(b.bytes, b.bytes[size:])]
		return b.out
	}
	size := b.to.samples
	for end && len(b.pcm) > 0 && len(b.pcm) < size {
		b.pcm = append(b.pcm, 0)
	}
	if len(b.pcm) < size {
		return nil
	}
	var err error
	b.out, err = b.enc.Encode(b.out[:0], b.pcm[:size])
	b.pcm = b.pcm[:copy(b.pcm, b.pcm[size:])]
	if err != nil {
		return nil
	}
	return b.out
}

// calming is how long silence goes between the bridge's last payload and the line's
// first where decoders follow their encoder (media.Idler): the line's encoder knows
// nothing of the bridge's, and what a decoder still holds of speech would make a
// noise of the first words.
const calming = 160 * time.Millisecond

// settles says whether a packet of silence must go before the line's next one.
func (b *bridge) settles() bool {
	if b.used {
		b.used = false
		if _, follows := b.enc.(media.Idler); follows {
			b.quiet = int(calming / b.to.packetTime)
		}
	}
	if b.quiet == 0 {
		return false
	}
	b.quiet--
	return true
}
