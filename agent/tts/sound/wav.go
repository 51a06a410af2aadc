package sound

import (
	"encoding/binary"
	"time"
)

// maxHeader bounds what may stand before the sound of a file.
const maxHeader = 256 << 10

// header is that of a WAVE file.
type header struct {
	format Format
	// begin is where the sound begins, size its bytes; -1: to the end.
	begin int
	size  int64
}

// readHeader reads the header of a WAVE file that begins with b. ok is false while it is
// not complete.
func readHeader(b []byte) (h header, ok bool, err error) {
	known := false
	for at := 12; ; {
		if len(b) < at+8 {
			return h, false, bounded(at + 8)
		}
		name, size := string(b[at:at+4]), int64(binary.LittleEndian.Uint32(b[at+4:]))
		at += 8
		switch {
		case name == "data" && !known:
			return h, false, unreadable("a WAVE file whose sound comes before its format")
		case name == "data":
			h.begin, h.size = at, h.length(size)
			return h, true, nil
		case name == "fmt ":
			n := min(size, 40)
			if int64(len(b)-at) < n {
				return h, false, nil
			}
			if h.format, err = describe(b[at : at+int(n)]); err != nil {
				return h, false, err
			}
			known = true
		}
		if size += size & 1; size > maxHeader { // chunks are padded to an even length
			return h, false, bounded(maxHeader + 1)
		}
		at += int(size)
	}
}

func bounded(n int) error {
	if n > maxHeader {
		return unreadable("a WAVE file with more than %d bytes before its sound", maxHeader)
	}
	return nil
}

// length is the size of the sound as its chunk gives it. Services that do not know it yet
// write 0, the largest number they know, or some hours.
func (h header) length(size int64) int64 {
	const longest = time.Hour / time.Second
	if size == 0 || size > int64(h.format.frame())*int64(h.format.Rate)*int64(longest) {
		return -1
	}
	return size
}

// describe reads a format chunk.
func describe(b []byte) (Format, error) {
	const (
		tagPCM, tagFloat, tagALaw, tagMuLaw = 1, 3, 6, 7
		tagExtensible                       = 0xFFFE
		maxChannels                         = 8
	)
	if len(b) < 16 {
		return Format{}, unreadable("a WAVE file with a format of %d bytes", len(b))
	}
	le := binary.LittleEndian
	tag, channels, rate, bits := le.Uint16(b), int(le.Uint16(b[2:])), le.Uint32(b[4:]), le.Uint16(b[14:])
	if tag == tagExtensible && len(b) >= 26 {
		tag = le.Uint16(b[24:]) // the first bytes of a GUID that is else constant
	}
	f := Format{Rate: int(min(rate, 1<<30)), Channels: channels}
	switch {
	case tag == tagPCM && bits == 8:
		f.Encoding = U8
	case tag == tagPCM && bits == 16:
		f.Encoding = S16LE
	case tag == tagPCM && bits == 24:
		f.Encoding = S24LE
	case tag == tagPCM && bits == 32:
		f.Encoding = S32LE
	case tag == tagFloat && bits == 32:
		f.Encoding = F32LE
	case tag == tagFloat && bits == 64:
		f.Encoding = F64LE
	case tag == tagALaw && bits == 8:
		f.Encoding = ALaw
	case tag == tagMuLaw && bits == 8:
		f.Encoding = MuLaw
	default:
		return Format{}, unreadable("a WAVE file of the kind %d with %d bits", tag, bits)
	}
	if channels < 1 || channels > maxChannels {
		return Format{}, unreadable("a WAVE file of %d channels", channels)
	}
	return f, nil
}
