package pocketsphinx

import (
	"fmt"
	"os"
	"sort"
	"strings"
)

// dictionary is a pronouncing dictionary in the CMU format: a word, or word(2) for
// another way to say it, and its phones. It is read once, for all streams; each
// decoder gets only the words that its grammar has.
type dictionary struct {
	lines []string // sorted by word
}

// readDictionary reads a dictionary file.
func readDictionary(file string) (*dictionary, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("pocketsphinx: dictionary: %w", err)
	}
	return newDictionary(string(b)), nil
}

func newDictionary(text string) *dictionary {
	lines := strings.Split(text, "\n")
	kept := lines[:0]
	for _, l := range lines {
		if l = strings.TrimSpace(l); strings.IndexAny(l, " \t") > 0 {
			kept = append(kept, l)
		}
	}
	sort.SliceStable(kept, func(i, j int) bool { return headword(kept[i]) < headword(kept[j]) })
	return &dictionary{lines: kept}
}

// headword is a line's word without the number of its variant.
func headword(line string) string {
	w := line[:strings.IndexAny(line, " \t")]
	if i := strings.IndexByte(w, '('); i > 0 {
		w = w[:i]
	}
	return w
}

// pronunciations are the ways to say a word, the usual one first; none when the
// word is not there.
func (d *dictionary) pronunciations(word string) []string {
	i := sort.Search(len(d.lines), func(i int) bool { return headword(d.lines[i]) >= word })
	var out []string
	for ; i < len(d.lines) && headword(d.lines[i]) == word; i++ {
		_, phones, _ := strings.Cut(strings.ReplaceAll(d.lines[i], "\t", " "), " ")
		out = append(out, strings.TrimSpace(phones))
	}
	return out
}

// missing returns the words that the dictionary does not have.
func (d *dictionary) missing(words []string) []string {
	var out []string
	for _, w := range words {
		if len(d.pronunciations(w)) == 0 {
			out = append(out, fmt.Sprintf("%q", w))
		}
	}
	return out
}
