package script

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// numerals are the words for the digits of a language.
type numerals struct {
	spoken [10]string      // the first word of each
	digit  map[string]byte // all of them
	larger map[string]string
}

var englishDigits = []string{"zero oh", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"}

// englishLarger are the English words for more than one digit, as they are said in
// numbers that are read out: "twenty one" is 21. A trailing 0 gives way to a digit.
var englishLarger = map[string]string{
	"ten": "10", "eleven": "11", "twelve": "12", "thirteen": "13", "fourteen": "14", "fifteen": "15",
	"sixteen": "16", "seventeen": "17", "eighteen": "18", "nineteen": "19",
	"twenty": "20", "thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70", "eighty": "80", "ninety": "90",
}

// englishAlike are what recognisers write for digits when no grammar binds them.
var englishAlike = map[string]byte{"o": '0', "won": '1', "to": '2', "too": '2', "for": '4', "fore": '4', "ate": '8'}

// newNumerals reads ten strings, each of the words for a digit.
func newNumerals(words []string) numerals {
	n := numerals{digit: make(map[string]byte)}
	for i, w := range words {
		for j, word := range strings.Fields(w) {
			word = strings.Join(tokens(word), "")
			if j == 0 {
				n.spoken[i] = word
			}
			n.digit[word] = byte('0' + i)
		}
	}
	if slices.Equal(words, englishDigits) {
		n.larger = englishLarger
	}
	return n
}

// tokens are the words of a text in lower case, without marks.
func tokens(text string) []string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '’' || r == '\'':
			return '\''
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			return unicode.ToLower(r)
		}
		return ' '
	}, text)
	words := strings.Fields(text)
	for i, w := range words {
		words[i] = strings.Trim(w, "'")
	}
	return slices.DeleteFunc(words, func(w string) bool { return w == "" })
}

// words are the tokens of a text with digits spelled, as they are said.
func (n numerals) words(text string) []string {
	var out []string
	for _, w := range tokens(text) {
		if !strings.ContainsFunc(w, asciiDigit) {
			out = append(out, w)
			continue
		}
		rest := w
		for rest != "" {
			if c := rest[0]; c >= '0' && c <= '9' {
				out, rest = append(out, n.spoken[c-'0']), rest[1:]
				continue
			}
			end := strings.IndexFunc(rest, asciiDigit)
			if end < 0 {
				end = len(rest)
			}
			out, rest = append(out, rest[:end]), rest[end:]
		}
	}
	return out
}

func asciiDigit(r rune) bool { return r >= '0' && r <= '9' }

// say spells a number for the voice.
func (n numerals) say(number string) string {
	var words []string
	for _, r := range number {
		if asciiDigit(r) {
			words = append(words, n.spoken[r-'0'])
		}
	}
	return strings.Join(words, " ")
}

// number is the digits that were said, among other words or alone.
func (n numerals) number(words []string) string {
	var out []byte
	alike := n.larger != nil && !slices.ContainsFunc(words, func(w string) bool { return !n.numeric(w) })
	for i := 0; i < len(words); i++ {
		w := words[i]
		if d, ok := n.digit[w]; ok {
			out = append(out, d)
			continue
		}
		if more, ok := n.larger[w]; ok {
			out = append(out, more...)
			// "twenty one", but not "twenty zero" or "ten one".
			if i+1 < len(words) && more[1] == '0' && more[0] != '1' {
				if d := n.digit[words[i+1]]; d > '0' {
					out[len(out)-1] = d
					i++
				}
			}
			continue
		}
		if alike {
			out = append(out, englishAlike[w])
		}
	}
	return string(out)
}

// numeric tells a word that is, or sounds like, a number.
func (n numerals) numeric(w string) bool {
	_, digit := n.digit[w]
	_, larger := n.larger[w]
	_, alike := englishAlike[w]
	return digit || larger || alike
}

// find is where phrase stands in words; -1: nowhere.
func find(words, phrase []string) int {
	for i := 0; i+len(phrase) <= len(words); i++ {
		if slices.Equal(words[i:i+len(phrase)], phrase) {
			return i
		}
	}
	return -1
}

// match is the index of the phrase that was said: the longest of those that were,
// and of several the one said first.
func match(words []string, phrases [][]string) int {
	best, at, size := -1, 0, 0
	for i, p := range phrases {
		where, n := find(words, p), len(strings.Join(p, " "))
		if where < 0 {
			continue
		}
		if best < 0 || n > size || n == size && where < at {
			best, at, size = i, where, n
		}
	}
	return best
}

// spokenName makes a display name fit to be said: at most three words of letters.
// It comes from whoever calls; nothing but letters can do no harm.
func spokenName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r) || unicode.IsMark(r):
			return r
		case r == '-' || r == '\'' || r == '’':
			return r
		case unicode.IsSpace(r) || r == '.' || r == ',':
			return ' '
		}
		return -1
	}, name)
	words := strings.Fields(name)
	words = slices.DeleteFunc(words, func(w string) bool {
		r, _ := utf8.DecodeRuneInString(w)
		return !unicode.IsLetter(r) || utf8.RuneCountInString(w) > 20
	})
	if len(words) > 3 {
		return ""
	}
	return strings.Join(words, " ")
}
