package failover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"parley/agent/stt"
	"parley/media/resample"
)

// stream is one call's stream of a Recognizer. Its one goroutine changes recognisers;
// while it does, what the caller says is kept.
type stream struct {
	r       *Recognizer
	out     func(stt.Result)
	life    context.Context
	cancel  context.CancelCauseFunc
	lost    chan loss
	workers sync.WaitGroup

	mu      sync.Mutex
	current stt.Stream // nil while another one is opened
	choice  int
	turn    int // counts recognisers: results of earlier ones mean nothing
	coming  int // the turn of one that is opened while another hears
	rate    *resample.Resampler
	pcm     []int16 // at the rate of current
	options stt.Options
	changed int           // counts changes of options.Expect
	kept    kept          // what has no final transcript
	base    time.Duration // where the audio of the recogniser in use begins in the stream's
	early   *loss         // of a recogniser that was lost while it was opened
	over    bool
	patient *time.Timer // runs while a final is waited for

	say sync.Mutex // held while out is called, so that nothing is said after Close
}

// loss is a recogniser that is gone.
type loss struct {
	turn, choice int
	err          error
}

func newStream(ctx context.Context, r *Recognizer, o stt.Options, out func(stt.Result)) *stream {
	s := &stream{r: r, out: out, options: o, choice: -1, lost: make(chan loss, 1)}
	s.kept = kept{rate: r.Rate(), most: int(r.cfg.Replay.Seconds() * float64(r.Rate()))}
	s.life, s.cancel = context.WithCancelCause(ctx)
	s.patient = time.AfterFunc(time.Hour, s.silent)
	s.patient.Stop()
	s.workers.Go(s.watch)
	return s
}

// watch waits for losses and has the next recogniser take over, and a preferred one come
// back.
func (s *stream) watch() {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-s.life.Done():
			return
		case <-look.C:
			s.back()
		case l := <-s.lost:
			s.mu.Lock()
			old := s.current
			if l.turn != s.turn || old == nil || s.over {
				s.mu.Unlock()
				continue
			}
			s.current = nil
			s.mu.Unlock()
			_ = old.Close() // it is lost already
			s.r.failed(l.choice)
			if err := s.switchTo(s.life, l.choice, l.err); err != nil && s.life.Err() == nil {
				s.tell(stt.Result{Err: fmt.Errorf("%w: %w", stt.ErrLost, err)})
				return
			}
		}
	}
}

// switchTo opens the next recogniser and gives it what it has missed.
func (s *stream) switchTo(ctx context.Context, failed int, why error) error {
	s.mu.Lock()
	s.turn++
	s.early = nil
	turn, options, changed := s.turn, s.options, s.changed
	s.mu.Unlock()
	next, choice, err := s.r.open(ctx, failed, options, func(i int) func(stt.Result) {
		return func(res stt.Result) { s.heard(turn, i, res) }
	})
	if err != nil {
		return err
	}
	if failed >= 0 && s.r.cfg.OnSwitch != nil {
		s.r.cfg.OnSwitch(s.r.choices[failed].Name, s.r.choices[choice].Name, why)
	}
	rate, err := s.r.resampler(choice)
	if err != nil {
		return errors.Join(err, next.Close())
	}
	if !s.use(next, choice, rate, changed) {
		return errors.Join(errClosed, next.Close()) // without the lock: it may be telling us something
	}
	return nil
}

// use makes next the recogniser of the call; changed is which expectation it was opened
// with. false: the call is over.
func (s *stream) use(next stt.Stream, choice int, rate *resample.Resampler, changed int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	s.install(next, choice, rate, changed)
	return true
}

// install has next hear the call from now on, with what is kept. The lock is held.
func (s *stream) install(next stt.Stream, choice int, rate *resample.Resampler, changed int) {
	s.current, s.choice, s.rate = next, choice, rate
	if s.changed != changed {
		_ = next.Expect(s.options.Expect) // a grammar that it cannot use is not a reason to be deaf
	}
	s.kept.trim()
	s.base = s.kept.at(s.kept.start)
	s.kept.again(next.Begin, s.ask, s.write)
	if s.early != nil && s.early.choice == choice {
		s.lose(choice, s.early.err)
	}
}

// heard takes a result of a recogniser.
func (s *stream) heard(turn, choice int, res stt.Result) {
	s.mu.Lock()
	if turn != s.turn || s.over {
		if turn == s.coming && errors.Is(res.Err, stt.ErrLost) {
			s.early = &loss{turn, choice, res.Err}
		}
		s.mu.Unlock()
		return
	}
	if errors.Is(res.Err, stt.ErrLost) {
		if s.current == nil { // it is being opened
			s.early = &loss{turn, choice, res.Err}
		} else {
			s.lose(choice, res.Err)
		}
		s.mu.Unlock()
		return
	}
	if s.base != 0 && len(res.Words) > 0 {
		res.Words = slices.Clone(res.Words)
		for i := range res.Words {
			res.Words[i].Start += s.base
			res.Words[i].End += s.base
		}
	}
	if res.Final && res.Err == nil {
		s.kept.final(res.Words)
		s.patient.Stop()
		if len(s.kept.asked) > 0 && s.r.cfg.Silent > 0 {
			s.patient.Reset(s.r.cfg.Silent) // the next one's
		}
		s.r.recovered(choice)
	}
	s.mu.Unlock()
	s.tell(res)
}

// lose has the next recogniser take over. The lock is held. A loss that nobody has
// looked at yet is of an earlier recogniser, or the same.
func (s *stream) lose(choice int, err error) {
	select {
	case <-s.lost:
	default:
	}
	s.lost <- loss{s.turn, choice, err} // only who holds the lock sends: there is room
}

// silent gives up a recogniser that does not answer.
func (s *stream) silent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept.asked) > 0 && s.current != nil && !s.over {
		s.lose(s.choice, errSilent)
	}
}

// ask waits for a final transcript. The lock is held.
func (s *stream) ask() {
	if s.r.cfg.Silent > 0 {
		s.patient.Reset(s.r.cfg.Silent)
	}
	s.current.Finalize()
}

// tell gives a result, unless the stream is closed.
func (s *stream) tell(res stt.Result) {
	s.say.Lock()
	defer s.say.Unlock()
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	if !over {
		s.out(res)
	}
}

// Write implements stt.Stream.
func (s *stream) Write(pcm []int16) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return errClosed
	}
	s.kept.write(pcm)
	if s.current != nil {
		s.write(pcm)
	}
	return nil
}

// write gives pcm to the recogniser in use. The lock is held. One that does not take it
// says by a result that it is lost.
func (s *stream) write(pcm []int16) {
	if s.rate != nil {
		s.pcm = s.rate.Process(s.pcm[:0], pcm)
		pcm = s.pcm
	}
	if err := s.current.Write(pcm); err != nil {
		s.lose(s.choice, err)
	}
}

// Begin implements stt.Stream.
func (s *stream) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.begun = true
	if s.current != nil {
		s.current.Begin()
	}
}

// Finalize implements stt.Stream.
func (s *stream) Finalize() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.ask()
	if s.current != nil {
		s.ask()
	}
}

// Expect implements stt.Stream.
func (s *stream) Expect(e stt.Expect) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return errClosed
	}
	s.options.Expect = e
	s.changed++
	if s.current == nil {
		return nil
	}
	return s.current.Expect(e)
}

// Close implements stt.Stream.
func (s *stream) Close() error {
	s.mu.Lock()
	s.over = true
	s.patient.Stop()
	current := s.current
	s.current = nil
	s.mu.Unlock()
	s.cancel(errClosed)
	var err error
	if current != nil {
		err = current.Close()
	}
	s.workers.Wait()
	s.say.Lock() // whoever speaks has spoken
	defer s.say.Unlock()
	return err
}

var _ stt.Stream = (*stream)(nil)
