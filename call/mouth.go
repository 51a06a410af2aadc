package call

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"parley/agent"
	"parley/media"
	"parley/media/resample"
)

// maxLateness is how late speech may be put on the wire after a stall; what is
// older is dropped so that the conversation does not lag for ever.
const maxLateness = 60 * time.Millisecond

// positionMask is the part of a mouth's state that holds the position.
const positionMask = 0xffffffff

// Mouth is the way of an agent's speech to the caller: Say resamples and encodes
// on the agent's goroutine, the wheel takes a ready payload every packet time. It
// implements agent.Speaker.
//
//	agent's goroutine                         wheel
//	Say ─> resample ─> packet ─> encode ─> [ ring ] ─> next ─> RTP
//	                                          │
//	Stop, Pause, Resume ── state, paused ─────┘   (any goroutine)
//
// Stop needs no lock: state holds the generation of what may be played and the
// position played up to. The wheel moves the position by compare-and-swap before
// it sends, Stop moves the generation the same way, so every packet is either
// counted as heard or never sent. Speech that a stall made too late is neither: lost
// counts it, and Stop leaves it out.
type Mouth struct {
	sayRate int
	notice  func(agent.Notice)

	state  atomic.Uint64 // generation<<32 | position in samples at sayRate
	lost   atomic.Uint64 // generation<<32 | samples of the reply under way that were dropped as too late
	ended  atomic.Uint64 // the packet behind a Flush, as the ring numbers them
	wired  atomic.Uint64 // samples put on the wire, at sayRate; never reckoned back
	paused atomic.Bool
	closed chan struct{}
	saying atomic.Int32 // who is in Say, SayPayload or Flush

	began   time.Time
	delays  *delays      // nil: not measured
	stopped atomic.Int64 // when Stop came amid speech, on the mouth's clock; 0: it did not

	idles atomic.Uint32 // idle packets sent since the last one of speech

	ring    *ring
	room    chan struct{} // a token when there may be room again
	waiting atomic.Bool   // Say waits for room
	line    atomic.Pointer[line]

	say  producer
	play player
}

// producer is the state of the goroutine that calls Say.
type producer struct {
	generation uint32
	base       uint64 // position at which the counts below began
	in         uint64 // samples said since base, at sayRate
	out        uint64 // samples put into packets since base, at the codec's rate
	line       *line
	rate       *resample.Resampler
	held       uint64  // samples at sayRate by which rate delays
	pcm        []int16 // at the codec's rate, less than a packet between calls
	coded      []byte  // less than a packet of what SayPayload took; then pcm is empty
	meter      meter   // of that
	payload    []byte
	said       moment // when a reply began of which no packet is queued yet; 0: none
}

// The most that any codec of ours makes: 64 kbit/s, in packets of 60 ms.
const (
	bytesPerSecond = 8000
	maxPayload     = bytesPerSecond * 60 / 1000
)

// converge is how much idle sound brings any decoder to the same state.
const converge = 500 * time.Millisecond

// reserve is how many packets Say leaves free in the ring for Flush, which must
// not wait: the rest of a packet and what the resampler holds back, two packets
// at the most, and the one that Say is at.
const reserve = 3

// newMouth makes a mouth for speech at sayRate that buffers encoded speech in r. notice
// is called on the wheel.
func newMouth(l *line, sayRate int, r *ring, notice func(agent.Notice)) (*Mouth, error) {
	m := &Mouth{
		sayRate: sayRate,
		notice:  notice,
		closed:  make(chan struct{}),
		began:   time.Now(),
		ring:    r,
		room:    make(chan struct{}, 1),
	}
	m.line.Store(l)
	return m, m.use(l)
}

// use makes the producer encode for l.
func (m *Mouth) use(l *line) error {
	p := &m.say
	if len(p.coded) > 0 {
		m.Flush() // it is of the line before
		p.coded = p.coded[:0]
	}
	if p.line != nil && p.line.codec.SampleRate == l.codec.SampleRate {
		p.line = l
		return nil
	}
	r, err := resample.New(m.sayRate, l.codec.SampleRate, resample.Voice)
	if err != nil {
		return fmt.Errorf("call: speech at %d Hz: %w", m.sayRate, err)
	}
	if p.line != nil {
		m.Flush() // what was said at the old rate ends there
	}
	p.line, p.rate, p.pcm = l, r, p.pcm[:0]
	p.held = uint64((int64(r.Delay())*int64(m.sayRate) + int64(time.Second) - 1) / int64(time.Second))
	return nil
}

// Say implements agent.Speaker.
func (m *Mouth) Say(ctx context.Context, pcm []int16) error {
	m.saying.Add(1)
	defer m.saying.Add(-1)
	if err := m.ready(ctx); err != nil {
		return err
	}
	if len(m.say.coded) > 0 {
		m.Flush()
	}
	if err := m.wait(ctx, len(m.say.line.idle)); err != nil {
		return err
	}
	// A long pcm is taken in pieces, so that the buffer stays small.
	for piece := m.sayRate / 50; len(pcm) > 0; {
		n := min(piece, len(pcm))
		m.say.in += uint64(n)
		m.say.pcm = m.say.rate.Process(m.say.pcm, pcm[:n])
		pcm = pcm[n:]
		if err := m.pushWhole(ctx); err != nil {
			return err
		}
	}
	return nil
}

// ready makes the producer ready to take speech of the generation and for the line
// that are in force.
func (m *Mouth) ready(ctx context.Context) error {
	// The generation is read before the context is looked at: who cancels first
	// and stops then can be sure that nothing of the cancelled speech is queued.
	generation := m.generation()
	if err := m.over(ctx); err != nil {
		return err
	}
	if generation != m.say.generation {
		m.begin(generation)
	}
	if m.ring.length() == 0 && len(m.say.pcm) == 0 && len(m.say.coded) == 0 {
		m.say.said = momentOf(m.clock())
	}
	if l := m.line.Load(); l != m.say.line {
		return m.use(l)
	}
	return nil
}

// begin starts a new generation where the last Stop left the timeline.
func (m *Mouth) begin(generation uint32) {
	m.say.generation = generation
	m.say.base, m.say.in, m.say.out = m.state.Load()&positionMask, 0, 0
	m.say.pcm, m.say.coded = m.say.pcm[:0], m.say.coded[:0]
	m.say.rate.Reset()
}

// pushWhole queues all whole packets of say.pcm, waiting for room.
func (m *Mouth) pushWhole(ctx context.Context) error {
	p := &m.say
	size, done := p.line.samples, 0
	var err error
	for ; len(p.pcm)-done >= size && err == nil; done += size {
		m.follow()
		if p.payload, err = p.line.enc.Encode(p.payload[:0], p.pcm[done:done+size]); err != nil {
			break
		}
		p.out += uint64(size)
		if err = m.wait(ctx, len(p.payload)); err == nil {
			m.ring.push(packet{
				generation: p.generation, end: m.end(), line: p.line, said: p.first(), level: p.line.level(p.pcm[done : done+size]),
			}, p.payload, reserve)
		}
	}
	p.pcm = p.pcm[:copy(p.pcm, p.pcm[done:])]
	return err
}

// first is said for the packet that is queued now.
func (p *producer) first() (said moment) {
	said, p.said = p.said, 0
	return said
}

// clock is the time since the mouth was made, never 0.
func (m *Mouth) clock() time.Duration { return max(1, time.Since(m.began)) }

// follow brings the encoder to where the peer's decoder is when idle packets went
// out since the last speech.
func (m *Mouth) follow() {
	if m.ring.length() > 0 {
		return
	}
	l := m.say.line
	follow(l.enc, l.idle, min(int(m.idles.Load()), int(converge/l.packetTime)))
}

// wait waits until a packet of n bytes fits beside the reserve.
func (m *Mouth) wait(ctx context.Context, n int) error {
	for armed := false; ; {
		if m.generation() != m.say.generation {
			return agent.ErrStopped
		}
		if m.ring.room(n, reserve) {
			return nil
		}
		if !armed {
			// Look once more after asking to be woken, or a wake-up that comes
			// between the look and the asking is lost.
			m.waiting.Store(true)
			armed = true
			continue
		}
		select {
		case <-m.room:
			armed = false
		case <-ctx.Done():
			return ctx.Err()
		case <-m.closed:
			return agent.ErrClosed
		}
	}
}

// end is the timeline position after the packets made so far: what was said, or
// less while the resampler and the packet hold some of it back. A sound that has not
// left whole does not count.
func (m *Mouth) end() uint32 {
	made := m.say.out * uint64(m.sayRate) / uint64(m.say.line.codec.SampleRate)
	made -= min(made, m.say.held)
	return uint32(m.say.base + min(m.say.in, made))
}

// Flush implements agent.Speaker. It never waits: Say leaves room for it.
func (m *Mouth) Flush() {
	m.saying.Add(1)
	defer m.saying.Add(-1)
	p := &m.say
	if p.in == 0 || p.generation != m.generation() || m.over(context.Background()) != nil {
		return
	}
	m.flushCoded()
	if d := p.rate.Delay(); d > 0 {
		p.pcm = p.rate.Process(p.pcm, make([]int16, media.Samples(d, m.sayRate)+1))
	}
	size := p.line.samples
	if rest := len(p.pcm) % size; rest > 0 {
		p.pcm = append(p.pcm, make([]int16, size-rest)...)
	}
	for ; len(p.pcm) > 0; p.pcm = p.pcm[:copy(p.pcm, p.pcm[size:])] {
		m.follow()
		payload, err := p.line.enc.Encode(p.payload[:0], p.pcm[:size])
		if err != nil {
			break
		}
		p.payload, p.out = payload, p.out+uint64(size)
		end := m.end()
		if len(p.pcm) == size {
			end = uint32(p.base + p.in)
		}
		m.ring.push(packet{
			generation: p.generation, end: end, line: p.line, said: p.first(), level: p.line.level(p.pcm[:size]),
		}, payload, 0)
	}
	m.ended.Store(m.ring.tail.Load())
	// The padding is not speech: the next packet continues at what was said.
	p.base, p.in, p.out = p.base+p.in, 0, 0
	p.pcm = p.pcm[:0]
	p.rate.Reset()
}

// Pause implements agent.Speaker.
func (m *Mouth) Pause() { m.paused.Store(true) }

// Resume implements agent.Speaker.
func (m *Mouth) Resume() { m.paused.Store(false) }

// Stop implements agent.Speaker.
func (m *Mouth) Stop() time.Duration {
	for {
		was := m.state.Load()
		generation, position := uint32(was>>32), uint32(was)
		position -= m.missed(generation, position)
		if m.state.CompareAndSwap(was, uint64(generation+1)<<32|uint64(position)) {
			m.stopped.Store(int64(m.clock()))
			m.paused.Store(false)
			m.signal()
			return media.Duration(int(position), m.sayRate)
		}
	}
}

// rewind makes what was said so far no part of the timeline: the next Say begins at
// 0. Nobody may call Say meanwhile.
func (m *Mouth) rewind() {
	for {
		was := m.state.Load()
		if m.state.CompareAndSwap(was, (was>>32+1)<<32) {
			m.wired.Store(0)
			return
		}
	}
}

// Played implements agent.Speaker.
func (m *Mouth) Played() time.Duration {
	return media.Duration(int(uint32(m.state.Load())), m.sayRate)
}

// close makes Say fail from now on.
func (m *Mouth) close() { close(m.closed) }

// spare is the ring of a mouth that was closed and is off the wheel; nil when an agent
// that does not keep to its contract may still push to it.
func (m *Mouth) spare() *ring {
	if m.saying.Load() > 0 { // whoever comes later sees that the mouth is closed
		return nil
	}
	return m.ring
}

func (m *Mouth) generation() uint32 { return uint32(m.state.Load() >> 32) }

func (m *Mouth) over(ctx context.Context) error {
	select {
	case <-m.closed:
		return agent.ErrClosed
	default:
		return ctx.Err()
	}
}

// signal wakes a Say that waits for room.
func (m *Mouth) signal() {
	if !m.waiting.CompareAndSwap(true, false) {
		return
	}
	select {
	case m.room <- struct{}{}:
	default:
	}
}
