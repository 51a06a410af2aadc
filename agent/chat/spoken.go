package chat

import (
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// Spoken knows which words stand where on a Speaker's timeline, and so which words
// were heard when speech was cut at some position.
//
//	Begin          Word     Word   Word    Grow      End   Begin
//	  │── Hello, ──│── this ──│── is ──│ … │──────────│     │── How may
//	──┴────────────┴─────▲────┴────────┴───┴──────────┴─────┴──────────> timeline
//	                     └─ Heard: "Hello,"
//
// Where the voice tells the times of its words they are used; elsewhere a piece's
// characters are taken to be of equal length. While the length of a piece is not
// known yet, it is taken to be spoken as fast as the pieces before it. All of this
// errs on the side of too few words.
//
// One goroutine appends to a Spoken; any may ask it.
type Spoken struct {
	mu     sync.Mutex
	pieces []spokenPiece
	length time.Duration // of the pieces that ended
	runes  int           // in them
}

type spokenPiece struct {
	text   string // white space that leads it included
	begin  time.Duration
	length time.Duration // of its sound so far
	ended  bool
	marks  []mark
	cursor int // text[:cursor] was matched to words
	missed int // words of the voice since then that are not in the text
}

// mark says that text[:end] was heard when the piece had sounded for so long.
type mark struct {
	end int
	at  time.Duration
}

// slowRune is how long a character is taken to last while no piece has ended: slow
// speech, so that not too much counts as heard.
const slowRune = 80 * time.Millisecond

// NewSpoken returns a Spoken for speech of which heard was heard already: the rest
// of a reply that goes on after a false interruption.
func NewSpoken(heard string) *Spoken {
	s := &Spoken{}
	if heard != "" {
		s.pieces = []spokenPiece{{text: heard, begin: -1, length: 1, ended: true}}
	}
	return s
}

// Begin says that the sound of text begins at a position of the timeline. White
// space that leads text stands between the pieces in Heard and Text. A piece that
// did not End before is taken to have ended.
func (s *Spoken) Begin(at time.Duration, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
	s.pieces = append(s.pieces, spokenPiece{text: text, begin: at})
}

// Word says that the sound of a word ends so long after its piece began. Words
// come in order, as they stand in the text; one that is not found there (the voice
// said "Doctor" for "Dr.") is passed over, and so is one that is found only far
// behind ("two" for the "2" of "2, or say two").
func (s *Spoken) Word(word string, end time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.last()
	if p == nil || word == "" {
		return
	}
	for from := p.cursor; ; {
		i := strings.Index(p.text[from:], word)
		// Words between that the voice has not said, nor others for them, are not heard.
		if i < 0 || wordsIn(p.text[p.cursor:from+i]) > p.missed+1 {
			p.missed += max(1, wordsIn(word))
			return
		}
		to := from + i + len(word)
		if wordEndsAt(p.text, from+i) && wordEndsAt(p.text, to) {
			p.cursor, p.missed = to, 0
			p.marks = append(p.marks, mark{to, end})
			return
		}
		_, size := utf8.DecodeRuneInString(p.text[from+i:])
		from += i + size
	}
}

// Grow says how long the sound of the last piece is so far. Call it before the
// sound is handed to the Speaker.
func (s *Spoken) Grow(length time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.last(); p != nil {
		p.length = max(p.length, length)
	}
}

// End says that the last piece has no more sound.
func (s *Spoken) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
}

// Fail says that the voice broke off within the last piece. What it did not come
// to is taken out of the text: nobody will hear it. What is left is returned.
func (s *Spoken) Fail() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.last()
	if p == nil {
		return ""
	}
	p.text = p.text[:s.heardOf(p, p.length)]
	p.ended = true
	return p.text
}

// last is the piece that has not ended, or nil.
func (s *Spoken) last() *spokenPiece {
	if n := len(s.pieces); n > 0 && !s.pieces[n-1].ended {
		return &s.pieces[n-1]
	}
	return nil
}

func (s *Spoken) end() {
	if p := s.last(); p != nil {
		p.ended = true
		s.length += p.length
		s.runes += utf8.RuneCountInString(p.text)
	}
}

// Text is everything that was begun.
func (s *Spoken) Text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for i := range s.pieces {
		b.WriteString(s.pieces[i].text)
	}
	return b.String()
}

// Heard is what was heard of the text when speech up to position was put on the
// wire: a prefix of Text, white space as there, that ends with a whole word. It
// is empty when not even the first word was heard to its end.
func (s *Spoken) Heard(position time.Duration) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for i := range s.pieces {
		p := &s.pieces[i]
		sounded := position - p.begin
		if sounded <= 0 && (sounded < 0 || b.Len() == 0 || p.length > 0 || !p.ended) {
			break
		}
		n := s.heardOf(p, sounded)
		b.WriteString(p.text[:n])
		if n < len(p.text) {
			break
		}
	}
	return strings.TrimRightFunc(b.String(), unicode.IsSpace)
}

// heardOf is how many bytes of p were heard when it has sounded for so long.
func (s *Spoken) heardOf(p *spokenPiece, sounded time.Duration) int {
	if p.ended && sounded >= p.length {
		return len(p.text)
	}
	sounded = min(sounded, p.length)
	if len(p.marks) > 0 {
		n := 0
		for _, m := range p.marks {
			if m.at <= sounded {
				n = max(n, m.end)
			}
		}
		return n
	}
	lead := len(p.text) - len(strings.TrimLeftFunc(p.text, unicode.IsSpace))
	body := p.text[lead:]
	runes := utf8.RuneCountInString(body)
	whole := p.length
	if !p.ended {
		pace := slowRune
		if s.runes > 0 && s.length > 0 {
			pace = s.length / time.Duration(s.runes)
		}
		whole = max(whole, pace*time.Duration(runes))
	}
	if whole <= 0 {
		return 0
	}
	n := lead + bytesOf(body, int(float64(runes)*float64(sounded)/float64(whole)))
	for n > lead && !wordEndsAt(p.text, n) {
		_, size := utf8.DecodeLastRuneInString(p.text[:n])
		n -= size
	}
	if n == lead {
		return 0
	}
	return n
}

// bytesOf is how many bytes the first n runes of text have.
func bytesOf(text string, n int) int {
	for i := range text {
		if n == 0 {
			return i
		}
		n--
	}
	return len(text)
}

// wordEndsAt says whether text may be cut at a byte without cutting a word: beside
// white space, and between characters of scripts that write none.
func wordEndsAt(text string, at int) bool {
	if at == 0 || at == len(text) {
		return true
	}
	before, _ := utf8.DecodeLastRuneInString(text[:at])
	after, _ := utf8.DecodeRuneInString(text[at:])
	if unicode.IsSpace(before) || unicode.IsSpace(after) {
		return true
	}
	if !unspaced(before) && !unspaced(after) {
		return false
	}
	// A mark belongs to the character before it, and so does a closing sign.
	return !unicode.In(after, unicode.M, unicode.P, unicode.Sk, unicode.Lm) && before != '\u200d' && after != '\u200d'
}

// wordsIn is how many words of letters or digits text holds; of scripts that do not part
// words with spaces, two characters count as one.
func wordsIn(text string) (n int) {
	for field := range strings.FieldsSeq(text) {
		whole, runes := 0, 0
		for _, r := range field {
			switch {
			case unspaced(r):
				runes++
			case unicode.IsLetter(r) || unicode.IsDigit(r):
				whole = 1
			}
		}
		n += whole + (runes+1)/2
	}
	return n
}

// unspaced tells characters of scripts that do not part words with spaces.
func unspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}
