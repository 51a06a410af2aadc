// Package failover is a recogniser made of several: when one is lost in mid-call, the
// next hears what the caller just said again, and goes on. A preferred one that is well
// again comes back between two turns.
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

// Choice is a recogniser with its name, for errors and events.
type Choice struct {
	Name       string
	Recognizer stt.Recognizer
}

// Config is how a recogniser takes over from another.
type Config struct {
	// OpenTimeout is how long opening one may take while there is another to try.
	OpenTimeout time.Duration
	// Cooldown is how long one that failed is not asked again, unless all have.
	Cooldown time.Duration
	// Replay is how much of what the caller said since the last final transcript the next
	// one hears again, and how much is kept while it is opened.
	Replay time.Duration
	// Silent is how long a final transcript that was asked for may take. Then the
	// recogniser has failed, though its connection seems to be well. 0: for ever.
	Silent time.Duration
	// OnSwitch is told when one failed and which hears next; "" when none is left. It must
	// not block. May be nil.
	OnSwitch func(failed, next string, err error)
}

// DefaultConfig is for recognisers that answer within a second or two.
func DefaultConfig() Config {
	return Config{OpenTimeout: 1500 * time.Millisecond, Cooldown: 30 * time.Second, Replay: 8 * time.Second, Silent: 3 * time.Second}
}

// Validate says what is wrong with c.
func (c Config) Validate() error {
	var errs []error
	between := func(name string, d, low, high time.Duration) {
		if d < low || d > high {
			errs = append(errs, fmt.Errorf("stt/failover: %s %v is not between %v and %v", name, d, low, high))
		}
	}
	between("open timeout", c.OpenTimeout, 100*time.Millisecond, time.Minute)
	between("cooldown", c.Cooldown, 0, time.Hour)
	between("replay", c.Replay, 0, time.Minute)
	between("silent", c.Silent, 0, time.Minute)
	return errors.Join(errs...)
}

// Recognizer is several recognisers in order of preference. Its streams take PCM at the
// rate of the first.
type Recognizer struct {
	cfg     Config
	choices []Choice

	mu   sync.Mutex
	down []time.Time // by choice: until when it is not asked
}

// New makes a recogniser of choices, the preferred one first.
func New(cfg Config, choices ...Choice) (*Recognizer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if len(choices) == 0 {
		return nil, errors.New("stt/failover: no recogniser")
	}
	for _, c := range choices {
		if c.Recognizer == nil {
			return nil, fmt.Errorf("stt/failover: %q is no recogniser", c.Name)
		}
		if from, to := choices[0].Recognizer.Rate(), c.Recognizer.Rate(); from != to {
			if _, err := resample.New(from, to, resample.Voice); err != nil {
				return nil, fmt.Errorf("stt/failover: %s: %w", c.Name, err)
			}
		}
	}
	return &Recognizer{cfg: cfg, choices: slices.Clone(choices), down: make([]time.Time, len(choices))}, nil
}

// Rate implements stt.Recognizer.
func (r *Recognizer) Rate() int { return r.choices[0].Recognizer.Rate() }

// Open implements stt.Recognizer. It fails when none can be opened.
func (r *Recognizer) Open(ctx context.Context, o stt.Options, out func(stt.Result)) (stt.Stream, error) {
	s := newStream(ctx, r, o, out)
	if err := s.switchTo(ctx, -1, nil); err != nil {
		s.cancel(err)
		s.workers.Wait()
		return nil, err
	}
	return s, nil
}

// order is whom to ask: those that are well in order of preference, then the others;
// without the one that has just failed, unless it is the only one.
func (r *Recognizer) order(failed int) []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	var well, down []int
	for i, until := range r.down {
		switch {
		case i == failed:
		case now.Before(until):
			down = append(down, i)
		default:
			well = append(well, i)
		}
	}
	out := append(well, down...)
	if failed >= 0 {
		out = append(out, failed)
	}
	return out
}

func (r *Recognizer) failed(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down[i] = time.Now().Add(r.cfg.Cooldown)
}

func (r *Recognizer) recovered(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down[i] = time.Time{}
}

// open opens the first that can be, and says which. Each failure is told.
func (r *Recognizer) open(ctx context.Context, failed int, o stt.Options, out func(i int) func(stt.Result)) (stt.Stream, int, error) {
	order := r.order(failed)
	var errs []error
	for n, i := range order {
		c := r.choices[i]
		next := ""
		if n < len(order)-1 {
			next = r.choices[order[n+1]].Name
		}
		stream, err := r.openOne(ctx, c, next != "", o, out(i))
		if err == nil {
			return stream, i, nil
		}
		if ctx.Err() != nil {
			return nil, -1, context.Cause(ctx)
		}
		r.failed(i)
		errs = append(errs, fmt.Errorf("%s: %w", c.Name, err))
		if r.cfg.OnSwitch != nil {
			r.cfg.OnSwitch(c.Name, next, err)
		}
	}
	return nil, -1, fmt.Errorf("stt/failover: %w", errors.Join(errs...))
}

// resampler makes what a choice hears of what the streams take; nil: the same.
func (r *Recognizer) resampler(choice int) (*resample.Resampler, error) {
	from, to := r.Rate(), r.choices[choice].Recognizer.Rate()
	if from == to {
		return nil, nil
	}
	return resample.New(from, to, resample.Voice)
}

// openOne opens one; with an alternative it does not wait for ever. The context of a
// stream is for its life, so it is not the one that bounds the opening.
func (r *Recognizer) openOne(ctx context.Context, c Choice, alternative bool, o stt.Options, out func(stt.Result)) (stt.Stream, error) {
	life, end := context.WithCancelCause(ctx)
	if alternative {
		late := time.AfterFunc(r.cfg.OpenTimeout, func() { end(errLate) })
		defer late.Stop()
	}
	stream, err := c.Recognizer.Open(life, o, out)
	if err == nil && life.Err() != nil {
		err = errors.Join(context.Cause(life), stream.Close())
	}
	if err != nil {
		if errors.Is(context.Cause(life), errLate) {
			err = errLate
		}
		end(err)
		return nil, err
	}
	return &owned{Stream: stream, end: end}, nil
}

var errSilent = errors.New("stt/failover: no transcript in time")

var errLate = errors.New("stt/failover: not open in time")

// owned is a stream with the context of its life.
type owned struct {
	stt.Stream
	end context.CancelCauseFunc
}

// Close implements stt.Stream.
func (o *owned) Close() error {
	err := o.Stream.Close()
	o.end(errClosed)
	return err
}

var errClosed = errors.New("stt/failover: stream closed")
