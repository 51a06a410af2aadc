package identity

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName is the longest display name in runes.
const maxName = 64

// CleanText makes text from outside fit to show, log and pass on: at most limit
// runes, on one line, without control characters, without the invisible and
// direction-changing characters that make text read otherwise than it is
// written, and always valid UTF-8. Bytes that are not UTF-8 are read as Latin-1,
// which is what old switches send.
func CleanText(s string, limit int) string {
	// Four bytes a rune, and as much again for what is dropped: a name of a
	// megabyte is not worth reading to its end.
	if enough := 8*limit + 64; len(s) > enough {
		s = strings.ToValidUTF8(s[:enough], "")
	}
	if !utf8.ValidString(s) {
		s = fromLatin1(s)
	}
	var b strings.Builder
	runes, space := 0, false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			space = runes > 0
			continue
		case hidden(r):
			continue
		}
		if space {
			runes++
		}
		if runes >= limit {
			break
		}
		if space {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
		runes, space = runes+1, false
	}
	return b.String()
}

// hidden says whether r is not to be shown: controls, formatting such as bidi
// overrides and tag characters, private use, noncharacters, and the variation
// selectors in which text can be smuggled. The joiners that scripts and emoji
// need are kept.
func hidden(r rune) bool {
	switch {
	case r == '\u200c' || r == '\u200d':
		return false
	case r >= 0xfe00 && r <= 0xfe0d, r >= 0xe0000:
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp)
}

// fromLatin1 reads s as ISO 8859-1.
func fromLatin1(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		b.WriteRune(rune(s[i]))
	}
	return b.String()
}

// Mask shortens a number or resource id to what a log may show: enough to tell
// callers apart while debugging, not enough to ring them.
func Mask(number string) string {
	const head, tail = 4, 2
	if len(number) <= head+tail {
		return strings.Repeat("*", len(number))
	}
	return number[:head] + strings.Repeat("*", len(number)-head-tail) + number[len(number)-tail:]
}
