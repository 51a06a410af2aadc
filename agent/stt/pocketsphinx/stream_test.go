//go:build cgo

package pocketsphinx

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/agent/stt"
	"parley/agent/stt/stttest"
)

// saying is a recording that says text, over the telephone, with a second of
// silence before it.
func saying(t testing.TB, text string) []int16 {
	t.Helper()
	for _, r := range recordings(t) {
		if r.text == text {
			return telephone(r.pcm, 0, 8000, 3200)
		}
	}
	t.Fatalf("no recording says %q", text)
	return nil
}

const menu = "#JSGF V1.0; grammar menu; public <menu> = hours | [an] operator | location | directory;"

func TestSuite(t *testing.T) {
	for _, interims := range []bool{true, false} {
		t.Run("interims "+strconv.FormatBool(interims), func(t *testing.T) {
			stttest.Run(t, stttest.Subject{
				New: func(t *testing.T) stt.Recognizer {
					cfg := DefaultConfig()
					cfg.Interims = interims
					return newRecognizer(t, cfg)
				},
				Options: stt.Options{Language: "en-GB", Expect: stt.Expect{Grammar: menu}},
				Speech:  saying(t, "operator"),
				Text:    "operator",
			})
		})
	}
}

func openStream(t testing.TB, r *Recognizer, grammar string) (stt.Stream, chan stt.Result) {
	t.Helper()
	results := make(chan stt.Result, 1000)
	st, err := r.Open(t.Context(), stt.Options{Expect: stt.Expect{Grammar: grammar}}, func(x stt.Result) { results <- x })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st, results
}

// TestExpectFromTheNextUtterance changes the grammar while an utterance is open.
func TestExpectFromTheNextUtterance(t *testing.T) {
	r := newRecognizer(t, DefaultConfig())
	st, results := openStream(t, r, menu)
	hours, monday := saying(t, "hours"), saying(t, "monday")
	st.Begin()
	if err := st.Expect(stt.Expect{Grammar: choice("monday", "friday")}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"hours", "monday", "monday"} {
		pcm := monday
		if want == "hours" {
			pcm = hours
		}
		if x := hear(t, st, results, pcm, 8600); x.Text != want {
			t.Errorf("heard %q, want %q", x.Text, want)
		}
	}
	var unknown *UnknownWordsError
	err := st.Expect(stt.Expect{Grammar: choice("yes", "quuxly", "Yes")})
	if !errors.As(err, &unknown) || len(unknown.Words) != 2 || !strings.Contains(err.Error(), "quuxly") {
		t.Errorf("unknown words: %v", err)
	}
	if x := hear(t, st, results, monday, 8600); x.Text != "monday" {
		t.Errorf("after a refused grammar: %q", x.Text)
	}
	if err := st.Expect(stt.Expect{Grammar: choice("hours", "goodbye")}); err != nil {
		t.Fatal(err)
	}
	if x := hear(t, st, results, hours, 8600); x.Text != "hours" {
		t.Errorf("back to a word from before: %q", x.Text)
	}
}

func TestInterimsComeBeforeTheFinal(t *testing.T) {
	st, results := openStream(t, newRecognizer(t, DefaultConfig()), "#JSGF V1.0; grammar g; public <g> = <d>+; <d> = monday | hours | operator;")
	var line []int16
	for _, w := range []string{"operator", "monday", "hours"} {
		line = append(line, saying(t, w)[6000:]...)
	}
	x := hear(t, st, results, line, 2200)
	if x.Text != "operator monday hours" {
		t.Errorf("heard %q", x.Text)
	}
	st.Close()
}

func TestRefuses(t *testing.T) {
	r := newRecognizer(t, DefaultConfig())
	out := func(stt.Result) {}
	for _, c := range []struct {
		name string
		o    stt.Options
	}{
		{"language", stt.Options{Language: "de-DE", Expect: stt.Expect{Grammar: menu}}},
		{"syntax", stt.Options{Expect: stt.Expect{Grammar: "#JSGF V1.0; grammar g; public <g> = ( yes ;"}}},
		{"no public rule", stt.Options{Expect: stt.Expect{Grammar: "#JSGF V1.0; grammar g; <g> = yes;"}}},
		{"undefined rule", stt.Options{Expect: stt.Expect{Grammar: "#JSGF V1.0; grammar g; public <g> = yes <h>;"}}},
		{"no words", stt.Options{Expect: stt.Expect{Grammar: "#JSGF V1.0; grammar g; public <g> = <NULL>;"}}},
		{"not a grammar", stt.Options{Expect: stt.Expect{Grammar: "yes or no"}}},
	} {
		if st, err := r.Open(t.Context(), c.o, out); err == nil {
			st.Close()
			t.Errorf("%s: no error", c.name)
		}
	}
}

func TestNewNamesWhatIsMissing(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Model = filepath.Join(t.TempDir(), "model")
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "pocketsphinx-en-us") {
		t.Errorf("no model: %v", err)
	}
	cfg = DefaultConfig()
	cfg.Dictionary = filepath.Join(t.TempDir(), "words")
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "words") {
		t.Errorf("no dictionary: %v", err)
	}
}

// TestNoGrammar: with nothing to listen for and no dictation, speech has no words.
func TestNoGrammar(t *testing.T) {
	st, results := openStream(t, newRecognizer(t, DefaultConfig()), "")
	pcm := saying(t, "hours")
	if x := hear(t, st, results, pcm, 8600); x.Text != "" {
		t.Errorf("heard %q", x.Text)
	}
	if err := st.Expect(stt.Expect{Grammar: menu}); err != nil {
		t.Fatal(err)
	}
	if x := hear(t, st, results, pcm, 8600); x.Text != "hours" {
		t.Errorf("heard %q", x.Text)
	}
}

// TestDictation is about the way, not about the words: there are too many errors.
func TestDictation(t *testing.T) {
	if testing.Short() {
		t.Skip("loads 30 MB of language model")
	}
	cfg := DefaultConfig()
	cfg.Dictation = true
	st, results := openStream(t, newRecognizer(t, cfg), "")
	if x := hear(t, st, results, saying(t, "thank you"), 8600); x.Text == "" {
		t.Error("nothing was heard")
	}
}

// TestWideband takes 16 kHz as it is.
func TestWideband(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Telephone = false
	cfg.Reject = 0
	r := newRecognizer(t, cfg)
	if r.Rate() != 16000 {
		t.Fatalf("Rate() = %d", r.Rate())
	}
	raw, err := os.ReadFile("/usr/share/pocketsphinx/test/data/goforward.raw")
	if err != nil {
		t.Skip("no recording: install pocketsphinx-testdata")
	}
	pcm := make([]int16, 16000, 16000+len(raw)/2)
	for i := 0; i+1 < len(raw); i += 2 {
		pcm = append(pcm, int16(uint16(raw[i])|uint16(raw[i+1])<<8))
	}
	st, results := openStream(t, r, "#JSGF V1.0; grammar g; public <g> = go (forward | backward) (one | ten) (meter | meters);")
	if x := hear(t, st, results, pcm, 17000); x.Text != "go forward ten meters" {
		t.Errorf("heard %q", x.Text)
	}
}

// BenchmarkUtterance is one utterance of a second of speech on a stream that has had
// one before: how long after Finalize its result comes, and the CPU for it all.
func BenchmarkUtterance(b *testing.B) {
	for _, interims := range []bool{true, false} {
		b.Run("interims "+strconv.FormatBool(interims), func(b *testing.B) {
			cfg := DefaultConfig()
			cfg.Interims = interims
			st, results := openStream(b, newRecognizer(b, cfg), menu)
			pcm := saying(b, "operator")
			hear(b, st, results, pcm, 8600)
			for b.Loop() {
				hear(b, st, results, pcm, 8600)
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/(float64(len(pcm)-8000)/8000), "s/speech-s")
		})
	}
}

// BenchmarkFirstUtterance includes the making of the decoder, for each call anew.
func BenchmarkFirstUtterance(b *testing.B) {
	r := newRecognizer(b, DefaultConfig())
	pcm := saying(b, "operator")
	for b.Loop() {
		st, results := openStream(b, r, menu)
		hear(b, st, results, pcm, 8600)
		st.Close()
	}
}

// BenchmarkMemory opens a hundred streams that have all heard something.
func BenchmarkMemory(b *testing.B) {
	r := newRecognizer(b, DefaultConfig())
	pcm := saying(b, "operator")
	for b.Loop() {
		before := resident(b)
		const n = 20
		begin := time.Now()
		for range n {
			st, results := openStream(b, r, menu)
			hear(b, st, results, pcm, 8600)
			b.Cleanup(func() { st.Close() })
		}
		b.ReportMetric(float64(resident(b)-before)/n/1024, "MB/stream")
		b.ReportMetric(time.Since(begin).Seconds()*1000/n, "ms/first")
	}
}

// resident is the process's memory in KB.
func resident(b *testing.B) int {
	b.Helper()
	s, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(s))[1])
	if err != nil {
		b.Fatal(err)
	}
	return pages * os.Getpagesize() / 1024
}
