package pocketsphinx

import (
	"slices"
	"strings"
	"testing"
)

func TestVocabulary(t *testing.T) {
	for _, c := range []struct{ name, grammar, want string }{
		{"choice", "#JSGF V1.0; grammar g; public <g> = yes | no;", "yes no"},
		{"no spaces", "#JSGF V1.0;grammar g;public<g>=(yes|no)[please]+;", "yes no please"},
		{"header", "\ufeff \n#JSGF V1.0 UTF-8 en; grammar a.b.c; public <g> = yes;", "yes"},
		{"comments", "#JSGF V1.0; /* one | two */ grammar g; // three\npublic <g> = four; // five", "four"},
		{"weights and tags", `#JSGF V1.0; grammar g; public <g> = /0.5/ yes {ok = "fine";} | /2/ no {a\}b};`, "yes no"},
		{"references", "#JSGF V1.0; grammar g; public <g> = <a>+ <NULL> <b>*; <a> = one; <b> = two one;", "one two"},
		{"qualified", "#JSGF V1.0; grammar a.b; public <g> = <a.b.c>; <c> = yes;", "yes"},
		{"loop", "#JSGF V1.0; grammar g; public <g> = one <g> | two;", "one two"},
		{"apostrophe", "#JSGF V1.0; grammar g; public <g> = o'clock | i'm;", "o'clock i'm"},
		{"quotes", `#JSGF V1.0; grammar g; public <g> = "yes" | no;`, "yes no"},
		{"keyword as word", "#JSGF V1.0; grammar g; public <g> = public | grammar | import;", "public grammar import"},
	} {
		got, err := vocabulary(c.grammar)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}

func TestVocabularyRefuses(t *testing.T) {
	nested := "#JSGF V1.0; grammar g; public <top> = <a> <a> <a> <a>;"
	for r := 'a'; r < 'p'; r++ {
		nested += "<" + string(r) + "> = <" + string(r+1) + "> <" + string(r+1) + "> <" + string(r+1) + ">;"
	}
	nested += "<p> = no;"
	for _, c := range []struct{ name, grammar, want string }{
		{"empty", "", "#JSGF"},
		{"no header", "grammar g; public <g> = yes;", "#JSGF"},
		{"open header", "#JSGF V1.0", "header"},
		{"open rule", "#JSGF V1.0; grammar g; public <g> = yes", "<g>"},
		{"twice", "#JSGF V1.0; grammar g; <g> = yes; <g> = no;", "twice"},
		{"no equals", "#JSGF V1.0; grammar g; <g> yes;", "no ="},
		{"undefined", "#JSGF V1.0; grammar g; public <g> = yes <h>;", "<h>"},
		{"import", "#JSGF V1.0; grammar g; import <a.b>; public <g> = yes;", "import"},
		{"stray word", "#JSGF V1.0; grammar g; yes;", `"yes"`},
		{"zero", "#JSGF V1.0; grammar g; public <g> = a\x00b;", "zero"},
		{"large", "#JSGF V1.0; grammar g; public <g> = " + strings.Repeat("yes ", maxGrammar/4) + ";", "bytes"},
		{"explosive", nested, "expands"},
	} {
		if _, err := vocabulary(c.grammar); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want something with %q", c.name, err, c.want)
		}
	}
}

func FuzzVocabulary(f *testing.F) {
	for _, s := range []string{
		"#JSGF V1.0; grammar g; public <g> = yes | no;",
		"#JSGF V1.0; grammar g; public <g> = /0.5/ (a | [b]*) {t} <c>+; <c> = <g>;",
		"#JSGF V1.0; /* */ // \n grammar g; import <x>;", "#JSGF;<a>=<b><b>;<b>=<a>\"", "#JSGF\\;{",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		words, err := vocabulary(s)
		if err != nil || strings.Contains(s, `"`) { // anything can be quoted
			return
		}
		for i, w := range words {
			if strings.ContainsAny(w, " \t\r\n;=|()[]*+<>{}\x00") || slices.Contains(words[:i], w) {
				t.Fatalf("word %q of %q", w, words)
			}
		}
	})
}

func TestDictionary(t *testing.T) {
	d := newDictionary("the DH AH\nthe(2) DH IY\nyes  Y EH S\na(2) EY\na AH\nthese DH IY Z\nbroken\n\n")
	for word, want := range map[string]string{
		"the": "DH AH|DH IY", "yes": "Y EH S", "these": "DH IY Z", "th": "", "zz": "", "": "", "broken": "", "(2)": "",
	} {
		if got := strings.Join(d.pronunciations(word), "|"); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	if got := d.pronunciations("a"); len(got) != 2 {
		t.Errorf("a: %q", got)
	}
	if got := d.missing([]string{"yes", "no", "the", "maybe"}); !slices.Equal(got, []string{`"no"`, `"maybe"`}) {
		t.Errorf("missing: %q", got)
	}
}

func FuzzDictionary(f *testing.F) {
	f.Add("the DH AH\nthe(2) DH IY\n", "the")
	f.Add("(x) Y\n\t\n a b", "(x)")
	f.Fuzz(func(t *testing.T, text, word string) {
		for _, p := range newDictionary(text).pronunciations(word) {
			if strings.Contains(p, "\n") {
				t.Fatalf("%q", p)
			}
		}
	})
}

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){
		"model":      func(c *Config) { c.Model = "" },
		"dictionary": func(c *Config) { c.Dictionary = "" },
		"language":   func(c *Config) { c.Dictation, c.LanguageModel = true, "" },
		"reject":     func(c *Config) { c.Reject = 1 },
		"pre-roll":   func(c *Config) { c.PreRoll = -1 },
		"utterance":  func(c *Config) { c.MaxUtterance = 0 },
	} {
		c := DefaultConfig()
		change(&c)
		if c.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := New(c); err == nil {
			t.Errorf("%s: New succeeds", name)
		}
	}
}

func TestConfidence(t *testing.T) {
	last := 0.0
	for _, diff := range []int{-3000, -300, 0, 300, 1000, 5000} {
		c := confidence(-4000+diff, -4000, 80)
		if c < last || c < 0 || c > 1 {
			t.Errorf("difference %d: confidence %v after %v", diff, c, last)
		}
		last = c
	}
	if c := confidence(-100, -120, 1); c > 0.5 {
		t.Errorf("a click has confidence %v", c)
	}
}
