package vad

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// PoolConfig configures a Pool. Zero fields mean the default.
type PoolConfig struct {
	// Workers is how many goroutines run the models. Default: one for each core.
	Workers int
	// Queue is how many streams may wait for a worker. Default 256 for each one.
	Queue int
	// Threshold is the probability from which a frame is a voice, 0 to 1. Default
	// 0.5. A voice that is on lasts down to 0.15 less.
	Threshold float64
	// Frames is how many voice frames make a voice. Default 2.
	Frames int
	// Patience is how long after EnergyConfig.Confirm a verdict is waited for. If
	// none came, because the pool is overloaded, loudness decides. Default 100 ms.
	Patience time.Duration
}

func (c PoolConfig) withDefaults() PoolConfig {
	if c.Workers == 0 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	if c.Queue == 0 {
		c.Queue = 256 * c.Workers
	}
	if c.Frames == 0 {
		c.Frames = 2
	}
	orLevel(&c.Threshold, 0.5)
	orTime(&c.Patience, 100*time.Millisecond)
	return c
}

// Validate says what is wrong with c, after the defaults were filled in.
func (c PoolConfig) Validate() error {
	c = c.withDefaults()
	switch {
	case c.Workers < 0 || c.Workers > 1024:
		return fmt.Errorf("vad: %d workers is not within 1 and 1024", c.Workers)
	case c.Queue < 0:
		return fmt.Errorf("vad: a queue of %d is negative", c.Queue)
	case !(c.Threshold > 0 && c.Threshold < 1):
		return fmt.Errorf("vad: threshold %g is not within 0 and 1", c.Threshold)
	case c.Frames < 1 || c.Frames > 16:
		return fmt.Errorf("vad: %d frames is not within 1 and 16", c.Frames)
	case c.Patience < 0 || c.Patience > 10*time.Second:
		return fmt.Errorf("vad: patience %v is not within 0 and 10s", c.Patience)
	}
	return nil
}

// Pool runs neural models for the detectors of many calls on a few goroutines,
// so that inference never delays the one that moves packets. A stream takes part
// only while something sounds on it.
type Pool struct {
	cfg    PoolConfig
	models []Model
	down   map[int]*decimator // by factor
	queue  chan *Gated
	quit   chan struct{}
	closed atomic.Bool
	once   sync.Once
	wait   sync.WaitGroup

	frames, fellBack, dropped, faults atomic.Uint64
	busy                              atomic.Int64
}

// PoolStats is what a Pool did since it was made.
type PoolStats struct {
	// Frames is how many frames the models judged, Busy the time that took.
	Frames uint64
	Busy   time.Duration
	// Dropped is how many pieces of sound found the queue or their ring full.
	Dropped uint64
	// FellBack is how many sounds were decided by loudness because the verdict
	// was not there in time.
	FellBack uint64
	// Faults is how many panics of a model were caught. The stream goes on by
	// loudness.
	Faults uint64
	// Waiting is how many streams wait for a worker now.
	Waiting int
}

// NewPool starts the workers. Each detector uses the model trained for its rate,
// or else the one of the highest rate that divides its own, so two models serve
// 8 kHz and all of 16, 32 and 48 kHz. Close ends the workers.
func NewPool(c PoolConfig, models ...Model) (*Pool, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if len(models) == 0 {
		return nil, errors.New("vad: a pool needs a model")
	}
	c = c.withDefaults()
	p := &Pool{
		cfg:    c,
		models: models,
		down:   map[int]*decimator{},
		queue:  make(chan *Gated, c.Queue),
		quit:   make(chan struct{}),
	}
	for _, m := range models {
		if m.Rate() < 8000 || m.Rate() > 48000 || m.Frame() < 1 || m.Frame() > m.Rate() || m.State() < 0 {
			return nil, fmt.Errorf("vad: model of %d Hz, frames of %d and %d values of state makes no sense", m.Rate(), m.Frame(), m.State())
		}
		for f := 2; f*m.Rate() <= 48000; f++ {
			p.down[f] = newDecimator(f)
		}
	}
	for range c.Workers {
		p.wait.Go(p.work)
	}
	return p, nil
}

func (p *Pool) work() {
	var s scratch
	for {
		select {
		case g := <-p.queue:
			g.listen(&s)
		case <-p.quit:
			return
		}
	}
}

// Close ends the workers and waits for them. Detectors that are still in use go
// on by loudness.
func (p *Pool) Close() {
	p.once.Do(func() {
		p.closed.Store(true)
		close(p.quit)
	})
	p.wait.Wait()
}

// Stats may be called from any goroutine.
func (p *Pool) Stats() PoolStats {
	return PoolStats{
		Frames:   p.frames.Load(),
		Busy:     time.Duration(p.busy.Load()),
		Dropped:  p.dropped.Load(),
		FellBack: p.fellBack.Load(),
		Faults:   p.faults.Load(),
		Waiting:  len(p.queue),
	}
}

// model is the one for sound at rate and how many times slower its rate is.
func (p *Pool) model(rate int) (Model, int) {
	var best Model
	for _, m := range p.models {
		if rate%m.Rate() == 0 && (best == nil || m.Rate() > best.Rate()) {
			best = m
		}
	}
	if best == nil {
		return nil, 0
	}
	return best, rate / best.Rate()
}

// Detector makes a detector for one stream of sound at c.Rate. A nil pool, and a
// pool without a model for that rate, makes an energy detector, which behaves the
// same but for what it takes for a voice.
func (p *Pool) Detector(c EnergyConfig) (Detector, error) {
	if p == nil {
		return NewEnergy(c)
	}
	if m, _ := p.model(c.Rate); m == nil {
		return NewEnergy(c)
	}
	return p.NewGated(c)
}
