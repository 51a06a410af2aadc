package script

import (
	"fmt"
	"slices"
	"strings"
)

// spoken is words that callers may say, and where the script says so.
type spoken struct {
	words []string
	place Mistake // without a text
}

// hears notes words that callers may say.
func (c *checker) hears(f file, path string, words []string) {
	line, shown := c.place(f, path)
	c.script.said = append(c.script.said, spoken{words, Mistake{File: c.file, Line: line, Path: shown}})
}

// Unknown lists the places of the script whose words a recogniser does not know,
// which callers would say in vain. known is asked about each word, in lower case.
func (p *Provider) Unknown(known func(word string) bool) Mistakes {
	var out Mistakes
	for _, s := range p.script.said {
		var missing []string
		for _, w := range s.words {
			if quoted := fmt.Sprintf("%q", w); !known(w) && !slices.Contains(missing, quoted) {
				missing = append(missing, quoted)
			}
		}
		if len(missing) > 0 {
			m := s.place
			m.Text = "the recogniser does not know " + strings.Join(missing, ", ")
			out = append(out, m)
		}
	}
	return out
}
