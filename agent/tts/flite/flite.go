// Package flite is an embedded English voice: the flite synthesiser in the
// gateway's own process, by cgo. It needs no network and no key, begins to sound
// after a few milliseconds and costs about 1.5 % of a core while it speaks.
//
// Without cgo the package still builds, and New says what is missing.
package flite

import (
	"errors"
	"fmt"
)

// MaxText is the longest text in runes that Speak takes. A reply of this length is
// more than two minutes of speech; conversations hand over sentences.
const MaxText = 2000

// Errors that callers may branch on.
var (
	// ErrTooLong is the error of Speak for a text of more than MaxText runes.
	ErrTooLong = fmt.Errorf("flite: text is longer than %d characters", MaxText)
	// ErrLanguage is the error of Speak for a text whose letters are all of scripts
	// that an English voice cannot read.
	ErrLanguage = errors.New("flite: nothing in the text can be read by an English voice")
)

// Config chooses the voice.
type Config struct {
	// Voice is "rms" (male, 16 kHz), "slt" (female, 16 kHz) or "kal" (male, 8 kHz,
	// robotic and cheap).
	Voice string
	// Speed is how fast it speaks, from 0.5 to 2; 1 is the voice's own speed.
	Speed float64
}

// DefaultConfig is the female voice at its own speed.
func DefaultConfig() Config { return Config{Voice: "slt", Speed: 1} }

// Validate tells what is wrong with c.
func (c Config) Validate() error {
	switch c.Voice {
	case "rms", "slt", "kal":
	default:
		return fmt.Errorf("flite: unknown voice %q: the voices are rms, slt and kal", c.Voice)
	}
	if !(c.Speed >= 0.5 && c.Speed <= 2) {
		return fmt.Errorf("flite: speed %v is not between 0.5 and 2", c.Speed)
	}
	return nil
}
