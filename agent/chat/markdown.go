package chat

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// linkBytes bounds the text and the address of a link: a bracket that nothing
// closes is no reason to read a reply to its end.
const linkBytes = 1000

// Plain returns text without Markdown, to be spoken: the marks of emphasis,
// headings, bullets, quotes, code and tables are gone, links are their text, the
// words stay. Marks that mean something else, as in "2 * 3" or "a_b", stay too.
// A piece of a text is as welcome as a whole: marks need no partner.
func Plain(text string) string {
	var m Markdown
	return m.Plain(text)
}

// Markdown is Plain for a text that comes in pieces: it remembers from one piece
// to the next whether the text is inside a code fence or a link, and whether a
// piece begins a line. The zero value is ready. It belongs to one goroutine.
type Markdown struct {
	fence  string // the marks that opened the code fence we are in
	within bool   // the last piece ended inside a line
}

// Plain returns the next piece without Markdown.
func (m *Markdown) Plain(piece string) string {
	var out strings.Builder
	out.Grow(len(piece))
	for line := range strings.Lines(piece) {
		body := strings.TrimRight(line, "\r\n")
		end := line[len(body):]
		words, drop := m.line(body)
		if strings.TrimSpace(body) != "" || end != "" {
			m.within = end == ""
		}
		if drop {
			continue
		}
		out.WriteString(words)
		out.WriteString(end)
	}
	return out.String()
}

// line returns a line without Markdown, or that it held nothing else.
func (m *Markdown) line(body string) (words string, drop bool) {
	trimmed := strings.TrimSpace(body)
	if m.fence != "" {
		if strings.HasPrefix(trimmed, m.fence) && strings.Trim(trimmed, m.fence[:1]) == "" {
			m.fence = ""
			return "", true
		}
		return body, false
	}
	if m.within {
		return inline(body), false
	}
	if f := fenceOf(trimmed); f != "" {
		m.fence = f
		return "", true
	}
	if rule(trimmed) {
		return "", true
	}
	space, rest := body[:len(body)-len(strings.TrimLeft(body, " \t"))], strings.TrimLeft(body, " \t")
	for strings.HasPrefix(rest, ">") {
		rest = strings.TrimLeft(rest[1:], " \t")
	}
	rest = bullet(heading(rest))
	if cells, ok := row(rest); ok {
		return space + cells, cells == ""
	}
	return space + inline(rest), false
}

// fenceOf returns the marks of a line that opens a code fence.
func fenceOf(line string) string {
	for _, mark := range []string{"`", "~"} {
		n := len(line) - len(strings.TrimLeft(line, mark))
		if n >= 3 && !strings.Contains(line[n:], mark) {
			return line[:n]
		}
	}
	return ""
}

// rule tells a line that is only drawn: "---", "* * *", "=====".
func rule(line string) bool {
	if len(line) < 3 {
		return false
	}
	mark := line[0]
	n := 0
	for i := range len(line) {
		switch {
		case line[i] == mark && strings.IndexByte("-*_=", mark) >= 0:
			n++
		case line[i] != ' ':
			return false
		}
	}
	return n >= 3
}

func heading(line string) string {
	n := len(line) - len(strings.TrimLeft(line, "#"))
	if n == 0 || n > 6 || n < len(line) && line[n] != ' ' && line[n] != '\t' {
		return line
	}
	rest := strings.TrimSpace(line[n:])
	if i := len(strings.TrimRight(rest, "#")); i == 0 || rest[i-1] == ' ' {
		rest = strings.TrimRight(rest[:i], " ")
	}
	return rest
}

// bullet takes a bullet, and a box to tick, off a line. The numbers of a numbered
// list are words.
func bullet(line string) string {
	for _, mark := range []string{"- ", "* ", "+ ", "• ", "‣ ", "◦ "} {
		rest, ok := strings.CutPrefix(line, mark)
		if !ok {
			continue
		}
		rest = strings.TrimLeft(rest, " \t")
		for _, box := range []string{"[ ] ", "[x] ", "[X] "} {
			rest = strings.TrimPrefix(rest, box)
		}
		return rest
	}
	return line
}

// row turns a line of a table into its cells with commas between; the line below
// the head of the table is nothing.
func row(line string) (cells string, ok bool) {
	line = strings.TrimRight(line, " \t")
	if len(line) < 2 || line[0] != '|' || line[len(line)-1] != '|' {
		return "", false
	}
	var words []string
	for cell := range strings.SplitSeq(line[1:len(line)-1], "|") {
		cell = strings.TrimSpace(cell)
		if cell != "" && strings.Trim(cell, ":-") != "" {
			words = append(words, inline(cell))
		}
	}
	return strings.Join(words, ", "), true
}

// inline takes emphasis, code marks and links out of a line.
func inline(line string) string {
	if !strings.ContainsAny(line, "*_~`[]<\\") {
		return line
	}
	var out strings.Builder
	out.Grow(len(line))
	for i := 0; i < len(line); {
		n, words := 1, line[i:i+1]
		switch c := line[i]; c {
		case '\\':
			if i+1 < len(line) && strings.IndexByte("*_~`[]<>#|", line[i+1]) >= 0 {
				n, words = 2, line[i+1:i+2]
			}
		case '`':
			n, words = code(line[i:])
		case '*', '_', '~':
			n = run(line[i:])
			words = line[i : i+n]
			if emphasis(line, i, n) {
				words = ""
			}
		case '!':
			if i+1 < len(line) && line[i+1] == '[' {
				if size, text, ok := link(line[i+1:]); ok {
					n, words = size+1, text
				}
			}
		case '[':
			if size, text, ok := link(line[i:]); ok {
				n, words = size, text
			}
		case ']':
			// The end of a link whose text was cut into two pieces.
			if size := target(line[i+1:]); size > 0 && line[i+1] == '(' {
				n, words = size+1, ""
			}
		case '<':
			if end := strings.IndexByte(line[i:min(len(line), i+linkBytes)], '>'); end > 0 && address(line[i+1:i+end]) {
				n, words = end+1, line[i+1:i+end]
			}
		}
		out.WriteString(words)
		i += n
	}
	return out.String()
}

// run is how often the first byte of text is repeated.
func run(text string) int {
	n := 1
	for n < len(text) && text[n] == text[0] {
		n++
	}
	return n
}

// code returns a code span, or its opening marks alone when it is not closed.
func code(text string) (size int, words string) {
	n := run(text)
	if end := strings.Index(text[n:], text[:n]); end >= 0 {
		inside := text[n : n+end]
		if trimmed := strings.Trim(inside, " "); trimmed != "" {
			inside = trimmed
		}
		return n + end + n, inside
	}
	return n, ""
}

// emphasis tells whether the run of n marks at line[i:] is emphasis, by what
// stands on both sides of it (the flanking rules of CommonMark, without asking
// for a partner).
func emphasis(line string, i, n int) bool {
	before, _ := utf8.DecodeLastRuneInString(line[:i])
	after, _ := utf8.DecodeRuneInString(line[i+n:])
	left := i == 0 || unicode.IsSpace(before)
	right := i+n == len(line) || unicode.IsSpace(after)
	mark := line[i]
	switch {
	case left && right, n > 3, mark == '~' && n != 2:
		return false
	case left || right:
		// "_id" and "list_" are names when they hold another one.
		return mark != '_' || n != 1 || !name(line, i)
	}
	word := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }
	switch {
	case mark == '_':
		return !word(before) || !word(after)
	case mark == '*' && n == 1:
		// A product: "2*3", "f(x)*(y)".
		return !(word(before) || before == ')') || !(word(after) || after == '(')
	}
	return true
}

// name tells whether the word around line[i] has an underscore between letters.
func name(line string, i int) bool {
	from := strings.LastIndexFunc(line[:i], unicode.IsSpace) + 1
	to := len(line)
	if n := strings.IndexFunc(line[i:], unicode.IsSpace); n >= 0 {
		to = i + n
	}
	word := strings.Trim(line[from:to], "_.,;:!?()\"'")
	for j := range len(word) {
		if word[j] == '_' && !emphasis(word, j, run(word[j:])) && (j == 0 || word[j-1] != '_') {
			return true
		}
	}
	return false
}

// link returns the text of a link at the start of line, and how long it is.
func link(line string) (size int, text string, ok bool) {
	near := line[:min(len(line), linkBytes)]
	if strings.IndexByte(near, ']') < 0 {
		return 0, "", false
	}
	depth := 0
	for i := range near {
		switch line[i] {
		case '[':
			depth++
		case ']':
			depth--
		}
		if depth > 0 {
			continue
		}
		n := target(line[i+1:])
		if n == 0 {
			return 0, "", false
		}
		return i + 1 + n, inline(line[1:i]), true
	}
	return 0, "", false
}

// target is how long the "(address)" or "[reference]" at the start of line is.
func target(line string) int {
	near := line[:min(len(line), linkBytes)]
	switch {
	case strings.HasPrefix(near, "["):
		return strings.IndexByte(near, ']') + 1
	case !strings.HasPrefix(near, "(") || strings.IndexByte(near, ')') < 0:
		return 0
	}
	depth := 0
	for i := range near {
		switch near[i] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			return i + 1
		}
	}
	return 0
}

// address tells what may stand in angle brackets as a link.
func address(text string) bool {
	return !strings.ContainsAny(text, " \t<") &&
		(strings.Contains(text, "://") || strings.HasPrefix(text, "mailto:") || strings.Index(text, "@") > 0)
}

// Tags takes delivery tags such as "[warm]" or "[laughs] [slow]" off the head of a
// text, for the voice to follow. Only tags in allowed are taken, in any case; any
// other text in brackets is words. tags are in lower case.
func Tags(text string, allowed []string) (tags []string, rest string) {
	for rest = text; ; {
		trimmed := strings.TrimLeftFunc(rest, unicode.IsSpace)
		end := strings.IndexByte(trimmed, ']')
		if end < 0 || trimmed[0] != '[' {
			return tags, rest
		}
		tag := strings.ToLower(strings.TrimSpace(trimmed[1:end]))
		if !slices.ContainsFunc(allowed, func(a string) bool { return strings.EqualFold(a, tag) }) {
			return tags, rest
		}
		tags = append(tags, tag)
		rest = strings.TrimLeftFunc(trimmed[end+1:], unicode.IsSpace)
	}
}
