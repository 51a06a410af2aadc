package phone

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestSoundFiles(t *testing.T) {
	left, right := speech(50*time.Millisecond), make([]int16, 400)
	var b bytes.Buffer
	if err := (Stereo{Rate: sampleRate, Left: left, Right: right}).WriteWAV(&b); err != nil {
		t.Fatal(err)
	}
	stereo := b.Bytes()
	if _, _, err := parseWAV(stereo); err == nil {
		t.Error("read stereo as mono")
	}
	mono := slices.Clone(stereo)
	mono[22] = 1
	path := filepath.Join(t.TempDir(), "a.wav")
	if err := os.WriteFile(path, mono, 0o600); err != nil {
		t.Fatal(err)
	}
	pcm, err := LoadSound(path)
	if err != nil || len(pcm) != 800 || pcm[100] != left[50] || pcm[101] != right[50] {
		t.Errorf("%d samples, %v", len(pcm), err)
	}
	for name, bad := range map[string][]byte{
		"empty": nil, "no header": []byte("RIFF....WAVE"), "other": []byte("OggS............"), "data first": append(slices.Clone(mono[:12]), mono[36:]...),
	} {
		if _, _, err := parseWAV(bad); err == nil {
			t.Errorf("read %s", name)
		}
	}
	if pcm, rate, err := parseWAV(mono[:60]); rate != sampleRate || err != nil || len(pcm) != 8 {
		t.Errorf("a file cut short: %d samples, %v", len(pcm), err)
	}
	mono[24] ^= 1
	if err := os.WriteFile(path, mono, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadSound(path); err == nil {
		t.Error("took another rate for its own")
	}
	if _, err := LoadSound(path + ".no"); err == nil {
		t.Error("read a file that is not there")
	}
}

func TestStereoPlacesPacketsOnOneClock(t *testing.T) {
	l := &Log{}
	c, _ := codecNamed("PCMU")
	packet := func(d Direction, at, samples int, ssrc uint32, value int16, dropped bool) {
		payload := bytes.Repeat([]byte{c.encode(value)}, frameSamples)
		l.add(Packet{Direction: d, At: time.Duration(at) * time.Millisecond, Timestamp: uint32(samples), SSRC: ssrc,
			Payload: payload, Audio: true, Dropped: dropped})
	}
	for i := range 10 {
		packet(Sent, 100+20*i, 1000+160*i, 1, 1000, i == 4) // lost on the way, but said
		late := []int{0, 3, -2, 0, 9, 0, 0, 1, 0, 0}[i]
		packet(Heard, 150+20*i+late, 9000+160*i, 2, 2000, i == 5)
	}
	packet(Heard, 1150, 77, 3, 4000, false) // another sender, much later
	s := l.Stereo()
	if s.Origin != 100*time.Millisecond || len(s.Left) != len(s.Right) || len(s.Left) != 8*1070 {
		t.Fatalf("origin %v, %d and %d samples", s.Origin, len(s.Left), len(s.Right))
	}
	near := func(pcm []int16, ms, want int) {
		t.Helper()
		if got := int(pcm[8*ms]); got < want-want/10 || got > want+want/10 {
			t.Errorf("at %d ms: %d, want %d", ms, got, want)
		}
	}
	near(s.Left, 1, 1000)
	near(s.Left, 90, 1000)
	near(s.Left, 201, 0)
	near(s.Right, 49, 0)
	near(s.Right, 51, 2000)
	near(s.Right, 160, 1000) // not heard: the one before, fainter
	near(s.Right, 249, 2000)
	near(s.Right, 251, 0)
	near(s.Right, 1051, 4000)
	if (&Log{}).Stereo().Left != nil {
		t.Error("sound without packets")
	}
}

func FuzzParseWAV(f *testing.F) {
	var b bytes.Buffer
	_ = Stereo{Rate: sampleRate, Left: []int16{1}, Right: []int16{2}}.WriteWAV(&b)
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		if pcm, rate, err := parseWAV(b); err == nil && (rate <= 0 || 2*len(pcm) > len(b)) {
			t.Fatal("more samples than bytes, or no rate")
		}
	})
}
