package failover

import (
	"context"
	"errors"
	"fmt"
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
	rate    *resample.Resampler
	options stt.Options
	kept    []int16 // since the last final, at most Config.Replay
	begun   bool    // the caller's voice began, and no final came since
	ended   bool    // a final was asked for, and did not come
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
	s.life, s.cancel = context.WithCancelCause(ctx)
	s.patient = time.AfterFunc(time.Hour, s.silent)
	s.patient.Stop()
	s.workers.Go(s.watch)
	return s
}

// watch waits for losses and has the next recogniser take over.
func (s *stream) watch() {
	for {
		select {
		case <-s.life.Done():
			return
		case l := <-s.lost:
			s.mu.Lock()
			old := s.current
			if l.turn != s.turn || s.over {
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
	turn, options := s.turn, s.options
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
	var rate *resample.Resampler
	if from, to := s.r.Rate(), s.r.choices[choice].Recognizer.Rate(); from != to {
		if rate, err = resample.New(from, to, resample.Voice); err != nil {
			return errors.Join(err, next.Close())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		_ = next.Close()
		return errClosed
	}
	s.current, s.choice, s.rate = next, choice, rate
	if s.options.Expect.Grammar != options.Expect.Grammar { // it changed meanwhile
		_ = next.Expect(s.options.Expect) // a grammar that it cannot use is not a reason to be deaf
	}
	if s.begun { // first: of audio before it a recogniser may take no more than a pre-roll
		next.Begin()
	}
	if len(s.kept) > 0 {
		s.write(s.kept)
	}
	if s.ended {
		s.ask()
	}
	return nil
}

// heard takes a result of a recogniser.
func (s *stream) heard(turn, choice int, res stt.Result) {
	s.mu.Lock()
	if turn != s.turn || s.over {
		s.mu.Unlock()
		return
	}
	if errors.Is(res.Err, stt.ErrLost) {
		s.lose(res.Err)
		s.mu.Unlock()
		return
	}
	if res.Final && res.Err == nil {
		s.patient.Stop()
		s.kept, s.begun, s.ended = s.kept[:0], false, false
		s.r.recovered(choice)
	}
	s.mu.Unlock()
	s.tell(res)
}

// lose has the next recogniser take over. The lock is held. A loss that nobody has
// looked at yet is of an earlier recogniser, or the same.
func (s *stream) lose(err error) {
	select {
	case <-s.lost:
	default:
	}
	s.lost <- loss{s.turn, s.choice, err} // only who holds the lock sends: there is room
}

// silent gives up a recogniser that does not answer.
func (s *stream) silent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended && s.current != nil && !s.over {
		s.lose(errSilent)
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
	most := int(s.r.cfg.Replay.Seconds() * float64(s.r.Rate()))
	s.kept = append(s.kept, pcm...)
	if len(s.kept) > 2*most { // rarely, so that little is copied
		s.kept = s.kept[:copy(s.kept, s.kept[len(s.kept)-most:])]
	}
	if s.current != nil {
		s.write(pcm)
	}
	return nil
}

// write gives pcm to the recogniser in use. The lock is held. One that does not take it
// says by a result that it is lost.
func (s *stream) write(pcm []int16) {
	if s.rate != nil {
		pcm = s.rate.Process(nil, pcm)
	}
	if err := s.current.Write(pcm); err != nil {
		s.lose(err)
	}
}

// Begin implements stt.Stream.
func (s *stream) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
	if s.current != nil {
		s.current.Begin()
	}
}

// Finalize implements stt.Stream.
func (s *stream) Finalize() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
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
