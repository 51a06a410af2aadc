package flite

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxPiece is how many characters are synthesised at once. The whole piece is
// analysed before its first sound, so this bounds the time to the first sound, the
// memory, and how long others wait for the voice.
const maxPiece = 160

// firstPiece is the length from which the first piece of a text may end at a
// comma: the caller hears the start of the answer sooner.
const firstPiece = 40

// maxWord is the longest run without a space that is read as one word.
const maxWord = 60

// word is a word of the text: as it stands there, and as flite shall read it.
type word struct {
	text   string
	spoken string
}

// piece is a stretch of the text that is synthesised at once.
type piece struct {
	words []word
	text  string // what flite reads: ASCII, no control characters
	start []int  // where each word begins in text
}

// read turns text into pieces. Nothing to pronounce gives none.
func read(text string) ([]piece, error) {
	if utf8.RuneCountInString(text) > MaxText {
		return nil, ErrTooLong
	}
	var words []word
	letters, spoken := false, false
	for _, t := range strings.Fields(strings.Map(controls, strings.ToValidUTF8(text, "\uFFFD"))) {
		for _, part := range cut(t) {
			w := word{text: part, spoken: ascii(part)}
			letters = letters || strings.ContainsFunc(part, unicode.IsLetter)
			spoken = spoken || strings.ContainsFunc(w.spoken, isAlnum)
			words = append(words, w)
		}
	}
	if !spoken {
		if letters {
			return nil, ErrLanguage
		}
		return nil, nil
	}
	return pieces(words), nil
}

// controls turns control characters into spaces: flite reads C strings.
func controls(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}

// cut splits a word that is too long to be one.
func cut(s string) []string {
	if len(s) <= maxWord {
		return []string{s}
	}
	var out []string
	runes := []rune(s)
	for len(runes) > maxWord {
		out = append(out, string(runes[:maxWord]))
		runes = runes[maxWord:]
	}
	return append(out, string(runes))
}

// pieces joins words into pieces of at most maxPiece characters that end where a
// speaker would pause: after a sentence, else after a comma, else anywhere.
func pieces(words []word) []piece {
	var out []piece
	for len(words) > 0 {
		n := take(words, len(out) == 0)
		p := piece{words: words[:n]}
		var b strings.Builder
		for _, w := range p.words {
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
			p.start = append(p.start, b.Len())
			b.WriteString(w.spoken)
		}
		p.text = b.String()
		out = append(out, p)
		words = words[n:]
	}
	return out
}

// take says how many of the words the next piece has.
func take(words []word, first bool) int {
	length, sentence, clause := 0, 0, 0
	for i, w := range words {
		length += len(w.spoken) + 1
		if length > maxPiece && i > 0 {
			switch {
			case sentence > 0:
				return sentence
			case clause > 0:
				return clause
			}
			return i
		}
		switch {
		case endsSentence(w.text):
			sentence = i + 1
		case endsClause(w.text):
			clause = i + 1
			if first && length >= firstPiece && i+1 < len(words) {
				return clause
			}
		}
	}
	return len(words)
}

// endsSentence is careful with "Dr." and "e.g.": cut there, flite would read them
// differently, so a full stop counts only after a longer word.
func endsSentence(w string) bool {
	w = strings.TrimRight(w, `"')]”’`)
	if strings.HasSuffix(w, "?") || strings.HasSuffix(w, "!") {
		return true
	}
	return strings.HasSuffix(w, ".") && len(w) > 4 && !strings.Contains(w[:len(w)-1], ".")
}

func endsClause(w string) bool {
	w = strings.TrimRight(w, `"')]”’`)
	return strings.HasSuffix(w, ",") || strings.HasSuffix(w, ";") || strings.HasSuffix(w, ":")
}

// ascii spells s for flite, which knows nothing else. What has no spelling is left
// out.
func ascii(s string) string {
	if isASCII(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if t, ok := spelling(r); ok {
			b.WriteString(t)
			continue
		}
		for _, d := range norm.NFKD.String(string(r)) {
			if t, ok := spelling(d); ok {
				b.WriteString(t)
			} else if d < utf8.RuneSelf && d >= ' ' {
				b.WriteRune(d)
			}
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// spelling is how an English reader says what has no decomposition into ASCII.
func spelling(r rune) (string, bool) {
	switch r {
	case '‘', '’', '‚', '′':
		return "'", true
	case '“', '”', '„', '«', '»', '″':
		return `"`, true
	case '‐', '‑', '‒', '⁃':
		return "-", true
	case '–', '—', '―':
		return ", ", true
	case 'ß':
		return "ss", true
	case 'Æ', 'æ':
		return "ae", true
	case 'Œ', 'œ':
		return "oe", true
	case 'Ø', 'ø':
		return "o", true
	case 'Đ', 'đ', 'Ð', 'ð':
		return "d", true
	case 'Ł', 'ł':
		return "l", true
	case 'Þ', 'þ':
		return "th", true
	case 'ı':
		return "i", true
	case '€':
		return " euros ", true
	case '£':
		return " pounds ", true
	case '¥':
		return " yen ", true
	case '°':
		return " degrees ", true
	case '×':
		return " times ", true
	case '½':
		return " one half ", true
	case '¼':
		return " one quarter ", true
	}
	return "", false
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func isAlnum(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}
