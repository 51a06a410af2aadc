// Package pocketsphinx is an embedded English recogniser for small grammars: menus,
// digits, commands. It runs in the gateway's own process, by cgo, with no network
// and no key. It costs about 15 % of a core while the caller speaks, nothing while he
// does not, and 8 MB a call from the first utterance on; the final result comes some
// 130 ms after a second of speech.
//
// Over the telephone it is good at telling a handful of words apart (see the tables
// in human_test.go and others_test.go). Recognition without a grammar is there for
// demonstrations only: a third of the words come out wrong.
//
// Without cgo the package still builds, and New says what is missing.
package pocketsphinx

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The rates in Hz of the audio that the recogniser takes.
const (
	telephoneRate = 8000
	modelRate     = 16000
)

// Errors that callers may branch on.
var (
	// ErrClosed is what the methods of a closed stream return.
	ErrClosed = errors.New("pocketsphinx: stream closed")
	// ErrDropped is in a Result when an utterance lost audio: it was longer than
	// Config.MaxUtterance, or too many waited for a decoder that fell behind.
	ErrDropped = errors.New("pocketsphinx: audio was dropped")
)

// UnknownWordsError is the error for a grammar with words that the dictionary does
// not have.
type UnknownWordsError struct{ Words []string }

// Error names the words.
func (e *UnknownWordsError) Error() string {
	return fmt.Sprintf("pocketsphinx: the dictionary does not have %s", strings.Join(e.Words, ", "))
}

// Config says where the model is and how the recogniser decides.
type Config struct {
	// Model is the directory of the acoustic model, Dictionary the file with its
	// words, LanguageModel the file for dictation. They come with Debian's
	// pocketsphinx-en-us.
	Model, Dictionary, LanguageModel string
	// Telephone takes audio at 8 kHz and adapts the model to G.711. Off, the audio
	// is taken at 16 kHz and should hold that much.
	Telephone bool
	// Dictation hears streams without a grammar, for demonstrations only: each takes
	// 250 MB and a second to begin. Off, such a stream hears nothing.
	Dictation bool
	// Interims asks for interim results. Without them the caller's speech is decoded
	// once, when it has ended, and not twice.
	Interims bool
	// Reject is the confidence, 0 to 1, below which speech counts as not
	// recognised: its final result has no text, but tells the confidence.
	Reject float64
	// PreRoll is how much audio from before Begin belongs to the utterance: the
	// time that a voice detector needs, and some more for the first consonant.
	PreRoll time.Duration
	// MaxUtterance is how much audio of one utterance is kept; the oldest is
	// dropped.
	MaxUtterance time.Duration
}

// DefaultConfig is for telephone audio and grammars.
func DefaultConfig() Config {
	const dir = "/usr/share/pocketsphinx/model/en-us"
	return Config{
		Model:         filepath.Join(dir, "en-us"),
		Dictionary:    filepath.Join(dir, "cmudict-en-us.dict"),
		LanguageModel: filepath.Join(dir, "en-us.lm.bin"),
		Telephone:     true,
		Interims:      true,
		Reject:        0.5,
		PreRoll:       800 * time.Millisecond,
		MaxUtterance:  15 * time.Second,
	}
}

// Validate tells what is wrong with c. It does not look at the files; New does.
func (c Config) Validate() error {
	switch {
	case c.Model == "":
		return errors.New("pocketsphinx: no model directory")
	case c.Dictionary == "":
		return errors.New("pocketsphinx: no dictionary")
	case c.Dictation && c.LanguageModel == "":
		return errors.New("pocketsphinx: dictation needs a language model")
	case !(c.Reject >= 0 && c.Reject < 1):
		return fmt.Errorf("pocketsphinx: reject %v is not from 0 to below 1", c.Reject)
	case c.PreRoll < 0 || c.PreRoll > 2*time.Second:
		return fmt.Errorf("pocketsphinx: pre-roll %v is not from 0 to 2s", c.PreRoll)
	case c.MaxUtterance < time.Second || c.MaxUtterance > time.Minute:
		return fmt.Errorf("pocketsphinx: longest utterance %v is not from 1s to 1m", c.MaxUtterance)
	}
	return nil
}

// rate in Hz of the audio that streams take.
func (c Config) rate() int {
	if c.Telephone {
		return telephoneRate
	}
	return modelRate
}

// files looks for the model's files before the library does, because the library
// ends the process over some that are missing.
func (c Config) files() error {
	need := []string{c.Dictionary}
	for _, f := range []string{"feat.params", "mdef", "means", "noisedict", "sendump", "transition_matrices", "variances"} {
		need = append(need, filepath.Join(c.Model, f))
	}
	if c.Dictation {
		need = append(need, c.LanguageModel)
	}
	for _, f := range need {
		if s, err := os.Stat(f); err != nil || !s.Mode().IsRegular() {
			return fmt.Errorf("pocketsphinx: %s is missing: install Debian's pocketsphinx-en-us, or set the model's place", f)
		}
	}
	return nil
}
