// Package sound reads what speech services send for sound, and gives it to whoever
// listens: bare samples and WAVE files at any usual rate, in whatever bits they arrive; a
// Content-Type that is believed as far as the bytes agree; an error for everything that
// would be noise. A Speech gives the sound on, with the words of the text where they lie.
package sound

import (
	"fmt"
	"time"

	"parley/media/resample"
)

// Decoder turns the bytes of one answer into samples. One goroutine at a time may use it.
type Decoder struct {
	rate     int
	expected Format
	says     string // the Content-Type
	declared kind
	l16      bool // big or little endian: services disagree

	kind    kind
	format  Format
	law     []int16
	head    []byte // until the kind is known, and the header complete
	left    int64  // bytes of sound of a file; -1: to the end
	carry   []byte // of a frame that is not complete
	resampl *resample.Resampler
	drop    int // samples that the resampler is late
	in, out int64
	mono    []int16
	pcm     []int16
}

// NewDecoder makes a Decoder that gives samples at rate, in Hz. expected is what bare
// samples are where nothing else is said; contentType is that of the answer, or empty.
func NewDecoder(rate int, expected Format, contentType string) *Decoder {
	d := &Decoder{rate: rate, expected: expected, left: -1}
	d.declared, d.says = declared(contentType)
	if f, ok, sure := named(contentType); ok {
		if f.Rate > 0 {
			d.expected.Rate = f.Rate
		}
		if f.Channels > 0 {
			d.expected.Channels = f.Channels
		}
		if sure {
			d.expected.Encoding = f.Encoding
		}
		d.l16 = d.expected.Encoding == S16LE && (d.says == "audio/l16" || d.says == "audio/x-l16")
	}
	return d
}

// Write takes the next bytes and gives the samples that are complete; give does not keep
// them. The error is a *FormatError when the bytes are no sound that is read, or that of
// give.
func (d *Decoder) Write(p []byte, give func([]int16) error) error {
	if d.kind == unsure || d.head != nil {
		d.head = append(d.head, p...)
		rest, ok, err := d.begin(false)
		if err != nil || !ok {
			return err
		}
		p = rest
	}
	return d.samples(p, give)
}

// Close gives what is left. An answer that is complete but for the sound it announces is
// an error.
func (d *Decoder) Close(give func([]int16) error) error {
	if d.kind == unsure || d.head != nil {
		if len(d.head) == 0 {
			return nil // nothing came
		}
		rest, ok, err := d.begin(true)
		if err != nil {
			return err
		}
		if !ok {
			return unreadable("a WAVE file that ends within its header")
		}
		if err := d.samples(rest, give); err != nil {
			return err
		}
	}
	if d.resampl != nil && d.in > 0 {
		d.pcm = d.resampl.Flush(d.pcm[:0])
		if err := d.give(d.pcm, give); err != nil {
			return err
		}
	}
	const slack = 100 * time.Millisecond // of services that count wrongly
	if missing := d.left; missing > 0 && missing > int64(d.format.frame())*int64(d.format.Rate)*int64(slack)/int64(time.Second) {
		return fmt.Errorf("sound: the file ends %v before its sound does", d.format.lasts(missing))
	}
	return nil
}

// lasts is how long so many bytes sound.
func (f Format) lasts(bytes int64) time.Duration {
	return time.Duration(bytes / int64(f.frame()) * int64(time.Second) / int64(f.Rate)).Round(time.Millisecond)
}

// begin looks at the first bytes, and returns those of sound among them. ok is false while
// more are needed.
func (d *Decoder) begin(last bool) (rest []byte, ok bool, err error) {
	if d.kind == unsure {
		k, are := sniff(d.head, last)
		if k == unsure {
			return nil, false, nil
		}
		if err := d.settle(k, are); err != nil {
			return nil, false, err
		}
	}
	rest = d.head
	switch {
	case d.kind == wave:
		h, ok, err := readHeader(d.head)
		if err != nil || !ok {
			return nil, false, err
		}
		d.format, d.left, rest = h.format, h.size, d.head[h.begin:]
	case d.l16:
		order, ok := endian(rest)
		if !ok && !last && len(rest) < sniffed {
			return nil, false, nil
		}
		d.format.Encoding = order
	}
	d.head = nil
	return rest, true, d.prepare()
}

// settle decides by what the bytes are and what the answer says they are.
func (d *Decoder) settle(k kind, are string) error {
	switch {
	case k == wave:
	case k == other:
		return unreadable("%s is not read: ask for pcm or wav", are)
	case k == text || d.declared == text:
		what := "a text instead of sound"
		if d.declared == text {
			what = d.says + " instead of sound"
		}
		return &FormatError{What: what, Text: excerpt(d.head)}
	case d.declared == other:
		return unreadable("%s is not read: ask for pcm or wav", d.says)
	case d.declared == wave:
		return unreadable("%s that does not begin as a WAVE file does", d.says)
	}
	d.kind, d.format = k, d.expected
	return nil
}

// prepare makes what the format needs.
func (d *Decoder) prepare() (err error) {
	if d.law, err = d.format.law(); err != nil {
		return err
	}
	if d.format.Rate == d.rate {
		return nil
	}
	if d.resampl, err = resample.New(d.format.Rate, d.rate, resample.Voice); err != nil {
		return unreadable("a rate of %d Hz, which is none of %v", d.format.Rate, resample.Rates())
	}
	d.drop = int(int64(d.resampl.Delay()) * int64(d.rate) / int64(time.Second))
	return nil
}

// block is how many bytes are turned into samples at once: it bounds the buffers.
const block = 16 << 10

// samples takes bytes of sound.
func (d *Decoder) samples(p []byte, give func([]int16) error) error {
	if d.left >= 0 {
		p = p[:min(int64(len(p)), d.left)] // what follows is no sound
		d.left -= int64(len(p))
	}
	size := d.format.frame()
	for len(p) > 0 {
		n := min(len(p), block-len(d.carry))
		piece := p[:n]
		p = p[n:]
		if len(d.carry) > 0 {
			d.carry = append(d.carry, piece...)
			piece = d.carry
		}
		whole := len(piece) - len(piece)%size
		d.mono = d.format.mono(d.mono[:0], piece[:whole], d.law)
		d.carry = append(d.carry[:0], piece[whole:]...)
		d.in += int64(len(d.mono))
		pcm := d.mono
		if d.resampl != nil {
			d.pcm = d.resampl.Process(d.pcm[:0], d.mono)
			pcm = d.pcm
		}
		if err := d.give(pcm, give); err != nil {
			return err
		}
	}
	return nil
}

// give gives samples on, so that the sound is neither late by the resampler's delay nor
// longer than it was.
func (d *Decoder) give(pcm []int16, give func([]int16) error) error {
	if d.resampl != nil {
		n := min(d.drop, len(pcm))
		d.drop -= n
		pcm = pcm[n:]
		all := (d.in*int64(d.rate) + int64(d.format.Rate) - 1) / int64(d.format.Rate)
		pcm = pcm[:min(int64(len(pcm)), all-d.out)]
	}
	if len(pcm) == 0 {
		return nil
	}
	d.out += int64(len(pcm))
	return give(pcm)
}

// endian tells by the sound whether samples of 16 bits are big endian: in the wrong order
// neighbours differ by anything. ok: there was enough to tell.
func endian(b []byte) (e Encoding, ok bool) {
	const enough = 256
	var little, big, seen int64
	var l, m int16
	for i := 0; i+1 < len(b); i += 2 {
		if b[i] != 0 || b[i+1] != 0 || seen > 0 {
			seen++
		}
		l2, m2 := int16(uint16(b[i])|uint16(b[i+1])<<8), int16(uint16(b[i+1])|uint16(b[i])<<8)
		little += abs(int64(l2) - int64(l))
		big += abs(int64(m2) - int64(m))
		l, m = l2, m2
	}
	if big < little {
		return S16BE, seen >= enough
	}
	return S16LE, seen >= enough
}

func abs(v int64) int64 {
	if v < 0 {
		return -v
	}
	return v
}
