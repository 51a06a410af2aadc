package g722

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"parley/media"
	"parley/media/wav"
)

// prompts is where Debian's asterisk-core-sounds-en-g722 and -wav put the same
// sentences, the latter at 8 kHz.
const prompts = "/usr/share/asterisk/sounds/en_US_f_Allison"

// ffmpeg converts b; the test is skipped where it is missing.
func ffmpeg(t testing.TB, b []byte, args ...string) []byte {
	t.Helper()
	if _, err := exec.LookPath("ffmpeg"); err != nil {
		t.Skip("ffmpeg is missing; on Debian: apt-get install ffmpeg")
	}
	c := exec.Command("ffmpeg", append([]string{"-v", "error"}, args...)...)
	c.Stdin = bytes.NewReader(b)
	var out, trouble bytes.Buffer
	c.Stdout, c.Stderr = &out, &trouble
	if err := c.Run(); err != nil {
		t.Fatalf("ffmpeg: %v: %s", err, trouble.String())
	}
	return out.Bytes()
}

func toBytes(pcm []int16) []byte {
	b := make([]byte, 0, 2*len(pcm))
	for _, s := range pcm {
		b = binary.LittleEndian.AppendUint16(b, uint16(s))
	}
	return b
}

func toPCM(b []byte) []int16 {
	pcm := make([]int16, len(b)/2)
	for i := range pcm {
		pcm[i] = int16(binary.LittleEndian.Uint16(b[2*i:]))
	}
	return pcm
}

// voice is sound like speech: a gliding pitch with its harmonics up to limit Hz,
// falling by 6 dB an octave, in syllables.
func voice(seconds float64, limit float64) []int16 {
	pcm := make([]int16, int(seconds*SampleRate))
	phase := 0.0
	for i := range pcm {
		at := float64(i) / SampleRate
		pitch := 130 + 40*math.Sin(2*math.Pi*0.7*at)
		phase += 2 * math.Pi * pitch / SampleRate
		v := 0.0
		for k := 1.0; k*pitch < limit; k++ {
			v += math.Sin(k*phase+k*k) / k
		}
		pcm[i] = int16(5000 * v * (0.6 + 0.4*math.Sin(2*math.Pi*4*at)))
	}
	return pcm
}

func encode(t testing.TB, pcm []int16) []byte {
	t.Helper()
	b, err := NewEncoder().Encode(nil, pcm)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func decode(t testing.TB, b []byte) []int16 {
	t.Helper()
	pcm, err := NewDecoder().Decode(nil, b)
	if err != nil {
		t.Fatal(err)
	}
	return pcm
}

// snr is the signal to noise ratio in dB of got, which lags by lag samples.
func snr(want, got []int16, lag int) float64 {
	signal, noise := 0.0, 0.0
	for i := 0; i+lag < len(got) && i < len(want); i++ {
		w, d := float64(want[i]), float64(got[i+lag])-float64(want[i])
		signal += w * w
		noise += d * d
	}
	return 10 * math.Log10(signal/(noise+1e-9))
}

// lag is the delay of both filters together in samples (section 2.3.2 of the
// Recommendation: 22 sample periods).
const lag = 22

func TestRoundTrip(t *testing.T) {
	tests := []struct {
		name  string
		pcm   []int16
		least float64 // dB
	}{
		{"speech below 3.4 kHz", voice(4, 3400), 35},
		{"speech up to 7 kHz", voice(4, 7000), 28},
		{"a tone in the lower band", tone(1000, 10000), 35},
		{"a tone in the higher band", tone(6000, 3000), 20},
		{"quiet speech", quieter(voice(4, 3400), 30), 28},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := decode(t, encode(t, tt.pcm))
			if len(got) != len(tt.pcm) {
				t.Fatalf("%d samples became %d", len(tt.pcm), len(got))
			}
			if s := snr(tt.pcm, got, lag); s < tt.least {
				t.Errorf("SNR %.1f dB, want %.0f", s, tt.least)
			} else {
				t.Logf("SNR %.1f dB", s)
			}
		})
	}
}

func tone(hz, size float64) []int16 {
	pcm := make([]int16, 2*SampleRate)
	for i := range pcm {
		pcm[i] = int16(size * math.Sin(2*math.Pi*hz*float64(i)/SampleRate))
	}
	return pcm
}

func quieter(pcm []int16, dB float64) []int16 {
	out := make([]int16, len(pcm))
	for i, s := range pcm {
		out[i] = int16(float64(s) * math.Pow(10, -dB/20))
	}
	return out
}

// Another implementation must decode ours to the same samples, and we its.
func TestAgainstFFmpeg(t *testing.T) {
	loud := make([]int16, SampleRate)
	for i := range loud { // full scale both ways, to reach every limit
		loud[i] = int16(32767 - 65535*(i/37%2))
	}
	for name, pcm := range map[string][]int16{"speech": voice(3, 7000), "square": loud, "tone": tone(3999, 30000)} {
		t.Run(name, func(t *testing.T) {
			ours := encode(t, pcm)
			theirs := ffmpeg(t, toBytes(pcm), "-f", "s16le", "-ar", "16000", "-ac", "1", "-i", "-", "-f", "g722", "-")
			same := 0
			for i := range min(len(ours), len(theirs)) {
				if ours[i] == theirs[i] {
					same++
				}
			}
			t.Logf("%d of %d bytes are the same", same, len(ours))
			if len(theirs) != len(ours) || same != len(ours) {
				t.Errorf("%d bytes, theirs are %d, %d are the same", len(ours), len(theirs), same)
			}
			want := toPCM(ffmpeg(t, ours, "-f", "g722", "-i", "-", "-f", "s16le", "-"))
			got := decode(t, ours)
			for i := range min(len(got), len(want)) {
				if got[i] != want[i] {
					t.Fatalf("sample %d of %d is %d, theirs %d", i, len(got), got[i], want[i])
				}
			}
			if len(want) != len(got) {
				t.Errorf("%d samples, theirs are %d", len(got), len(want))
			}
		})
	}
}

// The same without another implementation at hand: what ffmpeg 5.1 made of a sound
// that is whole numbers only, so that every machine makes the same.
func TestGolden(t *testing.T) {
	pcm := make([]int16, 2*SampleRate)
	seed, slow := uint32(1), int32(0)
	for i := range pcm {
		seed = seed*1664525 + 1013904223
		slow += (int32(seed>>16) - 32768 - slow) >> (2 + i/8000) // noise that gets darker
		v := slow + int32(i*(37+i/4000)%4000-2000)*3
		if i%5000 > 4800 { // and squares at full scale
			v = 40000 * int32(1-2*(i/23%2))
		}
		pcm[i] = int16(clamp16(v))
	}
	coded := encode(t, pcm)
	check := func(what string, b []byte, want string) {
		t.Helper()
		if got := fmt.Sprintf("%x", sha256.Sum256(b)); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	check("encoded", coded, goldenCoded)
	check("decoded", toBytes(decode(t, coded)), goldenDecoded)
	if _, err := exec.LookPath("ffmpeg"); err == nil { // to see that the figures are its own
		check("by ffmpeg", ffmpeg(t, toBytes(pcm), "-f", "s16le", "-ar", "16000", "-ac", "1", "-i", "-", "-f", "g722", "-"), goldenCoded)
		check("by ffmpeg", ffmpeg(t, coded, "-f", "g722", "-i", "-", "-f", "s16le", "-"), goldenDecoded)
	}
}

const (
	goldenCoded   = "0707444339e40b7db379efd44a1dda59837dfca74f00720ae1e43616a605b1e3"
	goldenDecoded = "3db78bbd89ee281d2cba1c89ec2eed8ab279d46a5588c1e43713ed387d6ed446"
)

// Prompts that somebody else coded, beside the same prompts in PCM at 8 kHz.
func TestRecordedPrompts(t *testing.T) {
	for _, name := range []string{"demo-congrats", "vm-goodbye", "hello-world"} {
		t.Run(name, func(t *testing.T) {
			coded, err := os.ReadFile(filepath.Join(prompts, name+".g722"))
			if err != nil {
				t.Skip("the prompts are missing; on Debian: apt-get install asterisk-core-sounds-en-g722")
			}
			want, format, err := wav.ReadFile(filepath.Join(prompts, name+".wav"), 1<<24)
			if err != nil {
				t.Skip("the prompts are missing; on Debian: apt-get install asterisk-core-sounds-en-wav")
			}
			if format.Rate != 8000 {
				t.Fatalf("the prompt is at %d Hz", format.Rate)
			}
			got := decode(t, coded)
			// The two were mastered apart: their phases differ, their loudness does not.
			if r := correlation(envelope(got, SampleRate), envelope(want, 8000)); r < 0.95 {
				t.Errorf("the loudness correlates by %.3f with the prompt's, want 0.95", r)
			} else {
				t.Logf("correlation %.4f", r)
			}
			theirs := toPCM(ffmpeg(t, coded, "-f", "g722", "-i", "-", "-f", "s16le", "-"))
			if !slices.Equal(theirs, got) {
				t.Error("ffmpeg decodes the prompt to other samples")
			}
		})
	}
}

// envelope is the loudness of every 10 ms.
func envelope(pcm []int16, rate int) []float64 {
	var out []float64
	for n := rate / 100; len(pcm) >= n; pcm = pcm[n:] {
		sum := 0.0
		for _, s := range pcm[:n] {
			sum += float64(s) * float64(s)
		}
		out = append(out, math.Sqrt(sum/float64(n)))
	}
	return out
}

// correlation is Pearson's.
func correlation(a, b []float64) float64 {
	n := min(len(a), len(b))
	var ma, mb, ab, aa, bb float64
	for i := range n {
		ma, mb = ma+a[i]/float64(n), mb+b[i]/float64(n)
	}
	for i := range n {
		x, y := a[i]-ma, b[i]-mb
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	return ab / math.Sqrt(aa*bb)
}

func TestPiecesMakeNoDifference(t *testing.T) {
	pcm := voice(1, 7000)
	whole := encode(t, pcm)
	e := NewEncoder()
	var pieces []byte
	for i, n := 0, 1; i < len(pcm); i, n = i+n, n%7+1 {
		pieces, _ = e.Encode(pieces, pcm[i:min(len(pcm), i+n)])
	}
	if !bytes.Equal(whole, pieces) {
		t.Error("pieces of odd lengths are coded differently")
	}
	d := NewDecoder()
	var got []int16
	for i := range whole {
		got, _ = d.Decode(got, whole[i:i+1])
	}
	if !bytes.Equal(toBytes(got), toBytes(decode(t, whole))) {
		t.Error("single bytes are decoded differently")
	}
}

func TestCodecValue(t *testing.T) {
	c := G722()
	if c.PayloadType != 9 || c.ClockRate != 8000 || c.SampleRate != 16000 || c.Duration(make([]byte, 160)) != 160 {
		t.Errorf("%+v", c)
	}
	enc, err := c.NewEncoder()
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := enc.Encode(nil, make([]int16, media.Samples(media.FrameTime, c.SampleRate))); len(b) != 160 {
		t.Errorf("20 ms take %d bytes", len(b))
	}
}

func TestNothingIsAllocated(t *testing.T) {
	e, d := NewEncoder(), NewDecoder()
	pcm := voice(0.02, 7000)
	b, out := make([]byte, 0, 160), make([]int16, 0, 320)
	if n := testing.AllocsPerRun(100, func() {
		b, _ = e.Encode(b[:0], pcm)
		out, _ = d.Decode(out[:0], b)
	}); n != 0 {
		t.Errorf("%v allocations a frame", n)
	}
}

func FuzzDecode(f *testing.F) {
	e := NewEncoder()
	b, _ := e.Encode(nil, voice(0.02, 7000))
	f.Add(b)
	f.Add([]byte{})
	f.Add([]byte{0x00})
	f.Add(bytes.Repeat([]byte{0x04, 0xff, 0x20, 0xdf}, 200))
	d := NewDecoder() // one for all inputs: it must survive every state
	f.Fuzz(func(t *testing.T, payload []byte) {
		pcm, err := d.Decode(nil, payload)
		if err != nil || len(pcm) != 2*len(payload) {
			t.Fatalf("%d bytes gave %d samples, %v", len(payload), len(pcm), err)
		}
		for _, n := range []*band{&d.low, &d.high} {
			if n.s != clamp16(n.s) || n.scale <= 0 || n.log < 0 {
				t.Fatalf("state out of bounds: %+v", *n)
			}
		}
	})
}

func BenchmarkSecond(b *testing.B) {
	pcm := voice(1, 7000)
	coded := encode(b, pcm)
	b.Run("encode", func(b *testing.B) {
		e, out := NewEncoder(), make([]byte, 0, len(coded))
		b.ReportAllocs()
		for b.Loop() {
			out, _ = e.Encode(out[:0], pcm)
		}
	})
	b.Run("decode", func(b *testing.B) {
		d, out := NewDecoder(), make([]int16, 0, len(pcm))
		b.ReportAllocs()
		for b.Loop() {
			out, _ = d.Decode(out[:0], coded)
		}
	})
}
