package sound

import (
	"bytes"
	"encoding/binary"
	"mime"
	"strings"
	"unicode/utf8"
)

// kind is what the first bytes of a service's answer are.
type kind uint8

const (
	unsure kind = iota // more bytes are needed
	bare               // samples without a header
	wave               // a RIFF WAVE file
	text               // a text
	other              // some other kind of file
)

// sniffed is the most that is looked at, and enough for two frames of MP3.
const sniffed = 4096

// textual is how many bytes must be text for the whole to be taken for one: samples that
// are, one after the other, printable ASCII are loud noise.
const textual = 24

// magic are the beginnings of files that are sound, but not such as is read.
var magic = []struct {
	at         int
	bytes, are string
}{
	{0, "OggS", "Ogg (Opus or Vorbis)"},
	{0, "fLaC", "FLAC"},
	{0, "ID3", "MP3"},
	{0, "\x1aE\xdf\xa3", "WebM"},
	{4, "ftyp", "MP4 (AAC)"},
	{0, "FORM", "AIFF"},
	{0, "caff", "CAF"},
	{0, "RIFX", "big-endian RIFF"},
	{0, ".snd", "a Sun audio file"},
	{0, "\x1f\x8b\x08", "compressed by gzip"},
}

// sniff tells what b, the beginning of an answer, is. last: nothing follows.
func sniff(b []byte, last bool) (kind, string) {
	for _, m := range magic {
		if len(b) >= m.at+len(m.bytes) && string(b[m.at:m.at+len(m.bytes)]) == m.bytes {
			return other, m.are
		}
	}
	if isWave(b) {
		return wave, ""
	}
	if len(b) >= 12 && string(b[:4]) == "RIFF" {
		return other, "RIFF, but not WAVE"
	}
	if !last && len(b) < 12 { // the longest magic
		return unsure, ""
	}
	switch framed, need := compressed(b, last); {
	case framed != "":
		return other, framed
	case need:
		return unsure, ""
	}
	if isText(b[:min(len(b), textual)]) {
		if !last && len(b) < textual {
			return unsure, ""
		}
		return text, ""
	}
	return bare, ""
}

// isWave tells a WAVE file, also one that may be longer than 4 GB.
func isWave(b []byte) bool {
	return len(b) >= 12 && (string(b[:4]) == "RIFF" || string(b[:4]) == "RF64") && string(b[8:12]) == "WAVE"
}

// isText is whether b is printable text, which may be cut within a character.
func isText(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n <= 1 {
			return len(b) < utf8.UTFMax && !utf8.FullRune(b)
		}
		if r < ' ' && !strings.ContainsRune("\t\r\n", r) || r == 0x7f {
			return false
		}
		b = b[n:]
	}
	return true
}

// compressed tells frames of MP3 and of AAC, which begin as samples may: a second one must
// follow the first. need: it is not there yet.
func compressed(b []byte, last bool) (are string, need bool) {
	if len(b) < 6 || b[0] != 0xff {
		return "", false
	}
	next := 0
	if next = mp3Frame(b); next > 0 {
		are = "MP3"
	} else if next = aacFrame(b); next > 0 {
		are = "AAC"
	} else {
		return "", false
	}
	if next+6 > len(b) {
		if last {
			return are, false // it was a single one
		}
		return "", next+6 <= sniffed
	}
	if mp3Frame(b[next:]) == 0 && aacFrame(b[next:]) == 0 {
		return "", false
	}
	return are, false
}

// mp3Frame is the length of the frame of MPEG layer III that b begins with; 0: it is none
// (ISO 11172-3, section 2.4.1.3).
func mp3Frame(b []byte) int {
	if len(b) < 4 || b[0] != 0xff || b[1]&0xe0 != 0xe0 || b[1]>>1&3 != 1 {
		return 0
	}
	version, rate, at := b[1]>>3&3, b[2]>>2&3, b[2]>>4
	if version == 1 || rate == 3 || at == 0 || at == 15 {
		return 0
	}
	kbit := [15]int{0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320}
	perBit, hz := 144, []int{44100, 48000, 32000}[rate]
	if version != 3 { // MPEG 2 and 2.5: half the samples
		kbit = [15]int{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160}
		perBit, hz = 72, hz/2
	}
	if version == 0 {
		hz /= 2
	}
	return perBit*kbit[at]*1000/hz + int(b[2]>>1&1)
}

// aacFrame is the length of the ADTS frame that b begins with; 0: it is none.
func aacFrame(b []byte) int {
	if len(b) < 6 || b[0] != 0xff || b[1]&0xf6 != 0xf0 || b[2]>>2&15 > 12 {
		return 0
	}
	n := int(binary.BigEndian.Uint32([]byte{0, b[3] & 3, b[4], b[5]}) >> 5)
	if n < 7 {
		return 0
	}
	return n
}

// declared is what a Content-Type says that cannot be read as it is: a text, or a kind of
// file. Some services say so of everything, so that bytes with a header go first.
func declared(contentType string) (kind, string) {
	t, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		t, _, _ = strings.Cut(strings.ToLower(contentType), ";")
		t = strings.TrimSpace(t)
	}
	switch {
	case strings.HasPrefix(t, "text/"), strings.HasSuffix(t, "json"), strings.HasSuffix(t, "xml"):
		return text, t
	case t == "audio/wav", t == "audio/x-wav", t == "audio/wave", t == "audio/vnd.wave":
		return wave, t
	case t == "audio/mpeg", t == "audio/mp3", t == "audio/ogg", t == "audio/opus", t == "audio/aac", t == "audio/mp4",
		t == "audio/flac", t == "audio/x-flac", t == "audio/webm":
		return other, t
	}
	return bare, t
}

// excerpt is the beginning of a text.
func excerpt(b []byte) string {
	const most = 2048
	return string(bytes.TrimSpace(b[:min(len(b), most)]))
}
