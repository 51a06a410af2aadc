package script

import (
	"fmt"
	"slices"
	"strings"
)

// grammar is a JSGF grammar of what may be said: one of the phrases, or digits.
func grammar(name string, phrases [][]string, digits []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#JSGF V1.0;\ngrammar %s;\n", name)
	var all []string
	if len(digits) > 0 {
		fmt.Fprintf(&b, "<digit> = %s;\n", strings.Join(digits, " | "))
		all = append(all, "<digit>+")
	}
	for _, p := range phrases {
		all = append(all, strings.Join(p, " "))
	}
	fmt.Fprintf(&b, "public <reply> = %s;\n", strings.Join(all, " | "))
	return b.String()
}

// all are the words for the digits, in order.
func (n numerals) all() []string {
	var out []string
	for i := range byte(10) {
		words := []string{n.spoken[i]}
		for w, d := range n.digit {
			if d == '0'+i && w != n.spoken[i] {
				words = append(words, w)
			}
		}
		slices.Sort(words[1:])
		out = append(out, words...)
	}
	return out
}
