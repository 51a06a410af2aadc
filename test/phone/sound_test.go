package phone

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"
)

func TestSoundFiles(t *testing.T) {
	left, right := speech(50*time.Millisecond), make([]int16, 400)
	path := filepath.Join(t.TempDir(), "a.wav")
	if err := (Stereo{Rate: sampleRate, Left: left, Right: right}).WriteFile(path); err != nil {
		t.Fatal(err)
	}
	pcm, err := LoadSound(path)
	if err != nil || len(pcm) != 400 || pcm[100] != left[100]/2 {
		t.Errorf("%d samples, %v", len(pcm), err)
	}
	other := filepath.Join(t.TempDir(), "b.wav")
	if err := (Stereo{Rate: 16000, Left: left, Right: right}).WriteFile(other); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadSound(other); err == nil {
		t.Error("took another rate for its own")
	}
	if _, rate, err := LoadSoundAt(other); err != nil || rate != 16000 {
		t.Errorf("%d Hz, %v", rate, err)
	}
	if _, err := LoadSound(path + ".no"); err == nil {
		t.Error("read a file that is not there")
	}
	if err := (Stereo{Rate: sampleRate}).WriteFile(filepath.Join(path, "x.wav")); err == nil {
		t.Error("wrote into a folder that is not there")
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
