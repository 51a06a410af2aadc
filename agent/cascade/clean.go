package cascade

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
)

// What events hold at most, in characters and in bytes of JSON.
const (
	maxName    = 100
	maxThought = 4000
	maxJSON    = 16 << 10
)

// clean bounds text to so many characters and takes what is not to be shown out of it:
// controls, direction marks, private use. White space becomes single spaces.
func clean(text string, limit int) string {
	if enough := 8*limit + 64; len(text) > enough {
		text = text[:enough]
	}
	var b strings.Builder
	n, space := 0, false
	for _, r := range strings.ToValidUTF8(text, "") {
		switch {
		case unicode.IsSpace(r):
			space = n > 0
			continue
		case unicode.In(r, unicode.C, unicode.Zl, unicode.Zp) && r != '\u200c' && r != '\u200d': // joiners are needed
			continue
		}
		if space {
			n++
		}
		if n >= limit {
			break
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
		n++
	}
	return b.String()
}

// cleanJSON is a JSON text without what is not to be shown, on one line. What is too long
// or no JSON becomes a text within JSON: readers can rely on it.
func cleanJSON(text string) string {
	if text == "" {
		return ""
	}
	var b bytes.Buffer
	if len(text) <= maxJSON && json.Compact(&b, []byte(text)) == nil {
		return strings.Map(func(r rune) rune {
			if unicode.In(r, unicode.C, unicode.Zl, unicode.Zp) && r != '\u200c' && r != '\u200d' {
				return -1
			}
			return r
		}, strings.ToValidUTF8(b.String(), ""))
	}
	quoted, err := json.Marshal(map[string]string{"shortened": clean(text, maxThought)})
	if err != nil { // no text is refused
		return ""
	}
	return string(quoted)
}
