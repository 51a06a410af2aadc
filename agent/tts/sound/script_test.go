package sound

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"parley/agent/tts"
)

const ms = time.Millisecond

// told is a piece of what a service tells, in ms.
type told struct {
	text       string
	start, end int
}

func TestWordsAreFound(t *testing.T) {
	type word struct {
		text       string
		start, end int
	}
	letters := func(text string, each int) (out []told) {
		for i, r := range strings.Split(text, "") {
			out = append(out, told{r, i * each, (i + 1) * each})
		}
		return out
	}
	for _, c := range []struct {
		name, text string
		told       []told
		want       []word
	}{
		{"words", "Hello, world!", []told{{"Hello,", 0, 400}, {"world!", 500, 900}}, []word{{"Hello,", 0, 400}, {"world!", 500, 900}}},
		{"without punctuation", "Hello, world!", []told{{"hello", 0, 400}, {"World", 500, 900}}, []word{{"Hello,", 0, 400}, {"world!", 500, 900}}},
		{"punctuation by itself", "Hello, world!", []told{{"Hello", 0, 400}, {",", 400, 500}, {"world", 500, 900}, {"!", 900, 950}}, []word{{"Hello,", 0, 400}, {"world!", 500, 900}}},
		{"letters", "It is, so.", letters("It is, so.", 100), []word{{"It", 0, 200}, {"is,", 300, 500}, {"so.", 700, 900}}},
		{"parts of words", "don't re-enter", []told{{"don", 0, 100}, {"'t", 100, 200}, {"re", 300, 400}, {"enter", 400, 600}}, []word{{"don't", 0, 200}, {"re-enter", 300, 600}}},
		{"several words as one", "ice cream now", []told{{"icecream", 0, 600}, {"now", 700, 900}}, []word{{"ice", 0, 600}, {"cream", 600, 600}, {"now", 700, 900}}},
		{"a number is written out", "We have 40 dogs.", []told{{"We", 0, 100}, {"have", 100, 300}, {"forty", 300, 700}, {"dogs", 700, 1000}}, []word{{"We", 0, 100}, {"have", 100, 300}, {"40", 300, 700}, {"dogs.", 700, 1000}}},
		{"a number at the end", "It costs $39.99", []told{{"It", 0, 100}, {"costs", 100, 300}, {"thirty", 300, 500}, {"nine", 500, 700}, {"dollars", 700, 900}}, []word{{"It", 0, 100}, {"costs", 100, 300}, {"$39.99", 300, 1000}}},
		{"a number, then a short word", "at 9 am ok", []told{{"at", 0, 100}, {"nine", 100, 300}, {"am", 300, 500}, {"ok", 500, 600}}, []word{{"at", 0, 100}, {"9", 100, 300}, {"am", 300, 500}, {"ok", 500, 600}}},
		{"a number, then a short word at the end", "at 9 am", []told{{"at", 0, 100}, {"nine", 100, 300}, {"am", 300, 500}}, []word{{"at", 0, 100}, {"9", 100, 300}, {"am", 300, 500}}},
		{"an abbreviation", "Dr. Smith is in.", []told{{"Doctor", 0, 400}, {"Smith", 400, 800}, {"is", 800, 900}, {"in", 900, 1000}}, []word{{"Dr.", 0, 400}, {"Smith", 400, 800}, {"is", 800, 900}, {"in.", 900, 1000}}},
		{"a word is left out", "please [laughs] wait here", []told{{"please", 0, 300}, {"wait", 500, 700}, {"here", 700, 1000}}, []word{{"please", 0, 300}, {"[laughs]", 300, 500}, {"wait", 500, 700}, {"here", 700, 1000}}},
		{"something is said besides", "one two three", []told{{"uhm", 0, 100}, {"one", 100, 200}, {"two", 200, 300}, {"three", 300, 400}}, []word{{"one", 100, 200}, {"two", 200, 300}, {"three", 300, 400}}},
		{"dashes have no sound", "— yes — no —", []told{{"yes", 100, 200}, {"no", 300, 400}}, []word{{"—", 0, 0}, {"yes", 100, 200}, {"—", 200, 200}, {"no", 300, 400}, {"—", 400, 400}}},
		{"the end is not told", "one two three four", []told{{"one", 0, 100}, {"two", 100, 200}}, []word{{"one", 0, 100}, {"two", 100, 200}, {"three", 200, 1000}, {"four", 200, 1000}}},
		{"nothing is told", "one two", nil, nil},
		{"only silence is told", "one two", []told{{" ", 0, 900}}, nil},
		{"times go back", "one two three", []told{{"one", 0, 300}, {"two", 200, 250}, {"three", 100, 500}}, []word{{"one", 0, 300}, {"two", 300, 300}, {"three", 300, 500}}},
		{"other letters", "Grüße aus Köln", []told{{"grüße", 0, 300}, {"aus", 300, 400}, {"köln", 400, 600}}, []word{{"Grüße", 0, 300}, {"aus", 300, 400}, {"Köln", 400, 600}}},
		{"Chinese", "你好 世界", letters("你好世界", 200), []word{{"你好", 0, 400}, {"世界", 400, 800}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(c.text)
			for _, x := range c.told {
				s.token(x.text, time.Duration(x.start)*ms, time.Duration(x.end)*ms)
			}
			s.finish(1000 * ms)
			var got []word
			for _, w := range s.take(1 << 62) {
				got = append(got, word{w.Text, int(w.Start / ms), int(w.End / ms)})
			}
			if len(got) != len(c.want) {
				t.Fatalf("%v, want %v", got, c.want)
			}
			for i, w := range c.want {
				if got[i] != w {
					t.Errorf("word %d: %v, want %v", i, got[i], w)
				}
			}
		})
	}
}

func TestAWordIsKnownWhenItsEndIs(t *testing.T) {
	s := newScript("one two 33 four")
	for _, step := range []struct {
		told  told
		known int
	}{
		{told{"o", 0, 50}, 0}, {told{"n", 50, 100}, 0}, {told{"e", 100, 150}, 150}, {told{" ", 150, 200}, 200},
		{told{"t", 200, 250}, 200}, {told{"wo", 250, 400}, 400}, {told{"thirty", 400, 600}, 400}, {told{"three", 600, 800}, 400},
		{told{"four", 800, 900}, 900},
	} {
		s.token(step.told.text, time.Duration(step.told.start)*ms, time.Duration(step.told.end)*ms)
		if got := int(s.known() / ms); got != step.known {
			t.Errorf("after %q: known to %d ms, want %d", step.told.text, got, step.known)
		}
	}
}

// FuzzScript: whatever is told, all words come, once, in order, and none begins before the
// one before it.
func FuzzScript(f *testing.F) {
	f.Add("We have 40 dogs — and a cat.", "We|have|forty|dogs|and|a|cat", uint16(100))
	f.Add("Dr. Smith is in.", "doc|tor|smith|is|in|.", uint16(7))
	f.Add("a a a b a a", "b|a|a", uint16(65535))
	f.Add("aaa aaaa aaa", strings.Repeat("aab|", 100), uint16(0))
	f.Fuzz(func(t *testing.T, text, tokens string, step uint16) {
		if !utf8.ValidString(text) || len(text) > 4000 || len(tokens) > 4000 {
			return
		}
		s := newScript(text)
		var words []tts.Word
		at := time.Duration(0)
		for i, token := range strings.Split(tokens, "|") {
			end := at + time.Duration(int(step)*(i%5)-int(step))*ms
			s.token(token, at, end)
			if k := s.known(); k < 0 {
				t.Fatalf("known to %v", k)
			}
			at = end + time.Duration(i%3)*ms
			words = append(words, s.take(at)...)
		}
		told := s.told
		s.finish(at)
		words = append(words, s.take(1<<62)...)
		want := strings.Fields(text)
		if !told {
			if len(words) > 0 {
				t.Fatalf("%v, of nothing", words)
			}
			return
		}
		if len(words) != len(want) {
			t.Fatalf("%d words, want %d: %v", len(words), len(want), words)
		}
		for i, w := range words {
			if w.Text != want[i] || w.End < w.Start || i > 0 && w.Start < words[i-1].Start {
				t.Fatalf("word %d: %+v after %+v, want %q", i, w, words[max(i-1, 0)], want[i])
			}
		}
	})
}
