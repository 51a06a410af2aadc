package sound

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"parley/agent/tts"
)

// script finds the words of a text in what a service says of its sound: words or letters
// with times, which may be spelled otherwise ("forty" for "40"), or left out.
type script struct {
	words []scriptWord
	keys  []rune // the letters and digits of all words
	at    int    // of keys: what is expected next
	cur   int    // of words: the first that is not closed
	ready []tts.Word
	last  time.Duration // the end of the last closed word
	until time.Duration // what was told of
	told  bool
	stray []stray
}

type scriptWord struct {
	text       string
	to         int // of keys: behind its last
	begun      bool
	start, end time.Duration
}

// stray is a letter that was told of and not expected.
type stray struct {
	r          rune
	start, end time.Duration
}

const (
	// resync is how many letters in a row must be those of a word further on, for the
	// service to be there. reach is how far on it is looked for.
	resync, reach = 3, 48
	// maxStray bounds what is remembered of letters that were not expected.
	maxStray = 96
)

func newScript(text string) *script {
	s := &script{}
	for _, w := range strings.Fields(text) {
		s.keys = appendKeys(s.keys, w)
		s.words = append(s.words, scriptWord{text: w, to: len(s.keys)})
	}
	return s
}

func appendKeys(keys []rune, text string) []rune {
	for _, r := range text {
		if isKey(r) {
			keys = append(keys, unicode.ToLower(r))
		}
	}
	return keys
}

// token takes a piece of what is spoken: a word, a letter, or punctuation.
func (s *script) token(text string, start, end time.Duration) {
	start = max(start, 0)
	end = max(end, start)
	s.until = max(s.until, end)
	keys := appendKeys(nil, text)
	for _, r := range keys {
		s.told = true
		if len(s.stray) == 0 && s.at < len(s.keys) && s.keys[s.at] == r {
			s.consume(start, end)
			continue
		}
		if len(s.stray) == maxStray {
			first := s.stray[0]
			s.stray = slices.Delete(s.stray, 0, maxStray/2)
			s.stray[0].start = first.start // still the sound of the same word
		}
		s.stray = append(s.stray, stray{r, start, end})
		s.find()
	}
	s.findWord(len(keys))
}

// consume takes the letter that was expected.
func (s *script) consume(start, end time.Duration) {
	s.passBare()
	w := &s.words[s.cur]
	if !w.begun {
		w.begun, w.start = true, max(start, s.last)
	}
	w.end = max(end, w.start)
	if s.at++; s.at == w.to {
		s.close()
	}
}

// close closes the current word, and those after it that have no letters.
func (s *script) close() {
	w := s.words[s.cur]
	s.ready = append(s.ready, tts.Word{Text: w.text, Start: w.start, End: w.end})
	s.last = w.end
	s.cur++
	s.passBare()
}

// passBare closes words without letters: they are empty at the end of the one before.
func (s *script) passBare() {
	for s.cur < len(s.words) && s.words[s.cur].to == s.at && !s.words[s.cur].begun {
		s.ready = append(s.ready, tts.Word{Text: s.words[s.cur].text, Start: s.last, End: s.last})
		s.cur++
	}
}

// find looks whether the letters that were not expected are those of a word further on.
func (s *script) find() {
	for n := min(len(s.stray), reach); n >= resync; n-- {
		tail := s.stray[len(s.stray)-n:]
		begin := s.at
		for i := s.cur; i < len(s.words) && begin <= s.at+reach; i++ {
			if i > s.cur {
				begin = s.words[i-1].to
			}
			if begin+n <= len(s.keys) && (begin > s.at || !s.words[s.cur].begun) && same(s.keys[begin:begin+n], tail) {
				s.jump(i, begin, len(s.stray)-n)
				return
			}
		}
	}
}

// findWord looks whether the last n letters, which came as one word, are one of the next.
func (s *script) findWord(n int) {
	const next = 4
	if n < 2 || n > len(s.stray) {
		return
	}
	tail := s.stray[len(s.stray)-n:]
	for i := s.cur + 1; i < min(s.cur+next, len(s.words)); i++ {
		begin := s.words[i-1].to
		if s.words[i].to-begin == n && same(s.keys[begin:begin+n], tail) {
			s.jump(i, begin, len(s.stray)-n)
			return
		}
	}
}

func same(keys []rune, letters []stray) bool {
	for i, k := range keys {
		if letters[i].r != k {
			return false
		}
	}
	return true
}

// jump goes on at a word, whose first letter is keys[begin]. The first n of the stray
// letters were the sound of what is passed.
func (s *script) jump(word, begin, n int) {
	letters := s.stray
	s.stray = nil
	from, to := s.last, letters[n].start
	if n > 0 {
		from, to = letters[0].start, letters[n-1].end
	}
	for s.cur < word {
		s.pass(from, to)
	}
	s.at = begin
	for _, l := range letters[n:] {
		s.consume(l.start, l.end)
	}
}

// pass closes a word that was not told of as it is written, but must have been spoken from
// one time to another.
func (s *script) pass(from, to time.Duration) {
	w := &s.words[s.cur]
	bare := s.cur > 0 && s.words[s.cur-1].to == w.to || s.cur == 0 && w.to == 0
	switch {
	case bare:
		w.start, w.end = s.last, s.last
	case !w.begun:
		w.start, w.end = max(from, s.last), max(to, from, s.last)
	default:
		w.end = max(w.end, to)
	}
	s.at = w.to
	s.ready = append(s.ready, tts.Word{Text: w.text, Start: w.start, End: w.end})
	s.last = max(s.last, w.start) // several of them share the time
	if s.cur++; s.cur == len(s.words) || bare {
		s.last = max(s.last, w.end)
	}
}

// known is the time up to which all words are: where the one begins whose end is not.
func (s *script) known() time.Duration {
	if s.cur < len(s.words) && s.words[s.cur].begun {
		return s.words[s.cur].start
	}
	if len(s.stray) > 0 {
		return s.stray[0].start
	}
	return s.until
}

// finish closes what is left, when the sound ends. A service that told of nothing has no
// words.
func (s *script) finish(end time.Duration) {
	if !s.told {
		return
	}
	from := s.last
	if n := len(s.stray); n > 0 {
		from, end = s.stray[0].start, max(end, s.stray[n-1].end)
	}
	for s.cur < len(s.words) {
		s.pass(from, end)
	}
}

// take takes the words that begin before a time.
func (s *script) take(before time.Duration) []tts.Word {
	n := 0
	for n < len(s.ready) && s.ready[n].Start < before {
		n++
	}
	out := slices.Clone(s.ready[:n])
	s.ready = slices.Delete(s.ready, 0, n)
	return out
}
