// Package wav reads and writes RIFF WAVE files: linear 16 bit, mu-law and A-law,
// mono and stereo.
package wav

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/zaf/g711"
)

// Encoding is how samples lie in a file.
type Encoding uint8

// The encodings that are read. Files are written as PCM16.
const (
	PCM16 Encoding = iota
	MuLaw
	ALaw
)

// String names the encoding.
func (e Encoding) String() string {
	switch e {
	case PCM16:
		return "16 bit PCM"
	case MuLaw:
		return "mu-law"
	case ALaw:
		return "A-law"
	}
	return fmt.Sprintf("encoding(%d)", uint8(e))
}

// width is the bytes of one sample.
func (e Encoding) width() int {
	if e == PCM16 {
		return 2
	}
	return 1
}

// Format is what a file says of its sound.
type Format struct {
	Rate     int // Hz
	Channels int // 1 or 2
	Encoding Encoding
}

// The errors that callers tell apart.
var (
	// ErrFormat: it is no WAVE file, or of a kind that is not read. The text says
	// which.
	ErrFormat = errors.New("wav: not readable")
	// ErrTruncated: the file ends before the sound that it announces. What was
	// there has been read.
	ErrTruncated = errors.New("wav: the file ends before its sound does")
	// ErrTooLong: there is more sound than may be read or written.
	ErrTooLong = errors.New("wav: too long")
)

// Is is whether b begins like a WAVE file, to tell one from bare samples. Twelve
// bytes are enough.
func Is(b []byte) bool {
	return len(b) >= 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WAVE"
}

const (
	// maxBefore bounds the chunks that are skipped on the way to the sound.
	maxBefore = 1 << 20
	// endless is the least size that means "until the end of the file": writers
	// that cannot seek put the largest number they know, with or without sign.
	endless = 0x7FFF0000
)

// Reader reads the sound of one file, front to back. One goroutine at a time may
// use it.
type Reader struct {
	r       io.Reader
	format  Format
	left    int64 // bytes of sound left; -1: until the end of the file
	samples int64
	buf     [4096]byte
	err     error
}

// NewReader reads the header from r, up to where the sound begins. It reads no
// more than 1 MB for that. An error wraps ErrFormat when the file is not one of
// ours.
func NewReader(r io.Reader) (*Reader, error) {
	w := &Reader{r: r}
	if err := w.header(); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: the file ends within its header", ErrFormat)
		}
		return nil, err
	}
	return w, nil
}

func (r *Reader) header() error {
	b := r.buf[:12]
	if _, err := io.ReadFull(r.r, b); err != nil {
		return err
	}
	if !Is(b) {
		return fmt.Errorf("%w: it does not begin with RIFF and WAVE", ErrFormat)
	}
	whole := binary.LittleEndian.Uint32(b[4:])
	known := false
	for before := int64(0); ; {
		if _, err := io.ReadFull(r.r, b[:8]); err != nil {
			return err
		}
		name, size := string(b[:4]), int64(binary.LittleEndian.Uint32(b[4:]))
		if name == "data" {
			if !known {
				return fmt.Errorf("%w: the sound comes before its format", ErrFormat)
			}
			r.measure(size, whole)
			return nil
		}
		size += size & 1 // chunks are padded to an even length
		if before += size + 8; before > maxBefore {
			return fmt.Errorf("%w: more than %d bytes before the sound", ErrFormat, maxBefore)
		}
		if name == "fmt " && !known {
			known = true
			n := min(size, 40)
			if _, err := io.ReadFull(r.r, r.buf[:n]); err != nil {
				return err
			}
			if err := r.describe(r.buf[:n]); err != nil {
				return err
			}
			size -= n
		}
		if _, err := io.CopyN(io.Discard, r.r, size); err != nil {
			return err
		}
	}
}

// measure takes the size of the sound as the file gives it.
func (r *Reader) measure(size int64, whole uint32) {
	r.left, r.samples = size, size/int64(r.format.Encoding.width())
	if size >= endless || size == 0 && whole == 0 {
		r.left, r.samples = -1, -1
	}
}

// The format tags.
const (
	tagPCM        = 1
	tagALaw       = 6
	tagMuLaw      = 7
	tagExtensible = 0xFFFE
)

// describe reads a format chunk.
func (r *Reader) describe(b []byte) error {
	if len(b) < 16 {
		return fmt.Errorf("%w: a format of %d bytes", ErrFormat, len(b))
	}
	tag, bits := binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint16(b[14:])
	channels, rate := binary.LittleEndian.Uint16(b[2:]), binary.LittleEndian.Uint32(b[4:])
	if tag == tagExtensible {
		// The real tag is the first two bytes of a GUID that is else constant.
		const rest = "\x00\x00\x00\x00\x10\x00\x80\x00\x00\xAA\x00\x38\x9B\x71"
		if len(b) < 40 || string(b[26:40]) != rest {
			return fmt.Errorf("%w: an extensible format that is not known", ErrFormat)
		}
		tag = binary.LittleEndian.Uint16(b[24:])
	}
	switch {
	case tag == tagPCM && bits == 16:
		r.format.Encoding = PCM16
	case tag == tagMuLaw && bits == 8:
		r.format.Encoding = MuLaw
	case tag == tagALaw && bits == 8:
		r.format.Encoding = ALaw
	default:
		return fmt.Errorf("%w: format %d of %d bits; 16 bit PCM, mu-law and A-law are", ErrFormat, tag, bits)
	}
	if channels != 1 && channels != 2 {
		return fmt.Errorf("%w: %d channels; 1 and 2 are", ErrFormat, channels)
	}
	if rate < 1000 || rate > 384000 {
		return fmt.Errorf("%w: a rate of %d Hz", ErrFormat, rate)
	}
	r.format.Rate, r.format.Channels = int(rate), int(channels)
	return nil
}

// Format is what the file says of its sound.
func (r *Reader) Format() Format { return r.format }

// Samples is how many samples the file announces, those of all channels
// together; -1 when it does not say.
func (r *Reader) Samples() int64 { return r.samples }

// Read fills dst with samples, left before right, and says how many there are: a
// whole number for each channel, so dst must have room for one of each. At the
// end the error is io.EOF, or ErrTruncated when the file is shorter than it says;
// either may come with the last samples or after them. Sound of unknown length
// ends with the file.
func (r *Reader) Read(dst []int16) (int, error) {
	n := 0
	unit := r.format.Encoding.width() * r.format.Channels
	for r.err == nil && len(dst)-n >= r.format.Channels {
		size := min(len(r.buf), (len(dst)-n)/r.format.Channels*unit)
		if r.left >= 0 {
			size = int(min(int64(size), r.left))
		}
		size -= size % unit
		if size == 0 {
			r.err = io.EOF // but for a broken last sample
			break
		}
		got, err := io.ReadFull(r.r, r.buf[:size])
		if r.left >= 0 {
			r.left -= int64(got)
		}
		got -= got % unit
		n += r.decode(dst[n:], r.buf[:got])
		r.err = r.end(err)
	}
	return n, r.err
}

// end is the error of a Reader whose file gave err.
func (r *Reader) end(err error) error {
	switch {
	case err != io.EOF && err != io.ErrUnexpectedEOF:
		return err
	case r.left > 0:
		return ErrTruncated
	}
	return io.EOF
}

func (r *Reader) decode(dst []int16, b []byte) int {
	switch r.format.Encoding {
	case PCM16:
		for i := range len(b) / 2 {
			dst[i] = int16(binary.LittleEndian.Uint16(b[2*i:]))
		}
		return len(b) / 2
	case MuLaw:
		for i, c := range b {
			dst[i] = g711.DecodeUlawFrame(c)
		}
	case ALaw:
		for i, c := range b {
			dst[i] = g711.DecodeAlawFrame(c)
		}
	}
	return len(b)
}

// ReadAll reads a whole file of at most limit samples, those of all channels
// together. With ErrTruncated and ErrTooLong the samples that were read are
// returned too.
func ReadAll(r io.Reader, limit int) ([]int16, Format, error) {
	w, err := NewReader(r)
	if err != nil {
		return nil, Format{}, err
	}
	var pcm []int16
	part := make([]int16, 4096)
	for {
		n, err := w.Read(part)
		if n > limit-len(pcm) {
			return append(pcm, part[:limit-len(pcm)]...), w.format, fmt.Errorf("%w: more than %d samples", ErrTooLong, limit)
		}
		pcm = append(pcm, part[:n]...)
		if err == io.EOF {
			return pcm, w.format, nil
		}
		if err != nil {
			return pcm, w.format, err
		}
	}
}

// ReadFile is ReadAll for the file at path; errors name it.
func ReadFile(path string, limit int) ([]int16, Format, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, Format{}, fmt.Errorf("wav: %w", err)
	}
	defer f.Close()
	pcm, format, err := ReadAll(f, limit)
	if err != nil {
		return pcm, format, fmt.Errorf("%w (%s)", err, path)
	}
	return pcm, format, nil
}

// Mono is the mean of the channels of pcm, as a new slice. Samples that are not
// there in every channel are left out.
func Mono(pcm []int16, channels int) []int16 {
	channels = max(1, channels)
	out := make([]int16, len(pcm)/channels)
	for i := range out {
		sum := 0
		for _, s := range pcm[i*channels:][:channels] {
			sum += int(s)
		}
		out[i] = int16(sum / channels)
	}
	return out
}
