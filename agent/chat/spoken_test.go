package chat

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

const ms = time.Millisecond

func TestHeardInProportion(t *testing.T) {
	// BR-122: a reply of ten words of 300 ms, cut after the fifth.
	s := NewSpoken("")
	s.Begin(2*time.Second, "aaa bbb ccc ddd eee fff ggg hhh iii jjj")
	s.Grow(3 * time.Second)
	s.End()
	for position, want := range map[time.Duration]string{
		0:           "",
		2000 * ms:   "",
		2200 * ms:   "",
		2300 * ms:   "aaa",
		3500 * ms:   "aaa bbb ccc ddd eee",
		4990 * ms:   "aaa bbb ccc ddd eee fff ggg hhh iii",
		5000 * ms:   "aaa bbb ccc ddd eee fff ggg hhh iii jjj",
		time.Minute: "aaa bbb ccc ddd eee fff ggg hhh iii jjj",
	} {
		if got := s.Heard(position); got != want {
			t.Errorf("at %v heard %q, want %q", position, got, want)
		}
	}
}

func TestHeardByWordTimes(t *testing.T) {
	s := NewSpoken("")
	s.Begin(0, "Hello, Dr. Lee.")
	s.Word("Hello,", 200*ms)
	s.Word("Doctor", 300*ms)
	s.Grow(900 * ms)
	s.Word("Lee.", 800*ms)
	for position, want := range map[time.Duration]string{
		199 * ms: "", 200 * ms: "Hello,", 799 * ms: "Hello,", 800 * ms: "Hello, Dr. Lee.", time.Hour: "Hello, Dr. Lee.",
	} {
		if got := s.Heard(position); got != want {
			t.Errorf("at %v heard %q, want %q", position, got, want)
		}
	}
}

func TestAWordIsNotFoundInsideAnother(t *testing.T) {
	s := NewSpoken("")
	s.Begin(0, "thesis is")
	s.Word("is", 500*ms)
	s.Word("", 600*ms)
	s.Grow(time.Second)
	if got := s.Heard(600 * ms); got != "thesis is" {
		t.Errorf("heard %q", got)
	}
}

// A word that the voice said in the stead of another is not one that comes later.
func TestAWordIsNotFoundFarBehind(t *testing.T) {
	for _, c := range []struct {
		text  string
		words []string // 100 ms each
		heard []string // after each of them
	}{
		{"Press 2, or say two now.", strings.Fields("Press two, or say two now."),
			[]string{"Press", "Press", "Press 2, or", "Press 2, or say", "Press 2, or say two", "Press 2, or say two now."}},
		{"Press 2 for two rooms, please.", strings.Fields("Press two for two rooms, please."),
			[]string{"Press", "Press", "Press 2 for", "Press 2 for two", "Press 2 for two rooms,", "Press 2 for two rooms, please."}},
		// What no voice says, and what it says in more words, does not end the matching.
		{"At 10:30 – yes – in St. Ives.", strings.Fields("At ten thirty yes in Saint Ives."),
			[]string{"At", "At", "At", "At 10:30 – yes", "At 10:30 – yes – in", "At 10:30 – yes – in", "At 10:30 – yes – in St. Ives."}},
		{"按2，或者说二。", []string{"按", "二，", "或者", "说", "二。"},
			[]string{"按", "按", "按2，或者", "按2，或者说", "按2，或者说二。"}},
	} {
		s := NewSpoken("")
		s.Begin(0, c.text)
		for i, w := range c.words {
			s.Word(w, time.Duration(i+1)*100*ms)
		}
		s.Grow(time.Minute)
		for i, want := range c.heard {
			if got := s.Heard(time.Duration(i+1) * 100 * ms); got != want {
				t.Errorf("%q: after %q heard %q, want %q", c.text, c.words[:i+1], got, want)
			}
		}
	}
}

func TestWordTimesInAScriptWithoutSpaces(t *testing.T) {
	s := NewSpoken("")
	s.Begin(0, "你好。请说。")
	s.Word("你好。", 400*ms)
	s.Word("请说。", 900*ms)
	s.Grow(time.Second)
	s.End()
	if got := s.Heard(500 * ms); got != "你好。" {
		t.Errorf("heard %q", got)
	}
}

func TestHeardOverPieces(t *testing.T) {
	s := NewSpoken("")
	s.Begin(0, "One two.")
	s.Grow(800 * ms)
	s.End()
	s.Begin(800*ms, "\n Three four.")
	s.Grow(100 * ms)
	for position, want := range map[time.Duration]string{
		700 * ms:  "One",
		800 * ms:  "One two.",
		850 * ms:  "One two.",
		1300 * ms: "One two.", // only 100 ms of the second piece were made: more cannot have been heard
	} {
		if got := s.Heard(position); got != want {
			t.Errorf("at %v heard %q, want %q", position, got, want)
		}
	}
	s.Grow(1200 * ms)
	s.End()
	if got := s.Heard(1600 * ms); got != "One two.\n Three" {
		t.Errorf("heard %q", got)
	}
	if got := s.Heard(2 * time.Second); got != s.Text() || got != "One two.\n Three four." {
		t.Errorf("heard %q of %q", got, s.Text())
	}
}

func TestAPieceOfUnknownLengthIsTakenToBeAsSlowAsTheOnesBefore(t *testing.T) {
	s := NewSpoken("")
	s.Begin(0, "1234567890")
	s.Grow(time.Second)
	s.End()
	s.Begin(time.Second, "aaaa bbbb cccc dddd")
	s.Grow(600 * ms)
	if got := s.Heard(1600 * ms); got != "1234567890aaaa" {
		t.Errorf("heard %q", got)
	}
}

func TestThePieceTheVoiceBrokeOffIn(t *testing.T) {
	s := NewSpoken("")
	s.Fail()
	s.Grow(time.Hour)
	s.Word("nothing", 0)
	s.Begin(0, "One two three.")
	s.Word("One", 200*ms)
	s.Word("two", 400*ms)
	s.Grow(300 * ms)
	s.Fail()
	s.Begin(300*ms, " Sorry.")
	s.Grow(300 * ms)
	s.End()
	if got := s.Heard(time.Second); got != "One Sorry." || got != s.Text() {
		t.Errorf("heard %q of %q", got, s.Text())
	}
}

func TestPiecesWithoutSound(t *testing.T) {
	s := NewSpoken("")
	s.Begin(0, "—")
	s.End()
	s.Begin(0, " One.")
	s.Grow(200 * ms)
	s.End()
	s.Begin(200*ms, " …")
	s.End()
	for position, want := range map[time.Duration]string{0: "", 100 * ms: "—", 200 * ms: "— One. …"} {
		if got := s.Heard(position); got != want {
			t.Errorf("at %v heard %q, want %q", position, got, want)
		}
	}
}

func TestSpeechThatGoesOn(t *testing.T) {
	s := NewSpoken("One two")
	if got := s.Heard(0); got != "One two" {
		t.Errorf("heard %q", got)
	}
	s.Begin(5*time.Second, " three.")
	s.Grow(time.Second)
	s.End()
	if got := s.Heard(6 * time.Second); got != "One two three." {
		t.Errorf("heard %q", got)
	}
}

func FuzzHeard(f *testing.F) {
	f.Add("Hello, this is Parley. How may I help?", " 39.99 for Dr. Lee", uint16(900), uint16(700), true)
	f.Add("你好，世界。เชียงใหม่", "\n नमस्ते दुनिया", uint16(300), uint16(1), false)
	f.Add("e\u0301 👩\u200d👩\u200d👧 x", "", uint16(20), uint16(0), true)
	f.Add("a", "\u3000b", uint16(20), uint16(3), false)
	f.Fuzz(func(t *testing.T, first, second string, a, b uint16, timed bool) {
		if !utf8.ValidString(first) || !utf8.ValidString(second) {
			t.Skip() // a Splitter parts no rune, and the agents give no invalid ones
		}
		s := NewSpoken("")
		at := time.Duration(0)
		for i, text := range []string{first, second} {
			length := time.Duration([]uint16{a, b}[i]) * ms
			s.Begin(at, text)
			if timed {
				words := strings.Fields(text)
				for j, w := range words {
					s.Word(w, length*time.Duration(j+1)/time.Duration(len(words)))
				}
			}
			s.Grow(length)
			if i == 0 || a%2 == 0 {
				s.End()
			}
			at += length
		}
		whole, before := s.Text(), ""
		if whole != first+second {
			t.Fatalf("text %q of %q and %q", whole, first, second)
		}
		for position := time.Duration(-20) * ms; position <= at+20*ms; position += max(at/40, ms) {
			heard := s.Heard(position)
			switch {
			case !strings.HasPrefix(whole, heard):
				t.Fatalf("%q is no prefix of %q", heard, whole)
			case len(heard) < len(before):
				t.Fatalf("at %v heard %q, but %q before", position, heard, before)
			case !wordEndsAt(whole, len(heard)) && len(heard) != len(first):
				t.Fatalf("%q ends within a word of %q", heard, whole)
			case !utf8.ValidString(heard):
				t.Fatalf("%q holds half a rune", heard)
			case heard != strings.TrimRightFunc(heard, unicode.IsSpace):
				t.Fatalf("%q ends with white space", heard)
			}
			before = heard
		}
	})
}
