package opus

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thesyncim/gopus"

	"parley/media/wav"
)

// oggPage is a page as this test's own reader sees it.
type oggPage struct {
	flags   byte
	granule uint64
	serial  uint32
	number  uint32
	packets [][]byte
}

// readOgg reads pages of whole packets, and checks every sum bit by bit.
func readOgg(b []byte) (out []oggPage, err error) {
	for len(b) > 0 {
		if len(b) < 27 || string(b[:4]) != "OggS" || b[4] != 0 {
			return out, errors.New("no page")
		}
		laces := int(b[26])
		if len(b) < 27+laces {
			return out, errors.New("short page")
		}
		p := oggPage{flags: b[5], granule: binary.LittleEndian.Uint64(b[6:]), serial: binary.LittleEndian.Uint32(b[14:]), number: binary.LittleEndian.Uint32(b[18:])}
		size := 27 + laces
		var packet []byte
		for _, l := range b[27 : 27+laces] {
			if len(b) < size+int(l) {
				return out, errors.New("short page")
			}
			packet = append(packet, b[size:size+int(l)]...)
			size += int(l)
			if l < 255 {
				p.packets, packet = append(p.packets, packet), nil
			}
		}
		sum := binary.LittleEndian.Uint32(b[22:])
		page := append([]byte(nil), b[:size]...)
		copy(page[22:26], []byte{0, 0, 0, 0})
		want := uint32(0)
		for _, c := range page {
			want ^= uint32(c) << 24
			for range 8 {
				if want>>31 == 1 {
					want = want<<1 ^ 0x04c11db7
				} else {
					want <<= 1
				}
			}
		}
		if sum != want {
			return out, fmt.Errorf("page %d: sum %x, want %x", p.number, sum, want)
		}
		out, b = append(out, p), b[size:]
	}
	return out, nil
}

// decodeOgg decodes a file as a player does: without the pre-skip, to the end that
// the last page says.
func decodeOgg(t *testing.T, b []byte) (left, right []int16) {
	t.Helper()
	pages, err := readOgg(b)
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 3 || len(pages[0].packets) != 1 || len(pages[1].packets) != 1 || pages[0].flags != 2 {
		t.Fatalf("%d pages", len(pages))
	}
	head := pages[0].packets[0]
	if string(head[:8]) != "OpusHead" || head[8] != 1 || head[9] != 2 || len(head) != 19 || !bytes.HasPrefix(pages[1].packets[0], []byte("OpusTags")) {
		t.Fatalf("headers %q, %q", head, pages[1].packets[0])
	}
	skip := int(binary.LittleEndian.Uint16(head[10:]))
	d, err := gopus.NewDecoder(gopus.DefaultDecoderConfig(48000, 2))
	if err != nil {
		t.Fatal(err)
	}
	pcm := make([]int16, 0, 1<<20)
	packets := uint64(0)
	for i, p := range pages[2:] {
		if p.number != uint32(i+2) || p.serial != pages[0].serial {
			t.Errorf("page %d has number %d, serial %x", i, p.number, p.serial)
		}
		for _, b := range p.packets {
			buf := make([]int16, 2*960)
			n, err := d.DecodeInt16(b, buf)
			if err != nil || n != 960 {
				t.Fatal(n, err)
			}
			pcm = append(pcm, buf...)
			packets++
		}
		if p.flags&4 == 0 && p.granule != packets*960 {
			t.Errorf("page %d ends at %d, want %d", i, p.granule, packets*960)
		}
	}
	last := pages[len(pages)-1]
	pcm = pcm[2*skip:]
	if last.flags&4 != 0 {
		pcm = pcm[:2*(int(last.granule)-skip)]
	}
	for i := 0; i < len(pcm); i += 2 {
		left, right = append(left, pcm[i]), append(right, pcm[i+1])
	}
	return left, right
}

// lag is by how many samples got is behind want, up to most.
func lag(want, got []int16, most int) int {
	best, at := math.Inf(-1), 0
	for d := -most; d <= most; d++ {
		sum := 0.0
		for i := most; i < min(len(want), len(got))-most; i++ {
			sum += float64(want[i]) * float64(got[i+d])
		}
		if sum > best {
			best, at = sum, d
		}
	}
	return at
}

func TestAFileHoldsBothSidesToTheSample(t *testing.T) {
	for _, rate := range []int{8000, 16000} {
		path := filepath.Join(t.TempDir(), "call.opus")
		w, err := Create(path, rate, DefaultFileConfig())
		if err != nil {
			t.Fatal(err)
		}
		// Each side speaks while the other is silent.
		n := 3*rate + 123
		sound := voice(time.Duration(n)*time.Second/time.Duration(rate)+time.Millisecond, rate)[:n]
		left, right := append([]int16(nil), sound...), append([]int16(nil), sound...)
		clear(left[:n/2])
		clear(right[n/2:])
		for i := 0; i < n; i += 77 {
			if err := w.WriteStereo(left[i:min(n, i+77)], right[i:min(n, i+77)]); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Error("the file has its name before it is complete")
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v", info.Mode())
		}
		gotLeft, gotRight := decodeOgg(t, b)
		if want := n * 48000 / rate; len(gotLeft) != want {
			t.Errorf("%d Hz: %d samples, want %d", rate, len(gotLeft), want)
		}
		up := func(pcm []int16) (out []int16) {
			for _, s := range pcm {
				for range 48000 / rate {
					out = append(out, s)
				}
			}
			return out
		}
		for _, side := range []struct {
			name      string
			want, got []int16
			quiet     []int16
		}{
			{"left", up(left), gotLeft, gotLeft[:len(gotLeft)/2-4800]},
			{"right", up(right), gotRight, gotRight[len(gotRight)/2+4800:]},
		} {
			if d := lag(side.want, side.got, 100); d < -48 || d > 48 { // a millisecond: SILK lags a little less than it says
				t.Errorf("%d Hz: %s is %d samples late at 48 kHz", rate, side.name, d)
			}
			if p := peakOf(side.quiet); p > 600 {
				t.Errorf("%d Hz: %s sounds where it is silent: %d", rate, side.name, p)
			}
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if err := w.WriteStereo(left, right); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	}
}

func peakOf(pcm []int16) (p int) {
	for _, s := range pcm {
		p = max(p, int(s), -int(s))
	}
	return p
}

func TestAnUnfinishedFilePlaysToItsLastPage(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(filepath.Join(dir, "x.opus"), 8000, DefaultFileConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if err := w.WriteStereo(voice(5*time.Second, 8000), nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	names, _ := filepath.Glob(filepath.Join(dir, ".*.part"))
	if len(names) != 1 {
		t.Fatal(names)
	}
	b, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := decodeOgg(t, b); len(left) < 5*48000-960-lookahead {
		t.Errorf("%d samples of 5 s", len(left))
	}
	w.Abort()
	if names, _ := os.ReadDir(dir); len(names) != 0 {
		t.Errorf("%v is left", names)
	}
}

func TestFilesThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		path string
		rate int
		cfg  FileConfig
	}{
		{filepath.Join(dir, "no", "x"), 8000, DefaultFileConfig()}, {filepath.Join(dir, "x"), 44100, DefaultFileConfig()},
		{filepath.Join(dir, "x"), 8000, FileConfig{Bitrate: 1}}, {filepath.Join(dir, "x"), 8000, FileConfig{Bitrate: 32000, Complexity: 11}},
	} {
		if _, err := Create(c.path, c.rate, c.cfg); err == nil || !strings.HasPrefix(err.Error(), "opus: ") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	// The disk fails: nothing more is written, what was stays.
	w, err := Create(filepath.Join(dir, "x.opus"), 8000, DefaultFileConfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteStereo(make([]int16, 16000), nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("no space left")
	w.pages.w = failing{broken}
	if err := w.WriteStereo(make([]int16, 16000), nil); !errors.Is(err, broken) {
		t.Error(err)
	}
	if err := w.Close(); !errors.Is(err, broken) {
		t.Error(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "x.opus"))
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := decodeOgg(t, b); len(left) < 90000 {
		t.Errorf("%d samples are left", len(left))
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// Players that are not ours read the files too, where there are some.
func TestOtherPlayersReadTheFile(t *testing.T) {
	player, err := exec.LookPath("ffmpeg")
	if err != nil {
		t.Skip("ffmpeg is not installed")
	}
	dir := t.TempDir()
	w, err := Create(filepath.Join(dir, "x.opus"), 16000, DefaultFileConfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteStereo(voice(2*time.Second, 16000), nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(player, "-v", "error", "-i", w.Path(), "-ar", "16000", filepath.Join(dir, "x.wav")).CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: %s", err, out)
	}
	if pcm, f, err := wav.ReadFile(filepath.Join(dir, "x.wav"), 1e6); err != nil || f.Channels != 2 || len(pcm) != 2*32000 {
		t.Errorf("%d samples, %+v, %v", len(pcm), f, err)
	}
}
