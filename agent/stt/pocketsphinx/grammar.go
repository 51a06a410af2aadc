package pocketsphinx

import (
	"errors"
	"fmt"
	"strings"
)

// Bounds of a grammar. The library expands rules into a network without any bound
// of its own, so a few lines could take all memory.
const (
	maxGrammar  = 64 << 10 // bytes
	maxExpanded = 20000    // words, with every reference written out
)

// vocabulary reads the words of a JSGF grammar, each once, in order. It knows just
// enough of the syntax to find them and to bound the grammar's size: the library
// checks the rest.
func vocabulary(grammar string) ([]string, error) {
	if len(grammar) > maxGrammar {
		return nil, fmt.Errorf("pocketsphinx: the grammar has %d bytes, the most is %d", len(grammar), maxGrammar)
	}
	if strings.ContainsRune(grammar, 0) {
		return nil, errors.New("pocketsphinx: the grammar holds a zero byte")
	}
	body, ok := strings.CutPrefix(strings.TrimLeft(grammar, "\ufeff \t\r\n"), "#JSGF")
	if !ok {
		return nil, errors.New(`pocketsphinx: the grammar does not begin with "#JSGF"`)
	}
	s := scanner{rest: body, seen: map[string]bool{}, rules: map[string]*rule{}}
	if err := s.scan(); err != nil {
		return nil, err
	}
	for name, r := range s.rules {
		for _, ref := range r.refs {
			if s.rules[ref] == nil {
				return nil, fmt.Errorf("pocketsphinx: rule <%s> refers to <%s>, which the grammar does not define", name, ref)
			}
		}
		if n := s.size(name); n > maxExpanded {
			return nil, fmt.Errorf("pocketsphinx: rule <%s> expands to more than %d words", name, maxExpanded)
		}
	}
	return s.words, nil
}

// rule is what of a grammar's rule decides its size.
type rule struct {
	words int
	refs  []string
	size  int // once known; 0: not yet
	busy  bool
}

type scanner struct {
	rest  string
	words []string
	seen  map[string]bool
	rules map[string]*rule
}

// scan reads the statements behind the header's first word.
func (s *scanner) scan() error {
	if !s.statement(nil) { // the rest of the header
		return errors.New("pocketsphinx: the grammar's header does not end with a semicolon")
	}
	for {
		tok := s.next()
		switch tok {
		case "":
			return nil
		case "grammar", "language":
			s.statement(nil)
		case "import":
			return errors.New("pocketsphinx: a grammar cannot import another")
		case "public", ";":
		default:
			name, ok := reference(tok)
			if !ok {
				return fmt.Errorf("pocketsphinx: the grammar has %.40q where a rule should begin", tok)
			}
			if s.rules[name] != nil {
				return fmt.Errorf("pocketsphinx: the grammar defines <%s> twice", name)
			}
			if s.next() != "=" {
				return fmt.Errorf("pocketsphinx: the grammar has no = behind <%s>", name)
			}
			r := &rule{}
			s.rules[name] = r
			if !s.statement(r) {
				return fmt.Errorf("pocketsphinx: rule <%s> does not end with a semicolon", name)
			}
		}
	}
}

// statement reads up to the semicolon and, for a rule, notes its words; false when
// the text ends before.
func (s *scanner) statement(r *rule) bool {
	for {
		tok := s.next()
		switch {
		case tok == "":
			return false
		case tok == ";":
			return true
		case r == nil || strings.ContainsAny(tok[:1], "=|()[]*+/{>}"):
		case tok[0] == '<':
			if name, ok := reference(tok); ok && name != "NULL" && name != "VOID" {
				r.refs = append(r.refs, name)
			}
		default:
			r.words++
			if w := strings.Trim(tok, `"`); !s.seen[w] {
				s.seen[w] = true
				s.words = append(s.words, w)
			}
		}
	}
}

// size is how many words a rule has with its references written out, at most
// maxExpanded+1. A rule that refers to itself counts once: such a reference is a
// loop in the network.
func (s *scanner) size(name string) int {
	r := s.rules[name]
	switch {
	case r == nil || r.busy:
		return 1
	case r.size > 0:
		return r.size
	}
	r.busy = true
	n := r.words + 1
	for _, ref := range r.refs {
		n = min(n+s.size(ref), maxExpanded+1)
	}
	r.busy, r.size = false, n
	return n
}

// reference is the name in <name>, without the name of the grammar before it.
func reference(tok string) (string, bool) {
	if len(tok) > 2 && tok[0] == '<' && tok[len(tok)-1] == '>' {
		name := tok[1 : len(tok)-1]
		return name[strings.LastIndexByte(name, '.')+1:], true
	}
	return "", false
}

// next is the next token: a sign, <name>, /weight/, {tag}, "quoted" or a word;
// empty at the end.
func (s *scanner) next() string {
	s.space()
	if s.rest == "" {
		return ""
	}
	n := 1
	switch c := s.rest[0]; c {
	case ';', '=', '|', '(', ')', '[', ']', '*', '+', '>', '}':
	case '<', '{', '/', '"':
		n = s.enclosed(map[byte]byte{'<': '>', '{': '}', '/': '/', '"': '"'}[c])
	default:
		if i := strings.IndexAny(s.rest, " \t\r\n;=|()[]*+<>{}/\""); i >= 0 {
			n = i
		} else {
			n = len(s.rest)
		}
	}
	tok := s.rest[:n]
	s.rest = s.rest[n:]
	return tok
}

// enclosed is the length of a token up to its closing sign.
func (s *scanner) enclosed(end byte) int {
	for i := 1; i < len(s.rest); i++ {
		switch s.rest[i] {
		case '\\':
			i++
		case end:
			return i + 1
		}
	}
	return len(s.rest)
}

// space skips white space and comments.
func (s *scanner) space() {
	for {
		s.rest = strings.TrimLeft(s.rest, " \t\r\n")
		switch {
		case strings.HasPrefix(s.rest, "//"):
			_, s.rest, _ = strings.Cut(s.rest, "\n")
		case strings.HasPrefix(s.rest, "/*"):
			_, s.rest, _ = strings.Cut(s.rest[2:], "*/")
		default:
			return
		}
	}
}
