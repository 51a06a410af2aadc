//go:build cgo

package pocketsphinx

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/agent/stt"
)

const cards = `#JSGF V1.0; grammar cards;
public <cards> = <card> [<card>] [<card>] | <rank> <rank> | <rank> <card>;
<card> = <rank> [of] (clubs | hearts | diamonds | spades);
<rank> = ace | two | three | four | five | six | seven | eight | nine | ten | jack | queen | king;`

// TestOtherPeople is about speakers on whom nothing in this package was tuned: those
// of Debian's pocketsphinx-testdata, brought down to a telephone line.
func TestOtherPeople(t *testing.T) {
	const dir = "/usr/share/pocketsphinx/test/data"
	if _, err := os.Stat(filepath.Join(dir, "cards/001.wav")); err != nil {
		t.Skip("no recordings: install pocketsphinx-testdata")
	}
	r := newRecognizer(t, DefaultConfig())
	errors, words := 0, 0
	for _, c := range []struct{ file, grammar, text string }{
		{"cards/001.wav", cards, "ten of clubs"},
		{"cards/002.wav", cards, "four queen of clubs"},
		{"cards/003.wav", cards, "seven of clubs"},
		{"cards/004.wav", cards, "five five"},
		{"cards/005.wav", cards, "eight of spades four of clubs seven of hearts"},
		{"goforward.raw", "#JSGF V1.0; grammar g; public <g> = (go | turn) (forward | backward | left | right) [(one | two | ten) (meter | meters)];", "go forward ten meters"},
	} {
		for k, gain := range []float64{-9, 0, 6} {
			line := telephone(readSpeech(t, filepath.Join(dir, c.file)), gain, 3000+41*k, 2400)
			results := make(chan stt.Result, 1000)
			st, err := r.Open(t.Context(), stt.Options{Expect: stt.Expect{Grammar: c.grammar}}, func(x stt.Result) { results <- x })
			if err != nil {
				t.Fatal(err)
			}
			x := hear(t, st, results, line, 3640)
			st.Close()
			want := strings.Fields(c.text)
			e := distance(want, strings.Fields(x.Text))
			errors += e
			words += len(want)
			if e > 0 {
				t.Logf("%s at %v dB: %q %.2f, said %q", c.file, gain, x.Text, x.Confidence, c.text)
			}
		}
	}
	t.Logf("%d word errors of %d words", errors, words)
	if share := float64(errors) / float64(words); share > 0.1 {
		t.Errorf("word errors %.2f, want at most 0.10", share)
	}
}

// readSpeech reads a recording at 16 kHz, raw or WAV, as 8 kHz.
func readSpeech(t *testing.T, file string) []int16 {
	t.Helper()
	if strings.HasSuffix(file, ".wav") {
		return readWAV(t, file)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pcm := make([]int16, len(b)/2)
	for i := range pcm {
		pcm[i] = int16(binary.LittleEndian.Uint16(b[2*i:]))
	}
	return halve(pcm)
}

// distance is how many words must be changed, left out or put in.
func distance(a, b []string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		before := row[0]
		row[0] = i + 1
		for j := range b {
			swap := before
			if a[i] != b[j] {
				swap++
			}
			before = row[j+1]
			row[j+1] = min(swap, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
