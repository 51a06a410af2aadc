package vad

import "sync/atomic"

// Energy is the detector that listens to loudness alone. See the package comment.
type Energy struct {
	ear      ear
	confirm  int64 // samples
	speaking atomic.Bool
	state    state
	since    int64 // where the candidate was noticed
}

type state uint8

const (
	silent state = iota
	candidate
	voiced
)

var _ Detector = (*Energy)(nil)

// NewEnergy makes an energy detector. It fails only on what c.Validate refuses.
func NewEnergy(c EnergyConfig) (*Energy, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	e := new(Energy)
	c = c.withDefaults()
	e.ear.init(c)
	e.confirm = e.ear.samples(c.Confirm)
	return e, nil
}

// Process implements Detector.
func (e *Energy) Process(pcm []int16) Edge {
	e.ear.hear(pcm)
	return e.step()
}

func (e *Energy) step() Edge {
	r := &e.ear
	switch e.state {
	case silent:
		if r.active {
			e.state, e.since = candidate, r.now
			return Edge{Candidate, r.ago(r.first)}
		}
	case candidate:
		age := r.now - e.since
		if r.active && age < e.confirm {
			break
		}
		n := max(1, min(64, int(age)/r.block))
		if r.active && 2*r.loud(n) >= n {
			e.state = voiced
			e.speaking.Store(true)
			return Edge{On, r.ago(r.first)}
		}
		e.state = silent
		r.quiet()
		return Edge{Rejected, r.ago(r.ended)}
	case voiced:
		if !r.active {
			e.state = silent
			e.speaking.Store(false)
			return Edge{Off, r.ago(r.ended)}
		}
	}
	return Edge{}
}

// Reset implements Detector.
func (e *Energy) Reset() {
	e.ear.reset()
	e.state = silent
	e.speaking.Store(false)
}

// Speaking implements Detector.
func (e *Energy) Speaking() bool { return e.speaking.Load() }

// Level implements Detector.
func (e *Energy) Level() float64 { return e.ear.level() }

// SetFloor implements Detector.
func (e *Energy) SetFloor(dBFS float64) { e.ear.setFloor(dBFS) }
