package sound

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"parley/media/g711"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tone is a second of a tone of 1 kHz at half scale.
func tone(rate int) []int16 {
	pcm := make([]int16, rate)
	for i := range pcm {
		pcm[i] = int16(16000 * math.Sin(2*math.Pi*1000*float64(i)/float64(rate)))
	}
	return pcm
}

// encode writes samples as f has them, on each channel.
func encode(t testing.TB, f Format, pcm []int16) []byte {
	t.Helper()
	var b bytes.Buffer
	le := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	for _, x := range pcm {
		for range max(f.Channels, 1) {
			switch f.Encoding {
			case S16LE:
				le(x)
			case S16BE:
				_ = binary.Write(&b, binary.BigEndian, x)
			case U8:
				b.WriteByte(byte(int(x)>>8 + 128))
			case S24LE:
				b.Write([]byte{0, byte(x), byte(uint16(x) >> 8)})
			case S32LE:
				le(int32(x) << 16)
			case F32LE:
				le(float32(x) / 32767)
			case F64LE:
				le(float64(x) / 32767)
			case MuLaw, ALaw:
				codec := g711.PCMU()
				if f.Encoding == ALaw {
					codec = g711.PCMA()
				}
				enc, err := codec.NewEncoder()
				if err != nil {
					t.Fatal(err)
				}
				one, err := enc.Encode(nil, []int16{x})
				if err != nil {
					t.Fatal(err)
				}
				b.Write(one)
			}
		}
	}
	return b.Bytes()
}

// file is a WAVE file. size is what its header says of the sound.
func file(f Format, data []byte, size uint32, before ...string) []byte {
	tags := map[Encoding][2]uint16{S16LE: {1, 16}, U8: {1, 8}, S24LE: {1, 24}, S32LE: {1, 32}, F32LE: {3, 32}, F64LE: {3, 64}, ALaw: {6, 8}, MuLaw: {7, 8}}
	tag := tags[f.Encoding]
	channels := max(f.Channels, 1)
	var b bytes.Buffer
	le := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	b.WriteString("RIFF")
	le(uint32(36 + len(data)))
	b.WriteString("WAVE")
	for _, chunk := range before {
		b.WriteString(chunk)
	}
	b.WriteString("fmt ")
	le(uint32(16))
	le(tag[0])
	le(uint16(channels))
	le(uint32(f.Rate))
	le(uint32(f.Rate * f.frame()))
	le(uint16(f.frame()))
	le(tag[1])
	b.WriteString("data")
	le(size)
	b.Write(data)
	return b.Bytes()
}

// decode reads an answer cut into pieces of n bytes.
func decode(d *Decoder, b []byte, n int) (pcm []int16, err error) {
	give := func(p []int16) error { pcm = append(pcm, p...); return nil }
	for len(b) > 0 {
		k := min(n, len(b))
		if err := d.Write(b[:k], give); err != nil {
			return pcm, err
		}
		b = b[k:]
	}
	return pcm, d.Close(give)
}

// isTone checks that pcm is a second of a tone of 1 kHz within half a percent, as loud as it
// was, and nothing else.
func isTone(t *testing.T, pcm []int16, rate int, noise float64) {
	t.Helper()
	if d := len(pcm) - rate; d < -1 || d > 1 {
		t.Errorf("%d samples at %d Hz, want a second", len(pcm), rate)
		return
	}
	inner := pcm[rate/20 : rate-rate/20]
	var sin, cos, all float64
	crossings, first, last := 0, 0, 0
	for i, x := range inner {
		a := 2 * math.Pi * 1000 * float64(i) / float64(rate)
		sin += float64(x) * math.Sin(a)
		cos += float64(x) * math.Cos(a)
		all += float64(x) * float64(x)
		if i > 0 && inner[i-1] < 0 && x >= 0 {
			if crossings == 0 {
				first = i
			}
			crossings, last = crossings+1, i
		}
	}
	hz := float64(crossings-1) * float64(rate) / float64(last-first)
	if math.Abs(hz-1000) > 5 {
		t.Errorf("a tone of %.1f Hz", hz)
	}
	amplitude := 2 * math.Hypot(sin, cos) / float64(len(inner))
	if math.Abs(amplitude-16000) > 500 {
		t.Errorf("amplitude %.0f, want 16000", amplitude)
	}
	rest := math.Sqrt(max(all/float64(len(inner))-amplitude*amplitude/2, 0))
	if rest > noise {
		t.Errorf("noise of %.1f, want at most %.1f", rest, noise)
	}
}

func TestToneStaysATone(t *testing.T) {
	for _, c := range []struct {
		name    string
		format  Format
		says    string // Content-Type
		bare    Format // expected of bare samples
		wave    bool
		size    int64 // in the header; -1: right
		extra   []string
		noise   float64
		trailer string
	}{
		{name: "raw 24k", format: Format{S16LE, 24000, 1}, bare: Format{S16LE, 24000, 1}},
		{name: "raw 22.05k declared", format: Format{S16LE, 22050, 1}, bare: Format{S16LE, 24000, 1}, says: "audio/pcm;rate=22050"},
		{name: "raw stereo declared", format: Format{S16LE, 24000, 2}, bare: Format{S16LE, 24000, 1}, says: "audio/pcm; channels=2"},
		{name: "raw without a type", format: Format{S16LE, 16000, 1}, bare: Format{S16LE, 16000, 1}, says: "application/octet-stream"},
		{name: "L16 as by RFC 2586", format: Format{S16BE, 16000, 1}, bare: Format{S16LE, 24000, 1}, says: "audio/L16; rate=16000"},
		{name: "L16 as by most", format: Format{S16LE, 16000, 1}, bare: Format{S16LE, 24000, 1}, says: "audio/l16;rate=16000;channels=1"},
		{name: "mu-law", format: Format{MuLaw, 8000, 1}, bare: Format{S16LE, 24000, 1}, says: "audio/basic", noise: 250},
		{name: "A-law", format: Format{ALaw, 8000, 1}, bare: Format{S16LE, 24000, 1}, says: "audio/PCMA", noise: 250},
		{name: "mu-law by contract", format: Format{MuLaw, 8000, 1}, bare: Format{MuLaw, 8000, 1}, noise: 250},
		{name: "WAV 44.1k stereo", format: Format{S16LE, 44100, 2}, bare: Format{S16LE, 24000, 1}, wave: true, size: -1},
		{name: "WAV called pcm", format: Format{S16LE, 22050, 1}, bare: Format{S16LE, 24000, 1}, wave: true, size: -1, says: "audio/pcm"},
		{name: "WAV called mpeg", format: Format{S16LE, 22050, 1}, bare: Format{S16LE, 24000, 1}, wave: true, size: -1, says: "audio/mpeg"},
		{name: "WAV called text", format: Format{S16LE, 22050, 1}, bare: Format{S16LE, 24000, 1}, wave: true, size: -1, says: "text/plain"},
		{name: "WAV of 8 bits", format: Format{U8, 11025, 1}, wave: true, size: -1, noise: 150},
		{name: "WAV of 24 bits", format: Format{S24LE, 48000, 2}, wave: true, size: -1},
		{name: "WAV of 32 bits", format: Format{S32LE, 32000, 1}, wave: true, size: -1},
		{name: "WAV of floats", format: Format{F32LE, 24000, 1}, wave: true, size: -1},
		{name: "WAV of doubles", format: Format{F64LE, 16000, 3}, wave: true, size: -1},
		{name: "WAV of mu-law", format: Format{MuLaw, 8000, 1}, wave: true, size: -1, noise: 250},
		{name: "WAV of A-law", format: Format{ALaw, 8000, 2}, wave: true, size: -1, noise: 250},
		{name: "WAV without a size", format: Format{S16LE, 24000, 1}, wave: true, size: 0xffffffff},
		{name: "WAV of size 0", format: Format{S16LE, 24000, 1}, wave: true, size: 0},
		{name: "WAV of two gigabytes", format: Format{S16LE, 24000, 1}, wave: true, size: 0x7fffffff - 36},
		{name: "WAV with chunks before", format: Format{S16LE, 24000, 1}, wave: true, size: -1, extra: []string{"LIST\x05\x00\x00\x00abcde\x00", "JUNK\x00\x00\x00\x00"}},
		{name: "WAV with chunks behind", format: Format{S16LE, 24000, 1}, wave: true, size: -1, trailer: "LIST\x1a\x00\x00\x00INFOISFT\x0e\x00\x00\x00Lavf60.16.100\x00"},
		{name: "an odd byte at the end", format: Format{S16LE, 24000, 1}, bare: Format{S16LE, 24000, 1}, trailer: "\x7f"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := encode(t, c.format, tone(c.format.Rate))
			if c.wave {
				if c.size < 0 {
					c.size = int64(len(b))
				}
				b = file(c.format, b, uint32(c.size), c.extra...)
			}
			b = append(b, c.trailer...)
			for rate, pieces := range map[int][]int{16000: {1, 7, 1 << 20}, 24000: {3}, 8000: {1000}} {
				for _, n := range pieces {
					pcm, err := decode(NewDecoder(rate, c.bare, c.says), b, n)
					if err != nil {
						t.Fatalf("%d Hz in pieces of %d: %v", rate, n, err)
					}
					isTone(t, pcm, rate, max(c.noise, 12))
					if t.Failed() {
						t.Fatalf("at %d Hz in pieces of %d", rate, n)
					}
				}
			}
		})
	}
}

// TestNothingAliases: what a lower rate cannot hold is gone, and does not fold back.
func TestNothingAliases(t *testing.T) {
	const rate = 48000
	pcm := make([]int16, rate)
	for i := range pcm {
		pcm[i] = int16(16000 * math.Sin(2*math.Pi*7000*float64(i)/rate))
	}
	got, err := decode(NewDecoder(8000, Format{S16LE, rate, 1}, ""), encode(t, Format{Encoding: S16LE}, pcm), 4096)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range got[400 : len(got)-400] {
		if x > 20 || x < -20 {
			t.Fatalf("%d at %d: 7 kHz is heard at 8 kHz", x, i)
		}
	}
}

// TestSoundKeepsItsPlace at another rate, so that words do.
func TestSoundKeepsItsPlace(t *testing.T) {
	for _, in := range []int{8000, 22050, 44100, 48000} {
		pcm := tone(in)
		clear(pcm[:in/2])
		got, err := decode(NewDecoder(16000, Format{S16LE, in, 1}, ""), encode(t, Format{}, pcm), 4096)
		if err != nil {
			t.Fatal(err)
		}
		if at := slices.IndexFunc(got, func(x int16) bool { return x > 4000 }); at < 8000-4 || at > 8000+4 {
			t.Errorf("from %d Hz: it begins at %d, want 8000", in, at)
		}
	}
}

func frames(header []byte, size, n int) []byte {
	f := make([]byte, size)
	copy(f, header)
	return bytes.Repeat(f, n)
}

func TestNoise(t *testing.T) {
	wav := func(change func([]byte)) []byte {
		b := file(Format{S16LE, 24000, 1}, make([]byte, 400), 400)
		change(b)
		return b
	}
	for _, c := range []struct {
		name, says string
		body       []byte
		want, text string
	}{
		{"MP3", "audio/mpeg", frames([]byte{0xff, 0xfb, 0x90, 0x64}, 417, 4), "MP3 is not read: ask for pcm or wav", ""},
		{"MP3 called pcm", "audio/pcm", frames([]byte{0xff, 0xf3, 0x84, 0xc4}, 192, 4), "MP3 is not read", ""},
		{"one frame of MP3", "", frames([]byte{0xff, 0xfb, 0x90, 0x64}, 417, 1), "MP3 is not read", ""},
		{"MP3 with a tag", "", append([]byte("ID3\x04\x00\x00\x00\x00\x00\x00"), make([]byte, 100)...), "MP3 is not read", ""},
		{"AAC", "", frames([]byte{0xff, 0xf1, 0x50, 0x80, 0x04, 0xff, 0xfc}, 39, 4), "AAC is not read", ""},
		{"Ogg", "", append([]byte("OggS"), make([]byte, 100)...), "Ogg (Opus or Vorbis) is not read", ""},
		{"FLAC", "", append([]byte("fLaC"), make([]byte, 100)...), "FLAC is not read", ""},
		{"MP4", "", append([]byte("\x00\x00\x00\x20ftypM4A "), make([]byte, 100)...), "MP4 (AAC) is not read", ""},
		{"WebM", "", append([]byte("\x1aE\xdf\xa3"), make([]byte, 100)...), "WebM is not read", ""},
		{"AVI", "", append([]byte("RIFF\x00\x00\x00\x00AVI LIST"), make([]byte, 100)...), "RIFF, but not WAVE is not read", ""},
		{"samples called mpeg", "audio/mpeg", make([]byte, 100), "audio/mpeg is not read", ""},
		{"samples called wav", "audio/wav", make([]byte, 100), "audio/wav that does not begin as a WAVE file does", ""},
		{"HTML", "text/html; charset=utf-8", []byte("<!doctype html><html><body>502 Bad Gateway</body></html>"), "text/html instead of sound", "<!doctype html><html><body>502 Bad Gateway</body></html>"},
		{"HTML called pcm", "audio/pcm", []byte("<!doctype html><html><body>502 Bad Gateway</body></html>"), "a text instead of sound", "<!doctype html><html><body>502 Bad Gateway</body></html>"},
		{"JSON", "application/json", []byte(`{"error":"no"}`), "application/json instead of sound", `{"error":"no"}`},
		{"JSON called pcm", "", []byte(`{"error":{"message":"no such voice"}}`), "a text instead of sound", `{"error":{"message":"no such voice"}}`},
		{"a short text", "", []byte("busy"), "a text instead of sound", "busy"},
		{"a text of Chinese", "", []byte("服务暂时不可用,请稍后再试"), "a text instead of sound", "服务暂时不可用,请稍后再试"},
		{"half a header", "", []byte("RIFF\x24\x00\x00\x00WAVEfmt "), "ends within its header", ""},
		{"no format", "", []byte("RIFF\x24\x00\x00\x00WAVEdata\x10\x00\x00\x00" + strings.Repeat("a", 16)), "comes before its format", ""},
		{"an unknown format", "", wav(func(b []byte) { b[20] = 0x55 }), "of the kind 85 with 16 bits", ""},
		{"12 bits", "", wav(func(b []byte) { b[34] = 12 }), "of the kind 1 with 12 bits", ""},
		{"no channels", "", wav(func(b []byte) { b[22] = 0 }), "of 0 channels", ""},
		{"too many channels", "", wav(func(b []byte) { b[22] = 9 }), "of 9 channels", ""},
		{"96 kHz", "", wav(func(b []byte) { binary.LittleEndian.PutUint32(b[24:], 96000) }), "a rate of 96000 Hz", ""},
		{"0 Hz", "", wav(func(b []byte) { binary.LittleEndian.PutUint32(b[24:], 0) }), "a rate of 0 Hz", ""},
		{"an endless header", "", append([]byte("RIFF\x24\x00\x00\x00WAVELIST\xff\xff\xff\x7f"), make([]byte, 1000)...), "more than 262144 bytes before its sound", ""},
		{"many chunks", "", append([]byte("RIFF\x24\x00\x00\x00WAVE"), bytes.Repeat([]byte("JUNK\x00\x00\x01\x00"+strings.Repeat("x", 65536)), 5)...), "more than 262144 bytes before its sound", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int{1, 5, 1 << 20} {
				pcm, err := decode(NewDecoder(24000, Format{S16LE, 24000, 1}, c.says), c.body, n)
				var f *FormatError
				if !errors.As(err, &f) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("pieces of %d: %v, want %q", n, err, c.want)
				} else if n > len(c.body) && f.Text != c.text {
					t.Errorf("text %q, want %q", f.Text, c.text)
				}
				if len(pcm) > 0 {
					t.Errorf("pieces of %d: %d samples of noise", n, len(pcm))
				}
			}
		})
	}
}

// TestSamplesThatLookOtherwise are bare, whatever they begin like.
func TestSamplesThatLookOtherwise(t *testing.T) {
	quiet := func(first ...byte) []byte { return append(first, make([]byte, 6000)...) }
	for name, b := range map[string][]byte{
		"minus one":            quiet(0xff, 0xff, 0x00, 0x00),
		"a frame of MP3":       quiet(0xff, 0xfb, 0x90, 0x64),
		"a frame of AAC":       quiet(0xff, 0xf1, 0x50, 0x80, 0x04, 0xff, 0xfc),
		"one printable sample": quiet('{', '"'),
		"silence":              quiet(),
	} {
		pcm, err := decode(NewDecoder(24000, Format{S16LE, 24000, 1}, "audio/pcm"), b, 1000)
		if err != nil || len(pcm) != len(b)/2 {
			t.Errorf("%s: %d of %d samples, %v", name, len(pcm), len(b)/2, err)
		}
	}
}

func TestBrokenOff(t *testing.T) {
	f := Format{S16LE, 24000, 1}
	data := encode(t, f, tone(24000))
	if _, err := decode(NewDecoder(24000, f, ""), file(f, data[:24000], uint32(len(data))), 4096); err == nil || err.Error() != "sound: the file ends 500ms before its sound does" {
		t.Error(err)
	}
	if _, err := decode(NewDecoder(24000, f, ""), file(f, data, uint32(len(data)+36)), 4096); err != nil {
		t.Error("a size that counts the header:", err)
	}
	if pcm, err := decode(NewDecoder(24000, f, ""), nil, 1); err != nil || len(pcm) != 0 {
		t.Error("nothing:", pcm, err)
	}
	if pcm, err := decode(NewDecoder(24000, f, ""), file(f, nil, 0), 7); err != nil || len(pcm) != 0 {
		t.Error("an empty file:", pcm, err)
	}
}

func TestExtensible(t *testing.T) {
	f := Format{S16LE, 24000, 1}
	data := encode(t, f, tone(24000))
	b := file(f, data, uint32(len(data)))
	var fmtChunk bytes.Buffer
	fmtChunk.WriteString("fmt ")
	_ = binary.Write(&fmtChunk, binary.LittleEndian, uint32(40))
	head := bytes.Clone(b[20:36])
	head[0], head[1] = 0xfe, 0xff
	fmtChunk.Write(head)
	fmtChunk.WriteString("\x16\x00\x10\x00\x04\x00\x00\x00\x01\x00\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71")
	b = append(append(bytes.Clone(b[:12]), fmtChunk.Bytes()...), b[36:]...)
	pcm, err := decode(NewDecoder(24000, Format{}, ""), b, 11)
	if err != nil {
		t.Fatal(err)
	}
	isTone(t, pcm, 24000, 12)
}

// FuzzDecoder: however an answer is cut, the same comes of it.
func FuzzDecoder(f *testing.F) {
	s16 := Format{S16LE, 22050, 2}
	data := encode(f, s16, tone(22050)[:300])
	for _, says := range []string{"", "audio/pcm;rate=8000", "audio/L16;rate=16000", "text/html", "audio/basic"} {
		f.Add(file(s16, data, uint32(len(data)), "LIST\x01\x00\x00\x00a\x00"), says, uint8(5))
		f.Add(data, says, uint8(1))
		f.Add([]byte("<html>"), says, uint8(2))
		f.Add(frames([]byte{0xff, 0xfb, 0x90, 0x64}, 417, 2), says, uint8(100))
	}
	f.Fuzz(func(t *testing.T, b []byte, says string, n uint8) {
		make := func() *Decoder { return NewDecoder(16000, Format{S16LE, 24000, 1}, says) }
		whole, err := decode(make(), b, len(b)+1)
		pieces, err2 := decode(make(), b, int(n)+1)
		if (err == nil) != (err2 == nil) || fmt.Sprint(whole) != fmt.Sprint(pieces) {
			t.Fatalf("whole %d samples, %v; in pieces %d, %v", len(whole), err, len(pieces), err2)
		}
		if len(whole) > 3*len(b)+3 {
			t.Fatalf("%d samples of %d bytes", len(whole), len(b))
		}
	})
}
