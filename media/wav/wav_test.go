package wav

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/zaf/g711"
)

func chunk(name string, size uint32, body []byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte(name), size)
	b = append(b, body...)
	if len(body)%2 == 1 {
		b = append(b, 0)
	}
	return b
}

func whole(chunks ...[]byte) []byte {
	body := bytes.Join(chunks, nil)
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(body)+4)), append([]byte("WAVE"), body...)...)
}

func format(tag, channels uint16, rate uint32, bits uint16, more ...byte) []byte {
	le := binary.LittleEndian
	b := le.AppendUint16(nil, tag)
	b = le.AppendUint16(b, channels)
	b = le.AppendUint32(b, rate)
	b = le.AppendUint32(b, rate*uint32(channels)*uint32(bits)/8)
	b = le.AppendUint16(b, channels*bits/8)
	b = le.AppendUint16(b, bits)
	b = append(b, more...)
	return chunk("fmt ", uint32(len(b)), b)
}

// extension is what follows the common part of an extensible format.
func extension(tag uint16) []byte {
	b := []byte{22, 0, 16, 0, 4, 0, 0, 0}
	b = binary.LittleEndian.AppendUint16(b, tag)
	return append(b, "\x00\x00\x00\x00\x10\x00\x80\x00\x00\xAA\x00\x38\x9B\x71"...)
}

func bytesOf(pcm ...int16) []byte {
	var b []byte
	for _, s := range pcm {
		b = binary.LittleEndian.AppendUint16(b, uint16(s))
	}
	return b
}

var (
	samples = []int16{0, 1, -1, 32767, -32768, 1000}
	mono    = Format{16000, 1, PCM16}
	stereo  = Format{44100, 2, PCM16}
)

func data(b []byte) []byte { return chunk("data", uint32(len(b)), b) }

// readable is files and what is in them.
var readable = []struct {
	name   string
	file   []byte
	format Format
	pcm    []int16
	err    error
}{
	{"plain", whole(format(1, 1, 16000, 16), data(bytesOf(samples...))), mono, samples, nil},
	{"ours", Encode(16000, 1, samples), mono, samples, nil},
	{"stereo", whole(format(1, 2, 44100, 16), data(bytesOf(samples...))), stereo, samples, nil},
	{"extensible", whole(format(0xFFFE, 2, 44100, 16, extension(1)...), data(bytesOf(samples...))), stereo, samples, nil},
	{"format of 18 bytes", whole(format(1, 1, 16000, 16, 0, 0), data(bytesOf(samples...))), mono, samples, nil},
	{"long format", whole(format(1, 1, 16000, 16, make([]byte, 60)...), data(bytesOf(samples...))), mono, samples, nil},
	{"other chunks", whole(chunk("LIST", 5, []byte("abcde")), format(1, 1, 16000, 16), chunk("fact", 4, make([]byte, 4)), data(bytesOf(samples...)), chunk("LIST", 4, []byte("abcd"))), mono, samples, nil},
	{"two formats", whole(format(1, 1, 16000, 16), format(1, 2, 8000, 16), data(bytesOf(samples...))), mono, samples, nil},
	{"mu-law", whole(format(7, 1, 8000, 8), data([]byte{0xFF, 0x80, 0x00})), Format{8000, 1, MuLaw}, []int16{g711.DecodeUlawFrame(0xFF), g711.DecodeUlawFrame(0x80), g711.DecodeUlawFrame(0)}, nil},
	{"A-law stereo", whole(format(6, 2, 8000, 8), data([]byte{0xD5, 0x2A})), Format{8000, 2, ALaw}, []int16{g711.DecodeAlawFrame(0xD5), g711.DecodeAlawFrame(0x2A)}, nil},
	{"extensible mu-law", whole(format(0xFFFE, 1, 8000, 8, extension(7)...), data([]byte{0xFF})), Format{8000, 1, MuLaw}, []int16{g711.DecodeUlawFrame(0xFF)}, nil},
	{"no sound", whole(format(1, 1, 16000, 16), data(nil)), mono, nil, nil},
	{"length unknown", whole(format(1, 1, 16000, 16), chunk("data", 0xFFFFFFFF, bytesOf(samples...))), mono, samples, nil},
	{"length unknown, signed", whole(format(1, 1, 16000, 16), chunk("data", 0x7FFFFFFF, bytesOf(samples...))), mono, samples, nil},
	{"length zero in a stream", slices.Concat([]byte("RIFF\x00\x00\x00\x00WAVE"), format(1, 1, 16000, 16), chunk("data", 0, bytesOf(samples...))), mono, samples, nil},
	{"length unknown, odd end", append(whole(format(1, 1, 16000, 16), chunk("data", 0xFFFFFFFF, bytesOf(samples...))), 7), mono, samples, nil},
	{"truncated", whole(format(1, 1, 16000, 16), chunk("data", 1000, bytesOf(samples...))), mono, samples, ErrTruncated},
	{"truncated within a sample", whole(format(1, 1, 16000, 16), chunk("data", 1000, bytesOf(samples...)))[:44+11], mono, samples[:5], ErrTruncated},
	{"truncated at once", whole(format(1, 1, 16000, 16), chunk("data", 1000, nil)), mono, nil, ErrTruncated},
	{"odd length", whole(format(1, 1, 16000, 16), chunk("data", 5, bytesOf(samples...))), mono, samples[:2], nil},
}

func TestReadable(t *testing.T) {
	for _, c := range readable {
		t.Run(c.name, func(t *testing.T) {
			for name, r := range map[string]io.Reader{
				"whole": bytes.NewReader(c.file), "byte by byte": iotest.OneByteReader(bytes.NewReader(c.file)),
				"end with data": iotest.DataErrReader(bytes.NewReader(c.file)),
			} {
				pcm, format, err := ReadAll(r, 1000)
				if !errors.Is(err, c.err) || err != nil && c.err == nil {
					t.Fatalf("%s: %v, want %v", name, err, c.err)
				}
				if format != c.format || !slices.Equal(pcm, c.pcm) {
					t.Errorf("%s: %v of %+v, want %v of %+v", name, pcm, format, c.pcm, c.format)
				}
			}
			if !Is(c.file) {
				t.Error("not recognised")
			}
		})
	}
}

func TestUnreadable(t *testing.T) {
	good := Encode(16000, 1, samples)
	for name, b := range map[string][]byte{
		"empty":            {},
		"MP3":              []byte("ID3\x04\x00\x00\x00\x00\x00\x00 and so on, and so on"),
		"bare samples":     make([]byte, 1000),
		"header cut":       good[:30],
		"AVI":              bytes.Replace(good, []byte("WAVE"), []byte("AVI "), 1),
		"8 bit":            whole(format(1, 1, 8000, 8), data(make([]byte, 8))),
		"24 bit":           whole(format(1, 1, 8000, 24), data(make([]byte, 9))),
		"float":            whole(format(3, 1, 8000, 32), data(make([]byte, 8))),
		"ADPCM":            whole(format(2, 1, 8000, 4), data(make([]byte, 8))),
		"no channel":       whole(format(1, 0, 8000, 16), data(make([]byte, 8))),
		"six channels":     whole(format(1, 6, 8000, 16), data(make([]byte, 24))),
		"rate 0":           whole(format(1, 1, 0, 16), data(make([]byte, 8))),
		"rate beyond":      whole(format(1, 1, 1<<31, 16), data(make([]byte, 8))),
		"short format":     whole(chunk("fmt ", 8, make([]byte, 8)), data(make([]byte, 8))),
		"short extensible": whole(format(0xFFFE, 1, 8000, 16), data(make([]byte, 8))),
		"strange GUID":     whole(format(0xFFFE, 1, 8000, 16, make([]byte, 24)...), data(make([]byte, 8))),
		"no format":        whole(data(make([]byte, 8))),
		"no data":          whole(format(1, 1, 8000, 16)),
		"endless chunk":    whole(chunk("JUNK", 0xFFFFFFF0, nil)),
	} {
		if pcm, _, err := ReadAll(bytes.NewReader(b), 1000); !errors.Is(err, ErrFormat) || len(pcm) > 0 {
			t.Errorf("%s: %v, %v", name, pcm, err)
		}
	}
	broken := errors.New("broken")
	if _, _, err := ReadAll(io.MultiReader(bytes.NewReader(good[:46]), iotest.ErrReader(broken)), 1000); !errors.Is(err, broken) {
		t.Errorf("the reader's own error became %v", err)
	}
	if _, _, err := ReadAll(io.MultiReader(bytes.NewReader(good[:20]), iotest.ErrReader(broken)), 1000); !errors.Is(err, broken) {
		t.Errorf("the reader's own error became %v", err)
	}
}

func TestReadInPieces(t *testing.T) {
	long := make([]int16, 10001*2)
	for i := range long {
		long[i] = int16(i)
	}
	r, err := NewReader(bytes.NewReader(Encode(8000, 2, long)))
	if err != nil || r.Samples() != int64(len(long)) || r.Format() != (Format{8000, 2, PCM16}) {
		t.Fatalf("%v, %d, %+v", err, r.Samples(), r.Format())
	}
	if n, err := r.Read(make([]int16, 1)); n != 0 || err != nil {
		t.Errorf("no room for both channels: %d, %v", n, err)
	}
	var got []int16
	for {
		buf := make([]int16, 333)
		n, err := r.Read(buf)
		got = append(got, buf[:n]...)
		if err == io.EOF {
			break
		}
		if err != nil || n != 332 {
			t.Fatal(n, err)
		}
	}
	if !slices.Equal(got, long) {
		t.Error("other samples came back")
	}
	if n, err := r.Read(make([]int16, 10)); n != 0 || err != io.EOF {
		t.Errorf("after the end: %d, %v", n, err)
	}
}

func TestLimit(t *testing.T) {
	file := Encode(8000, 1, make([]int16, 9000))
	if pcm, _, err := ReadAll(bytes.NewReader(file), 9000); err != nil || len(pcm) != 9000 {
		t.Errorf("exactly: %d, %v", len(pcm), err)
	}
	if pcm, _, err := ReadAll(bytes.NewReader(file), 8999); !errors.Is(err, ErrTooLong) || len(pcm) != 8999 {
		t.Errorf("one too many: %d, %v", len(pcm), err)
	}
	path := filepath.Join(t.TempDir(), "x.wav")
	if err := os.WriteFile(path, file[:100], 0o600); err != nil {
		t.Fatal(err)
	}
	if pcm, _, err := ReadFile(path, 9000); !errors.Is(err, ErrTruncated) || !strings.Contains(err.Error(), path) || len(pcm) != 28 {
		t.Errorf("%d, %v", len(pcm), err)
	}
	if _, _, err := ReadFile(path+"x", 1); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestMono(t *testing.T) {
	for _, c := range []struct {
		in       []int16
		channels int
		want     []int16
	}{
		{[]int16{100, 200, -32768, -32768, 32767, 32767, 5}, 2, []int16{150, -32768, 32767}},
		{[]int16{1, 2}, 1, []int16{1, 2}},
		{[]int16{1, 2}, 0, []int16{1, 2}},
		{nil, 2, nil},
	} {
		if got := Mono(c.in, c.channels); !slices.Equal(got, c.want) {
			t.Errorf("%+v gave %v", c, got)
		}
	}
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestWriter(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "call.wav")
	w, err := Create(path, 8000, 2)
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if err := w.WriteStereo([]int16{1, 2, 3}, []int16{-1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Write([]int16{7, 8}); err != nil || w.Samples() != 6002 || w.Path() != path {
		t.Fatal(err, w.Samples())
	}
	part := names(t, dir)
	if len(part) != 1 || part[0] == "call.wav" {
		t.Fatalf("before it is closed: %v", part)
	}
	// What a crash would leave is readable, but for what was still in memory.
	if pcm, f, err := ReadFile(filepath.Join(dir, part[0]), 1e6); err != nil && len(pcm) > 0 || f.Rate != 8000 && len(pcm) > 0 {
		t.Errorf("unfinished: %v, %+v", err, f)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"call.wav"}) {
		t.Fatalf("afterwards: %v", got)
	}
	pcm, f, err := ReadFile(path, 1e6)
	if err != nil || f != (Format{8000, 2, PCM16}) || len(pcm) != 6002 {
		t.Fatalf("%d samples, %+v, %v", len(pcm), f, err)
	}
	if !slices.Equal(pcm[:6], []int16{1, -1, 2, 0, 3, 0}) || pcm[6000] != 7 {
		t.Errorf("%v", pcm[:6])
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || info.Size() != 44+2*6002 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := w.Write([]int16{1}); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("written after the end: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	w.Abort()
	if _, err := os.Stat(path); err != nil {
		t.Error("an abort after the end removed the file")
	}
}

func TestAbortLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(filepath.Join(dir, "x.wav"), 8000, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteStereo([]int16{1}, []int16{1}); err == nil {
		t.Error("two sides in a mono file")
	}
	w.Abort()
	if got := names(t, dir); len(got) > 0 {
		t.Errorf("%v is left", got)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func TestWriterFails(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		path           string
		rate, channels int
	}{{filepath.Join(dir, "no", "x.wav"), 8000, 1}, {filepath.Join(dir, "x"), 8000, 3}, {filepath.Join(dir, "x"), 0, 1}} {
		if _, err := Create(c.path, c.rate, c.channels); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
	// The name is taken by a folder: no rename, nothing left behind.
	taken := filepath.Join(dir, "folder")
	if err := os.Mkdir(taken, 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := Create(taken, 8000, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err == nil {
		t.Error("a folder was overwritten")
	}
	if got := names(t, dir); !slices.Equal(got, []string{"folder"}) {
		t.Errorf("%v is left", got)
	}
	// Full: what fits is kept.
	w, err = Create(filepath.Join(dir, "long.wav"), 8000, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(samples); err != nil {
		t.Fatal(err)
	}
	w.size = maxData - 2
	if err := w.Write([]int16{1, 2}); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
	if err := w.Close(); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
	if pcm, _, err := ReadFile(filepath.Join(dir, "long.wav"), 100); err != nil || !slices.Equal(pcm, samples) {
		t.Errorf("%v, %v", pcm, err)
	}
}

func TestNoAllocation(t *testing.T) {
	w, err := Create(filepath.Join(t.TempDir(), "x.wav"), 8000, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	frame := make([]int16, 160)
	if n := testing.AllocsPerRun(100, func() { _ = w.WriteStereo(frame, frame) }); n != 0 {
		t.Errorf("%v allocations a frame", n)
	}
}

// FuzzReader: no panic, no more than asked for, and what is read once is read the
// same way after it was written.
func FuzzReader(f *testing.F) {
	for _, c := range readable {
		f.Add(c.file)
	}
	f.Add(whole(chunk("JUNK", 0xFFFFFFF0, nil)))
	f.Add(whole(format(0xFFFE, 1, 8000, 16)))
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 1 << 16
		pcm, format, err := ReadAll(bytes.NewReader(b), limit)
		if len(pcm) > limit || err != nil && errors.Is(err, ErrFormat) && len(pcm) > 0 {
			t.Fatalf("%d samples, %v", len(pcm), err)
		}
		if err != nil {
			return
		}
		if !Is(b) || len(pcm)%format.Channels != 0 {
			t.Fatalf("%d samples of %d channels", len(pcm), format.Channels)
		}
		again, _, err := ReadAll(bytes.NewReader(Encode(format.Rate, format.Channels, pcm)), limit)
		if err != nil || !slices.Equal(again, pcm) {
			t.Fatalf("%v", err)
		}
	})
}
