package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"parley/test/audio"
)

// trace steps a testimony through a time, asked for a final transcript once, and writes
// down what it reports.
func trace(w *witness, until time.Duration, ask time.Duration) string {
	start := time.Unix(1000, 0)
	t := &testimony{witness: w}
	var out []string
	var asked time.Time
	for at := time.Duration(0); at <= until; at += 10 * time.Millisecond {
		if ask > 0 && at == ask {
			asked = start.Add(at)
		}
		for _, r := range t.at(start.Add(at), asked) {
			kind := "interim"
			if r.Final {
				kind, asked = "final", time.Time{}
			}
			out = append(out, fmt.Sprintf("%d %s %s", at.Milliseconds(), kind, r.Text))
		}
	}
	return strings.Join(out, "\n")
}

func TestWitness(t *testing.T) {
	start := time.Unix(1000, 0)
	said := func(marks bool, pause time.Duration) *witness {
		w := &witness{marks: marks}
		half := func(text string) utterance { return spoken(text, make([]int16, samples(500*time.Millisecond)), false) }
		w.says(joined(pause, half("book one"), half("for me")), start.Add(100*time.Millisecond))
		return w
	}
	for _, c := range []struct {
		name string
		w    *witness
		ask  time.Duration
		want string
	}{
		{
			// A half lasts 500 ms; its words 278 and 222, 286 and 214.
			"words come late, the last by itself", said(true, 0), 0,
			"680 interim book\n900 interim book one\n1190 interim book one for\n1400 interim book one for me.\n1500 final book one for me.",
		},
		{
			"a pause ends a segment", said(false, 600*time.Millisecond), 0,
			"680 interim book\n900 interim book one\n1000 final book one\n1790 interim for\n2000 interim for me\n2100 final for me",
		},
		{
			"who asks in a word gets it", said(false, 0), 650 * time.Millisecond,
			"680 interim book\n900 interim book one\n1190 interim book one for\n1290 final book one for\n1400 interim me\n1500 final me",
		},
		{"nothing was said", &witness{}, 650 * time.Millisecond, "700 final "},
	} {
		if got := trace(c.w, 3*time.Second, c.ask); strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(c.want), " ") {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestRooms(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	talk := [][]int16{cough(random), breath(random), click(random)}
	n := newNoises(talk, 1)
	speech := leveled(cough(random), callerLevel)
	for _, name := range []string{"babble", "street", "music"} {
		for _, snr := range []float64{10, 5} {
			room := n.room(name, snr, random)
			if got := snrOf(speech, room); got < snr-1 || got > snr+1 {
				t.Errorf("%s at %v dB: speech is %.1f dB louder", name, snr, got)
			}
			if len(room) < samples(noiseLength) {
				t.Errorf("%s lasts %v", name, lasting(room))
			}
		}
	}
	if n.room("", 10, random) != nil {
		t.Error("noise in a room without any")
	}
}

func TestTrimmedBeginsWithTheSound(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	faint := make([]int16, samples(500*time.Millisecond))
	for i := range faint {
		faint[i] = int16(40 * random.NormFloat64()) // the recording's own noise
	}
	faint[samples(100*time.Millisecond)] = 12000 // a click
	tone := make([]int16, samples(300*time.Millisecond))
	for i := range tone {
		tone[i] = int16(9000 * (1 - 2*(i/10%2)))
	}
	pcm := append(append(append([]int16{}, faint...), tone...), faint...)
	if got := trimmed(pcm); lasting(got) < 290*time.Millisecond || lasting(got) > 320*time.Millisecond || audio.Level(got[:80]) < -15 {
		t.Errorf("%v of %v are left", lasting(got), lasting(pcm))
	}
	if trimmed(nil) != nil {
		t.Error("sound in nothing")
	}
}
