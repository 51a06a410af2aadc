package cascade

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"parley/agent"
	"parley/agent/llm"
	"parley/agent/tts"
)

// errNoSound is the cause when the voice falls silent within a sentence.
var errNoSound = errors.New("cascade: the voice gave no sound in time")

// hand gives r to a worker, in place of what it has not begun yet. Only the loop
// hands, so there is room.
func hand(jobs chan *reply, r *reply) {
	select {
	case <-jobs:
	default:
	}
	jobs <- r
}

// work runs one of the session's workers until the session is over.
func (s *session) work(jobs chan *reply, do func(*reply)) {
	defer s.workers.Done()
	// A provider that panics takes its own call down, not the others'.
	defer func() {
		if p := recover(); p != nil {
			s.post(s.life, fault{fmt.Errorf("cascade: panic in a provider: %v", p)})
		}
	}()
	for {
		select {
		case <-s.life.Done():
			return
		case r := <-jobs:
			do(r)
		}
	}
}

// think has the model say its reply, piece by piece.
func (s *session) think(r *reply) {
	if !r.begin() {
		return
	}
	out := func(c llm.Chunk) error {
		if err := context.Cause(r.thinking); err != nil {
			return err
		}
		if c.Expect != nil {
			s.post(r.thinking, expectation{r, *c.Expect})
		}
		err := r.write(c.Text)
		if err == nil && c.Action != nil {
			r.act(*c.Action)
		}
		return err
	}
	var err error
	if r.purpose == greeting {
		err = s.model.Greet(r.thinking, out)
	} else {
		err = s.model.Reply(r.thinking, r.turn, out)
	}
	if r.ctx.Err() == nil && r.close(err, s.fallback(r)) {
		s.post(r.ctx, thought{r, err})
	}
}

// speak gives a reply to the voice, and its sound to the call.
func (s *session) speak(r *reply) {
	// Nothing is queued when a reply begins: the one before was heard to its end
	// or stopped.
	at := s.call.Speaker.Played()
	for {
		it, ok := r.take()
		if !ok {
			break
		}
		if it.action != nil {
			s.mark(r, it.action, at)
			continue
		}
		s.post(r.ctx, sentence{r, strings.TrimSpace(it.text)})
		var err error
		at, err = s.say(r, it, at)
		if errors.Is(err, agent.ErrClosed) || errors.Is(err, agent.ErrStopped) {
			break // cut off, or the call is over and Run is about to hear of it: no fault
		}
		if err != nil && r.ctx.Err() == nil {
			s.post(r.ctx, mute{r, err})
		}
	}
	if r.ctx.Err() != nil {
		return
	}
	if _, sounds := r.sounded(); sounds {
		s.call.Speaker.Flush()
	}
	s.post(r.ctx, said{r, at})
}

// mark has an action done when the words before it were heard, and waits until it
// was: what is said after it may depend on that.
func (s *session) mark(r *reply, a *llm.Action, at time.Duration) {
	if _, sounds := r.sounded(); sounds {
		s.call.Speaker.Flush()
	}
	done := make(chan struct{})
	s.post(r.ctx, marked{r, markedAction{a, at, done}})
	select {
	case <-done:
	case <-r.ctx.Done():
	}
}

// say speaks one piece that begins at a position, and returns where it ends.
func (s *session) say(r *reply, it item, at time.Duration) (time.Duration, error) {
	if !it.own {
		r.spoken.Begin(at, it.text)
	}
	ctx, cancel := context.WithCancelCause(r.ctx)
	defer cancel(nil)
	watch := time.AfterFunc(s.cfg.FirstSound, func() { cancel(errNoSound) })
	defer watch.Stop()
	samples, rate := 0, s.cfg.TTS.Rate()
	length := func() time.Duration { return time.Duration(int64(samples) * int64(time.Second) / int64(rate)) }
	err := s.cfg.TTS.Speak(ctx, strings.TrimSpace(it.text), func(c tts.Chunk) error {
		watch.Stop()
		if err := context.Cause(ctx); err != nil {
			return err
		}
		samples += len(c.PCM)
		if !it.own {
			for _, w := range c.Words {
				r.spoken.Word(w.Text, w.End)
			}
			r.spoken.Grow(length())
		}
		if len(c.PCM) > 0 {
			r.saying(true, at)
			err := s.call.Speaker.Say(ctx, c.PCM)
			if r.saying(false, at); err != nil {
				return err
			}
		}
		watch.Reset(s.cfg.FirstSound)
		return nil
	})
	if err != nil && context.Cause(ctx) == errNoSound {
		err = errNoSound
	}
	switch {
	case it.own || r.ctx.Err() != nil: // what was cut off may yet be said
	case err != nil:
		r.broke(r.spoken.Fail())
	default:
		r.spoken.End()
	}
	return at + length(), err
}
