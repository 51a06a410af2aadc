// Package utterance is where the audio of a call waits for a recogniser that works on
// one utterance at a time: what the caller says between Begin and Finalize, with a
// little of what came before.
package utterance

import (
	"sync"
	"time"
)

// MaxWaiting is how many utterances may wait behind the one that is being recognised.
// More means that the recogniser is slower than the caller: the oldest lose their
// audio, not their final result.
const MaxWaiting = 4

// Config says how much is kept.
type Config struct {
	// Rate in Hz of the audio.
	Rate int
	// PreRoll is how much audio from before Begin belongs to the utterance.
	PreRoll time.Duration
	// Longest is how much of one utterance is kept; the oldest is dropped.
	Longest time.Duration
	// Closed is what Write and Expect return after Close.
	Closed error
}

// Utterance is what the caller says between Begin and Finalize. Its fields belong to
// the intake's lock, but for Expect, which does not change.
type Utterance[E any] struct {
	// Expect is what was expected when it began.
	Expect E

	pcm     []int16
	begin   int64 // of the stream's samples, the first of the utterance
	dropped int   // samples that are gone from the front of pcm
	ended   bool
	lost    bool // audio was dropped and nobody was told yet
}

// Intake is where a stream's audio waits. It never makes a writer wait for anything
// but its lock, which nobody holds for longer than a copy. E is what the stream knows
// of what it expects. All methods may be called from any goroutine.
type Intake[E any] struct {
	rate             int
	preRoll, longest int // samples
	closedBy         error

	mu      sync.Mutex
	expect  E
	total   int64           // samples that were written
	history []int16         // the latest audio while nobody speaks
	queue   []*Utterance[E] // the first is being recognised, the last may be open
	closed  bool
	wake    chan struct{}
}

// New makes an intake that expects e at first.
func New[E any](cfg Config, e E) *Intake[E] {
	samples := func(d time.Duration) int { return int(d * time.Duration(cfg.Rate) / time.Second) }
	return &Intake[E]{
		rate: cfg.Rate, preRoll: samples(cfg.PreRoll), longest: samples(cfg.Longest),
		closedBy: cfg.Closed, expect: e, wake: make(chan struct{}, 1),
	}
}

// Wake says that something came, or that the intake was closed.
func (in *Intake[E]) Wake() <-chan struct{} { return in.wake }

// open is the utterance that is being spoken, nil when there is none.
func (in *Intake[E]) open() *Utterance[E] {
	if n := len(in.queue); n > 0 && !in.queue[n-1].ended {
		return in.queue[n-1]
	}
	return nil
}

// Write copies pcm.
func (in *Intake[E]) Write(pcm []int16) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return in.closedBy
	}
	in.total += int64(len(pcm))
	u := in.open()
	if u == nil {
		in.remember(pcm)
		return nil
	}
	u.pcm = append(u.pcm, pcm...)
	if over := len(u.pcm) - in.longest; over > 0 {
		// A second at a time: the rest is moved to the front.
		over = min(over+in.rate, len(u.pcm))
		u.pcm = u.pcm[:copy(u.pcm, u.pcm[over:])]
		u.dropped += over
		u.lost = true
	}
	in.signal()
	return nil
}

// remember keeps the latest preRoll samples.
func (in *Intake[E]) remember(pcm []int16) {
	if in.preRoll == 0 {
		return
	}
	if in.history == nil {
		in.history = make([]int16, 0, 2*in.preRoll)
	}
	if len(pcm) > in.preRoll {
		pcm = pcm[len(pcm)-in.preRoll:]
	}
	if len(in.history)+len(pcm) > cap(in.history) {
		keep := in.history[len(in.history)-(in.preRoll-len(pcm)):]
		in.history = in.history[:copy(in.history, keep)]
	}
	in.history = append(in.history, pcm...)
}

// Begin opens an utterance, unless one is open.
func (in *Intake[E]) Begin() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed || in.open() != nil {
		return
	}
	before := in.history[max(0, len(in.history)-in.preRoll):]
	u := &Utterance[E]{Expect: in.expect, pcm: append([]int16(nil), before...), begin: in.total - int64(len(before))}
	in.history = in.history[:0]
	in.push(u)
}

// Finalize ends the open utterance. Without one it leaves an empty one, so that the
// final result comes in its turn.
func (in *Intake[E]) Finalize() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return
	}
	u := in.open()
	if u == nil {
		u = &Utterance[E]{Expect: in.expect, begin: in.total}
		in.push(u)
	}
	u.ended = true
	in.signal()
}

// Expect changes what is expected, from the next utterance on.
func (in *Intake[E]) Expect(e E) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return in.closedBy
	}
	in.expect = e
	return nil
}

func (in *Intake[E]) push(u *Utterance[E]) {
	in.queue = append(in.queue, u)
	// The first is being recognised already; the oldest that waits comes after it.
	if n := len(in.queue) - 1 - MaxWaiting; n > 0 {
		old := in.queue[n]
		old.lost = old.lost || len(old.pcm) > 0
		old.dropped += len(old.pcm)
		old.pcm = nil
	}
	in.signal()
}

// Close lets go of everything. It may be called more than once.
func (in *Intake[E]) Close() {
	in.mu.Lock()
	in.closed = true
	in.queue, in.history = nil, nil
	in.mu.Unlock()
	in.signal()
}

func (in *Intake[E]) signal() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// First is the utterance to recognise now; nil when there is none.
func (in *Intake[E]) First() *Utterance[E] {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.queue) == 0 {
		return nil
	}
	return in.queue[0]
}

// Take copies into buf what of u follows its sample at, and says where that begins
// and whether it is all there will be. lost says, once, that audio was dropped.
func (in *Intake[E]) Take(u *Utterance[E], at int, buf []int16) (pcm []int16, from int, ended, lost bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return nil, at, true, false
	}
	from = max(at, u.dropped)
	rest := u.pcm[min(len(u.pcm), from-u.dropped):]
	n := copy(buf, rest)
	lost, u.lost = u.lost, false
	return buf[:n], from, u.ended && n == len(rest), lost
}

// State is how many samples u has had, and whether it has ended. lost says, once, that
// audio was dropped.
func (in *Intake[E]) State(u *Utterance[E]) (samples int, ended, lost bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return 0, true, false
	}
	lost, u.lost = u.lost, false
	return u.dropped + len(u.pcm), u.ended, lost
}

// Append adds to dst what there is of u.
func (in *Intake[E]) Append(dst []int16, u *Utterance[E]) []int16 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return append(dst, u.pcm...)
}

// Whole is all that is left of an ended utterance. Nobody writes to it any more,
// but Close may let go of it.
func (in *Intake[E]) Whole(u *Utterance[E]) []int16 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return u.pcm
}

// Place is where what is left of u begins, in the time of the stream's audio.
func (in *Intake[E]) Place(u *Utterance[E]) time.Duration {
	in.mu.Lock()
	defer in.mu.Unlock()
	at := u.begin + int64(u.dropped)
	// In two steps: a call may last for days.
	rate := int64(in.rate)
	return time.Duration(at/rate)*time.Second + time.Duration(at%rate)*time.Second/time.Duration(rate)
}

// Done removes an utterance that was recognised.
func (in *Intake[E]) Done(u *Utterance[E]) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.queue) > 0 && in.queue[0] == u {
		in.queue[0] = nil
		in.queue = in.queue[1:]
	}
}
