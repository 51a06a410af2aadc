package chat

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestPlain(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"words", "Just words, 100% of them.", "Just words, 100% of them."},
		{"strong", "This is **very** important.", "This is very important."},
		{"emphasis", "*One* and _two_ and ***three*** and __four__.", "One and two and three and four."},
		{"strong inside a word", "un**believ**able", "unbelievable"},
		{"struck out", "~~never~~ always ~5 minutes", "never always ~5 minutes"},
		{"a mark without its partner", "**Note: it is *late. I know_.", "Note: it is late. I know."},
		{"product", "2 * 3 is 6, 2*3*4 is 24, f(x)*(y)", "2 * 3 is 6, 2*3*4 is 24, f(x)*(y)"},
		{"names", "a_b, _foo_bar_ and x__y", "a_b, _foo_bar_ and x__y"},
		{"masked number", "card ****1234, blank ____", "card ****1234, blank ____"},
		{"heading", "# Title\n## Sub ##\n#hashtag", "Title\nSub\n#hashtag"},
		{"empty heading", "###", ""},
		{"bullets", "- one\n* two\n+ three\n  - four\n• five\n- [x] six\n-7 degrees", "one\ntwo\nthree\n  four\nfive\nsix\n-7 degrees"},
		{"numbers stay", "1. one\n2) two", "1. one\n2) two"},
		{"quote", "> said\n>> twice", "said\ntwice"},
		{"rules", "a\n---\nb\n* * *\n=====\nc", "a\nb\nc"},
		{"code span", "call `f(a_b)` or ``x`y`` or `open", "call f(a_b) or x`y or open"},
		{"code fence", "see\n```go\nx := *p\n```\ndone\n~~~\ny\n~~~\n", "see\nx := *p\ndone\ny\n"},
		{"fence not closed", "```\nx *y*", "x *y*"},
		{"link", "See [our *site*](https://x.org/a_(b)) or [this][1].", "See our site or this."},
		{"image", "![a cat](cat.png) here", "a cat here"},
		{"brackets", "[sic] and [1, 2] stay", "[sic] and [1, 2] stay"},
		{"link never closed", "see [this", "see [this"},
		{"second half of a link", "more](https://x.org) here", "more here"},
		{"autolink", "mail <a@b.com> or <https://x.org>, a < b > c", "mail a@b.com or https://x.org, a < b > c"},
		{"table", "| Day | Hours |\n|:---|---:|\n| Mon | **9** to 5 |\n", "Day, Hours\nMon, 9 to 5\n"},
		{"no table", "a | b", "a | b"},
		{"escapes", `\*not\* C:\dir \# 1`, `*not* C:\dir # 1`},
		{"white space stays", "  two\n\n  three ", "  two\n\n  three "},
		{"CRLF", "# A\r\n**b**\r\n", "A\r\nb\r\n"},
		{"invalid bytes", "a\xff*b*\xfe", "a\xffb\xfe"},
		{"nothing", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Plain(tt.in); got != tt.want {
				t.Errorf("Plain(%q)\n got %q\nwant %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestMarkdownOfPieces(t *testing.T) {
	var m Markdown
	s := NewSplitter()
	text := "# Prices\nIt is **cheap. Very.** Ten - 3 left.\n```\na *b* c. D\n- e\n```\n- last *one*"
	var got []string
	for _, p := range append(s.Write(text), s.Flush()...) {
		got = append(got, strings.TrimSpace(m.Plain(p)))
	}
	want := []string{"Prices", "It is cheap.", "Very.", "Ten - 3 left.", "", "a *b* c.", "D", "- e", "", "last one"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestPlainOfBracketsWithoutEnd(t *testing.T) {
	for _, s := range []string{"[", "](", "![", "`", "[a](", "_a "} {
		began := time.Now()
		Plain(strings.Repeat(s, 20_000))
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%q: %v", s, took)
		}
	}
}

func TestMarkdownKnowsWhereALineBegins(t *testing.T) {
	var m Markdown
	got := m.Plain("five") + m.Plain(" # - 3") + m.Plain("\n# four")
	if want := "five # - 3\nfour"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTags(t *testing.T) {
	allowed := []string{"warm", "slow down"}
	tests := []struct {
		in   string
		tags []string
		rest string
	}{
		{"[warm] Hello.", []string{"warm"}, "Hello."},
		{" [Warm][slow down]\nHello.", []string{"warm", "slow down"}, "Hello."},
		{"[angry] Hello.", nil, "[angry] Hello."},
		{"[warm] [angry] Hello.", []string{"warm"}, "[angry] Hello."},
		{"Hello [warm]", nil, "Hello [warm]"},
		{"[warm", nil, "[warm"},
		{"", nil, ""},
	}
	for _, tt := range tests {
		tags, rest := Tags(tt.in, allowed)
		if !slices.Equal(tags, tt.tags) || rest != tt.rest {
			t.Errorf("Tags(%q) = %q, %q", tt.in, tags, rest)
		}
	}
	if tags, rest := Tags("[warm] Hello.", nil); tags != nil || rest != "[warm] Hello." {
		t.Errorf("no tag is on: %q, %q", tags, rest)
	}
}

func FuzzPlain(f *testing.F) {
	for _, seed := range []string{
		"**a** _b_ `c` [d](e) ![f](g) ~~h~~", "# x\n- y\n> z\n| a | b |\n|--|--|", "```\n*\n```", "a_b 2 * 3",
		"[[[](](](", "\\*\\", "<a@b> <", "*_*_*_", "\xff*\xfe", "|", "||", "---", "`` ` ``", "é*ü*", "[a][", "\r\n\r",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Plain(text)
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Fatalf("%q became invalid: %q", text, got)
		}
		if len(got) > len(text)+strings.Count(text, "|") {
			t.Fatalf("%q grew to %q", text, got)
		}
		if !strings.ContainsAny(text, "*_~`[]<>#-+|=!\\•‣◦") && got != text {
			t.Fatalf("%q has no marks and became %q", text, got)
		}
		// Nothing but marks is lost: the letters come out in their order.
		if !strings.ContainsAny(text, "[]()`~") {
			letters := func(r rune) rune {
				if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
					return r
				}
				return -1
			}
			if strings.Map(letters, got) != strings.Map(letters, text) && !strings.Contains(text, "[") {
				t.Fatalf("%q lost letters: %q", text, got)
			}
		}
		var m Markdown
		for piece := range strings.SplitAfterSeq(text, " ") {
			m.Plain(piece)
		}
		Tags(text, []string{"a"})
	})
}
