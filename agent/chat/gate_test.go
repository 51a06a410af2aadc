package chat

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// conversation.md line 15.
func TestGate(t *testing.T) {
	is := func(mark string) func(string) bool { return func(s string) bool { return strings.HasPrefix(s, mark) } }
	for name, c := range map[string]struct {
		open bool
		max  int
		in   []string
		want []string // what each lets through, joined
	}{
		"closed":      {false, 0, []string{"a", "b", "open", "c"}, []string{"", "", "open a b", "c"}},
		"open":        {true, 0, []string{"a", "open", "close", "b", "open"}, []string{"a", "open", "", "", "open close b"}},
		"control":     {false, 0, []string{"a", "!stop", "open", "close", "!stop"}, []string{"", "!stop", "open a", "", "!stop"}},
		"it is full":  {false, 2, []string{"a", "b", "c", "open"}, []string{"", "", "", "open b c"}},
		"opens twice": {false, 0, []string{"open", "a", "open"}, []string{"open", "a", "open"}},
	} {
		g := NewGate(GateConfig[string]{Opens: is("open"), Closes: is("close"), Control: is("!"), StartOpen: c.open, Max: c.max})
		var got []string
		for _, s := range c.in {
			got = append(got, strings.Join(g.Pass(s), " "))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if (g.Dropped() > 0) != (c.max > 0) {
			t.Errorf("%s: %d dropped", name, g.Dropped())
		}
	}
}

// conversation.md line 15: only the newest is kept.
func TestContextGate(t *testing.T) {
	g := NewContextGate[int](true)
	if v, ok := g.Offer(1); !ok || v != 1 {
		t.Error("the first was held")
	}
	if _, ok := g.Release(); ok {
		t.Error("released nothing")
	}
	for i := 2; i < 5; i++ {
		if _, ok := g.Offer(i); ok {
			t.Error("not held")
		}
	}
	if v, ok := g.Release(); !ok || v != 4 {
		t.Errorf("released %d, want the newest", v)
	}
	if _, ok := g.Release(); ok {
		t.Error("released twice")
	}
	if _, ok := NewContextGate[int](false).Offer(1); ok {
		t.Error("closed, and let the first through")
	}
}

// conversation.md line 15: the whole answer, and whether it completed.
func TestFullResponse(t *testing.T) {
	var got []Completion
	f := FullResponse{OnCompletion: func(c Completion) { got = append(got, c) }}
	f.Write("before")
	f.End()
	f.Start()
	f.Write("Hello ")
	f.Write("there.")
	f.End()
	f.Start()
	f.Write("And")
	f.Interrupt()
	f.Interrupt()
	f.Start()
	f.Write("One")
	f.Start()
	f.End()
	want := []Completion{{"Hello there.", true}, {"And", false}, {"One", false}, {"", true}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// conversation.md line 15: flush at the end, drop interims.
func TestSentencesGathered(t *testing.T) {
	s := NewSentences("en")
	var got []string
	for _, bit := range []string{"Hello,", " world.", " How", " are you"} {
		got = append(got, s.Write("a guess", false)...)
		got = append(got, s.Write(bit, true)...)
	}
	got = append(got, s.Flush()...)
	if want := []string{"Hello, world.", "How are you"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if rest := s.Flush(); rest != nil {
		t.Errorf("flushed twice: %q", rest)
	}
}

// conversation.md line 21: the model's own markers.
func TestMarkers(t *testing.T) {
	for text, want := range map[string]struct {
		words string
		v     Verdict
		pause time.Duration
	}{
		"":                 {"", Undecided, 0},
		"  \n":             {"  \n", Undecided, 0},
		"Hello.":           {"Hello.", Complete, 0},
		"  Hello.":         {"  Hello.", Complete, 0},
		"✓ Hello.":         {"Hello.", Complete, 0},
		" ✓\ufe0e Hello ✓": {"Hello ✓", Complete, 0},
		"✓":                {"", Complete, 0},
		"○":                {"", ShortPause, 5 * time.Second},
		"◐ go on":          {"", LongPause, 10 * time.Second},
		"○ ✓ Hello":        {"", ShortPause, 5 * time.Second},
		"Hello ○":          {"Hello ○", Complete, 0},
		"\xe2\x9c":         {"\ufffd", Complete, 0},
	} {
		var whole, bits Marker
		w, _ := whole.Write(text)
		end, v := whole.End()
		if w += end; w != want.words || v != want.v || v.Pause() != want.pause {
			t.Errorf("%q: %q, %v, want %+v", text, w, v, want)
		}
		b := ""
		for i := range len(text) {
			words, _ := bits.Write(text[i : i+1])
			b += words
		}
		if end, v = bits.End(); b+end != want.words || v != want.v {
			t.Errorf("%q byte by byte: %q, %v, want %+v", text, b+end, v, want)
		}
	}
}

func FuzzMarker(f *testing.F) {
	f.Add("✓ Hello", 1)
	f.Add("○", 2)
	f.Add(" ◐ x", 3)
	f.Add("\xe2\x97", 1)
	f.Fuzz(func(t *testing.T, text string, at int) {
		at = max(0, min(at, len(text)))
		var whole, parts Marker
		w, _ := whole.Write(text)
		we, wv := whole.End()
		p, _ := parts.Write(text[:at])
		q, _ := parts.Write(text[at:])
		pe, pv := parts.End()
		if w+we != p+q+pe || wv != pv {
			t.Errorf("%q at %d: %q %v and %q %v", text, at, w+we, wv, p+q+pe, pv)
		}
		if wv.Pause() > 0 && w+we != "" {
			t.Errorf("%q: %q is spoken of %v", text, w, wv)
		}
	})
}

// conversation.md line 17: ask again, offer a choice, offer a person.
func TestMisheardNote(t *testing.T) {
	for attempt, want := range map[int]string{1: "say it again", 2: "choices", 3: "person", 9: "person"} {
		if got := MisheardNote(attempt); !strings.Contains(got, want) {
			t.Errorf("%d: %q", attempt, got)
		}
	}
}
