package kit

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
)

const (
	// frameQueue bounds the frames of 20 ms that wait to be sent; when more come the
	// oldest is dropped.
	frameQueue = 50
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
	sound   sound
	fail    func(error)

	frames, free chan []byte
	lost         atomic.Uint64
	muted        atomic.Bool // silence is sent in the stead of what is heard

	// Of the goroutine that calls hear and take.
	part []byte // a frame that is not whole; nil: none
	raw  []byte // what was heard, as it is sent

	mu   sync.Mutex
	jobs []job
	wake chan struct{}

	// The goroutine's alone.
	open bool     // within a turn
	ring [][]byte // what was said before it
}

// job is something to be sent.
type job struct {
	do    func() error
	after bool // the frames that were heard before it go first
	turn  int8 // it opens (1) or closes (-1) a turn
}

func newUplink(s *AgentSession, gated bool, format sound, fail func(error)) *uplink {
	size := int(format.hears) / 50 * format.width
	u := &uplink{
		session: s, gated: gated, sound: format, fail: fail,
		frames: make(chan []byte, frameQueue), free: make(chan []byte, frameQueue), wake: make(chan struct{}, 1),
		raw: make([]byte, 0, size),
	}
	for room := make([]byte, frameQueue*size); len(room) > 0; room = room[size:] {
		u.free <- room[:0:size]
	}
	return u
}

// hear queues PCM, coded as the model wants it, and never blocks.
func (u *uplink) hear(pcm []int16) {
	u.raw = u.raw[:0]
	if !u.sound.coded() {
		for _, v := range pcm {
			u.raw = binary.LittleEndian.AppendUint16(u.raw, uint16(v))
		}
	} else {
		var err error
		if u.raw, err = u.sound.enc.Encode(u.raw, pcm); err != nil { // G.711 codes everything
			u.lost.Add(1)
			return
		}
	}
	u.take(u.raw)
}

// take queues a copy of sound as the model wants it, cut into frames, and never blocks.
// What is no whole frame waits for more.
func (u *uplink) take(b []byte) {
	for len(b) > 0 {
		if u.part == nil {
			u.part = u.buffer()
		}
		if u.part == nil {
			return
		}
		n := min(cap(u.part)-len(u.part), len(b))
		u.part = append(u.part, b[:n]...)
		if b = b[n:]; len(u.part) == cap(u.part) {
			u.frames <- u.part // there is room for all buffers
			u.part = nil
		}
	}
}

// buffer is room for a frame; the oldest that waits makes it when there are enough.
func (u *uplink) buffer() []byte {
	select {
	case buf := <-u.free:
		return buf[:0]
	default:
	}
	u.lost.Add(1)
	select {
	case buf := <-u.frames:
		return buf[:0]
	default:
		return nil
	}
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
func (u *uplink) send(f []byte) {
	if u.muted.Load() {
		for i := range f {
			f[i] = u.sound.silence
		}
	}
	if u.gated && !u.open {
		u.ring = append(u.ring, append(u.slot(cap(f)), f...))
	} else {
		u.give(f)
	}
	u.free <- f
}

// slot is room for a frame of that size that is kept; the oldest goes when there are
// enough.
func (u *uplink) slot(size int) []byte {
	if len(u.ring) < preroll {
		return make([]byte, 0, size)
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
