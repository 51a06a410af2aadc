package sound

import (
	"encoding/binary"
	"fmt"
	"math"
	"mime"
	"strconv"
	"strings"

	"parley/media/g711"
)

// Encoding is how samples lie in bytes.
type Encoding uint8

// The encodings. WAVE files may hold all of them but S16BE.
const (
	S16LE Encoding = iota
	S16BE
	MuLaw
	ALaw
	U8
	S24LE
	S32LE
	F32LE
	F64LE
)

// width is the bytes of one sample.
func (e Encoding) width() int {
	switch e {
	case MuLaw, ALaw, U8:
		return 1
	case S24LE:
		return 3
	case S32LE, F32LE:
		return 4
	case F64LE:
		return 8
	}
	return 2
}

// Format is what bytes of sound mean.
type Format struct {
	Encoding Encoding
	// Rate is in Hz.
	Rate int
	// Channels are mixed to one; 0 means 1.
	Channels int
}

// frame is the bytes of one sample of all channels.
func (f Format) frame() int { return f.Encoding.width() * max(f.Channels, 1) }

// law is the table of one of G.711's laws; nil for other encodings.
func (f Format) law() ([]int16, error) {
	codec := g711.PCMU()
	switch f.Encoding {
	case MuLaw:
	case ALaw:
		codec = g711.PCMA()
	default:
		return nil, nil
	}
	dec, err := codec.NewDecoder()
	if err != nil {
		return nil, fmt.Errorf("sound: %w", err)
	}
	var all [256]byte
	for i := range all {
		all[i] = byte(i)
	}
	return dec.Decode(nil, all[:])
}

// mono appends the samples of p, whole frames, to dst. law is that of f.
func (f Format) mono(dst []int16, p []byte, law []int16) []int16 {
	sample := func(b []byte) int32 { return int32(int16(binary.LittleEndian.Uint16(b))) }
	switch f.Encoding {
	case S16BE:
		sample = func(b []byte) int32 { return int32(int16(binary.BigEndian.Uint16(b))) }
	case MuLaw, ALaw:
		sample = func(b []byte) int32 { return int32(law[b[0]]) }
	case U8:
		sample = func(b []byte) int32 { return (int32(b[0]) - 128) << 8 }
	case S24LE:
		sample = func(b []byte) int32 { return narrow(int32(uint32(b[0])<<8 | uint32(b[1])<<16 | uint32(b[2])<<24)) }
	case S32LE:
		sample = func(b []byte) int32 { return narrow(int32(binary.LittleEndian.Uint32(b))) }
	case F32LE:
		sample = func(b []byte) int32 { return float(float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))) }
	case F64LE:
		sample = func(b []byte) int32 { return float(math.Float64frombits(binary.LittleEndian.Uint64(b))) }
	}
	return mix(dst, p, max(f.Channels, 1), f.Encoding.width(), sample)
}

// mix appends the mean of the channels of each frame.
func mix(dst []int16, p []byte, channels, width int, sample func([]byte) int32) []int16 {
	for size := width * channels; len(p) >= size; p = p[size:] {
		sum := int32(0)
		for c := range channels {
			sum += sample(p[c*width:])
		}
		dst = append(dst, int16(sum/int32(channels)))
	}
	return dst
}

// narrow is the upper half of v, rounded.
func narrow(v int32) int32 { return int32(min((int64(v)+1<<15)>>16, math.MaxInt16)) }

// float is a sample of full scale 1; what is no number is silence.
func float(v float64) int32 {
	switch {
	case v != v:
		return 0
	case v >= 1:
		return math.MaxInt16
	case v <= -1:
		return math.MinInt16
	}
	return int32(math.Round(v * math.MaxInt16))
}

// named is what a Content-Type says of bare samples. ok: it names sound that has no
// header. The rate is 0 where it does not say.
func named(contentType string) (f Format, ok, sure bool) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind, _, _ = strings.Cut(strings.ToLower(contentType), ";")
		kind = strings.TrimSpace(kind)
	}
	switch kind {
	case "audio/pcm", "audio/x-pcm", "audio/raw", "audio/x-raw":
		ok = true
	case "audio/l16", "audio/x-l16": // by RFC 2586 big endian, by most services not
		ok = true
	case "audio/basic", "audio/pcmu", "audio/x-mulaw", "audio/mulaw", "audio/x-ulaw":
		f, ok, sure = Format{Encoding: MuLaw, Rate: 8000}, true, true
	case "audio/pcma", "audio/x-alaw", "audio/alaw", "audio/x-alaw-basic":
		f, ok, sure = Format{Encoding: ALaw, Rate: 8000}, true, true
	}
	if !ok {
		return f, false, false
	}
	for _, key := range []string{"rate", "samplerate", "sample_rate"} {
		if n, err := strconv.Atoi(params[key]); err == nil && n > 0 {
			f.Rate = n
		}
	}
	if n, err := strconv.Atoi(params["channels"]); err == nil && n > 0 {
		f.Channels = n
	}
	return f, ok, sure
}

// FormatError is of bytes that are no sound we can read.
type FormatError struct {
	// What they are, or what is wrong with them.
	What string
	// Text is the beginning of a text, as it came: a service's own words, which may repeat
	// a secret. Error leaves it out.
	Text string
}

// Error implements error.
func (e *FormatError) Error() string { return "sound: " + e.What }

func unreadable(format string, a ...any) error { return &FormatError{What: fmt.Sprintf(format, a...)} }
