package config

import (
	"fmt"
	"sort"
	"strings"
)

// Mistake is one thing that is wrong with a configuration.
type Mistake struct {
	// File and Line say where; Line is 0 when the file does not mention the key.
	File string
	Line int
	// Env is the environment variable that set the value, instead of the file.
	Env string
	// Path is the key, such as "call.max_calls".
	Path string
	// Text says what is wrong and what would be right.
	Text string
}

// Error writes m as "file:line: path: text".
func (m Mistake) Error() string {
	var b strings.Builder
	switch {
	case m.Env != "":
		fmt.Fprintf(&b, "environment %s: ", m.Env)
	case m.File != "" && m.Line > 0:
		fmt.Fprintf(&b, "%s:%d: ", m.File, m.Line)
	case m.File != "":
		fmt.Fprintf(&b, "%s: ", m.File)
	}
	if m.Path != "" {
		fmt.Fprintf(&b, "%s: ", m.Path)
	}
	return b.String() + m.Text
}

// Mistakes are all that is wrong with a configuration, in the order of the file.
type Mistakes []Mistake

// Error writes one mistake per line.
func (ms Mistakes) Error() string {
	lines := make([]string, len(ms))
	for i, m := range ms {
		lines[i] = m.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the mistakes one by one to errors.As.
func (ms Mistakes) Unwrap() []error {
	errs := make([]error, len(ms))
	for i, m := range ms {
		errs[i] = m
	}
	return errs
}

// sorted puts the file's mistakes first, in its order.
func (ms Mistakes) sorted() Mistakes {
	sort.SliceStable(ms, func(i, j int) bool {
		a, b := ms[i], ms[j]
		if (a.Line == 0) != (b.Line == 0) {
			return b.Line == 0
		}
		return a.Line < b.Line
	})
	return ms
}

// didYouMean is the candidate that was probably meant by word, as the end of a
// sentence, or nothing.
func didYouMean(word string, candidates []string) string {
	best, least := "", 1+len(word)/3 // more changed letters than that is another word
	for _, c := range candidates {
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < least || d == least && best == "" {
			best, least = c, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance counts the letters to insert, delete, change or swap with their
// neighbour to make b of a (optimal string alignment).
func distance(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	var last []int
	for i := 1; i <= len(a); i++ {
		last, before, row = before, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(before[j]+1, row[j-1]+1, before[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], last[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
