package llm

import (
	"fmt"
	"strings"
	"testing"
)

// styled writes text in bits of n bytes; 0: at once.
func styled(tags []string, text string, n int) string {
	s := NewStyler(tags)
	if n == 0 {
		n = len(text) + 1
	}
	var all []Chunk
	for len(text) > 0 {
		bit := text[:min(n, len(text))]
		all = append(all, s.Write(bit)...)
		text = text[len(bit):]
	}
	var b strings.Builder
	for _, c := range append(all, s.Flush()...) {
		if c.Style != "" {
			fmt.Fprintf(&b, "<%s>", c.Style)
		}
		b.WriteString(c.Text)
	}
	return b.String()
}

func TestStyler(t *testing.T) {
	tags := []string{"warm", " Very Calm "}
	tests := []struct{ name, in, want string }{
		{"leading", "[warm] Hello there.", "<warm>Hello there."},
		{"any case, spaces within", "[ WARM ]Hello.", "<warm>Hello."},
		{"two words", "[very calm] Breathe.", "<very calm>Breathe."},
		{"white space before", " \n[warm] Hi.", " \n<warm>Hi."},
		{"the second sentence", "Hello. [warm] How are you?", "Hello. <warm>How are you?"},
		{"after a quotation", "“Yes!” [warm] Good.", "“Yes!” <warm>Good."},
		{"after a line", "Menu\n[warm] Soup", "Menu\n<warm>Soup"},
		{"Chinese", "你好。[warm]再见。", "你好。<warm>再见。"},
		{"the last of two counts", "[warm][very calm] Hi.", "<very calm>Hi."},
		{"not switched on", "[laughs] Hi. [cold] No.", "[laughs] Hi. [cold] No."},
		{"within a sentence", "press the [warm] key.", "press the [warm] key."},
		{"no end", "[war", "[war"},
		{"no tag after all", "[warming up the engine] Hi.", "[warming up the engine] Hi."},
		{"nothing after it", "Hi. [warm] ", "Hi. "},
		{"brackets", "[[warm]] Hi.", "[[warm]] Hi."},
		{"empty", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for n := range 4 {
				if got := styled(tags, tt.in, n); got != tt.want {
					t.Errorf("in bits of %d: %q, want %q", n, got, tt.want)
				}
			}
			if got := styled(nil, tt.in, 1); got != tt.in {
				t.Errorf("no tags: %q", got)
			}
		})
	}
}

func FuzzStyler(f *testing.F) {
	for _, seed := range []string{"[warm] Hi. [warm", "a [calm] b.\n[ calm ][x]", "[]][[", "。[warm]\xff"} {
		f.Add(seed, uint8(2))
	}
	f.Fuzz(func(t *testing.T, text string, n uint8) {
		whole := styled([]string{"warm", "calm"}, text, 0)
		plain := strings.NewReplacer("<warm>", "", "<calm>", "").Replace(whole)
		if len(plain) > len(text) {
			t.Fatalf("%q grew to %q", text, plain)
		}
		if got := styled([]string{"warm", "calm"}, text, int(n%8)); got != whole {
			t.Fatalf("in bits of %d %q, at once %q", n%8, got, whole)
		}
	})
}

func TestWholeRunes(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want int
	}{{"", 0}, {"abc", 3}, {"gr\xc3", 2}, {"grü", 4}, {"\xf0\x9f", 0}, {"a\xf0\x9f\x98", 1}, {"a\xff", 2}, {"\x80\x80\x80\x80", 4}} {
		if got := WholeRunes([]byte(tt.in)); got != tt.want {
			t.Errorf("%q: %d, want %d", tt.in, got, tt.want)
		}
	}
	if got := ValidText("a\xffb"); got != "a\ufffdb" {
		t.Errorf("%q", got)
	}
}
