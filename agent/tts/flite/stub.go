//go:build !cgo

package flite

import (
	"context"
	"errors"

	"parley/agent/tts"
)

// ErrNoCgo is what New returns in a program built without cgo.
var ErrNoCgo = errors.New("flite: built without cgo: install a C compiler and Debian's flite1-dev and build with CGO_ENABLED=1")

// Voice cannot be made without cgo.
type Voice struct{}

// New returns ErrNoCgo, or what is wrong with cfg.
func New(cfg Config) (*Voice, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return nil, ErrNoCgo
}

// Rate implements tts.Voice.
func (*Voice) Rate() int { return 16000 }

// Speak implements tts.Voice; it returns ErrNoCgo.
func (*Voice) Speak(context.Context, string, func(tts.Chunk) error) error { return ErrNoCgo }
