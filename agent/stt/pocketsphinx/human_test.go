//go:build cgo

package pocketsphinx

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zaf/g711"

	"parley/agent/stt"
)

// recording is one line of testdata/human.txt, at 8 kHz.
type recording struct {
	file, text string
	pcm        []int16
}

// soundsDir is where Debian puts the recordings; tests skip without them.
func soundsDir(t testing.TB) string {
	t.Helper()
	for _, d := range []string{"en_US_f_Allison", "en"} {
		dir := filepath.Join("/usr/share/asterisk/sounds", d)
		if _, err := os.Stat(filepath.Join(dir, "digits/1.wav")); err == nil {
			return dir
		}
	}
	t.Skip("no recordings: install asterisk-core-sounds-en-wav")
	return ""
}

// readWAV reads a PCM file with 16 bits, one channel, 8 or 16 kHz, as 8 kHz.
func readWAV(t testing.TB, file string) []int16 {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	i := strings.Index(string(b), "data")
	if i < 0 {
		t.Fatalf("%s: no data", file)
	}
	rate := binary.LittleEndian.Uint32(b[24:])
	b = b[i+8:]
	pcm := make([]int16, len(b)/2)
	for i := range pcm {
		pcm[i] = int16(binary.LittleEndian.Uint16(b[2*i:]))
	}
	if rate == 16000 {
		return halve(pcm)
	}
	return pcm
}

func recordings(t testing.TB) []recording {
	t.Helper()
	dir := soundsDir(t)
	f, err := os.Open("testdata/human.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []recording
	for sc := bufio.NewScanner(f); sc.Scan(); {
		p := strings.Fields(sc.Text())
		if len(p) < 4 || p[0] == "#" {
			continue
		}
		pcm := readWAV(t, filepath.Join(dir, p[0]))
		from, err1 := strconv.Atoi(p[1])
		to, err2 := strconv.Atoi(p[2])
		if err1 != nil || err2 != nil {
			t.Fatalf("testdata/human.txt: %q", sc.Text())
		}
		if to > 0 {
			pcm = pcm[8*from : min(len(pcm), 8*to)]
		}
		out = append(out, recording{p[0], strings.Join(p[3:], " "), pcm})
	}
	return out
}

// telephone sends a recording through G.711 with silence before and behind, in
// samples.
func telephone(pcm []int16, gain float64, before, behind int) []int16 {
	g := math.Pow(10, gain/20)
	line := make([]int16, before+len(pcm)+behind)
	noise := uint32(before)
	for i := range line {
		noise = noise*1664525 + 1013904223
		v := float64(noise>>24)/16 - 8 // a line is never quite silent
		if k := i - before; k >= 0 && k < len(pcm) {
			v += g * float64(pcm[k])
		}
		v = math.Max(-32768, math.Min(32767, v))
		line[i] = g711.DecodeUlawFrame(g711.EncodeUlawFrame(int16(v)))
	}
	return line
}

// halve brings 16 kHz to 8 kHz by a half-band filter.
func halve(pcm []int16) []int16 {
	h := make([]float64, 64)
	for i := range h {
		x := float64(i) - 31.5
		h[i] = math.Sin(math.Pi*x/2) / (math.Pi * x) * (0.5 + 0.5*math.Cos(math.Pi*x/32))
	}
	out := make([]int16, len(pcm)/2)
	for n := range out {
		var sum float64
		for k := range h {
			if j := 2*n + 32 - k; j >= 0 && j < len(pcm) {
				sum += h[k] * float64(pcm[j])
			}
		}
		out[n] = int16(math.Max(-32768, math.Min(32767, sum)))
	}
	return out
}

// hear gives a stream one utterance as a call does: 20 ms at a time, with Begin
// 80 ms after the first sound, and waits for the final result.
func hear(t testing.TB, st stt.Stream, results <-chan stt.Result, pcm []int16, begin int) stt.Result {
	t.Helper()
	const frame = telephoneRate / 50
	begun := false
	for i := 0; i < len(pcm); i += frame {
		if i >= begin && !begun {
			st.Begin()
			begun = true
		}
		if err := st.Write(pcm[i:min(len(pcm), i+frame)]); err != nil {
			t.Fatal(err)
		}
	}
	st.Finalize()
	for {
		select {
		case r := <-results:
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			if r.Final {
				return r
			}
		case <-time.After(time.Minute):
			t.Fatal("no final result")
		}
	}
}

// choice is a grammar of a few alternatives.
func choice(alternatives ...string) string {
	return "#JSGF V1.0; grammar menu; public <menu> = " + strings.Join(alternatives, " | ") + " ;"
}

// group is a prompt's grammar and what is demanded of it.
type group struct {
	name         string
	alternatives []string
	atLeast      float64 // share of the grammar's words that must be understood
	falseAccepts float64 // share of other words that may be taken for them
}

func groups() []group {
	return []group{
		{"reception", strings.Fields("hours operator agent goodbye help location directory"), 0.95, 0.15},
		{"menu", []string{"hours", "opening hours", "when are you open", "location", "address", "where are you", "order number", "number", "telephone number", "my order", "no", "nothing", "no thank you",
			"goodbye", "bye bye", "hang up", "transfer", "operator", "a person", "somebody", "repeat", "again", "one moment please", "help", "what can i say"}, 0.95, 0.25},
		{"yes or no", []string{"yes", "no", "correct", "goodbye", "cancelled"}, 0.90, 0.15},
		{"digit", strings.Fields("zero oh one two three four five six seven eight nine"), 0.85, 0.15},
		{"day", strings.Fields("monday tuesday wednesday thursday friday saturday sunday today tomorrow"), 0.95, 0.22},
		{"month", strings.Fields("january february march april may june july august september october november december"), 0.95, 0.15},
		{"letter", strings.Fields("alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike november oscar papa quebec romeo sierra tango uniform victor whiskey yankee zulu"), 0.93, 0.35},
		{"mailbox", []string{"first", "last", "repeat", "delete", "urgent", "old", "work", "family", "friends", "messages", "password", "thank you", "operator", "help"}, 0.93, 0.17},
	}
}

// TestHumans is the table of what people's recordings over G.711 are understood as.
// Every recording is the first utterance of a call, which is the hardest.
func TestHumans(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	recs := recordings(t)
	cfg := DefaultConfig()
	cfg.Interims = false
	r := newRecognizer(t, cfg)
	for _, g := range groups() {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			g.test(t, r, recs)
		})
	}
}

func (g group) test(t *testing.T, r *Recognizer, recs []recording) {
	member := map[string]bool{}
	for _, a := range g.alternatives {
		member[a] = true
	}
	type tally struct {
		n, ok, rejected int
		least           float64
		wrong           []string
	}
	words := map[string]*tally{}
	in, understood, out, accepted := 0, 0, 0, 0
	var others []string
	for i, rec := range recs {
		for k, gain := range []float64{-9, 0, 6} {
			if !member[rec.text] && (i+k)%6 != 0 {
				continue // a sample of the others is enough
			}
			before := 2400 + 100*(i%7) + 2840*k
			res := g.once(t, r, telephone(rec.pcm, gain, before, 800+1200*k), before+640)
			if !member[rec.text] {
				out++
				if res.Text != "" {
					accepted++
					others = append(others, fmt.Sprintf("%s>%s %.2f", rec.text, res.Text, res.Confidence))
				}
				continue
			}
			w := words[rec.text]
			if w == nil {
				w = &tally{least: 1}
				words[rec.text] = w
			}
			in++
			w.n++
			switch res.Text {
			case rec.text:
				understood++
				w.ok++
				w.least = min(w.least, res.Confidence)
			case "":
				w.rejected++
			default:
				w.wrong = append(w.wrong, fmt.Sprintf("%s %.2f", res.Text, res.Confidence))
			}
		}
	}
	var names []string
	for n := range words {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		w := words[n]
		t.Logf("%-12s %-14s %d/%d least %.2f rejected %d %v", g.name, n, w.ok, w.n, w.least, w.rejected, w.wrong)
	}
	t.Logf("%-12s understood %d/%d, other words accepted %d/%d %v", g.name, understood, in, accepted, out, others)
	if share := float64(understood) / float64(in); share < g.atLeast {
		t.Errorf("understood %.2f, want at least %.2f", share, g.atLeast)
	}
	if share := float64(accepted) / float64(out); share > g.falseAccepts {
		t.Errorf("other words accepted %.2f, want at most %.2f", share, g.falseAccepts)
	}
}

// once is one utterance on a stream of its own.
func (g group) once(t *testing.T, r *Recognizer, pcm []int16, begin int) stt.Result {
	t.Helper()
	results := make(chan stt.Result, 100)
	st, err := r.Open(t.Context(), stt.Options{Expect: stt.Expect{Grammar: choice(g.alternatives...)}}, func(x stt.Result) { results <- x })
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	return hear(t, st, results, pcm, begin)
}

func newRecognizer(t testing.TB, cfg Config) *Recognizer {
	t.Helper()
	if err := cfg.files(); err != nil {
		t.Skip(err)
	}
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
