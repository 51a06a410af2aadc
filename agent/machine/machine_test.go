package machine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// part is a stretch of what the other side sends.
type part struct {
	kind   string // "voice", "quiet", "music", "keys", or "tone"
	length time.Duration
	height float64
}

func voice(d time.Duration) part           { return part{"voice", d, 0} }
func quiet(d time.Duration) part           { return part{"quiet", d, 0} }
func beep(h float64, d time.Duration) part { return part{"tone", d, h} }
func digits(n int, on, off time.Duration) (p []part) {
	for range n {
		p = append(p, voice(on), quiet(off))
	}
	return p
}

// listen plays the parts, with edges as a detector by loudness gives them, and says
// what was found out and when.
func listen(cfg Config, rate int, noise float64, parts ...part) string {
	start := time.Unix(1000, 0)
	d := New(cfg, rate, start)
	var found []string
	r := rand.New(rand.NewPCG(1, 2))
	type edge struct {
		at time.Time
		on bool
		is time.Time
	}
	var edges []edge
	now, on := start, false
	for _, p := range parts {
		if loud := p.kind != "quiet"; loud != on {
			on = loud
			lag := 40 * ms
			if !on {
				lag = 200 * ms
			}
			edges = append(edges, edge{now.Add(lag), on, now})
		}
		for n := range int(p.length / (20 * ms)) {
			for len(edges) > 0 && !edges[0].at.After(now) {
				d.Voice(edges[0].on, edges[0].is)
				edges = edges[1:]
			}
			pcm := make([]int16, rate/50)
			for i := range pcm {
				pcm[i] = int16(p.sample(float64(n*len(pcm)+i)/float64(rate)) + r.NormFloat64()*noise)
			}
			d.Hear(pcm)
			now = now.Add(20 * ms)
			for {
				e, ok := d.Next(now)
				if !ok {
					break
				}
				found = append(found, fmt.Sprintf("%s %.1f", e, now.Sub(start).Seconds()))
			}
		}
	}
	return strings.Join(found, ", ")
}

func (p part) sample(t float64) float64 {
	sine := func(f, a float64) float64 { return a * math.Sin(2*math.Pi*f*t) }
	switch p.kind {
	case "tone":
		return sine(p.height, 6000)
	case "keys":
		return sine(770, 4000) + sine(1336, 4000)
	case "music":
		f := 220 * math.Pow(2, float64(int(t*4)%12)/12)
		return sine(f, 2500) + sine(f*1.26, 2500) + sine(f*1.5, 2500)
	case "voice": // harmonics of a pitch that moves, around two formants
		pitch := 140 + 20*math.Sin(2*math.Pi*3*t)
		bell := func(f, middle, width, a float64) float64 {
			away := (f - middle) / width
			return a / (1 + away*away)
		}
		// The sine of each multiple of an angle follows from those of the two before.
		last, one := math.Sincos(2 * math.Pi * pitch * t)
		v, before, twice := 0.0, 0.0, 2*one
		for h := 1; h < 20; h++ {
			f := pitch * float64(h)
			v += last * (bell(f, 500, 200, 3000) + bell(f, 1500, 300, 1500))
			before, last = last, twice*last-before
		}
		return v
	}
	return 0
}

// TestBR147 is who answers outbound calls, and how soon that is known.
func TestBR147(t *testing.T) {
	for _, c := range []struct {
		name  string
		parts []part
		want  string
	}{
		{"a person", []part{quiet(700 * ms), voice(500 * ms), quiet(3 * time.Second)}, "human 2.0"},
		{"a person who says the name of a company", []part{quiet(300 * ms), voice(1500 * ms), quiet(3 * time.Second)}, "human 2.6"},
		{"a person who clears the throat", []part{quiet(200 * ms), voice(80 * ms), quiet(1500 * ms), voice(400 * ms), quiet(3 * time.Second)}, "human 3.0"},
		{
			"a greeting of 12 s and a tone of 1 kHz",
			[]part{quiet(500 * ms), voice(12 * time.Second), quiet(400 * ms), beep(1000, 500*ms), quiet(2 * time.Second)},
			"machine 2.7, beep 13.4",
		},
		{
			"a greeting with breaths",
			[]part{quiet(500 * ms), voice(900 * ms), quiet(400 * ms), voice(900 * ms), quiet(300 * ms), voice(3 * time.Second), beep(440, 300*ms), quiet(time.Second)},
			"machine 3.4, beep 6.3",
		},
		{
			"the number you have dialled",
			append([]part{voice(1200 * ms), quiet(300 * ms)}, append(digits(9, 350*ms, 350*ms), quiet(6*time.Second))...),
			"machine 3.2, no beep 11.3",
		},
		{"music", []part{{"music", 20 * time.Second, 0}, quiet(time.Second)}, "machine 2.2"},
		{"nothing at all", []part{quiet(6 * time.Second)}, "unknown 4.0"},
		{
			"a short greeting that was taken for a person's",
			[]part{quiet(300 * ms), voice(1200 * ms), quiet(1200 * ms), beep(1400, 400*ms), quiet(time.Second)},
			"human 2.3, machine 3.1, beep 3.1",
		},
		{
			"a tone before anybody knows",
			[]part{quiet(300 * ms), voice(900 * ms), quiet(500 * ms), beep(850, 250*ms), quiet(time.Second)},
			"machine 2.0, beep 2.0",
		},
		{"a machine without a tone", []part{voice(4 * time.Second), quiet(8 * time.Second)}, "machine 2.2, no beep 8.0"},
		{"a machine that never ends", []part{voice(60 * time.Second)}, "machine 2.2, no beep 42.2"},
		{
			"keys and clicks are no tone",
			[]part{voice(3 * time.Second), {"keys", 400 * ms, 0}, beep(1000, 60*ms), quiet(time.Second), beep(1000, 200*ms), quiet(time.Second)},
			"machine 2.2, beep 4.7",
		},
	} {
		for _, rate := range []int{8000, 16000} {
			t.Run(fmt.Sprint(c.name, " at ", rate), func(t *testing.T) {
				if got := listen(DefaultConfig(), rate, 60, c.parts...); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
			})
		}
	}
}

func TestTonesOfAllHeights(t *testing.T) {
	for h := 400.0; h <= 2400; h += 50 {
		if got := listen(DefaultConfig(), 8000, 100, voice(3*time.Second), beep(h, 200*ms), quiet(100*ms)); !strings.HasSuffix(got, "beep 3.2") {
			t.Errorf("%v Hz: %s", h, got)
		}
	}
}

// Due is early enough: asking only then finds the same.
func TestDue(t *testing.T) {
	start := time.Unix(1000, 0)
	for _, c := range []struct {
		on, off time.Duration // of one voice; 0: none
		want    string
	}{
		{0, 0, "unknown 4s"}, {500 * ms, 900 * ms, "human 1.7s"}, {100 * ms, 9 * time.Second, "machine 2.3s"},
	} {
		d := New(DefaultConfig(), 8000, start)
		at := start
		got := ""
		for range 10 {
			due, ok := d.Due()
			if !ok || got != "" {
				break
			}
			if on := start.Add(c.on); c.on > 0 && at.Before(on) && !due.Before(on) {
				d.Voice(true, on)
				at = on
				continue
			}
			if off := start.Add(c.off); c.off > 0 && at.Before(off) && !due.Before(off) {
				d.Voice(false, off)
				at = off
				continue
			}
			at = due
			if e, ok := d.Next(at); ok {
				got = fmt.Sprint(e, " ", at.Sub(start))
			}
		}
		if got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	err := Config{}.Validate()
	for _, name := range []string{"decide", "greeting", "pause", "beep wait", "silence"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not complained of: %v", name, err)
		}
	}
}

func FuzzDetector(f *testing.F) {
	f.Add([]byte{1, 2, 3, 200, 100, 0, 1})
	f.Fuzz(func(t *testing.T, script []byte) {
		start := time.Unix(1000, 0)
		d := New(DefaultConfig(), 8000, start)
		now := start
		first, beeps := Event(0), 0
		for i, b := range script {
			now = now.Add(time.Duration(b) * 10 * ms)
			switch i % 3 {
			case 0:
				d.Voice(b%2 == 0, now.Add(-time.Duration(b)*ms))
			case 1:
				pcm := make([]int16, int(b))
				for j := range pcm {
					pcm[j] = int16(int(b) * j * 31)
				}
				d.Hear(pcm)
			}
			for range 4 {
				e, ok := d.Next(now)
				if !ok {
					break
				}
				if first == 0 {
					first = e
				}
				if e == Beep || e == NoBeep {
					beeps++
				}
			}
			if _, more := d.Next(now); more {
				t.Fatal("it never stops")
			}
		}
		if first > Unknown || beeps > 1 {
			t.Fatalf("first %v, %d beeps", first, beeps)
		}
		if first == 0 {
			if due, ok := d.Due(); !ok || due.After(start.Add(DefaultConfig().Decide)) {
				t.Fatalf("due %v %v", due, ok)
			}
		}
	})
}
