package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"

	"parley/agent/tool"
)

var errNoPassages = errors.New("runtime: the search gave nothing in time")

// search looks things up for the turns of one conversation, if it can before the turn is
// complete. One search is under way at a time.
type search struct {
	cfg   RetrievalConfig
	r     Retriever
	told  func(passages []string, err error)
	life  context.Context
	tasks sync.WaitGroup

	mu     sync.Mutex
	closed bool
	now    *lookup
}

// lookup is one search.
type lookup struct {
	query  string
	done   chan struct{}
	cancel context.CancelFunc
	found  []string // after done
	err    error
}

// failed says whether it has ended without a result: the same words are searched for anew.
func (l *lookup) failed() bool {
	select {
	case <-l.done:
		return l.err != nil
	default:
		return false
	}
}

func newSearch(life context.Context, cfg RetrievalConfig, r Retriever, told func([]string, error)) *search {
	return &search{cfg: cfg, r: r, told: told, life: life}
}

// begin searches for query, unless that is under way or has been done. Too few words are
// not searched for: "yes" finds something everywhere.
func (s *search) begin(query string) *lookup {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now != nil && s.now.query == query && !s.now.failed() {
		return s.now
	}
	if s.now != nil {
		s.now.cancel()
		s.now = nil
	}
	if s.closed || s.cfg.Limit <= 0 || countWords(query) < s.cfg.MinWords {
		return nil
	}
	ctx, cancel := context.WithCancel(s.life)
	l := &lookup{query: query, done: make(chan struct{}), cancel: cancel}
	s.now = l
	s.tasks.Add(1)
	go func() {
		defer s.tasks.Done()
		defer cancel()
		defer close(l.done)
		defer func() {
			if p := recover(); p != nil {
				l.err = fmt.Errorf("runtime: panic in the retriever: %v", p)
			}
		}()
		l.found, l.err = s.r.Search(ctx, query, s.cfg.Limit)
	}()
	return l
}

// wait returns the passages for query, bounded and clean; none when they are not there
// in time, or could not be had: a turn never fails for that.
func (s *search) wait(ctx context.Context, query string) []string {
	l := s.begin(tool.CleanText(query, maxTurn))
	if l == nil {
		return nil
	}
	limit := time.NewTimer(s.cfg.Wait)
	defer limit.Stop()
	select {
	case <-l.done:
	case <-limit.C:
		s.giveUp(l)
		s.told(nil, errNoPassages)
		return nil
	case <-ctx.Done():
		s.giveUp(l)
		return nil
	}
	var passages []string
	for _, p := range l.found {
		if p = tool.CleanText(p, maxPassage); p != "" && len(passages) < s.cfg.Limit {
			passages = append(passages, p)
		}
	}
	s.told(passages, l.err)
	return passages
}

// giveUp ends l, which is not what the next turn with the same words waits for.
func (s *search) giveUp(l *lookup) {
	l.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == l {
		s.now = nil
	}
}

// close ends the search under way and waits for it, or for ctx.
func (s *search) close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	if s.now != nil {
		s.now.cancel()
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() { s.tasks.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("runtime: the retriever does not end: %w", context.Cause(ctx))
	}
}

// countWords counts words; of scripts that part none with spaces, two characters count
// as one.
func countWords(text string) int {
	n, runes := 0, 0
	for _, field := range strings.Fields(text) {
		word := false
		for _, r := range field {
			switch {
			case unspaced(r):
				runes++
			case unicode.IsLetter(r) || unicode.IsDigit(r):
				word = true
			}
		}
		if word {
			n++
		}
	}
	return n + (runes+1)/2
}

// unspaced tells characters of scripts that do not part words with spaces.
func unspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// plainWords is text in lower case, without punctuation, with single spaces.
func plainWords(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return r != '\'' && !unicode.In(r, unicode.L, unicode.M, unicode.N)
	}), " ")
}
