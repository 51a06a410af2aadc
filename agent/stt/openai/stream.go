package openai

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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

// interim transcribes an utterance that is still being spoken, one request at a time.
// It belongs to the stream's goroutine.
type interim struct {
	s      *stream
	u      *spoken
	step   int // samples; 0: never
	next   int
	said   string
	busy   bool
	done   chan heard
	cancel context.CancelFunc
	ctx    context.Context
}

// heard is the answer to one of an interim's requests.
type heard struct {
	transcript
	err error
}

func (s *stream) newInterim(u *spoken) *interim {
	i := &interim{s: s, u: u, done: make(chan heard, 1), cancel: func() {}}
	if s.r.cfg.Interims > 0 {
		i.step = int(s.r.cfg.Interims * time.Duration(s.r.cfg.Rate) / time.Second)
		i.next = i.step
		i.ctx, i.cancel = context.WithCancel(s.ctx)
	}
	return i
}

// consider sends a request if it is time to.
func (i *interim) consider(samples int) {
	if i.step == 0 || i.busy || samples < i.next {
		return
	}
	pcm := i.s.in.Append(nil, i.u)
	i.next = len(pcm) + i.step
	if !i.s.worth(pcm) {
		return
	}
	i.busy = true
	go func() {
		ctx, cancel := context.WithTimeoutCause(i.ctx, i.s.r.cfg.Timeout, errLate)
		defer cancel()
		t, err := i.s.r.transcribe(ctx, pcm, i.s.language, i.u.Expect, nil)
		i.done <- heard{t, err}
	}()
}

// take reports an answer, if it says anything new. After an error there are no more:
// the final transcript is what counts.
func (i *interim) take(t heard) {
	i.busy = false
	switch {
	case t.err != nil:
		i.step = 0
		i.s.report(stt.Result{Err: t.err})
	case t.text != "" && t.text != i.said && (t.confidence == 0 || t.confidence >= i.s.r.cfg.Reject):
		i.said = t.text
		i.s.report(stt.Result{Text: t.text, Confidence: t.confidence})
	}
}

// stop gives up the request that is under way, and waits for it.
func (i *interim) stop() {
	i.cancel()
	if i.busy {
		<-i.done
	}
}
