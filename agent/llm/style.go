package llm

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Styler takes delivery tags such as "[warm]" out of a reply that arrives bit by
// bit, and tells them as Chunk.Style. A tag counts at the head of the reply and of
// each of its sentences, in any case, and only when it is one of those switched on:
// everything else in brackets is text. A Styler belongs to one reply.
type Styler struct {
	tags    map[string]bool
	longest int // bytes of the longest tag

	pending string // that may yet be a tag, or a rune
	head    bool   // a sentence begins here
	ended   bool   // the last mark ended a sentence
	eat     bool   // white space after a tag
	style   string // not yet told
}

// NewStyler is a Styler for tags, given without brackets. None: text passes as it is.
func NewStyler(tags []string) *Styler {
	s := &Styler{head: true, tags: make(map[string]bool, len(tags))}
	for _, tag := range tags {
		if tag = styleName(tag); tag != "" {
			s.tags[tag] = true
			s.longest = max(s.longest, len(tag))
		}
	}
	return s
}

func styleName(tag string) string { return strings.ToLower(strings.TrimSpace(tag)) }

// Write takes the next bit of the reply and gives what it completes.
func (s *Styler) Write(text string) []Chunk {
	if len(s.tags) == 0 {
		return s.chunk(nil, text)
	}
	text = s.pending + text
	whole := WholeRunes([]byte(text))
	text, s.pending = text[:whole], text[whole:]
	var out []Chunk
	from := 0 // text[from:i] is to be given
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if s.eat {
			if s.eat = unicode.IsSpace(r); s.eat {
				i += size
				from = i
				continue
			}
		}
		if r != '[' || !s.head && !s.ended {
			s.see(r)
			i += size
			continue
		}
		tag, length, whole := s.tag(text[i:])
		if !whole {
			out = s.chunk(out, text[from:i])
			s.pending = text[i:] + s.pending
			return out
		}
		if tag == "" {
			s.head, s.ended = false, false
			i += size
			continue
		}
		out = s.chunk(out, text[from:i])
		s.style, s.eat, s.head = tag, true, true
		i += length
		from = i
	}
	return s.chunk(out, text[from:])
}

// Flush gives what the end of the reply leaves.
func (s *Styler) Flush() []Chunk {
	text := s.pending
	s.pending = ""
	return s.chunk(nil, text)
}

// tag is the tag that text begins with, empty when there is none; whole is false
// when there may yet be one.
func (s *Styler) tag(text string) (tag string, length int, whole bool) {
	const slack = 2 // white space within the brackets
	end := strings.IndexByte(text, ']')
	if most := 1 + s.longest + slack; end < 0 || end > most {
		return "", 0, len(text) > most
	}
	if name := styleName(text[1:end]); s.tags[name] {
		return name, end + 1, true
	}
	return "", 0, true
}

// see notes where sentences end.
func (s *Styler) see(r rune) {
	switch {
	case r == '\n':
		s.head, s.ended = true, false
	case unicode.IsSpace(r):
		s.head, s.ended = s.head || s.ended, false
	case unicode.Is(unicode.Sentence_Terminal, r), r == '…':
		s.head, s.ended = false, true
	case s.ended && unicode.In(r, unicode.Pe, unicode.Pf, unicode.Quotation_Mark): // "Yes!" [warm]
	default:
		s.head, s.ended = false, false
	}
}

func (s *Styler) chunk(out []Chunk, text string) []Chunk {
	if text == "" {
		return out
	}
	out = append(out, Chunk{Text: text, Style: s.style})
	s.style = ""
	return out
}
