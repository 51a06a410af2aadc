package chat

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// whole cuts a text that comes at once.
func whole(language, text string) []string {
	s := NewSplitterFor(language)
	return append(s.Write(text), s.Flush()...)
}

func trimmed(pieces []string) []string {
	var out []string
	for _, p := range pieces {
		out = append(out, strings.TrimSpace(p))
	}
	return out
}

func TestSentences(t *testing.T) {
	tests := []struct {
		name, language, text string
		want                 []string
	}{
		{"two", "en", "Hello there. How are you?", []string{"Hello there.", "How are you?"}},
		{"marks", "en", "Really?! Yes! Good.", []string{"Really?!", "Yes!", "Good."}},
		{"title", "en", "Dr. Lee is in. Call Mr. Fox.", []string{"Dr. Lee is in.", "Call Mr. Fox."}},
		{"title in lower case", "en", "ask dr. lee. ok. fine.", []string{"ask dr. lee.", "ok.", "fine."}},
		{"title in capitals", "en", "DR. LEE is in. Good.", []string{"DR. LEE is in.", "Good."}},
		{"decimal", "en", "It costs 39.99 today. Fine.", []string{"It costs 39.99 today.", "Fine."}},
		{"number at the end", "en", "It costs 39. Fine.", []string{"It costs 39.", "Fine."}},
		{"mail and web", "en", "Write to a@b.com or see https://x.org/a.b?q=1. Thanks.", []string{"Write to a@b.com or see https://x.org/a.b?q=1.", "Thanks."}},
		{"initials", "en", "J. K. Rowling and J.R.R. Tolkien wrote. So did I!", []string{"J. K. Rowling and J.R.R. Tolkien wrote.", "So did I!"}},
		{"time of day, on", "en", "We open at 9 a.m. on Mondays. Bye.", []string{"We open at 9 a.m. on Mondays.", "Bye."}},
		{"time of day, end", "en", "We open at 9 a.m. Come in.", []string{"We open at 9 a.m.", "Come in."}},
		{"for example", "en", "Bring papers, e.g. Your passport. Good.", []string{"Bring papers, e.g. Your passport.", "Good."}},
		{"country", "en", "The U.S. and the U.K. Army of two. No.", []string{"The U.S. and the U.K.", "Army of two.", "No."}},
		{"No with a number", "en", "You are No. 5 in line. No. You are not.", []string{"You are No. 5 in line.", "No.", "You are not."}},
		{"unknown short word", "en", "At the Bldg. five we are. Bye.", []string{"At the Bldg. five we are.", "Bye."}},
		{"sat is no day", "en", "There he sat. then left.", []string{"There he sat.", "then left."}},
		{"Sat is one", "en", "Open Sat. till noon. Bye.", []string{"Open Sat. till noon.", "Bye."}},
		{"dots, on", "en", "Well... maybe. Yes.", []string{"Well... maybe.", "Yes."}},
		{"dots, end", "en", "Well... Maybe… Yes.", []string{"Well...", "Maybe…", "Yes."}},
		{"quotes", "en", `She said "Go." Then (really!) left. “Why?” Hm.`, []string{`She said "Go."`, "Then (really!)", "left.", "“Why?”", "Hm."}},
		{"markdown closes", "en", "**Done.** Next _one!_ End.", []string{"**Done.**", "Next _one!_", "End."}},
		{"lines", "en", "Two things:\n- apples\n- pears\n\nThat is all", []string{"Two things:", "- apples", "- pears", "That is all"}},
		{"labels", "en", "1. Pizza\n2. Pasta\nWe have: 1. Pizza, 2. Pasta.", []string{"1. Pizza", "2. Pasta", "We have: 1. Pizza, 2. Pasta."}},
		{"no white space", "en", "see main.go.Then", []string{"see main.go.Then"}},
		{"clause", "en", "Let me look at that for you, just a moment, please. Bye.", []string{"Let me look at that for you,", "just a moment, please.", "Bye."}},
		{"clause too short", "en", "Yes, of course, you can. Bye.", []string{"Yes, of course, you can.", "Bye."}},
		{"clause dash", "en", "The shop in the old town — the big one — is open.", []string{"The shop in the old town —", "the big one — is open."}},
		{"clause glued dash", "en", "The shop in the old town—the big one—is open.", []string{"The shop in the old town—", "the big one—is open."}},
		{"hyphens and ranges stay", "en", "It is a state-of-the-art thing for 10,000 people 3–5 times", []string{"It is a state-of-the-art thing for 10,000 people 3–5 times"}},
		{"only the first is a clause", "en", "Good. And this long sentence goes on and on, does it not? Yes.", []string{"Good.", "And this long sentence goes on and on, does it not?", "Yes."}},
		{"Chinese", "zh", "你好。今天天气很好！对吗？", []string{"你好。", "今天天气很好！", "对吗？"}},
		{"Chinese quotes", "zh", "他说：“好。”然后走了。", []string{"他说：“好。”", "然后走了。"}},
		{"Chinese clause", "zh", "我先帮您看一下这个订单，请稍等。", []string{"我先帮您看一下这个订单，", "请稍等。"}},
		{"Chinese with Latin marks", "zh", "OK!好的.没问题", []string{"OK!", "好的.", "没问题"}},
		{"Japanese", "ja", "はい。わかりました。３．５です。", []string{"はい。", "わかりました。", "３．５です。"}},
		{"Korean", "ko", "안녕하세요. 반갑습니다.", []string{"안녕하세요.", "반갑습니다."}},
		{"Hindi", "hi", "नमस्ते। आप कैसे हैं? ठीक॥ हाँ", []string{"नमस्ते।", "आप कैसे हैं?", "ठीक॥", "हाँ"}},
		{"Arabic", "ar", "كيف حالك؟ بخير.", []string{"كيف حالك؟", "بخير."}},
		{"Armenian", "hy", "Բարև։ Լավ։", []string{"Բարև։", "Լավ։"}},
		{"Burmese and Khmer", "my", "ဟုတ်ကဲ့။ သွားမယ်။ បាទ។ ទៅ", []string{"ဟုတ်ကဲ့။", "သွားမယ်။", "បាទ។", "ទៅ"}},
		{"German ordinal", "de-AT", "Am 3. Mai um 9 Uhr. Gut.", []string{"Am 3. Mai um 9 Uhr.", "Gut."}},
		{"German", "de", "Das ist z.B. gut, usw. und mehr. Frau Dr. Maier kommt.", []string{"Das ist z.B. gut, usw. und mehr.", "Frau Dr. Maier kommt."}},
		{"French", "fr", "Voici M. Dupont. Bonjour.", []string{"Voici M. Dupont.", "Bonjour."}},
		{"Spanish", "es", "¿Qué tal, Sra. Gil? ¡Bien! Núm. 5.", []string{"¿Qué tal, Sra. Gil?", "¡Bien!", "Núm. 5."}},
		{"Norwegian by its other name", "no", "Den 3. mai. Ja.", []string{"Den 3. mai.", "Ja."}},
		{"unknown language", "tlh", "Foo e.g. bar. Baz.", []string{"Foo e.g. bar.", "Baz."}},
		{"white space only", "en", " \n ", []string{""}},
		{"nothing", "en", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := whole(tt.language, tt.text)
			if joined := strings.Join(got, ""); joined != tt.text {
				t.Errorf("joined %q, want %q", joined, tt.text)
			}
			if !slices.Equal(trimmed(got), tt.want) {
				t.Errorf("got  %q\nwant %q", trimmed(got), tt.want)
			}
			s := NewSplitterFor(tt.language)
			var bytewise []string
			for i := range len(tt.text) {
				bytewise = append(bytewise, s.Write(tt.text[i:i+1])...)
			}
			if bytewise = append(bytewise, s.Flush()...); !slices.Equal(bytewise, got) {
				t.Errorf("byte by byte %q\nat once      %q", bytewise, got)
			}
		})
	}
}

func TestWhiteSpaceLeadsTheNextPiece(t *testing.T) {
	got := whole("en", "  One.  Two.\n\nThree \n four. ")
	want := []string{"  One.", "  Two.", "\n\nThree", " \n four.", " "}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPieceComesAsSoonAsItIsCertain(t *testing.T) {
	steps := []struct {
		write string
		want  []string
	}{
		{"Hel", nil},
		{"lo.", nil},
		{" ", []string{"Hello."}},
		{"At 9 p.m. ", nil},
		{"T", []string{" At 9 p.m."}},
		{"wo!", nil},
		{"\n", []string{" Two!"}},
	}
	s := NewSplitter()
	for _, step := range steps {
		if got := s.Write(step.write); !slices.Equal(got, step.want) {
			t.Errorf("Write(%q) = %q, want %q", step.write, got, step.want)
		}
	}
	if got := s.Flush(); !slices.Equal(got, []string{"\n"}) {
		t.Errorf("Flush = %q", got)
	}
	if got := s.Flush(); got != nil {
		t.Errorf("second Flush = %q", got)
	}
}

func TestPause(t *testing.T) {
	tests := []struct {
		text string
		want []string
		rest string
	}{
		{"One moment.", []string{"One moment."}, ""},
		{"See you at 9 p.m.", []string{"See you at 9 p.m."}, ""},
		{"See you at 9 p.m.  ", []string{"See you at 9 p.m."}, "  "},
		{"Good. One moment", nil, " One moment"},
		{"Ask Dr.", nil, "Ask Dr."},
		{"Ask Dr. ", nil, "Ask Dr. "},
		{"Ask Dr. Lee!\xe4\xbd", nil, "Ask Dr. Lee!\xe4\xbd"},
		{"", nil, ""},
		{"  ", nil, "  "},
	}
	for _, tt := range tests {
		s := NewSplitter()
		s.Write(tt.text)
		if got := s.Pause(); !slices.Equal(got, tt.want) {
			t.Errorf("%q: Pause = %q, want %q", tt.text, got, tt.want)
		}
		if got := strings.Join(s.Flush(), ""); got != tt.rest {
			t.Errorf("%q: rest %q, want %q", tt.text, got, tt.rest)
		}
	}
}

func TestRunOn(t *testing.T) {
	clause := strings.Repeat("word ", 40) + "so, "
	tests := []struct {
		name, text string
		first      string
	}{
		{"between words", strings.Repeat("word ", 100), strings.TrimSpace(strings.Repeat("word ", 60))},
		{"at a late clause", "Yes. " + clause + strings.Repeat("word ", 100), "Yes."},
		{"no white space", strings.Repeat("x", 400), strings.Repeat("x", 300)},
		{"not inside a cluster", strings.Repeat("x", 299) + "e\u0301\u0301" + strings.Repeat("x", 9), strings.Repeat("x", 299)},
		{"one endless cluster", "e" + strings.Repeat("\u0301", 400), "e" + strings.Repeat("\u0301", 299)},
		{"waits no longer for what decides", "a etc." + strings.Repeat(" ", 400) + "b", "a etc."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := whole("en", tt.text)
			if strings.Join(got, "") != tt.text {
				t.Error("pieces joined are not the text")
			}
			if got[0] != tt.first {
				t.Errorf("first %q", got[0])
			}
		})
	}
	if got := whole("en", "Yes. "+clause+strings.Repeat("word ", 100)); !strings.HasSuffix(got[1], "so,") {
		t.Errorf("second piece %q does not end at the clause", got[1])
	}
}

func TestAbbreviationFile(t *testing.T) {
	kinds := []string{"never", "wait", "number", "ordinal"}
	section := false
	for line := range strings.Lines(abbreviationText) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || strings.HasPrefix(f[0], "#"):
		case f[0][0] == '[':
			section = true
		case !section || !slices.Contains(kinds, f[0]) || len(f) < 2:
			t.Errorf("bad line %q", line)
		}
		if strings.Contains(line, ". ") && f[0] != "#" {
			t.Errorf("full stop at the end of an entry in %q", line)
		}
	}
}

func BenchmarkSplitter(b *testing.B) {
	text := strings.Repeat("Dr. Lee says it costs 39.99, which is fine. Is it? ", 40)
	for b.Loop() {
		s := NewSplitter()
		for i := 0; i < len(text); i += 4 {
			s.Write(text[i:min(i+4, len(text))])
		}
		s.Flush()
	}
}

func FuzzSplitter(f *testing.F) {
	for _, seed := range []string{
		"Hello there. How are you?", "Dr. Lee, 39.99, a@b.com. J. K. R. p.m. Then",
		"你好。今天！", "نعم؟ नमस्ते।", "\xff\xfe. a\xe4\xbd. b", "Well... yes… No\r\n\r\n1. a\n2. b",
		strings.Repeat("a ", 400), strings.Repeat("é", 350), "e.g." + strings.Repeat("\n", 5) + "x—y，z",
	} {
		f.Add(seed, uint64(0x9e3779b97f4a7c15), "en")
		f.Add(seed, uint64(1), "de")
	}
	f.Fuzz(func(t *testing.T, text string, cuts uint64, language string) {
		want := whole(language, text)
		if strings.Join(want, "") != text {
			t.Fatalf("joined %q, want %q", strings.Join(want, ""), text)
		}
		s := NewSplitterFor(language)
		var got []string
		for rest := text; rest != ""; {
			cuts = cuts*6364136223846793005 + 1442695040888963407
			n := min(1+int(cuts>>61), len(rest))
			got = append(got, s.Write(rest[:n])...)
			rest = rest[n:]
		}
		if got = append(got, s.Flush()...); !slices.Equal(got, want) {
			t.Fatalf("in bits %q\nat once %q", got, want)
		}
		for i, p := range want {
			content := strings.TrimLeftFunc(p, unicode.IsSpace)
			if content == "" && i < len(want)-1 || p == "" {
				t.Fatalf("piece %d of %q is empty", i, want)
			}
			if n := utf8.RuneCountInString(content); n > runOnRunes && i < len(want)-1 {
				t.Fatalf("piece of %d runes", n)
			}
		}
	})
}

func ExampleSplitter() {
	s := NewSplitter()
	for _, bit := range []string{"Dr. L", "ee is in. Sh", "all I ask?"} {
		for _, piece := range s.Write(bit) {
			fmt.Printf("%q\n", piece)
		}
	}
	fmt.Printf("%q\n", s.Flush())
	// Output:
	// "Dr. Lee is in."
	// [" Shall I ask?"]
}
