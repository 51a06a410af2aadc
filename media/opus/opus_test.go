package opus

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/thesyncim/gopus"

	"parley/media"
	"parley/media/resample"
	"parley/media/wav"
)

// voice is sound like speech: a gliding pitch with its harmonics, in syllables.
func voice(length time.Duration, rate int) []int16 {
	pcm := make([]int16, media.Samples(length, rate))
	phase := 0.0
	for i := range pcm {
		at := float64(i) / float64(rate)
		pitch := 130 + 40*math.Sin(2*math.Pi*0.7*at)
		phase += 2 * math.Pi * pitch / float64(rate)
		v := 0.0
		for k := 1.0; k*pitch < 6000; k++ {
			v += math.Sin(k*phase+k*k) / (k * k)
		}
		pcm[i] = int16(9000 * v * (0.6 + 0.4*math.Sin(2*math.Pi*4*at)))
	}
	return pcm
}

func codec(t testing.TB, c Config, params string) media.Codec {
	t.Helper()
	o, err := Opus(c)
	if err != nil {
		t.Fatal(err)
	}
	return o.For(params)
}

func coder(t testing.TB, c media.Codec) media.Encoder {
	t.Helper()
	e, err := c.NewEncoder()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func decoder(t testing.TB) *Decoder {
	t.Helper()
	d, err := newDecoder()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// packets encodes pcm in packets of that length.
func packets(t testing.TB, e media.Encoder, pcm []int16, length time.Duration) [][]byte {
	t.Helper()
	var out [][]byte
	for n := media.Samples(length, SampleRate); len(pcm) >= n; pcm = pcm[n:] {
		b, err := e.Encode(nil, pcm[:n])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

func decode(t testing.TB, d media.Decoder, payloads [][]byte) []int16 {
	t.Helper()
	var out []int16
	for _, b := range payloads {
		var err error
		if out, err = d.Decode(out, b); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// alike is the best normalised correlation of got with want within 20 ms of delay.
func alike(want, got []int16) float64 {
	best := 0.0
	for lag := range SampleRate / 50 {
		var ab, aa, bb float64
		for i := 0; i+lag < len(got) && i < len(want); i++ {
			x, y := float64(want[i]), float64(got[i+lag])
			ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
		}
		best = max(best, ab/math.Sqrt(aa*bb+1))
	}
	return best
}

func snr(want, got []int16) float64 {
	signal, noise := 0.0, 1e-9
	for i := range want {
		w, d := float64(want[i]), float64(got[i])-float64(want[i])
		signal, noise = signal+w*w, noise+d*d
	}
	return 10 * math.Log10(signal/noise)
}

func level(pcm []int16) float64 {
	sum := 0.0
	for _, s := range pcm {
		sum += float64(s) * float64(s)
	}
	return 10 * math.Log10(sum/float64(len(pcm))/(1<<30)+1e-12)
}

func TestRoundTrip(t *testing.T) {
	pcm := voice(6*time.Second, SampleRate)
	for _, length := range packetTimes() {
		t.Run(length.String(), func(t *testing.T) {
			c := codec(t, DefaultConfig(), "useinbandfec=1")
			coded := packets(t, coder(t, c), pcm, length)
			bytes := 0
			for _, b := range coded {
				bytes += len(b)
				if got, want := Duration(b), media.Samples(length, ClockRate); got != want {
					t.Fatalf("a packet says that it lasts %d, want %d", got, want)
				}
				if len(b) > media.Samples(length, SampleRate)/2 {
					t.Fatalf("a packet of %d bytes", len(b))
				}
			}
			got := decode(t, decoder(t), coded)
			if len(got) != len(pcm) {
				t.Fatalf("%d samples became %d", len(pcm), len(got))
			}
			r, rate := alike(pcm, got), bytes*8/6
			t.Logf("correlation %.3f at %d bit/s", r, rate)
			if r < 0.8 || rate > 36000 {
				t.Errorf("correlation %.3f at %d bit/s, want 0.8 at about 32000", r, rate)
			}
		})
	}
}

// Sentences that somebody spoke.
func TestRecordedPrompts(t *testing.T) {
	for _, name := range []string{"vm-goodbye", "demo-congrats"} {
		narrow, format, err := wav.ReadFile("/usr/share/asterisk/sounds/en_US_f_Allison/"+name+".wav", 1<<24)
		if err != nil {
			t.Skip("the prompts are missing; on Debian: apt-get install asterisk-core-sounds-en-wav")
		}
		pcm, err := resample.Convert(format.Rate, SampleRate, resample.Voice, narrow)
		if err != nil {
			t.Fatal(err)
		}
		pcm = pcm[:len(pcm)/320*320]
		got := decode(t, decoder(t), packets(t, coder(t, codec(t, DefaultConfig(), "useinbandfec=1")), pcm, 20*time.Millisecond))
		r := alike(pcm, got)
		t.Logf("%s: correlation %.3f", name, r)
		if r < 0.95 {
			t.Errorf("%s: correlation %.3f, want 0.95", name, r)
		}
	}
}

// Another implementation's packets of every length and kind.
func TestPacketsOfAllKinds(t *testing.T) { // BR-106
	for _, mode := range []struct {
		name        string
		application gopus.Application
		bitrate     int
	}{{"speech", gopus.ApplicationVoIP, 20000}, {"hybrid", gopus.ApplicationVoIP, 36000}, {"music", gopus.ApplicationLowDelay, 96000}} {
		for _, channels := range []int{1, 2} {
			for _, length := range []int{120, 240, 480, 960, 1920, 2880, 5760} { // 2.5 to 120 ms at 48 kHz
				if mode.application == gopus.ApplicationVoIP && length < 480 {
					continue
				}
				enc, err := gopus.NewEncoder(gopus.EncoderConfig{SampleRate: 48000, Channels: channels, Application: mode.application})
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(enc.SetBitrate(mode.bitrate*channels), enc.SetFrameSize(length)); err != nil {
					t.Fatal(err)
				}
				whole, pcm := voice(2*time.Second, 48000), voice(2*time.Second, SampleRate)
				d := decoder(t)
				var got []int16
				b := make([]byte, 8000)
				for len(whole) >= length {
					var both []int16
					for _, s := range whole[:length] {
						both = append(both, slices.Repeat([]int16{s}, channels)...)
					}
					whole = whole[length:]
					n, err := enc.EncodeInt16(both, b)
					if err != nil {
						t.Fatal(err)
					}
					if Duration(b[:n]) != length {
						t.Fatalf("%s: a packet of %d says %d", mode.name, length, Duration(b[:n]))
					}
					before := len(got)
					if got, err = d.Decode(got, b[:n]); err != nil || len(got)-before != length/3 {
						t.Fatalf("%s: %d samples for %d, %v", mode.name, len(got)-before, length/3, err)
					}
				}
				if r := alike(pcm, got); r < 0.8 {
					t.Errorf("%s, %d channels, %d: correlation %.3f", mode.name, channels, length, r)
				}
			}
		}
	}
}

func TestOtherImplementationsDecodeOurs(t *testing.T) {
	pcm := voice(2*time.Second, SampleRate)
	d, err := gopus.NewDecoder(gopus.DefaultDecoderConfig(SampleRate, 1))
	if err != nil {
		t.Fatal(err)
	}
	coded := packets(t, coder(t, codec(t, DefaultConfig(), "useinbandfec=1")), pcm, 20*time.Millisecond)
	var theirs []int16
	out := make([]int16, 320)
	for _, b := range coded {
		n, err := d.DecodeInt16(b, out)
		if err != nil {
			t.Fatal(err)
		}
		theirs = append(theirs, out[:n]...)
	}
	if s := snr(theirs, decode(t, decoder(t), coded)); s < 60 {
		t.Errorf("decoded %.0f dB alike", s)
	}
}

func TestWhatIsNoPacketChangesNothing(t *testing.T) { // BR-106
	coded := packets(t, coder(t, codec(t, DefaultConfig(), "")), voice(time.Second, SampleRate), 20*time.Millisecond)
	want := decode(t, decoder(t), coded)
	d := decoder(t)
	var got []int16
	for i, b := range coded {
		for _, bad := range [][]byte{
			nil, {}, {0x4b}, {0x4b, 0}, {0x4b, 63}, // code 3: no count, none, more than 120 ms
			{0x49, 1},            // code 1: two equal frames of half a byte
			{0x4a, 200, 1, 2},    // code 2: the first frame is longer than the packet
			{0x4b, 0x83, 255},    // code 3: lengths that are missing
			{0x4b, 0x41, 255},    // code 3: more padding than packet
			make([]byte, 1+1276), // a frame of more than 1275 bytes
		} {
			out, err := d.Decode(got, bad)
			if !errors.Is(err, ErrPacket) || len(out) != len(got) {
				t.Fatalf("% x: %d samples, %v", bad[:min(len(bad), 4)], len(out)-len(got), err)
			}
			if out, err := d.Recover(nil, bad, 320); err == nil && len(out) != 320 {
				t.Fatalf("recovered %d samples from % x", len(out), bad)
			}
			if i > 0 {
				break
			}
		}
		if i == 0 { // what Recover made up is part of the sound
			d = decoder(t)
		}
		var err error
		if got, err = d.Decode(got, b); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got, want) {
		t.Error("the sound is another after packets that were refused")
	}
}

func TestLengthsThatOpusHasNot(t *testing.T) {
	e := coder(t, codec(t, DefaultConfig(), ""))
	for _, n := range []int{0, 1, 160, 319, 320, 321, 480, 640, 960, 1280} {
		out, err := e.Encode([]byte{7}, make([]int16, n))
		good := slices.ContainsFunc(packetTimes(), func(d time.Duration) bool { return media.Samples(d, SampleRate) == n })
		if (err == nil) != good || !good && !errors.Is(err, ErrLength) || out[0] != 7 {
			t.Errorf("%d samples: %v", n, err)
		}
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{{Bitrate: 5000, Complexity: 5}, {Bitrate: 64001}, {Bitrate: 24000, Complexity: 11}, {Bitrate: 24000, Complexity: -1}} {
		if _, err := Opus(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	o, err := Opus(DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	if o.ClockRate != 48000 || o.Channels != 2 || o.SampleRate != 16000 || o.Params != params || Library() == "" {
		t.Errorf("%+v", o)
	}
}
