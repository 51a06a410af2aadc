package identity

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestCleanText(t *testing.T) {
	for _, c := range []struct{ why, in, want string }{
		{"plain", "Ann Lee", "Ann Lee"},
		{"blanks at the ends and in rows", "  Ann \t\r\n  Lee\u00a0 ", "Ann Lee"},
		{"folded line", "Ann\r\n Lee", "Ann Lee"},
		{"terminal escape", "\x1b[31mAnn\x1b[0m", "[31mAnn[0m"},
		{"NUL, DEL, C1", "A\x00n\x7fn\u0085\u009b", "Ann"},
		{"bidi override", "Ann\u202eeeL\u202c", "AnneeL"},
		{"bidi isolate and mark", "\u2066Ann\u2069\u200f", "Ann"},
		{"zero width space", "A\u200bn\ufeffn", "Ann"},
		{"joiners stay", "न\u200dम 👩\u200d🚀", "न\u200dम 👩\u200d🚀"},
		{"smuggled tags", "Ann\U000e0041\U000e0042", "Ann"},
		{"smuggling variation selectors", "A\ufe00\ufe01\U000e0100", "A"},
		{"emoji presentation stays", "☎\ufe0f", "☎\ufe0f"},
		{"private use", "\ue000Ann\U00100000", "Ann"},
		{"line separator", "Ann\u2028Lee", "Ann Lee"},
		{"JSON breakers are data", `"}],{`, `"}],{`},
		{"Latin-1", "Jos\xe9", "José"},
		{"half a rune is read as Latin-1", "李\xe6", "æ\u009d\u008eæ"},
		{"only blanks", " \t ", ""},
		{"64 runes, not bytes", strings.Repeat("é", 100), strings.Repeat("é", 64)},
		{"no blank at the cut", strings.Repeat("a", 63) + " b", strings.Repeat("a", 63)},
		{"4 kB", strings.Repeat("a b ", 1024), strings.TrimSpace(strings.Repeat("a b ", 16))},
	} {
		want := strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return -1
			}
			return r
		}, c.want)
		if got := CleanText(c.in, maxName); got != want {
			t.Errorf("%s: CleanText(%q) = %q, want %q", c.why, c.in, got, want)
		}
	}
}

func FuzzCleanText(f *testing.F) {
	f.Add("Ann\r\n Lee", 64)
	f.Add("\x1b[31m\u202e李\xe9\U000e0041", 3)
	f.Add(strings.Repeat("é ", 100), 7)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(0, min(limit, 256))
		got := CleanText(s, limit)
		checkClean(t, got, limit)
		if again := CleanText(got, limit); again != got {
			t.Errorf("not stable: %q then %q", got, again)
		}
	})
}

// checkClean fails when s is not what CleanText promises.
func checkClean(t *testing.T, s string, limit int) {
	t.Helper()
	if !utf8.ValidString(s) || utf8.RuneCountInString(s) > limit || strings.TrimSpace(s) != s {
		t.Errorf("not clean: %q", s)
	}
	for _, r := range s {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || (r != ' ' && unicode.IsSpace(r)) {
			t.Errorf("%U in %q", r, s)
		}
	}
}
