package script

import (
	"fmt"
	"strings"
	"time"
)

// text is something to say, with places to fill in: "It is {time}."
type text []part

// part is words, or the name of a fact.
type part struct {
	words string
	fact  string
}

// parseText takes a text apart.
func parseText(s string) (text, error) {
	var t text
	for s != "" {
		open := strings.IndexByte(s, '{')
		if open < 0 {
			open = len(s)
		}
		if strings.IndexByte(s[:open], '}') >= 0 {
			return nil, fmt.Errorf("%q has a } without a { before it", s)
		}
		if open > 0 {
			t = append(t, part{words: s[:open]})
		}
		if s = s[open:]; s == "" {
			break
		}
		end := strings.IndexByte(s, '}')
		if end < 0 {
			return nil, fmt.Errorf("%q has a { that is not closed", s)
		}
		t = append(t, part{fact: s[1:end]})
		s = s[end+1:]
	}
	return t, nil
}

// fill puts facts into their places. whole is false when one is not known.
func (t text) fill(fact func(name string) string) (words string, whole bool) {
	var b strings.Builder
	whole = true
	for _, p := range t {
		b.WriteString(p.words)
		if p.fact != "" {
			value := fact(p.fact)
			whole = whole && value != ""
			b.WriteString(value)
		}
	}
	return strings.Join(strings.Fields(b.String()), " "), whole
}

// pick is the first of several texts whose facts are all known.
func pick(alternatives []text, fact func(name string) string) string {
	words := ""
	for _, t := range alternatives {
		var whole bool
		if words, whole = t.fill(fact); whole {
			break
		}
	}
	return words
}

// facts that every script has.
var builtIn = map[string]bool{"time": true, "day": true, "name": true, "last_visit": true}

// ending is what is appended to the name of a number for its last four digits.
const ending = ".end"

// ago says in words when a time was.
func ago(then, now time.Time) string {
	if then.IsZero() {
		return ""
	}
	midnight := func(t time.Time) time.Time {
		return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	}
	switch days := int(midnight(now).Sub(midnight(then.In(now.Location()))).Hours() / 24); {
	case days <= 0:
		return "earlier today"
	case days == 1:
		return "yesterday"
	case days < 14:
		return fmt.Sprintf("%d days ago", days)
	case days < 60:
		return fmt.Sprintf("%d weeks ago", days/7)
	}
	return "a long time ago"
}
