package flite

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestReadSpells(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"hello", "hello"},
		{"  a \n b\x00c\t", "a b c"},
		{"café naïve Ångström", "cafe naive Angstrom"},
		{"‘it’s’ “so”", `'it's' "so"`},
		{"straße æon Łódź", "strasse aeon lodz"},
		{"5€ 20°", "5 euros 20 degrees"},
		{"yes—no", "yes, no"},
		{"wait…", "wait..."},
		{"ﬁne ½", "fine one half"},
		{"bad\xff byte", "bad byte"},
		{"x² 🎉 y", "x2  y"},
		{"привет hi", "hi"},
	} {
		p, err := read(c.in)
		if err != nil || len(p) != 1 || p[0].text != c.want {
			t.Errorf("read(%q) = %+v, %v; want %q", c.in, p, err, c.want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	if _, err := read(strings.Repeat("é", MaxText+1)); !errors.Is(err, ErrTooLong) {
		t.Errorf("long text: %v", err)
	}
	if _, err := read(strings.Repeat("é", MaxText)); err != nil {
		t.Errorf("text of the longest length: %v", err)
	}
	if _, err := read("你好 世界"); !errors.Is(err, ErrLanguage) {
		t.Errorf("Chinese: %v", err)
	}
	for _, s := range []string{"", " ", "...", "🎉 !", "—"} {
		if p, err := read(s); p != nil || err != nil {
			t.Errorf("read(%q) = %v, %v", s, p, err)
		}
	}
}

func TestReadCutsWhereASpeakerPauses(t *testing.T) {
	long := "Thank you very much for calling the front desk today, we are glad. "
	text := long + "Dr. Smith is in at 9 a.m. on most days, and he will call you back. " + long + long
	p, err := read(text)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for i, x := range p {
		if len(x.text) > maxPiece {
			t.Errorf("piece %d has %d characters", i, len(x.text))
		}
		for _, w := range x.words {
			all = append(all, w.text)
		}
	}
	if got := strings.Join(all, " "); got != strings.TrimSpace(text) {
		t.Errorf("words of the pieces: %q", got)
	}
	if !strings.HasSuffix(p[0].text, "today,") {
		t.Errorf("first piece %q, want it to end at the first comma", p[0].text)
	}
	if !strings.HasSuffix(p[1].text, ".") {
		t.Errorf("second piece %q, want it to end with a sentence", p[1].text)
	}
}

func TestPlaceByToken(t *testing.T) {
	// "It costs - $39.99." with tokens it, costs, 39, 99.
	p := piece{text: "It costs - $39.99.", start: []int{0, 3, 9, 11}}
	for _, s := range strings.Fields(p.text) {
		p.words = append(p.words, word{text: s, spoken: s})
	}
	ms := time.Millisecond
	got := p.place([]times{{3, 100 * ms, 200 * ms}, {9, 200 * ms, 500 * ms}, {18, 600 * ms, 900 * ms}, {18, 900 * ms, 1500 * ms}}, 70*ms)
	want := [][2]time.Duration{{30, 130}, {130, 430}, {430, 430}, {530, 1430}}
	for i, w := range got {
		if w.Start != want[i][0]*ms || w.End != want[i][1]*ms || w.Text != p.words[i].text {
			t.Errorf("word %d: %+v, want %v", i, w, want[i])
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{"hello there.", "café", "\xff\x00", "$39.99 — “ok”", strings.Repeat("ab ", 90), strings.Repeat("x", 200)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := read(s)
		if err != nil {
			return
		}
		for _, x := range p {
			if len(x.words) == 0 || len(x.start) != len(x.words) {
				t.Fatalf("piece with %d words, %d starts", len(x.words), len(x.start))
			}
			for i := range len(x.text) {
				if x.text[i] < ' ' || x.text[i] > '~' {
					t.Fatalf("%q holds %q", x.text, x.text[i])
				}
			}
			for _, w := range x.words {
				if w.text == "" || !utf8.ValidString(w.text) {
					t.Fatalf("word %q", w.text)
				}
			}
			x.place([]times{{1, 0, 1}, {len(x.text), 1, 2}, {len(x.text) + 9, 2, 3}}, 0)
		}
	})
}

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []Config{{"bob", 1}, {"rms", 0}, {"rms", 3}, {"", 1}} {
		if c.Validate() == nil {
			t.Errorf("%+v is valid", c)
		}
		if _, err := New(c); err == nil {
			t.Errorf("New(%+v) succeeds", c)
		}
	}
}
