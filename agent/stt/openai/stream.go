package openai

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"parley/agent/stt"
	"parley/agent/stt/internal/utterance"
)

type (
	intake = utterance.Intake[stt.Expect]
	spoken = utterance.Utterance[stt.Expect]
)

// stream transcribes one call. Its goroutine takes one utterance after the other.
type stream struct {
	r        *Recognizer
	language string
	in       *intake
	out      func(stt.Result)
	ctx      context.Context
	cancel   context.CancelFunc
	done     chan struct{}
	failures int // in a row
}

func newStream(ctx context.Context, r *Recognizer, o stt.Options, out func(stt.Result)) *stream {
	in := utterance.New(utterance.Config{
		Rate: r.cfg.Rate, PreRoll: r.cfg.PreRoll, Longest: r.cfg.MaxUtterance, Closed: ErrClosed,
	}, own(o.Expect))
	s := &stream{r: r, language: o.Language, in: in, out: out, done: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(ctx)
	go s.run()
	return s
}

// own is e with nothing in it that its giver may change.
func own(e stt.Expect) stt.Expect {
	e.Phrases = slices.Clone(e.Phrases)
	return e
}

// Write implements stt.Stream. It costs a copy.
func (s *stream) Write(pcm []int16) error { return s.in.Write(pcm) }

// Begin implements stt.Stream. Within an utterance it changes nothing.
func (s *stream) Begin() { s.in.Begin() }

// Finalize implements stt.Stream.
func (s *stream) Finalize() { s.in.Finalize() }

// Expect implements stt.Stream.
func (s *stream) Expect(e stt.Expect) error { return s.in.Expect(own(e)) }

// Close implements stt.Stream. What was not transcribed yet is not.
func (s *stream) Close() error {
	s.cancel()
	s.in.Close()
	<-s.done
	return nil
}

func (s *stream) run() {
	defer close(s.done)
	defer s.cancel()
	defer s.in.Close() // whoever writes to a stream whose context is over hears of it
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.in.Wake():
		}
		for u := s.in.First(); u != nil && s.ctx.Err() == nil; u = s.in.First() {
			if !s.recognize(u) {
				return
			}
			s.in.Done(u)
		}
	}
}

// report gives a result to out, unless the stream is over.
func (s *stream) report(r stt.Result) {
	if s.ctx.Err() == nil {
		s.out(r)
	}
}

// recognize transcribes one utterance once it has ended; false says that the stream
// is over.
func (s *stream) recognize(u *spoken) bool {
	if !s.listen(u) {
		return false
	}
	pcm := s.in.Whole(u)
	if !s.worth(pcm) {
		s.report(stt.Result{Final: true})
		return true
	}
	ctx, cancel := context.WithTimeoutCause(s.ctx, s.r.cfg.Timeout, errLate)
	defer cancel()
	t, err := s.r.transcribe(ctx, pcm, s.language, u.Expect, func(text string) { s.report(stt.Result{Text: text}) })
	switch {
	case s.ctx.Err() != nil:
		return false
	case err != nil:
		return s.failed(err)
	}
	s.failures = 0
	s.report(s.result(u, t))
	return true
}

var errLate = errors.New("no transcript in time")

// failed counts a failure; false says that it was the last.
func (s *stream) failed(err error) bool {
	s.failures++
	if s.failures >= s.r.cfg.Failures || hopeless(err) {
		s.report(stt.Result{Err: fmt.Errorf("%w: %w", stt.ErrLost, err)})
		return false
	}
	s.report(stt.Result{Err: err})
	s.report(stt.Result{Final: true}) // the turn goes on without the words
	return true
}

// worth says whether there is something in pcm to transcribe.
func (s *stream) worth(pcm []int16) bool { return voiced(pcm, s.r.cfg.Rate, s.r.cfg.MinLevel) }

// result is the final one.
func (s *stream) result(u *spoken, t transcript) stt.Result {
	if t.confidence > 0 && t.confidence < s.r.cfg.Reject {
		return stt.Result{Final: true, Confidence: t.confidence}
	}
	place := s.in.Place(u)
	for i := range t.words {
		t.words[i].Start += place
		t.words[i].End += place
	}
	return stt.Result{Final: true, Text: t.text, Confidence: t.confidence, Words: t.words}
}

// listen waits for the end of an utterance, and transcribes what there is of it from
// time to time if it shall; false says that the stream is over.
func (s *stream) listen(u *spoken) bool {
	interim := s.newInterim(u)
	defer interim.stop()
	for s.ctx.Err() == nil {
		samples, ended, lost := s.in.State(u)
		if lost {
			s.report(stt.Result{Err: ErrDropped})
		}
		if ended {
			return s.ctx.Err() == nil
		}
		interim.consider(samples)
		select {
		case <-s.ctx.Done():
		case <-s.in.Wake():
		case t := <-interim.done:
			interim.take(t)
		}
	}
	return false
}
