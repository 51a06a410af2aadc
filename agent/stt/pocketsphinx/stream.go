//go:build cgo

package pocketsphinx

import (
	"context"
	"time"

	"parley/agent/stt"
)

// interimEvery is how much more of an utterance is decoded between two interim
// results.
const interimEvery = 100 * time.Millisecond

// stream is the recognition of one call. Its goroutine owns the decoders.
type stream struct {
	recognizer *Recognizer
	in         *intake
	out        func(stt.Result)
	ctx        context.Context
	cancel     context.CancelFunc
	done       chan struct{}

	grammars, dictation *decoder // made when first needed
	buf                 []int16
}

func newStream(ctx context.Context, r *Recognizer, e *expectation, out func(stt.Result)) *stream {
	s := &stream{recognizer: r, in: newIntake(r.cfg, e), out: out, done: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(ctx)
	go s.run()
	return s
}

// Write implements stt.Stream. It costs a copy.
func (s *stream) Write(pcm []int16) error { return s.in.write(pcm) }

// Begin implements stt.Stream. Within an utterance it changes nothing.
func (s *stream) Begin() { s.in.begin() }

// Finalize implements stt.Stream.
func (s *stream) Finalize() { s.in.finalize() }

// Expect implements stt.Stream. A grammar with words that the dictionary does not
// have is refused with an *UnknownWordsError, and the one before stays.
func (s *stream) Expect(e stt.Expect) error {
	checked, err := s.recognizer.expect(e)
	if err != nil {
		return err
	}
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	if s.in.closed {
		return ErrClosed
	}
	s.in.expect = checked
	return nil
}

// Close implements stt.Stream. What was not recognised yet is not.
func (s *stream) Close() error {
	s.cancel()
	s.in.close()
	<-s.done
	return nil
}

func (s *stream) run() {
	defer close(s.done)
	defer func() {
		for _, d := range []*decoder{s.grammars, s.dictation} {
			if d != nil {
				d.free()
			}
		}
	}()
	defer s.in.close() // whoever writes to a stream whose context is over hears of it
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.in.wake:
		}
		for u := s.in.first(); u != nil && s.ctx.Err() == nil; u = s.in.first() {
			if err := s.recognize(u); err != nil {
				s.report(stt.Result{Err: err})
				s.report(stt.Result{Final: true})
			}
			s.in.done(u)
		}
	}
}

// report gives a result to out, unless the stream is over.
func (s *stream) report(r stt.Result) {
	if s.ctx.Err() == nil {
		s.out(r)
	}
}

// decoder is the one for an expectation, ready to start.
func (s *stream) decoder(e *expectation) (*decoder, error) {
	cfg := s.recognizer.cfg
	if e.grammar == "" {
		if s.dictation == nil {
			d, err := newDecoder(cfg, true)
			if err != nil {
				return nil, err
			}
			s.dictation = d
		}
		return s.dictation, nil
	}
	if s.grammars == nil {
		d, err := newDecoder(cfg, false)
		if err != nil {
			return nil, err
		}
		s.grammars = d
	}
	return s.grammars, s.grammars.use(e.grammar, e.words, s.recognizer.dict)
}

// recognize decodes one utterance, from its first samples to its final result: as the
// words come, for interim results, and once more when they have ended.
func (s *stream) recognize(u *utterance) error {
	first, from, ended, _ := s.in.take(u, 0, s.buffer())
	if ended && len(first) == 0 && from == 0 { // Finalize without Begin
		s.report(stt.Result{Final: true})
		return nil
	}
	if u.expect.deaf {
		if err := s.wait(u); err != nil {
			return err
		}
		s.report(stt.Result{Final: true})
		return nil
	}
	d, err := s.decoder(u.expect)
	if err != nil {
		return err
	}
	dictation := u.expect.grammar == ""
	if dictation || s.recognizer.cfg.Interims {
		err = s.live(d, u)
	} else {
		err = s.wait(u)
	}
	switch {
	case err != nil:
		return err
	case dictation:
		s.report(stt.Result{Final: true, Text: d.text()})
		return nil
	}
	text, sure, err := s.settle(d, s.in.whole(u))
	if err != nil {
		return err
	}
	s.report(stt.Result{Final: true, Text: text, Confidence: sure})
	return nil
}

// live decodes an utterance while it is spoken, with interim results.
func (s *stream) live(d *decoder, u *utterance) error {
	search := grammarSearch
	if u.expect.grammar == "" {
		search = ""
	}
	if err := d.start(search); err != nil {
		return err
	}
	defer d.end()
	at, next, said := 0, 0, ""
	step := int(interimEvery * time.Duration(s.in.rate) / time.Second)
	for s.ctx.Err() == nil {
		pcm, from, ended, lost := s.in.take(u, at, s.buffer())
		if lost {
			s.report(stt.Result{Err: ErrDropped})
		}
		at = from + len(pcm)
		d.feed(pcm)
		if at >= next && s.recognizer.cfg.Interims {
			next = at + step
			if t := d.text(); t != said && !ended {
				said = t
				s.report(stt.Result{Text: t})
			}
		}
		if ended {
			return nil
		}
		if len(pcm) == 0 {
			s.sleep()
		}
	}
	return s.ctx.Err()
}

// wait waits for the end of an utterance.
func (s *stream) wait(u *utterance) error {
	at := 0
	for s.ctx.Err() == nil {
		pcm, from, ended, lost := s.in.take(u, at, s.buffer())
		if lost {
			s.report(stt.Result{Err: ErrDropped})
		}
		at = from + len(pcm)
		if ended {
			return nil
		}
		if len(pcm) == 0 {
			s.sleep()
		}
	}
	return s.ctx.Err()
}

func (s *stream) sleep() {
	select {
	case <-s.ctx.Done():
	case <-s.in.wake:
	}
}

// settle finds the words of an utterance that has ended, and how sure they are.
//
// It first moves the call's mean to that of the utterance, which halves the errors of
// a call's first utterances, and then decodes twice: by the grammar, and by phones,
// to tell what to think of the words.
func (s *stream) settle(d *decoder, pcm []int16) (text string, sure float64, err error) {
	pcm = frame(pcm, s.in.rate)
	before := d.mean
	d.adapt(pcm)
	if err := s.decode(d, grammarSearch, pcm); err != nil {
		return "", 0, err
	}
	text = d.text()
	words, frames := d.score()
	if text != "" && frames > 0 {
		if err := s.decode(d, loopSearch, pcm); err != nil {
			return "", 0, err
		}
		loop, frames := d.score()
		sure = confidence(words, loop, frames)
	}
	if text == "" || sure < s.recognizer.cfg.Reject {
		d.mean = before // a cough says nothing about the caller's voice
		return "", sure, nil
	}
	return text, sure, nil
}

// decode runs one decoding over pcm, as long as the stream is open.
func (s *stream) decode(d *decoder, search string, pcm []int16) error {
	if err := d.start(search); err != nil {
		return err
	}
	defer d.end()
	step := len(s.buffer())
	for at := 0; at < len(pcm); at += step {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		d.feed(pcm[at:min(len(pcm), at+step)])
	}
	return nil
}

// buffer is the stream's for one piece of audio, 20 ms.
func (s *stream) buffer() []int16 {
	if s.buf == nil {
		s.buf = make([]int16, s.in.rate/50)
	}
	return s.buf
}
