// Package chat is the text of a conversation between a model and a voice: replies
// cut into pieces to speak, Markdown taken out of them, and what of them was heard.
package chat

import (
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

const (
	// clauseWidth is how much a first piece must hold to be cut at a comma: less
	// is not worth a separate breath of the voice.
	clauseWidth = 20
	// runOnRunes bounds a piece without any mark to cut at.
	runOnRunes = 300
)

// Splitter cuts a reply that arrives bit by bit into pieces to speak: sentences,
// by the rules of UAX #29 with abbreviations, decimals, initials, e-mail and web
// addresses kept whole. The first piece may be a clause, so that the voice can
// begin sooner. A run-on of more than 300 runes is cut between two words.
//
// The pieces joined are exactly what was written, byte for byte. A piece ends
// with the last mark of its sentence, and the white space after it leads the next
// piece; so text up to the end of any piece, or cut inside one, is a prefix of
// what was generated. Only a piece that Flush returns can be white space alone.
// Where the pieces are cut depends on the text, not on how it was divided among
// the calls to Write. (A Pause may add a cut.)
//
// A Splitter belongs to one goroutine.
type Splitter struct {
	words *abbreviations

	buf      []byte // what no piece was made of yet
	at       int    // buf[:at] was looked at
	content  int    // where the piece's first character other than white space is; -1: not seen
	runes    int    // in buf[content:at]
	width    int    // the same in columns: a Han character takes as long to say as two letters
	space    int    // where the last white space after content began; -1: none
	inSpace  bool   // buf[space:at] is white space
	clause   int    // where the last clause ended; -1: none
	first    bool   // no piece was cut yet
	lineHead bool   // the piece begins a line
}

// NewSplitter returns a Splitter for English.
func NewSplitter() *Splitter { return NewSplitterFor("en") }

// NewSplitterFor returns a Splitter with the abbreviations of a language, given
// as a BCP 47 tag such as "de-AT". A language without abbreviations of its own
// gets those that are common to all.
func NewSplitterFor(language string) *Splitter {
	s := &Splitter{words: abbreviationsFor(language)}
	s.restart()
	return s
}

// Write takes the next bit of the reply, of any length, and returns the pieces
// that it completed. A rune may be divided over calls.
func (s *Splitter) Write(text string) []string {
	s.buf = append(s.buf, text...)
	var pieces []string
	for {
		to := s.scan()
		if to < 0 {
			return pieces
		}
		pieces = append(pieces, s.take(to))
	}
}

// Pause returns the sentence that is complete if nothing more comes for now, such
// as "One moment." while the agent looks something up: Write alone has to see what
// follows the full stop. It returns nil when the text stopped within a sentence.
// Text may be written on afterwards.
func (s *Splitter) Pause() []string {
	to := s.at
	if s.content < 0 || s.inSpace || to < len(s.buf) && !unicode.IsSpace(s.peek(to)) {
		return nil
	}
	if s.sentence(to) == goesOn {
		return nil
	}
	return []string{s.take(to)}
}

// Flush returns all that is left, and makes the Splitter ready for another reply.
func (s *Splitter) Flush() []string {
	var pieces []string
	if len(s.buf) > 0 {
		pieces = []string{string(s.buf)}
	}
	s.restart()
	return pieces
}

func (s *Splitter) restart() {
	s.buf = nil
	s.begin()
	s.first, s.lineHead = true, true
}

// begin makes the start of buf the start of a piece.
func (s *Splitter) begin() {
	s.at, s.runes, s.width = 0, 0, 0
	s.content, s.space, s.clause, s.inSpace = -1, -1, -1, false
}

// take cuts buf[:to] off as a piece.
func (s *Splitter) take(to int) string {
	piece := string(s.buf[:to])
	s.buf = s.buf[to:]
	s.first, s.lineHead = false, false
	s.begin()
	return piece
}

// scan looks on until the piece is complete, and returns where it ends; -1 when
// more text is needed to tell.
func (s *Splitter) scan() int {
	for s.at < len(s.buf) {
		if !utf8.FullRune(s.buf[s.at:]) {
			return -1
		}
		r, size := utf8.DecodeRune(s.buf[s.at:])
		if s.content < 0 {
			if unicode.IsSpace(r) {
				s.lineHead = s.lineHead || newline(r)
				s.at += size
				continue
			}
			s.content = s.at
		}
		switch to := s.step(r, size); {
		case to == undecided:
			return -1
		case to > 0:
			return to
		}
		s.advance(r, size)
	}
	return -1
}

const (
	goesOn    = 0
	undecided = -1
)

// step decides whether the piece ends before the rune r at s.at, and where.
func (s *Splitter) step(r rune, size int) int {
	if s.runes >= runOnRunes {
		return s.runOn(r, size)
	}
	if s.runes == 0 || s.inSpace && !newline(r) {
		return goesOn
	}
	if newline(r) {
		if s.inSpace {
			return s.space
		}
		return s.at
	}
	if unicode.IsSpace(r) {
		if to := s.sentence(s.at); to != goesOn {
			return to
		}
	} else if s.adjoins(r) {
		return s.at
	}
	if s.clauseEnds(r) {
		s.clause = s.at
		if s.first && s.width >= clauseWidth {
			return s.at
		}
	}
	return goesOn
}

func (s *Splitter) advance(r rune, size int) {
	if unicode.IsSpace(r) {
		if !s.inSpace {
			s.space, s.inSpace = s.at, true
		}
	} else {
		s.inSpace = false
	}
	s.at += size
	s.runes++
	s.width++
	if wide(r) {
		s.width++
	}
}

// runOn finds where to cut a piece that has become too long before the rune r.
func (s *Splitter) runOn(r rune, size int) int {
	switch {
	case s.clause > s.at/2:
		return s.clause
	case s.inSpace:
		return s.space
	case unicode.IsSpace(r):
		return s.at
	case s.space >= 0:
		return s.space
	}
	// No white space at all: not inside what is seen as one character.
	to := s.content
	for rest, state := s.buf[s.content:s.at+size], -1; ; {
		var cluster []byte
		cluster, rest, _, state = uniseg.FirstGraphemeCluster(rest, state)
		if len(rest) == 0 {
			break
		}
		to += len(cluster)
	}
	if to == s.content {
		return s.at
	}
	return to
}

// adjoins tells whether the piece ends before r without white space between, as
// where sentences are written without any (UAX #29 SB11).
func (s *Splitter) adjoins(r rune) bool {
	if closes(r) || terminates(r) || continues(r) {
		return false
	}
	t := s.tail(s.at)
	if t.marks == 0 {
		return false
	}
	return ideographic(r) || t.foreign && !(t.point && unicode.IsDigit(r))
}

// clauseEnds tells whether a clause ends before r.
func (s *Splitter) clauseEnds(r rune) bool {
	end := s.closed(s.at)
	p, size := utf8.DecodeLastRune(s.buf[s.content:end])
	switch p {
	case ',', ';', ':':
		return unicode.IsSpace(r)
	case '-', '–':
		before, _ := utf8.DecodeLastRune(s.buf[s.content : end-size])
		return unicode.IsSpace(r) && unicode.IsSpace(before)
	case '—', '，', '、', '；', '：', '،', '؛':
		return !closes(r) && !terminates(r) && !continues(r)
	}
	return false
}

// tail is the run of sentence terminators that a text ends with.
type tail struct {
	start   int  // where it begins
	marks   int  // how many; 0: none. An ellipsis counts as more than one
	dots    bool // none but full stops: whether they end a sentence depends on the words
	foreign bool // one that is followed by no white space where it is used
	point   bool // the last of them is the full-width full stop, which is a decimal point too
}

// tail looks back from end, over closing marks, at the terminators.
func (s *Splitter) tail(end int) tail {
	t := tail{start: s.closed(end), dots: true}
	for t.start > s.content {
		r, size := utf8.DecodeLastRune(s.buf[s.content:t.start])
		if !terminates(r) {
			break
		}
		t.start -= size
		t.marks++
		switch r {
		case '.':
		case '…':
			t.marks++
		case '!', '?':
			t.dots = false
		default:
			t.point = t.marks == 1 && r == '．'
			t.dots, t.foreign = false, true
		}
	}
	return t
}

// closed looks back from end over closing marks.
func (s *Splitter) closed(end int) int {
	for end > s.content {
		r, size := utf8.DecodeLastRune(s.buf[s.content:end])
		if !closes(r) {
			break
		}
		end -= size
	}
	return end
}

func (s *Splitter) peek(i int) rune {
	r, _ := utf8.DecodeRune(s.buf[i:])
	return r
}
