package sound

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/agent/tts"
)

const (
	// piece is the longest stretch given at once: between two of them a cancellation counts.
	piece = 100 * time.Millisecond
	// Sound is held back until the words in it are known, so that they come with it: but
	// no more than firstHeld of it at the beginning, when somebody waits for it, and mostHeld
	// later.
	firstHeld, mostHeld = 250 * time.Millisecond, 2 * time.Second
)

// ErrSilent is of a service that had something to say and made no sound.
var ErrSilent = errors.New("it answered without any sound")

// Speech gives the sound of one text to whoever asked for it: in pieces, with the words that
// begin in them, and nothing more once the context is done. One goroutine at a time may use
// it.
type Speech struct {
	ctx    context.Context
	rate   int
	out    func(tts.Chunk) error
	text   string
	script *script // nil: no words

	held    []int16
	given   int // samples
	refused error
}

// NewSpeech is the speech of text at rate, in Hz. timed says that the service tells where
// words lie.
func NewSpeech(ctx context.Context, text string, rate int, timed bool, out func(tts.Chunk) error) *Speech {
	s := &Speech{ctx: ctx, rate: rate, out: out, text: text}
	if timed {
		s.script = newScript(text)
	}
	return s
}

// longest is more than any text of MaxText characters lasts.
const longest = 10 * time.Minute

// Sound takes the samples that follow. It does not keep the slice.
func (s *Speech) Sound(pcm []int16) error {
	if s.Length() > longest {
		return fmt.Errorf("more than %v of sound for one text", longest)
	}
	s.held = append(s.held, pcm...)
	return s.Flow()
}

// Length is how long the sound is that came so far.
func (s *Speech) Length() time.Duration { return s.time(s.given + len(s.held)) }

// Given is how many samples were given.
func (s *Speech) Given() int { return s.given }

// Held is whether there is sound that waits for its words.
func (s *Speech) Held() bool { return len(s.held) > 0 }

// Token says where in the speech a piece of its text lies, a word or a letter. Pieces come in
// order.
func (s *Speech) Token(text string, start, end time.Duration) {
	if s.script != nil {
		s.script.token(text, start, end)
	}
}

// Told says that Token knows all that there is to know of the sound that came so far. It
// gives what was held back for that.
func (s *Speech) Told() error {
	if s.script != nil {
		s.script.until = max(s.script.until, s.Length())
	}
	return s.Flow()
}

// Release gives all sound there is: its words have not come in time.
func (s *Speech) Release() error { return s.give(len(s.held)) }

// Flow gives what need not be held back any longer, after Token.
func (s *Speech) Flow() error {
	n := len(s.held)
	if s.script != nil {
		n = min(n, max(s.samples(s.script.known())-s.given, 0))
		most := mostHeld
		if s.given == 0 {
			most = firstHeld
		}
		if n < len(s.held) && len(s.held)-n > s.samples(most) {
			n = len(s.held)
		}
	}
	return s.give(n)
}

// End gives the rest.
func (s *Speech) End() error {
	if s.script != nil {
		s.script.finish(s.Length())
	}
	if err := s.give(len(s.held)); err != nil {
		return err
	}
	if s.given == 0 && len(appendKeys(nil, s.text)) > 0 {
		return ErrSilent
	}
	if s.script == nil || s.given == 0 {
		return s.ctx.Err()
	}
	end := s.time(s.given)
	words := s.script.take(1 << 62)
	for i := range words {
		words[i].Start, words[i].End = end, end
	}
	if len(words) == 0 {
		return s.ctx.Err()
	}
	return s.chunk(tts.Chunk{Words: words})
}

// give gives n of the samples held.
func (s *Speech) give(n int) error {
	pcm := s.held[:n]
	for len(pcm) > 0 {
		k := min(len(pcm), s.samples(piece))
		c := tts.Chunk{PCM: pcm[:k:k]}
		if s.script != nil {
			begin := s.time(s.given)
			c.Words = s.script.take(s.time(s.given + k))
			for i := range c.Words { // one that was told of too late is heard a little later
				w := &c.Words[i]
				w.Start = max(w.Start, begin)
				w.End = max(w.End, w.Start)
			}
		}
		if err := s.chunk(c); err != nil {
			return err
		}
		s.given += k
		pcm = pcm[k:]
	}
	s.held = s.held[:copy(s.held, s.held[n:])]
	return nil
}

func (s *Speech) chunk(c tts.Chunk) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	if err := s.out(c); err != nil {
		s.refused = err
		return err
	}
	return nil
}

// Err is what Speak returns for err: that of the listener and that of the context go before
// whatever they caused.
func (s *Speech) Err(err error) error {
	switch {
	case err == nil:
		return nil
	case s.refused != nil:
		return s.refused
	case s.ctx.Err() != nil:
		return s.ctx.Err()
	}
	return err
}

// Again makes the speech ready to begin the text anew after an error. It is false when that
// makes no sense: some of it was heard, or somebody has had enough.
func (s *Speech) Again() bool {
	if s.given > 0 || s.refused != nil || s.ctx.Err() != nil {
		return false
	}
	s.held = s.held[:0]
	if s.script != nil {
		s.script = newScript(s.text)
	}
	return true
}

func (s *Speech) samples(d time.Duration) int {
	return int(int64(d) * int64(s.rate) / int64(time.Second))
}

func (s *Speech) time(samples int) time.Duration {
	return time.Duration(int64(samples) * int64(time.Second) / int64(s.rate))
}
