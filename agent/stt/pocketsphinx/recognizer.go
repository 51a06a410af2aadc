//go:build cgo

package pocketsphinx

import (
	"context"
	"fmt"
	"strings"

	"parley/agent/stt"
)

// Recognizer opens streams that share the dictionary and nothing else: each has a
// decoder of its own, made when its first utterance begins. It is safe for
// concurrent use and holds nothing that would need closing.
type Recognizer struct {
	cfg  Config
	dict *dictionary
}

var _ stt.Recognizer = (*Recognizer)(nil)

// New reads the dictionary and tries the model.
func New(cfg Config) (*Recognizer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := cfg.files(); err != nil {
		return nil, err
	}
	dict, err := readDictionary(cfg.Dictionary)
	if err != nil {
		return nil, err
	}
	d, err := newDecoder(cfg, false)
	if err != nil {
		return nil, err
	}
	d.free()
	return &Recognizer{cfg: cfg, dict: dict}, nil
}

// Rate implements stt.Recognizer: 8000 with Config.Telephone, else 16000.
func (r *Recognizer) Rate() int { return r.cfg.rate() }

// Open implements stt.Recognizer. The language is English; others are refused.
// Errors are those of Stream.Expect.
func (r *Recognizer) Open(ctx context.Context, o stt.Options, out func(stt.Result)) (stt.Stream, error) {
	if l, _, _ := strings.Cut(strings.ToLower(o.Language), "-"); l != "" && l != "en" {
		return nil, fmt.Errorf("pocketsphinx: language %q: the model knows English only", o.Language)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e, err := r.expect(o.Expect)
	if err != nil {
		return nil, err
	}
	return newStream(ctx, r, e, out), nil
}

// Knows says whether a word, in lower case, is in the dictionary: grammars with
// others are refused.
func (r *Recognizer) Knows(word string) bool { return len(r.dict.pronunciations(word)) > 0 }

// expect checks what a stream shall listen for.
func (r *Recognizer) expect(e stt.Expect) (*expectation, error) {
	if strings.TrimSpace(e.Grammar) == "" {
		return &expectation{deaf: !r.cfg.Dictation}, nil
	}
	words, err := vocabulary(e.Grammar)
	if err != nil {
		return nil, err
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("pocketsphinx: the grammar has no words")
	}
	if m := r.dict.missing(words); len(m) > 0 {
		return nil, &UnknownWordsError{Words: m}
	}
	if err := checkGrammar(e.Grammar); err != nil {
		return nil, err
	}
	return &expectation{grammar: e.Grammar, words: words}, nil
}
