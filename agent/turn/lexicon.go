package turn

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// lexicon is a Language made ready to look things up in. It is never changed.
type lexicon struct {
	listening phrases // backchannels and yes, their letters not counted: "mmmm" is "mm"
	calm      phrases // the same as they are
	commands  phrases // and no
	digits    phrases
	spelling  phrases
	ends      []string
}

// How much of a text is looked at, in bytes. Interims come ten times a second and grow
// with the turn; what matters is at their beginning, or at their end.
const (
	maxListening = 120 // a longer text is more than a backchannel
	maxLook      = 200
)

func newLexicon(l Language) *lexicon {
	x := &lexicon{listening: phrases{}, calm: phrases{}, commands: phrases{}, digits: phrases{}, spelling: phrases{}}
	for _, list := range [][]string{l.Backchannels, l.Yes} {
		for _, p := range list {
			x.calm.add(fold(p, maxPhrase))
			x.listening.add(stretched(fold(p, maxPhrase)))
		}
	}
	for _, list := range [][]string{l.Commands, l.No} {
		for _, p := range list {
			x.commands.add(fold(p, maxPhrase))
		}
	}
	for _, p := range l.Digits {
		x.digits.add(fold(p, maxPhrase))
	}
	for _, p := range l.Spelling {
		x.spelling.add(fold(p, maxPhrase))
	}
	for _, e := range l.SentenceEnds {
		x.ends = append(x.ends, strings.ToLower(norm.NFKC.String(strings.TrimSpace(e))))
	}
	return x
}

// with is x and more backchannels and commands.
func (x *lexicon) with(backchannels, commands []string) *lexicon {
	if len(backchannels)+len(commands) == 0 {
		return x
	}
	more := newLexicon(Language{Backchannels: backchannels, Commands: commands})
	more.digits, more.spelling, more.ends = x.digits, x.spelling, x.ends
	more.listening.join(x.listening)
	more.calm.join(x.calm)
	more.commands.join(x.commands)
	return more
}

// listens says whether text is nothing but what somebody says who listens.
func (x *lexicon) listens(text string) bool {
	if len(text) > maxListening {
		return false
	}
	words := stretched(fold(text, maxListening))
	return len(words) > 0 && x.listening.cover(words)
}

// commanding says whether there is a command in text, or a no, that is no part of a
// longer backchannel: "enough", but not "fair enough".
func (x *lexicon) commanding(text string) bool {
	for words := fold(text, maxLook); len(words) > 0; {
		calm, command := x.calm.longest(words), x.commands.longest(words)
		if command > 0 && command >= calm {
			return true
		}
		words = words[max(1, calm):]
	}
	return false
}

// gives says whether whoever says text is giving digits, or spells, and may not be done:
// three digits or letters at the end, two when there is nothing else, a letter and a word
// that joins it to the next, or such a word at the end. asked says that digits were asked
// for, so that one suffices.
func (x *lexicon) gives(text string, asked bool) bool {
	words := fold(tail(text, maxLook), maxLook)
	units, rest := 0, len(words)
	for rest > 0 {
		n, worth := x.unit(words[:rest])
		if n == 0 {
			break
		}
		units, rest = units+worth, rest-n
	}
	if units >= 3 || rest == 0 && len(words) >= 2 || asked && units > 0 || x.spelling.ends(words) {
		return true
	}
	for at := max(1, len(words)-4); at < len(words); at++ {
		if letter(words[at-1]) && x.spelling.longest(words[at:]) > 0 {
			return true
		}
	}
	return false
}

// unit is how many words at the end of words are one digit or letter, and how many
// digits they hold.
func (x *lexicon) unit(words []string) (n, worth int) {
	last := words[len(words)-1]
	if digits := numeral(last); digits > 0 {
		return 1, digits
	}
	if n = x.digits.endLength(words); n > 0 {
		return n, 1
	}
	if letter(last) {
		return 1, 1
	}
	return 0, 0
}

// letter says whether a word is one letter.
func letter(word string) bool {
	r, size := utf8.DecodeRuneInString(word)
	return size == len(word) && unicode.IsLetter(r) && !unspacedRune(r)
}

// count is how many digits text holds.
func (x *lexicon) count(text string) int {
	words, total := fold(tail(text, maxLook), maxLook), 0
	for len(words) > 0 {
		n, worth := x.unit(words)
		if n == 0 {
			n = 1
		}
		total, words = total+worth, words[:len(words)-n]
	}
	return total
}

// endsSentence says whether text ends with what ends a sentence, closing quotes and
// brackets aside. Dots that trail off do not.
func (x *lexicon) endsSentence(text string) bool {
	text = strings.TrimRightFunc(tail(text, maxLook), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.In(r, unicode.Pe, unicode.Pf, unicode.Quotation_Mark)
	})
	if strings.HasSuffix(text, "…") || strings.HasSuffix(text, "..") {
		return false
	}
	if r, _ := utf8.DecodeLastRuneInString(text); unicode.Is(unicode.Sentence_Terminal, r) {
		return true
	}
	text = strings.ToLower(norm.NFKC.String(text))
	return slices.ContainsFunc(x.ends, func(end string) bool { return strings.HasSuffix(text, end) })
}

// phrases are sequences of words by their first word.
type phrases map[string][][]string

func (p phrases) add(words []string) {
	if len(words) > 0 {
		p[words[0]] = append(p[words[0]], words)
	}
}

func (p phrases) join(more phrases) {
	for first, list := range more {
		p[first] = append(p[first], list...)
	}
}

// cover says whether words are nothing but phrases, one after the other.
func (p phrases) cover(words []string) bool {
	reached := make([]bool, len(words)+1)
	reached[0] = true
	for at := range words {
		if !reached[at] {
			continue
		}
		for _, phrase := range p[words[at]] {
			if begins(words[at:], phrase) {
				reached[at+len(phrase)] = true
			}
		}
	}
	return reached[len(words)]
}

// longest is how long the longest phrase is that words begin with.
func (p phrases) longest(words []string) (n int) {
	for _, phrase := range p[words[0]] {
		if begins(words, phrase) {
			n = max(n, len(phrase))
		}
	}
	return n
}

// within says whether a phrase is somewhere in words.
func (p phrases) within(words []string) bool {
	for at := range words {
		if p.longest(words[at:]) > 0 {
			return true
		}
	}
	return false
}

// ends says whether words end with a phrase.
func (p phrases) ends(words []string) bool { return p.endLength(words) > 0 }

// longestPhrase is more words than a phrase can have, each letter of Han being one.
const longestPhrase = 24

// endLength is how long the longest phrase is that words end with.
func (p phrases) endLength(words []string) int {
	for at := max(0, len(words)-longestPhrase); at < len(words); at++ {
		for _, phrase := range p[words[at]] {
			if len(phrase) == len(words)-at && begins(words[at:], phrase) {
				return len(phrase)
			}
		}
	}
	return 0
}

func begins(words, phrase []string) bool {
	return len(words) >= len(phrase) && slices.Equal(words[:len(phrase)], phrase)
}

// fold cuts the first so many bytes of text into words: lower case, without marks and
// apostrophes. Of scripts that are written without spaces each letter is a word.
func fold(text string, limit int) []string {
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "")
	}
	var b strings.Builder
	b.Grow(len(text) + 8)
	for _, r := range norm.NFKC.String(text) {
		switch r = unicode.ToLower(r); {
		case r == '\'' || r == '’' || r == 'ʼ' || r == utf8.RuneError:
		case unspacedRune(r):
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
		case unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r):
			b.WriteRune(r)
		default:
			b.WriteByte(' ')
		}
	}
	return strings.Fields(b.String())
}

// stretched takes out of words what is only said longer: letters that are doubled, and
// the marks of long vowels.
func stretched(words []string) []string {
	out := words[:0]
	for _, w := range words {
		var b strings.Builder
		var before rune
		for _, r := range w {
			if r != before && r != 'ー' && r != '〜' {
				b.WriteRune(r)
			}
			before = r
		}
		if b.Len() > 0 {
			out = append(out, b.String())
		}
	}
	return out
}

// numeral is how many digits a word holds that is nothing but digits.
func numeral(word string) (n int) {
	for _, r := range word {
		if !unicode.IsDigit(r) {
			return 0
		}
		n++
	}
	return n
}

func unspacedRune(r rune) bool {
	return r > unicode.MaxLatin1 && (r == 'ー' ||
		unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar))
}

func unspaced(text string) bool { return strings.ContainsFunc(text, unspacedRune) }

// tail is the last so many bytes of text, cut between two runes.
func tail(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = text[len(text)-limit:]
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return text
}
