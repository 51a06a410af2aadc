package kit

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"

	"parley/agent/live"
)

const (
	// frameQueue bounds the frames of 20 ms that wait to be sent; when more come the
	// oldest is dropped.
	frameQueue = 50
	// frameSamples is the length of a frame.
	frameSamples = live.InputRate / 50
	// preroll is how many frames from before a turn began are sent with it when we take
	// the turns: the detector's delay and the first sound.
	preroll = 30
)

// uplink is the way to the provider: a goroutine sends what the caller says and
// whatever else there is, so that a provider that is slow to take it holds nobody up.
//
//	Hear ──> frames ──┐
//	                  ├──> run ──> AgentSession
//	loop ──> jobs ────┘
type uplink struct {
	session *AgentSession
	gated   bool // audio is sent only within turns
	fail    func(error)

	frames, free chan []int16
	lost         atomic.Uint64
	muted        atomic.Bool // silence is sent in the stead of what is heard

	mu   sync.Mutex
	jobs []job
	wake chan struct{}

	// The goroutine's alone.
	open  bool     // within a turn
	ring  [][]byte // what was said before it
	bytes []byte
}

// job is something to be sent.
type job struct {
	do    func() error
	after bool // the frames that were heard before it go first
	turn  int8 // it opens (1) or closes (-1) a turn
}

func newUplink(s *AgentSession, gated bool, fail func(error)) *uplink {
	u := &uplink{
		session: s, gated: gated, fail: fail,
		frames: make(chan []int16, frameQueue), free: make(chan []int16, frameQueue), wake: make(chan struct{}, 1),
		bytes: make([]byte, 2*frameSamples),
	}
	for room := make([]int16, frameQueue*frameSamples); len(room) > 0; room = room[frameSamples:] {
		u.free <- room[:0:frameSamples]
	}
	return u
}

// hear queues a copy of a frame and never blocks.
func (u *uplink) hear(pcm []int16) {
	var buf []int16
	select {
	case buf = <-u.free:
	default:
		u.lost.Add(1)
		select {
		case buf = <-u.frames:
		default:
			return
		}
	}
	u.frames <- append(buf[:0], pcm...) // there is room for all buffers
}

// put queues a job and never blocks.
func (u *uplink) put(j job) {
	u.mu.Lock()
	u.jobs = append(u.jobs, j)
	u.mu.Unlock()
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

func (u *uplink) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-u.wake:
			u.work(ctx)
		case f := <-u.frames:
			u.send(f)
		}
	}
}

// work does the jobs that wait.
func (u *uplink) work(ctx context.Context) {
	for ctx.Err() == nil {
		u.mu.Lock()
		if len(u.jobs) == 0 {
			u.mu.Unlock()
			return
		}
		j := u.jobs[0]
		u.jobs = u.jobs[1:]
		u.mu.Unlock()
		if j.after {
			u.drain()
		}
		if err := j.do(); err != nil {
			u.fail(err)
		}
		if j.turn == 0 {
			continue
		}
		u.open = j.turn > 0
		if u.open {
			for _, b := range u.ring {
				u.give(b)
			}
		}
		u.ring = u.ring[:0]
	}
}

// drain sends the frames that wait.
func (u *uplink) drain() {
	for {
		select {
		case f := <-u.frames:
			u.send(f)
		default:
			return
		}
	}
}

// send sends a frame, or keeps it for the turn to come.
func (u *uplink) send(f []int16) {
	b := u.bytes[:0]
	if u.gated && !u.open {
		b = u.slot()
	}
	muted := u.muted.Load()
	for _, v := range f {
		if muted {
			v = 0
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(v))
	}
	u.free <- f
	if u.gated && !u.open {
		u.ring = append(u.ring, b)
		return
	}
	u.bytes = b
	u.give(b)
}

// slot is room for a frame that is kept; the oldest goes when there are enough.
func (u *uplink) slot() []byte {
	if len(u.ring) < preroll {
		return make([]byte, 0, 2*frameSamples)
	}
	oldest := u.ring[0]
	u.ring = u.ring[:copy(u.ring, u.ring[1:])]
	return oldest[:0]
}

func (u *uplink) give(b []byte) {
	if err := u.session.SendAudio(b); err != nil {
		u.fail(err)
	}
}
