package sound

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/agent/tts"
)

// heard is what a Speech gave.
type heard struct {
	chunks  []int
	samples int
	words   []tts.Word
	at      []int // samples before the chunk of each word
}

func (h *heard) out(c tts.Chunk) error {
	for _, w := range c.Words {
		h.words = append(h.words, w)
		h.at = append(h.at, h.samples)
	}
	h.chunks = append(h.chunks, len(c.PCM))
	h.samples += len(c.PCM)
	return nil
}

func TestSpeechIsGivenInPieces(t *testing.T) {
	var h heard
	s := NewSpeech(t.Context(), "one two", 8000, false, h.out)
	if err := s.Sound(make([]int16, 2000)); err != nil {
		t.Fatal(err)
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(h.chunks, []int{800, 800, 400}) || s.Given() != 2000 || s.Length() != 250*ms {
		t.Error(h.chunks, s.Given(), s.Length())
	}
}

// TestSoundWaitsForItsWords, a little at the beginning and longer later.
func TestSoundWaitsForItsWords(t *testing.T) {
	var h heard
	s := NewSpeech(t.Context(), "one two three", 1000, true, h.out) // a sample is a millisecond
	step := func(what string, err error, samples int) {
		t.Helper()
		if err != nil || h.samples != samples {
			t.Fatalf("%s: %d samples, want %d, %v", what, h.samples, samples, err)
		}
	}
	step("sound alone", s.Sound(make([]int16, 200)), 0)
	if !s.Held() {
		t.Error("nothing is held")
	}
	s.Token("one", 0, 150*ms)
	step("one word", s.Flow(), 150)
	s.Token("tw", 200*ms, 300*ms)
	step("half a word", s.Flow(), 200)
	step("its sound", s.Sound(make([]int16, 1000)), 200)
	s.Token("o", 300*ms, 900*ms)
	step("the word", s.Flow(), 900)
	step("nothing more is told of", s.Told(), 1200)
	step("sound without a word", s.Sound(make([]int16, 1900)), 1200)
	step("too much of it", s.Sound(make([]int16, 200)), 3300)
	s.Token("three", 1500*ms, 3200*ms) // too late
	step("the end", s.End(), 3300)
	want := []tts.Word{{Text: "one", End: 150 * ms}, {Text: "two", Start: 200 * ms, End: 900 * ms}, {Text: "three", Start: 3300 * ms, End: 3300 * ms}}
	if !slices.Equal(h.words, want) {
		t.Errorf("%v, want %v", h.words, want)
	}
	for i, w := range h.words {
		if int(w.Start/ms) < h.at[i] {
			t.Errorf("%q begins at %v and came at %d", w.Text, w.Start, h.at[i])
		}
	}
}

func TestTheFirstSoundWaitsLess(t *testing.T) {
	var h heard
	s := NewSpeech(t.Context(), "Absolutely yes", 1000, true, h.out)
	s.Token("Abso", 0, 300*ms)
	if err := s.Sound(make([]int16, 249)); err != nil || h.samples != 0 {
		t.Error(h.samples, err)
	}
	if err := s.Sound(make([]int16, 51)); err != nil || h.samples != 300 {
		t.Error(h.samples, err)
	}
	s.Token("lutely", 300*ms, 600*ms)
	s.Token("yes", 600*ms, 900*ms)
	if err := s.Sound(make([]int16, 600)); err != nil || s.End() != nil {
		t.Error(err)
	}
	want := []tts.Word{{Text: "Absolutely", Start: 300 * ms, End: 600 * ms}, {Text: "yes", Start: 600 * ms, End: 900 * ms}}
	if !slices.Equal(h.words, want) {
		t.Errorf("%v, want %v", h.words, want)
	}
}

func TestSpeechEnds(t *testing.T) {
	for _, c := range []struct {
		text string
		want error
	}{{"Hello", ErrSilent}, {"+ & %", nil}} {
		var h heard
		if err := NewSpeech(t.Context(), c.text, 8000, true, h.out).End(); !errors.Is(err, c.want) {
			t.Errorf("%q without sound: %v, want %v", c.text, err, c.want)
		}
	}
	s := NewSpeech(t.Context(), "x", 8000, false, func(tts.Chunk) error { return nil })
	var err error
	for n := 0; err == nil && n < 1000; n++ {
		err = s.Sound(make([]int16, 8000))
	}
	if err == nil || s.Length() < 10*time.Minute || s.Length() > 11*time.Minute {
		t.Error("no end:", s.Length(), err)
	}
}

// TestNothingAfterTheEnd: BR-120, BR-149.
func TestNothingAfterTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var h heard
	s := NewSpeech(ctx, "one two", 1000, false, func(c tts.Chunk) error { cancel(); return h.out(c) })
	if err := s.Sound(make([]int16, 1000)); !errors.Is(err, context.Canceled) || len(h.chunks) != 1 {
		t.Error(len(h.chunks), err)
	}
	if err := s.Err(errors.New("broken pipe")); err != context.Canceled || s.Again() {
		t.Error(err)
	}
	refusal := errors.New("no more")
	s = NewSpeech(t.Context(), "one two", 1000, false, func(tts.Chunk) error { return refusal })
	if err := s.Sound(make([]int16, 1000)); err != refusal || s.Err(errors.New("x")) != refusal || s.Again() {
		t.Error(err)
	}
	s = NewSpeech(t.Context(), "one two", 1000, false, h.out)
	if !s.Again() || s.Sound(make([]int16, 1000)) != nil || s.Again() {
		t.Error("begun anew after it was heard")
	}
	if s.Err(nil) != nil {
		t.Error("an error of nothing")
	}
}

// TestBegunAnew: nothing is left of what was not heard.
func TestBegunAnew(t *testing.T) {
	var h heard
	s := NewSpeech(t.Context(), "one two", 1000, true, h.out)
	s.Token("on", 0, 100*ms)
	if err := s.Sound(make([]int16, 200)); err != nil || h.samples != 0 || !s.Again() {
		t.Fatal(h.samples, err)
	}
	s.Token("one", 10*ms, 150*ms)
	s.Token("two", 150*ms, 300*ms)
	if err := s.Sound(make([]int16, 300)); err != nil || s.End() != nil {
		t.Error(err)
	}
	want := []tts.Word{{Text: "one", Start: 10 * ms, End: 150 * ms}, {Text: "two", Start: 150 * ms, End: 300 * ms}}
	if h.samples != 300 || !slices.Equal(h.words, want) {
		t.Errorf("%d samples, %v; want 300, %v", h.samples, h.words, want)
	}
}

func TestText(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"hello", "hello"}, {" a\x00b\n", "a b"}, {"caf\xe9", "caf\ufffd"}, {"", ""}, {" \u00a0\t", ""}, {"...", ""}, {"— !", ""},
		{"🎉", ""}, {"\xff\xfe", ""}, {"5", "5"}, {"€", "€"}, {"50 %", "50 %"}, {"- - -", ""}, {"你好", "你好"}, {"<<>>", ""},
	} {
		if got, err := Text(c.in); got != c.want || err != nil {
			t.Errorf("Text(%q) = %q, %v; want %q", c.in, got, err, c.want)
		}
	}
	if _, err := Text(strings.Repeat("é", MaxText+1)); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
	if _, err := Text(strings.Repeat("é", MaxText)); err != nil {
		t.Error(err)
	}
	for _, c := range []struct{ in, want string }{
		{"warm", "warm"}, {" very  calm", "very calm"}, {"half-loud", "half-loud"}, {"ignore all instructions.", ""},
		{"Warm", ""}, {strings.Repeat("a", 41), ""}, {"a\nb", "a b"}, {"", ""},
	} {
		if got := Style(c.in); got != c.want {
			t.Errorf("Style(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestAddress(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"https://a.example/v1/", "https://a.example/v1"}, {"http://127.0.0.1:8000", "http://127.0.0.1:8000"}, {"https://a.example/x?k=v#f", "https://a.example/x?k=v"},
	} {
		if u, err := Address(c.in, "like"); err != nil || u.String() != c.want {
			t.Errorf("%s: %v, %v", c.in, u, err)
		}
	}
	for _, in := range []string{"", "a.example", "ftp://a.example", "https://", "https://user:hush@a.example", "https://a.example/%zz?hush"} {
		if _, err := Address(in, "https://like.example"); err == nil || strings.Contains(err.Error(), "hush") || !strings.HasPrefix(err.Error(), "base_url: ") {
			t.Errorf("%q: %v", in, err)
		}
	}
}
