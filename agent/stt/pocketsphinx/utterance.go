package pocketsphinx

import (
	"sync"
	"time"
)

// maxWaiting is how many utterances may wait for the decoder. More means that it is
// slower than the caller: the oldest lose their audio, not their final result.
const maxWaiting = 4

// expectation is a grammar that was found good; an empty one means dictation.
type expectation struct {
	grammar string
	words   []string
	// deaf says that nothing is known to listen for: there is no grammar, and
	// dictation is off.
	deaf bool
}

// utterance is what the caller says between Begin and Finalize. Its fields belong
// to the intake's lock.
type utterance struct {
	expect  *expectation
	pcm     []int16
	dropped int // samples that are gone from the front of pcm
	ended   bool
	lost    bool // audio was dropped and nobody was told yet
}

// intake is where a stream's audio waits for its decoder. It never makes a writer
// wait for anything but its lock, which nobody holds for longer than a copy.
type intake struct {
	rate             int // Hz
	preRoll, longest int // samples

	mu      sync.Mutex
	expect  *expectation
	history []int16      // the latest audio while nobody speaks
	queue   []*utterance // the first is being decoded, the last may be open
	closed  bool
	wake    chan struct{}
}

func newIntake(cfg Config, e *expectation) *intake {
	samples := func(d time.Duration) int { return int(d * time.Duration(cfg.rate()) / time.Second) }
	return &intake{
		rate:    cfg.rate(),
		preRoll: samples(cfg.PreRoll), longest: samples(cfg.MaxUtterance),
		expect: e, wake: make(chan struct{}, 1),
	}
}

// open is the utterance that is being spoken, nil when there is none.
func (in *intake) open() *utterance {
	if n := len(in.queue); n > 0 && !in.queue[n-1].ended {
		return in.queue[n-1]
	}
	return nil
}

func (in *intake) write(pcm []int16) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return ErrClosed
	}
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
func (in *intake) remember(pcm []int16) {
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

func (in *intake) begin() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed || in.open() != nil {
		return
	}
	from := max(0, len(in.history)-in.preRoll)
	u := &utterance{expect: in.expect, pcm: append([]int16(nil), in.history[from:]...)}
	in.history = in.history[:0]
	in.push(u)
}

// finalize ends the open utterance. Without one it leaves an empty one, so that the
// final result comes in its turn.
func (in *intake) finalize() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return
	}
	u := in.open()
	if u == nil {
		u = &utterance{expect: in.expect}
		in.push(u)
	}
	u.ended = true
	in.signal()
}

func (in *intake) push(u *utterance) {
	in.queue = append(in.queue, u)
	// The first is the decoder's already; the oldest that waits comes after it.
	if n := len(in.queue) - 1 - maxWaiting; n > 0 {
		old := in.queue[n]
		old.lost = old.lost || len(old.pcm) > 0
		old.dropped += len(old.pcm)
		old.pcm = nil
	}
	in.signal()
}

func (in *intake) close() {
	in.mu.Lock()
	in.closed = true
	in.queue, in.history = nil, nil
	in.mu.Unlock()
	in.signal()
}

func (in *intake) signal() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// first is the utterance to decode now; nil when there is none.
func (in *intake) first() *utterance {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.queue) == 0 {
		return nil
	}
	return in.queue[0]
}

// take copies into buf what of u follows its sample at, and says where that begins
// and whether it is all there will be.
func (in *intake) take(u *utterance, at int, buf []int16) (pcm []int16, from int, ended, lost bool) {
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

// whole is all that is left of an ended utterance. Nobody writes to it any more,
// but close may let go of it.
func (in *intake) whole(u *utterance) []int16 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return u.pcm
}

// done removes an utterance that was decoded.
func (in *intake) done(u *utterance) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.queue) > 0 && in.queue[0] == u {
		in.queue[0] = nil
		in.queue = in.queue[1:]
	}
}
