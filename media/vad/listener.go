package vad

import (
	"math"
	"time"
)

// listener is the part of a Gated that belongs to the worker that has taken it.
type listener struct {
	model   Model
	down    *decimator // nil: the sound has the model's rate
	opening uint64
	state   []float32
	tail    []int16 // for the decimator: the end of what it had before
	heard   verdict
}

func (l *listener) init(m Model, d *decimator) {
	l.model, l.down = m, d
	l.state = make([]float32, m.State())
	if d != nil {
		l.tail = make([]int16, len(d.taps)-d.factor)
	}
}

// begin forgets the last sound.
func (l *listener) begin(opening uint64) {
	l.opening, l.heard = opening, verdict{}
	clear(l.state)
	clear(l.tail)
}

// scratch is the memory of one worker.
type scratch struct{ sound, frame []int16 }

func (s *scratch) room(sound, frame int) ([]int16, []int16) {
	if len(s.sound) < sound {
		s.sound = make([]int16, sound)
	}
	if len(s.frame) < frame {
		s.frame = make([]int16, frame)
	}
	return s.sound[:sound], s.frame[:frame]
}

// listen judges all frames that are ready. It runs on a worker.
func (g *Gated) listen(s *scratch) {
	defer func() {
		// A panic costs this stream its model, not the process its calls.
		if recover() != nil {
			g.pool.faults.Add(1)
			g.gate.broken.Store(true)
		}
		g.gate.taken.Store(false)
	}()
	q, l := &g.gate, &g.listener
	for {
		opening := q.opening.Load()
		if opening == 0 || g.pool.closed.Load() {
			return
		}
		at := q.read.Load()
		if opening != l.opening {
			at = max(at, q.start.Load())
			l.begin(opening)
			q.read.Store(at)
		}
		if q.written.Load()-at < q.need {
			return
		}
		sound, frame := s.room(len(l.tail)+int(q.need), l.model.Frame())
		fresh := sound[copy(sound, l.tail):]
		n := copy(fresh, q.ring[at%int64(len(q.ring)):])
		copy(fresh[n:], q.ring)
		q.read.Store(at + q.need)
		if l.down != nil {
			l.down.reduce(frame, sound)
			copy(l.tail, sound[q.need:])
		} else {
			copy(frame, sound)
		}
		began := time.Now()
		p := l.model.Probability(l.state, frame)
		g.pool.frames.Add(1)
		g.pool.busy.Add(int64(time.Since(began)))
		l.judge(float64(p), g.pool.cfg.Threshold)
		q.heard.Store(l.heard.pack(opening))
	}
}

// lasting is how much less probable a voice may get that has begun.
const lasting = 0.15

func (l *listener) judge(p, threshold float64) {
	v := &l.heard
	v.done++
	v.since++
	switch {
	case p >= threshold:
		v.hits++
		v.since = 0
	case p >= threshold-lasting:
		v.since = 0
	default:
		v.hits = 0
	}
}

// decimator lowers the rate of sound by a whole factor for a model: a short
// Hamming-windowed sinc, 50 dB down where it would alias. It is immutable.
type decimator struct {
	factor int
	taps   []float32
}

func newDecimator(factor int) *decimator {
	d := &decimator{factor: factor, taps: make([]float32, 24*factor)}
	n, sum := float64(len(d.taps)), 0.0
	for i := range d.taps {
		x := float64(i) - (n-1)/2
		v := math.Sin(math.Pi*0.85*x/float64(factor)) / x // x is never 0: n is even
		v *= 0.54 + 0.46*math.Cos(2*math.Pi*x/n)
		d.taps[i] = float32(v)
		sum += v
	}
	for i := range d.taps {
		d.taps[i] /= float32(sum)
	}
	return d
}

// reduce fills out from in, which begins with the last len(taps)-factor samples
// of what came before.
func (d *decimator) reduce(out, in []int16) {
	for i := range out {
		x := in[i*d.factor:][:len(d.taps)]
		var v float32
		for k, t := range d.taps {
			v += t * float32(x[k])
		}
		out[i] = int16(max(math.MinInt16, min(math.MaxInt16, v)))
	}
}
