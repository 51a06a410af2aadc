package vad

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Gated is the detector that asks a neural model whether a sound is a voice.
//
//	Process (packets)                                 listener (a worker of the pool)
//	──────────────────                                ───────────────────────────────
//	ear: does anything sound? ──── opens and shuts ──> gate
//	ring: always the last 100 ms ────────────────────> frames ──> model ──> probability
//	edges <───────────────────────────────── verdict <── voice frames so far
//
// Loudness gives the Candidate at once. The model then has EnergyConfig.Confirm
// to recognise a voice in what was heard from 100 ms before it on: the candidate
// is On as soon as it does, Rejected when it does not. A rejected sound is
// listened to as long as it lasts, and becomes a Candidate again when a voice
// appears in it. A verdict that does not come in time, because the pool is
// overloaded or closed, is left to loudness as in Energy.
//
// A Gated holds 6 KB at 8 kHz and needs no closing.
type Gated struct {
	pool              *Pool
	ear               ear
	confirm, patience int64 // samples

	state state
	since int64 // where the candidate was noticed
	// judged: the present sound has been a candidate already.
	judged bool
	// deaf: the model misses some of the present sound, so loudness decides.
	deaf     bool
	begin    int64 // where the model began to listen
	speaking atomic.Bool

	gate     gate
	listener listener
}

var _ Detector = (*Gated)(nil)

// preroll is how much sound before the gate opened the model hears.
const preroll = 100 * time.Millisecond

// NewGated makes a detector for one stream of sound at c.Rate, which must be a
// multiple of the rate of one of the pool's models.
func (p *Pool) NewGated(c EnergyConfig) (*Gated, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m, factor := p.model(c.Rate)
	if m == nil {
		return nil, fmt.Errorf("vad: no model for sound at %d Hz", c.Rate)
	}
	c = c.withDefaults()
	g := &Gated{pool: p}
	g.ear.init(c)
	g.confirm, g.patience = g.ear.samples(c.Confirm), g.ear.samples(p.cfg.Patience)
	need := m.Frame() * factor
	// 250 ms: the preroll, a frame in the making and some delay of the worker.
	g.gate.init(need, max(c.Rate/4, 4*need), int(g.ear.samples(preroll)))
	g.listener.init(m, p.down[factor])
	return g, nil
}

// Process implements Detector.
func (g *Gated) Process(pcm []int16) Edge {
	r := &g.ear
	was := r.active
	r.hear(pcm)
	if !g.gate.write(pcm) && r.active {
		g.miss()
	}
	switch {
	case r.active && !was:
		g.judged, g.deaf = false, g.gate.broken.Load() || g.pool.closed.Load()
		g.begin = r.now - g.gate.open()
	case !r.active && was:
		g.gate.shut()
	}
	if r.active && !g.deaf {
		g.wake()
	}
	return g.step()
}

// miss gives the present sound up to loudness.
func (g *Gated) miss() {
	g.pool.dropped.Add(1)
	g.deaf = true
	g.gate.shut()
}

// wake gives the stream to a worker when a frame is ready and none has it.
func (g *Gated) wake() {
	switch {
	case g.gate.broken.Load() || g.pool.closed.Load():
		g.deaf = true
	case g.gate.ready() && g.gate.taken.CompareAndSwap(false, true):
		select {
		case g.pool.queue <- g:
		default:
			g.gate.taken.Store(false)
			g.miss()
		}
	}
}

func (g *Gated) step() Edge {
	r := &g.ear
	switch g.state {
	case silent:
		if r.active && (!g.judged || !g.deaf && g.gate.verdict().hits > 0) {
			g.state, g.since, g.judged = candidate, r.now, true
			return Edge{Candidate, r.ago(r.first)}
		}
	case candidate:
		return g.decide()
	case voiced:
		if ended := g.over(); ended >= 0 {
			g.state = silent
			g.speaking.Store(false)
			return Edge{Off, r.ago(ended)}
		}
	}
	return Edge{}
}

// decide is what becomes of a candidate.
func (g *Gated) decide() Edge {
	r, age := &g.ear, g.ear.now-g.since
	if !r.active {
		return g.reject()
	}
	if !g.deaf {
		v := g.gate.verdict()
		if v.hits >= g.pool.cfg.Frames {
			return g.accept()
		}
		// Whether one more frame would still end in time.
		if v.hits == 0 && g.begin+g.gate.need*int64(v.done+1) > g.since+g.confirm {
			return g.reject()
		}
		if age < g.confirm+g.patience {
			return Edge{}
		}
	}
	if age < g.confirm {
		return Edge{}
	}
	g.pool.fellBack.Add(1)
	if n := min(64, int(age)/r.block); 2*r.loud(n) >= n {
		return g.accept()
	}
	r.quiet()
	g.gate.shut()
	return g.reject()
}

func (g *Gated) accept() Edge {
	g.state = voiced
	g.speaking.Store(true)
	return Edge{On, g.ear.ago(g.ear.first)}
}

func (g *Gated) reject() Edge {
	g.state = silent
	return Edge{Rejected, g.ear.ago(g.ear.ended)}
}

// over is where the voice ended, -1 while it goes on. It ends with the sound, or
// before it when the model hears only noise any more.
func (g *Gated) over() int64 {
	if !g.ear.active {
		return g.ear.ended
	}
	if g.deaf {
		return -1
	}
	v := g.gate.verdict()
	if int64(v.since)*g.gate.need < g.ear.stopLen {
		return -1
	}
	return min(g.ear.ended, max(g.begin, g.begin+g.gate.need*int64(v.done-v.since)))
}

// Reset implements Detector.
func (g *Gated) Reset() {
	g.ear.reset()
	g.gate.shut()
	g.state = silent
	g.speaking.Store(false)
}

// Speaking implements Detector.
func (g *Gated) Speaking() bool { return g.speaking.Load() }

// Level implements Detector.
func (g *Gated) Level() float64 { return g.ear.level() }

// SetFloor implements Detector.
func (g *Gated) SetFloor(dBFS float64) { g.ear.setFloor(dBFS) }
