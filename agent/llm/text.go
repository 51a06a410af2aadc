package llm

import "unicode/utf8"

// WholeRunes is how many bytes of b do not belong to a rune that is yet to be
// completed. Invalid bytes complete nothing and count as whole.
func WholeRunes(b []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(b); back++ {
		if i := len(b) - back; utf8.RuneStart(b[i]) {
			if utf8.FullRune(b[i:]) {
				return len(b)
			}
			return i
		}
	}
	return len(b)
}

// ValidText is s with U+FFFD for each invalid byte.
func ValidText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}
