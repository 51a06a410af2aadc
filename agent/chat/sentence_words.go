package chat

import (
	_ "embed"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// sentence decides whether a sentence ends at end, where white space begins (or
// the text has stopped for now).
func (s *Splitter) sentence(end int) int {
	t := s.tail(end)
	switch {
	case t.marks == 0:
		return goesOn
	case !t.dots:
		return end
	case t.marks > 1:
		return s.unless(end, unicode.IsLower)
	}
	before := s.buf[s.content:t.start]
	word := lastWord(before)
	switch s.words.kind(word) {
	case never:
		return goesOn
	case wait:
		return s.unless(end, func(r rune) bool { return unicode.IsLower(r) || unicode.IsDigit(r) })
	case number:
		return s.unless(end, func(r rune) bool { return unicode.IsDigit(r) || r == '#' })
	case digits:
		if s.label(before[:len(before)-len(word)], word) {
			return goesOn
		}
		if s.words.ordinal && len(word) <= 2 {
			return s.unless(end, unicode.IsLetter)
		}
	}
	return end
}

// unless says that a sentence ends at end unless the next word begins with a rune
// that tells otherwise.
func (s *Splitter) unless(end int, tells func(rune) bool) int {
	for i, n := end, s.runes; n <= runOnRunes; n++ {
		if !utf8.FullRune(s.buf[i:]) {
			return undecided
		}
		r, size := utf8.DecodeRune(s.buf[i:])
		switch {
		case newline(r):
			return end
		case unicode.IsSpace(r) || closes(r) || unicode.In(r, unicode.Ps, unicode.Pi):
			i += size
		case tells(r):
			return goesOn
		default:
			return end
		}
	}
	return goesOn // what would decide is too far away to wait for
}

// label tells whether a number with a full stop is the label of an item, as in
// "1. Pizza" at the head of a line or in "we have: 1. Pizza, 2. Pasta".
func (s *Splitter) label(before, word []byte) bool {
	if len(word) > 3 {
		return false
	}
	for len(before) > 0 {
		r, size := utf8.DecodeLastRune(before)
		switch {
		case r == ',' || r == ';' || r == ':':
			return true
		case !unicode.IsSpace(r) && !unicode.IsPunct(r):
			return false
		}
		before = before[:len(before)-size]
	}
	return s.lineHead
}

// lastWord is what text ends with, back to white space or an opening mark.
func lastWord(text []byte) []byte {
	for i := len(text); i > 0; {
		r, size := utf8.DecodeLastRune(text[:i])
		if unicode.IsSpace(r) || closes(r) || unicode.In(r, unicode.Ps, unicode.Pi) || r == '—' || r == '/' {
			return text[i:]
		}
		i -= size
	}
	return text
}

// newline tells the runes that UAX #29 calls ParaSep.
func newline(r rune) bool {
	switch r {
	case '\n', '\r', '\u0085', '\u2028', '\u2029':
		return true
	}
	return false
}

// terminates tells the marks that end a sentence, and the ellipsis, which may.
func terminates(r rune) bool {
	if r < utf8.RuneSelf {
		return r == '.' || r == '!' || r == '?'
	}
	// The Khmer marks came to Unicode's list after this version of Go.
	return r == '…' || r == '។' || r == '៕' || unicode.Is(unicode.Sentence_Terminal, r)
}

// closes tells what may stand between the end of a sentence and the white space
// after it: quotes, brackets, the marks of Markdown, combining marks.
func closes(r rune) bool {
	switch r {
	case '"', '\'', ')', ']', '}', '*', '_', '`', '~':
		return true
	}
	if r < utf8.RuneSelf {
		return false
	}
	return unicode.In(r, unicode.Pe, unicode.Pf, unicode.Mn, unicode.Quotation_Mark)
}

// continues tells the marks after which a sentence goes on although a terminator
// stood before them (UAX #29 SContinue).
func continues(r rune) bool {
	switch r {
	case ',', '-', ':', ';', '–', '—', '，', '、', '：', '；', '،', '؛':
		return true
	}
	return false
}

// ideographic tells the scripts that write sentences without white space between.
func ideographic(r rune) bool {
	return r >= 0x2E80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana)
}

func wide(r rune) bool { return ideographic(r) || unicode.Is(unicode.Hangul, r) }

// wordKind says what a full stop after a word means.
type wordKind uint8

const (
	plain  wordKind = iota // the end of a sentence
	never                  // part of the word
	wait                   // the end, when a capital follows
	number                 // the end, unless a digit follows
	digits                 // the word is a number
)

// abbreviations are those of one language. They do not change after they were read.
type abbreviations struct {
	kinds   map[string]wordKind
	ordinal bool
}

// kind says what a full stop after word means.
func (a *abbreviations) kind(word []byte) wordKind {
	w := string(word)
	if k, ok := a.kinds[w]; ok {
		return k
	}
	lower := strings.ToLower(w)
	if k, ok := a.kinds[lower]; ok {
		return k
	}
	upper := w == strings.ToUpper(w) && w != lower
	if upper && utf8.RuneCountInString(w) > 1 {
		if k, ok := a.kinds[capitalized(lower)]; ok {
			return k
		}
	}
	switch {
	case w == "":
		return plain
	case strings.Trim(w, "0123456789") == "":
		return digits
	case initials(w) && upper:
		return never
	case initials(w), consonants(w):
		return wait
	}
	return plain
}

func capitalized(w string) string {
	r, size := utf8.DecodeRuneInString(w)
	return string(unicode.ToUpper(r)) + w[size:]
}

// initials tells single letters with full stops between: "J", "p.m".
func initials(w string) bool {
	for part := range strings.SplitSeq(w, ".") {
		r, size := utf8.DecodeRuneInString(part)
		if size != len(part) || !unicode.IsUpper(r) && !unicode.IsLower(r) {
			return false
		}
	}
	return true
}

// consonants tells words that cannot be said as they stand, such as "Bldg".
func consonants(w string) bool {
	for i := range len(w) {
		c := w[i] | 0x20
		if c < 'a' || c > 'z' || strings.IndexByte("aeiouy", c) >= 0 {
			return false
		}
	}
	return true
}

//go:embed sentence_abbreviations.txt
var abbreviationText string

// allAbbreviations reads the embedded file once; the result is never changed.
var allAbbreviations = sync.OnceValue(func() map[string]*abbreviations {
	return readAbbreviations(abbreviationText)
})

func abbreviationsFor(language string) *abbreviations {
	all := allAbbreviations()
	tag := strings.ToLower(language)
	if i := strings.IndexAny(tag, "-_"); i >= 0 {
		tag = tag[:i]
	}
	if tag == "no" || tag == "nn" {
		tag = "nb"
	}
	if a, ok := all[tag]; ok {
		return a
	}
	return all["common"]
}

// readAbbreviations reads the format that the head of the file explains.
func readAbbreviations(text string) map[string]*abbreviations {
	all := make(map[string]*abbreviations)
	var current *abbreviations
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if name := fields[0]; name[0] == '[' {
			current = &abbreviations{kinds: make(map[string]wordKind)}
			if common := all["common"]; common != nil {
				for w, k := range common.kinds {
					current.kinds[w] = k
				}
			}
			all[strings.Trim(name, "[]")] = current
			continue
		}
		kinds := map[string]wordKind{"never": never, "wait": wait, "number": number}
		if fields[0] == "ordinal" {
			current.ordinal = true
			continue
		}
		for _, w := range fields[1:] {
			current.kinds[w] = kinds[fields[0]]
		}
	}
	return all
}
