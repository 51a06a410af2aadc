package phone

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"parley/test/audio"
)

// ErrEnded is returned by what waits for a call that is over.
var ErrEnded = errors.New("phone: the call is over")

// Utterance is something that a caller said or pressed, and when.
type Utterance struct {
	done       chan struct{}
	mu         sync.Mutex
	err        error
	begin, end time.Duration
	loud       bool

	sentFirst, sentLast time.Duration
	sent                bool
}

func newUtterance() *Utterance { return &Utterance{done: make(chan struct{})} }

// Wait returns when the last packet of the utterance was sent, or with ErrEnded
// when the call ended first.
func (u *Utterance) Wait(ctx context.Context) error {
	select {
	case <-u.done:
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Loud is when the first and the last packet louder than audio.Loud were sent, on
// the phone's clock; for keys the first and the last event packet. ok is false
// before the first one.
func (u *Utterance) Loud() (first, last time.Duration, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.begin, u.end, u.loud
}

// Sent is when the first and the last packet were sent, loud or not, on the phone's
// clock. ok is false before the first one.
func (u *Utterance) Sent() (first, last time.Duration, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.sentFirst, u.sentLast, u.sent
}

func (u *Utterance) packet(p Packet) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.sent {
		u.sent, u.sentFirst = true, p.At
	}
	u.sentLast = p.At
	if p.Level < audio.Loud && p.Digit == 0 {
		return
	}
	if !u.loud {
		u.loud, u.begin = true, p.At
	}
	u.end = p.At
}

func (u *Utterance) finish(err error) {
	u.mu.Lock()
	u.err = err
	u.mu.Unlock()
	close(u.done)
}

// line is speech or a key that waits to be sent.
type line struct {
	utterance *Utterance
	pcm       []int16
	digit     byte
	// slots counts the packets sent of a key press, of is how many it has before
	// its three end packets.
	slots, of int
	timestamp uint32
}

// endPackets is how often the end of a key is said (RFC 4733 section 2.5.1.4).
const endPackets = 3

// frame is what one slot sends.
type frame struct {
	payload     []byte
	payloadType uint8
	level       float64
	digit       byte
	timestamp   uint32
	first, last bool
	utterance   *Utterance
	pcm         []int16 // of a Coder's packet
}

// mouth holds what the caller is about to say, in order.
type mouth struct {
	mu     sync.Mutex
	queue  []*line
	ending *Utterance // its last packet plays now
	over   bool
	noise  float64 // amplitude of the room's noise
	random *rand.Rand
	room   []int16 // sound around it, over and over
	at     int     // in room
}

// newMouth makes the mouth of a caller in a room with noise of that level in dBFS,
// 0 for none. The noise is the same in every call.
func newMouth(level float64) *mouth {
	m := &mouth{random: rand.New(rand.NewPCG(1, 2))}
	if level < 0 {
		// Evenly distributed noise has its root mean square at 1/sqrt(3) of its peak.
		m.noise = 32768 * math.Sqrt(3) * math.Pow(10, level/20)
	}
	return m
}

func (m *mouth) add(l *line) *Utterance {
	l.utterance = newUtterance()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		l.utterance.finish(ErrEnded)
		return l.utterance
	}
	m.queue = append(m.queue, l)
	return l.utterance
}

func (m *mouth) speak(pcm []int16) *Utterance { return m.add(&line{pcm: slices.Clone(pcm)}) }

// press queues a key held down for length, at least one packet.
func (m *mouth) press(digit byte, length time.Duration) *Utterance {
	return m.add(&line{digit: digit, of: max(1, int(length/packetTime))})
}

// hush drops what is not yet said.
func (m *mouth) hush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.queue {
		l.utterance.finish(nil)
	}
	m.queue = nil
}

// stop ends the mouth with the call.
func (m *mouth) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
	for _, l := range m.queue {
		l.utterance.finish(ErrEnded)
	}
	m.queue = nil
	m.settle()
}

// settle finishes the utterance whose last packet has played. m.mu is held.
func (m *mouth) settle() {
	if m.ending != nil {
		m.ending.finish(nil)
		m.ending = nil
	}
}

// next is what the slot with that RTP timestamp sends, echo being what comes back of
// what was heard.
func (m *mouth) next(a answer, timestamp uint32, echo []int16) frame {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settle()
	if len(m.queue) == 0 {
		return m.sound(a, nil, echo)
	}
	l := m.queue[0]
	var f frame
	over := false
	if l.digit != 0 {
		f, over = l.key(a, timestamp)
	} else {
		n := min(frameSamples, len(l.pcm))
		f = m.sound(a, l.pcm[:n], echo)
		l.pcm = l.pcm[n:]
		over = len(l.pcm) == 0
	}
	f.utterance = l.utterance
	if over {
		m.queue, m.ending = m.queue[1:], l.utterance
	}
	return f
}

// sound encodes up to one packet of speech, fills it with silence, and adds the
// noise of the room and the echo.
func (m *mouth) sound(a answer, pcm, echo []int16) frame {
	var whole [frameSamples]int16
	copy(whole[:], pcm)
	add(whole[:], echo)
	for rest := whole[:]; len(m.room) > 0 && len(rest) > 0; {
		n := min(len(rest), len(m.room)-m.at)
		add(rest[:n], m.room[m.at:])
		rest, m.at = rest[n:], (m.at+n)%len(m.room)
	}
	if m.noise > 0 {
		for i, v := range whole {
			whole[i] = int16(max(-32768, min(32767, float64(v)+m.noise*(2*m.random.Float64()-1))))
		}
	}
	f := frame{payload: a.codec.payload(whole[:]), payloadType: a.codec.payloadType, level: audio.Level(whole[:])}
	if a.codec.coder != nil {
		f.pcm = slices.Clone(whole[:])
	}
	return f
}

// add mixes more into pcm, as far as both go.
func add(pcm, more []int16) {
	for i := range min(len(pcm), len(more)) {
		pcm[i] = int16(max(-32768, min(32767, int(pcm[i])+int(more[i]))))
	}
}

// key is the next packet of a pressed key: duration updates, then three times the
// end (RFC 4733 section 2.5). over is set with the last one.
func (l *line) key(a answer, timestamp uint32) (f frame, over bool) {
	if l.slots == 0 {
		l.timestamp = timestamp
	}
	l.slots++
	length := min(l.slots, l.of) * frameSamples
	event := slices.Index([]byte(eventDigits), l.digit)
	payload := []byte{byte(event), 10, 0, 0} // volume -10 dBm0
	if l.slots >= l.of {
		payload[1] |= 0x80
	}
	binary.BigEndian.PutUint16(payload[2:], uint16(length))
	return frame{
		payload: payload, payloadType: a.event, level: audio.Floor, digit: l.digit,
		timestamp: l.timestamp, first: l.slots == 1, last: payload[1]&0x80 != 0,
	}, l.slots >= l.of+endPackets-1
}
