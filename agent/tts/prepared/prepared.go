// Package prepared is a voice that has its fixed phrases ready: what a caller is told when
// something failed must not depend on what failed.
package prepared

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/agent/tts"
)

const (
	// maxPhrases and maxLength bound what is kept: at 24 kHz, 46 MB at the very most and
	// less than one of real phrases.
	maxPhrases = 32
	maxLength  = 30 * time.Second
	// firstPause and longestPause are between two tries to make what is missing.
	firstPause   = time.Second
	longestPause = time.Minute
	// tryTime bounds one try at one phrase.
	tryTime = 30 * time.Second
)

// Voice is another voice, but for its phrases: each is made once, when the voice works,
// and spoken from memory from then on. It is safe for concurrent use.
type Voice struct {
	of tts.Voice

	mu   sync.Mutex
	made map[string][]tts.Chunk // by phrase; nil: not yet
}

var _ tts.Styled = (*Voice)(nil)

// New makes a voice that speaks like of. Empty phrases, and those beyond the 32nd, are
// like any other text.
func New(of tts.Voice, phrases ...string) *Voice {
	v := &Voice{of: of, made: map[string][]tts.Chunk{}}
	for _, p := range phrases {
		if p = strings.TrimSpace(p); p != "" && len(v.made) < maxPhrases {
			v.made[p] = nil
		}
	}
	return v
}

// Rate implements tts.Voice.
func (v *Voice) Rate() int { return v.of.Rate() }

// Speak implements tts.Voice.
func (v *Voice) Speak(ctx context.Context, text string, out func(tts.Chunk) error) error {
	phrase := strings.TrimSpace(text)
	chunks, fixed := v.have(phrase)
	switch {
	case !fixed:
		return v.of.Speak(ctx, text, out)
	case chunks == nil:
		return v.make(ctx, phrase, out)
	}
	for _, c := range chunks {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := out(c); err != nil {
			return err
		}
	}
	return nil
}

// SpeakStyled implements tts.Styled. What has a style is no phrase.
func (v *Voice) SpeakStyled(ctx context.Context, text, style string, out func(tts.Chunk) error) error {
	if styled, ok := v.of.(tts.Styled); ok && style != "" {
		return styled.SpeakStyled(ctx, text, style, out)
	}
	return v.Speak(ctx, text, out)
}

// have is what was made of a phrase.
func (v *Voice) have(phrase string) (chunks []tts.Chunk, fixed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	chunks, fixed = v.made[phrase]
	return chunks, fixed
}

// make has the voice speak a phrase, and keeps it if nothing goes wrong.
func (v *Voice) make(ctx context.Context, phrase string, out func(tts.Chunk) error) error {
	var kept []tts.Chunk
	samples, most := 0, int(maxLength.Seconds())*v.Rate()
	err := v.of.Speak(ctx, phrase, func(c tts.Chunk) error {
		if samples += len(c.PCM); samples <= most {
			kept = append(kept, tts.Chunk{PCM: slices.Clone(c.PCM), Words: slices.Clone(c.Words)})
		}
		return out(c)
	})
	if err != nil || samples == 0 || samples > most {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.made[phrase] = kept
	return nil
}

// Missing are the phrases that were not made yet, sorted.
func (v *Voice) Missing() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []string
	for p, chunks := range v.made {
		if chunks == nil {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

var errSilence = errors.New("it has no sound, or one that is too long to keep")

// Prepare makes what is missing, one phrase after the other.
func (v *Voice) Prepare(ctx context.Context) error {
	var errs []error
	for _, p := range v.Missing() {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		within, cancel := context.WithTimeout(ctx, tryTime)
		err := v.make(within, p, func(tts.Chunk) error { return within.Err() })
		cancel()
		if _, made := v.have(p); err == nil && made && slices.Contains(v.Missing(), p) {
			err = errSilence
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("tts/prepared: %.40q: %w", p, err))
		}
	}
	return errors.Join(errs...)
}

// Keep prepares what is missing until nothing is, or ctx ends: a voice that does not work
// when the gateway starts may later. report is told of the first failure.
func (v *Voice) Keep(ctx context.Context, report func(error)) {
	pause := firstPause
	for tries := 0; ; tries++ {
		err := v.Prepare(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if tries == 0 {
			report(err)
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		pause = min(2*pause, longestPause)
	}
}
