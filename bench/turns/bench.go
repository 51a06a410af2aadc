package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"parley/agent/cascade"
	"parley/media/vad"
	"parley/media/vad/silero"
)

// weights are those of the neural voice detector, seen from the bench's folder.
const weights = "../.cache/silero_vad.onnx"

// bench is what all trials share.
type bench struct {
	callers *callers
	noises  noises
	voice   *voice
	pool    *vad.Pool // nil: there are no weights

	mu       sync.Mutex
	gateways map[string]*gateway
}

func newBench(seed uint64) (*bench, error) {
	b := &bench{gateways: map[string]*gateway{}}
	var err error
	if b.callers, err = newCallers(seed); err != nil {
		return nil, err
	}
	if b.voice, err = newVoice(); err != nil {
		return nil, err
	}
	b.noises = newNoises(b.callers.talk, seed)
	if _, err := os.Stat(weights); err != nil {
		return b, nil
	}
	var models []vad.Model
	for _, hz := range []int{8000, 16000} {
		m, err := silero.Load(weights, hz)
		if err != nil {
			return nil, err
		}
		models = append(models, m)
	}
	b.pool, err = vad.NewPool(vad.PoolConfig{}, models...)
	return b, err
}

func (b *bench) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for _, g := range b.gateways {
		errs = append(errs, g.close())
	}
	if b.pool != nil {
		b.pool.Close()
	}
	return errors.Join(errs...)
}

// detectors are those there are.
func (b *bench) detectors() []string {
	if b.pool == nil {
		return []string{"energy"}
	}
	return []string{"energy", "silero"}
}

// gateway is the one with the voice detector of a setting.
func (b *bench) gateway(s *setting) (*gateway, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := vad.EnergyConfig{Rate: 8000}
	if s.vad != nil {
		s.vad(&c)
	}
	key := fmt.Sprint(s.detector, c)
	if g, ok := b.gateways[key]; ok {
		return g, nil
	}
	g, err := newGateway(func(rate int) (vad.Detector, error) {
		own := c
		own.Rate = rate
		if s.detector == "silero" {
			return b.pool.Detector(own)
		}
		return vad.NewEnergy(own)
	})
	if err == nil {
		b.gateways[key] = g
	}
	return g, err
}

// run makes all trials, so many at once, in an order in which those of one condition are
// far apart: what else the machine does is then a burden to all alike.
func (b *bench) run(ctx context.Context, trials []*trial, atOnce int) error {
	order := rand.New(rand.NewPCG(1, 1)).Perm(len(trials))
	next := make(chan int, len(trials))
	for _, i := range order {
		next <- i
	}
	close(next)
	var done atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for n := range min(atOnce, len(trials)) {
		all.Go(func() {
			// Not all at the same moment.
			select {
			case <-time.After(time.Duration(n) * 70 * time.Millisecond):
			case <-ctx.Done():
			}
			for i := range next {
				if ctx.Err() != nil {
					return
				}
				trials[i].err = trials[i].run(ctx, b, i)
				if n := done.Add(1); n%25 == 0 {
					fmt.Fprintf(os.Stderr, "turns: %d of %d calls, %v\n", n, len(trials), time.Since(began).Round(time.Second))
				}
			}
		})
	}
	all.Wait()
	failed := 0
	for _, t := range trials {
		if t.err != nil {
			failed++
			fmt.Fprintf(os.Stderr, "turns: %s: %v\n", t.line, t.err)
		}
	}
	if failed > len(trials)/20 {
		return fmt.Errorf("%d of %d calls failed", failed, len(trials))
	}
	return ctx.Err()
}

// plan cuts items into calls.
func plan(l line, s *setting, perCall int, seed uint64, items []item) (out []*trial) {
	items = slices.Clone(items)
	random := rand.New(rand.NewPCG(seed, uint64(len(items))))
	random.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	calls := (len(items) + perCall - 1) / perCall
	for i := range calls {
		var own []item
		for j := i; j < len(items); j += calls {
			own = append(own, items[j])
		}
		out = append(out, &trial{line: l, setting: s, items: own, seed: seed + uint64(i)})
	}
	return out
}

// overItems is what is done while the agent speaks.
func (b *bench) overItems(share int) (out []item) {
	add := func(k kind, list []utterance) {
		for i := 0; i < len(list); i += share {
			out = append(out, item{kind: k, says: list[i]})
		}
	}
	add(sentence, b.callers.sentences)
	add(command, b.callers.commands)
	add(backchannel, b.callers.backchannels)
	add(burst, b.callers.noises)
	for range max(1, 3/share) {
		out = append(out, item{kind: alone})
	}
	return out
}

// endItems is what is said to an agent that listens, and ends clearly.
func (b *bench) endItems(share int) (out []item) {
	for i := 0; i < len(b.callers.sentences); i += share {
		out = append(out, item{kind: ending, says: b.callers.sentences[i]})
	}
	return out
}

// pauses are how long people are silent within what they say.
var pauses = []time.Duration{500 * time.Millisecond, 800 * time.Millisecond, 1200 * time.Millisecond}

// pauseItems is what is said with pauses in it.
func (b *bench) pauseItems(share int) (out []item) {
	for _, p := range pauses {
		for i := 0; i < len(b.callers.pausing); i += share {
			two := b.callers.pausing[i]
			out = append(out, item{pausing, joined(p, two[0], two[1]), p})
		}
		for i := 0; i < len(b.callers.digits); i += share {
			out = append(out, item{digits, joined(p, b.callers.digits[i]...), p})
		}
	}
	return out
}

// withTurn is a setting of turn taking.
func withTurn(name, detector string, change func(*cascade.Config)) *setting {
	return &setting{name: name, detector: detector, change: change}
}
