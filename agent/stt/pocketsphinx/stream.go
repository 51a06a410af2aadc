//go:build cgo

package pocketsphinx

import (
	"context"
	"time"

	"parley/agent/stt"
	"parley/agent/stt/internal/utterance"
)

// interimEvery is how much more of an utterance is decoded between two interim
// results.
const interimEvery = 100 * time.Millisecond

// expectation is a grammar that was found good; an empty one means dictation.
type expectation struct {
	grammar string
	words   []string
	// deaf says that nothing is known to listen for: there is no grammar, and
	// dictation is off.
	deaf bool
}

type (
	intake = utterance.Intake[*expectation]
	spoken = utterance.Utterance[*expectation]
)

// stream is the recognition of one call. Its goroutine owns the decoders.
type stream struct {
	recognizer *Recognizer
	in         *intake
	rate       int // Hz
	out        func(stt.Result)
	ctx        context.Context
	cancel     context.CancelFunc
	done       chan struct{}

	grammars, dictation *decoder // made when first needed
	buf                 []int16
}

func newStream(ctx context.Context, r *Recognizer, e *expectation, out func(stt.Result)) *stream {
	in := utterance.New(utterance.Config{
		Rate: r.cfg.rate(), PreRoll: r.cfg.PreRoll, Longest: r.cfg.MaxUtterance, Closed: ErrClosed,
	}, e)
	s := &stream{recognizer: r, in: in, rate: r.cfg.rate(), out: out, done: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(ctx)
	go s.run()
	return s
}

// Write implements stt.Stream. It costs a copy.
func (s *stream) Write(pcm []int16) error { return s.in.Write(pcm) }

// Begin implements stt.Stream. Within an utterance it changes nothing.
func (s *stream) Begin() { s.in.Begin() }

// Finalize implements stt.Stream.
func (s *stream) Finalize() { s.in.Finalize() }

// Expect implements stt.Stream. A grammar with words that the dictionary does not
// have is refused with an *UnknownWordsError, and the one before stays.
func (s *stream) Expect(e stt.Expect) error {
	checked, err := s.recognizer.expect(e)
	if err != nil {
		return err
	}
	return s.in.Expect(checked)
}

// Close implements stt.Stream. What was not recognised yet is not.
func (s *stream) Close() error {
	s.cancel()
	s.in.Close()
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
	defer s.in.Close() // whoever writes to a stream whose context is over hears of it
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.in.Wake():
		}
		for u := s.in.First(); u != nil && s.ctx.Err() == nil; u = s.in.First() {
			if err := s.recognize(u); err != nil {
				s.report(stt.Result{Err: err})
				s.report(stt.Result{Final: true})
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
func (s *stream) recognize(u *spoken) error {
	first, from, ended, _ := s.in.Take(u, 0, s.buffer())
	if ended && len(first) == 0 && from == 0 { // Finalize without Begin
		s.report(stt.Result{Final: true})
		return nil
	}
	if u.Expect.deaf {
		if err := s.wait(u); err != nil {
			return err
		}
		s.report(stt.Result{Final: true})
		return nil
	}
	d, err := s.decoder(u.Expect)
	if err != nil {
		return err
	}
	dictation := u.Expect.grammar == ""
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
	text, sure, err := s.settle(d, s.in.Whole(u))
	if err != nil {
		return err
	}
	s.report(stt.Result{Final: true, Text: text, Confidence: sure})
	return nil
}

// live decodes an utterance while it is spoken, with interim results.
func (s *stream) live(d *decoder, u *spoken) error {
	search := grammarSearch
	if u.Expect.grammar == "" {
		search = ""
	}
	if err := d.start(search); err != nil {
		return err
	}
	defer d.end()
	at, next, said := 0, 0, ""
	step := int(interimEvery * time.Duration(s.rate) / time.Second)
	for s.ctx.Err() == nil {
		pcm, from, ended, lost := s.in.Take(u, at, s.buffer())
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
func (s *stream) wait(u *spoken) error {
	for s.ctx.Err() == nil {
		_, ended, lost := s.in.State(u)
		if lost {
			s.report(stt.Result{Err: ErrDropped})
		}
		if ended {
			return nil
		}
		s.sleep()
	}
	return s.ctx.Err()
}

func (s *stream) sleep() {
	select {
	case <-s.ctx.Done():
	case <-s.in.Wake():
	}
}

// settle finds the words of an utterance that has ended, and how sure they are.
//
// It first moves the call's mean to that of the utterance, which halves the errors of
// a call's first utterances, and then decodes twice: by the grammar, and by phones,
// to tell what to think of the words.
func (s *stream) settle(d *decoder, pcm []int16) (text string, sure float64, err error) {
	pcm = frame(pcm, s.rate)
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
		s.buf = make([]int16, s.rate/50)
	}
	return s.buf
}
