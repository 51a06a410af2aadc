//go:build !cgo

package pocketsphinx

import (
	"context"
	"errors"

	"parley/agent/stt"
)

// ErrNoCgo is what New returns in a program built without cgo.
var ErrNoCgo = errors.New("pocketsphinx: built without cgo: install a C compiler and Debian's libpocketsphinx-dev and pocketsphinx-en-us and build with CGO_ENABLED=1")

// Recognizer cannot be made without cgo.
type Recognizer struct{ cfg Config }

// New returns ErrNoCgo, or what is wrong with cfg.
func New(cfg Config) (*Recognizer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return nil, ErrNoCgo
}

// Rate implements stt.Recognizer.
func (r *Recognizer) Rate() int { return r.cfg.rate() }

// Knows knows no word.
func (*Recognizer) Knows(string) bool { return false }

// Open implements stt.Recognizer; it returns ErrNoCgo.
func (*Recognizer) Open(context.Context, stt.Options, func(stt.Result)) (stt.Stream, error) {
	return nil, ErrNoCgo
}
