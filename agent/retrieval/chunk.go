package retrieval

import (
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// MaxChunk is the most runes of a passage: about half a minute of speech. A model that
// gets four of them is not slowed down by them.
const MaxChunk = 700

// Split cuts a document, Markdown or plain text, into passages of at most limit runes
// (0: MaxChunk) and puts before each the headings it stands under. Paragraphs are kept
// whole and together where they fit, longer ones are cut between sentences, sentences
// that are too long between words, and words that are too long where the room ends.
func Split(text string, limit int) []string {
	if limit <= 0 {
		limit = MaxChunk
	}
	s := splitter{limit: limit}
	fenced := false
	for line := range strings.Lines(strings.ToValidUTF8(text, "\uFFFD")) {
		line = strings.TrimRight(line, " \t\r\n")
		if strings.HasPrefix(strings.TrimLeft(line, " "), "```") {
			fenced = !fenced
		}
		level, title := heading(line)
		switch {
		case !fenced && level > 0:
			s.endParagraph()
			s.endChunk()
			s.under(level, title)
		case line == "" && !fenced:
			s.endParagraph()
		default:
			s.paragraph = append(s.paragraph, line)
		}
	}
	s.endParagraph()
	s.endChunk()
	return s.out
}

// splitter gathers passages.
type splitter struct {
	limit     int
	headings  []string // by level, from 1; empty ones were skipped
	paragraph []string // lines
	chunk     string
	runes     int // of chunk
	out       []string
}

// heading says of which level a line is a heading in Markdown ("## Prices"), and what
// it says; 0: of none.
func heading(line string) (level int, title string) {
	rest := strings.TrimLeft(line, "#")
	level = len(line) - len(rest)
	if level == 0 || level > 6 || !strings.HasPrefix(rest, " ") {
		return 0, ""
	}
	return level, strings.TrimSpace(strings.TrimRight(rest, "#"))
}

func (s *splitter) under(level int, title string) {
	for len(s.headings) < level {
		s.headings = append(s.headings, "")
	}
	s.headings = append(s.headings[:level-1], title)
}

func (s *splitter) endParagraph() {
	text := strings.TrimSpace(strings.Join(s.paragraph, "\n"))
	s.paragraph = s.paragraph[:0]
	if text == "" {
		return
	}
	if n := utf8.RuneCountInString(text); n > s.limit {
		s.endChunk()
		s.long(text)
		return
	}
	s.add(text, "\n\n")
}

// add puts text behind what there is, or begins another passage with it. It is no
// longer than a passage.
func (s *splitter) add(text, between string) {
	n := utf8.RuneCountInString(text)
	if s.chunk != "" && s.runes+len(between)+n > s.limit {
		s.endChunk()
	}
	if s.chunk != "" {
		s.chunk, s.runes = s.chunk+between, s.runes+len(between)
	}
	s.chunk, s.runes = s.chunk+text, s.runes+n
}

// long cuts a paragraph between sentences.
func (s *splitter) long(text string) {
	for state := -1; text != ""; {
		var sentence string
		sentence, text, state = uniseg.FirstSentenceInString(text, state)
		if sentence = strings.TrimSpace(sentence); sentence == "" {
			continue
		}
		if utf8.RuneCountInString(sentence) <= s.limit {
			s.add(sentence, " ")
			continue
		}
		for word := range strings.FieldsSeq(sentence) {
			for head := range pieces(word, s.limit) {
				s.add(head, " ")
			}
		}
	}
	s.endChunk()
}

// pieces cuts a word into pieces of at most limit runes. It looks at each rune once: what
// has no white space may be a picture of a megabyte.
func pieces(word string, limit int) iter.Seq[string] {
	return func(yield func(string) bool) {
		from, runes := 0, 0
		for at := range word {
			if runes == limit {
				if !yield(word[from:at]) {
					return
				}
				from, runes = at, 0
			}
			runes++
		}
		yield(word[from:])
	}
}

func (s *splitter) endChunk() {
	text := strings.TrimSpace(s.chunk)
	s.chunk, s.runes = "", 0
	if text == "" {
		return
	}
	var over []string
	for _, h := range s.headings {
		if h != "" {
			over = append(over, h)
		}
	}
	if len(over) > 0 {
		text = strings.Join(over, " > ") + "\n" + text
	}
	s.out = append(s.out, text)
}
