package opus

import (
	"testing"
	"time"

	"github.com/thesyncim/gopus"
)

func TestWishes(t *testing.T) { // BR-017
	wide := wishes{bandwidth: wideband}
	tests := []struct {
		params string
		want   wishes
	}{
		{"", wide},
		{"stereo=1;sprop-stereo=1;useinbandfec=1;usedtx=1;maxplaybackrate=16000", wishes{fec: true, dtx: true, bandwidth: wideband}},
		{"minptime=10; useinbandfec=1", wishes{fec: true, bandwidth: wideband}},
		{" UseInbandFEC = 1 ;cbr=1", wishes{fec: true, constant: true, bandwidth: wideband}},
		{"foo=1;;=;useinbandfec;usedtx=0", wide},
		{"useinbandfec=2", wide},
		{"maxaveragebitrate=12000", wishes{bitrate: 12000, bandwidth: wideband}},
		{"maxaveragebitrate=-5;maxplaybackrate=x", wide},
		{"maxplaybackrate=8000", wishes{}},
		{"maxplaybackrate=12000", wishes{bandwidth: mediumband}},
		{"maxplaybackrate=48000", wide},
	}
	for _, tt := range tests {
		if got := parseWishes(tt.params); got != tt.want {
			t.Errorf("%q: %+v, want %+v", tt.params, got, tt.want)
		}
	}
}

func TestThePeersBoundsAreKept(t *testing.T) { // RFC 7587 section 6.1
	pcm := voice(2*time.Second, SampleRate)
	total := func(params string) (n int) {
		for _, b := range packets(t, coder(t, codec(t, DefaultConfig(), params)), pcm, 20*time.Millisecond) {
			n += len(b)
		}
		return n * 8 / 2
	}
	if got := total("maxaveragebitrate=10000"); got > 12000 {
		t.Errorf("%d bit/s, the peer takes 10000", got)
	}
	if got := total("maxaveragebitrate=1"); got > 8000 {
		t.Errorf("%d bit/s, the least there is is 6000", got)
	}
	for params, most := range map[string]byte{"maxplaybackrate=8000": 3, "maxplaybackrate=12000": 7} {
		for _, b := range packets(t, coder(t, codec(t, DefaultConfig(), params)), pcm, 20*time.Millisecond) {
			if config := b[0] >> 3; config > most {
				t.Fatalf("%s: a packet of configuration %d", params, config)
			}
		}
	}
	same := map[int]bool{}
	for _, b := range packets(t, coder(t, codec(t, DefaultConfig(), "cbr=1")), pcm, 20*time.Millisecond) {
		same[len(b)] = true
	}
	if len(same) != 1 {
		t.Errorf("constant bit rate has packets of %d lengths", len(same))
	}
}

func TestDuration(t *testing.T) {
	for toc := range 256 {
		for count := range 64 {
			b := []byte{byte(toc), byte(count)}
			frames := []int{1, 2, 2, count}[toc&3]
			want := frames * gopus.ParseTOC(byte(toc)).FrameSize
			if want > 5760 {
				want = 0
			}
			if got := Duration(b); got != want {
				t.Fatalf("% x: %d, want %d", b, got, want)
			}
		}
	}
	if Duration(nil) != 0 || Duration([]byte{3}) != 0 {
		t.Error("what is no packet lasts")
	}
}

func FuzzDecode(f *testing.F) {
	e := coder(f, codec(f, DefaultConfig(), "useinbandfec=1"))
	for _, b := range packets(f, e, voice(100*time.Millisecond, SampleRate), 20*time.Millisecond) {
		f.Add(b, b)
	}
	f.Add([]byte{}, []byte{0x48})
	f.Add([]byte{0x4b, 0x83, 1, 2, 3}, []byte{0xfc, 0xff, 0xfe})
	f.Add([]byte{0x4b, 0x46, 255, 1, 2, 3, 4, 5, 6}, []byte{0x78, 0})
	d := decoder(f) // one for all inputs: it must survive whatever came before
	f.Fuzz(func(t *testing.T, payload, next []byte) {
		out, err := d.Decode(nil, payload)
		if want := Duration(payload) / 3; err == nil && len(out) != want || err != nil && len(out) != 0 {
			t.Fatalf("% x: %d samples, want %d, %v", payload, len(out), want, err)
		}
		if out, err := d.Recover(nil, next, 320); err == nil && len(out) != 320 {
			t.Fatalf("recovered %d samples from % x", len(out), next)
		}
		if out, err := d.Conceal(nil, 320); err != nil || len(out) != 320 {
			t.Fatalf("concealed %d samples: %v", len(out), err)
		}
	})
}
