package call

import (
	"time"

	"parley/agent"
	"parley/media"
	"parley/media/vad"
)

// This is the wheel's side of a Mouth.

// player is the state of the wheel's side.
type player struct {
	speaking bool
	out      []byte
	level    int8 // of what next gave, in dBFS
}

// next is the payload to send in the slot that is due; the wheel calls it.
// skipped slots were missed just before because the process stood still.
func (m *Mouth) next(l *line, skipped int) []byte {
	if m.paused.Load() {
		m.idles.Add(1)
		m.play.level = vad.Quiet
		return l.idle
	}
	if out := m.speech(l, skipped); out != nil {
		return out
	}
	m.quiet()
	m.play.level = vad.Quiet
	m.idles.Add(1)
	return l.idle
}

// speech is the next payload of speech, nil when there is none.
func (m *Mouth) speech(l *line, skipped int) []byte {
	late := skipped - int(maxLateness/l.packetTime)
	for {
		p, ok := m.ring.peek()
		was := m.state.Load()
		generation := uint32(was >> 32)
		if b := l.bridge; b != nil {
			if out := b.take(generation, !ok || p.line != b.from); out != nil {
				return out
			}
		}
		if !ok {
			return nil
		}
		if p.line == l && l.bridge != nil && l.bridge.settles() {
			return l.idle
		}
		current := p.generation == generation
		drop := current && late > 0
		if drop {
			m.miss(generation, p.end-uint32(was))
		}
		if current && !m.state.CompareAndSwap(was, was&^positionMask|uint64(p.end)) {
			continue // a Stop came between: look at the packet again
		}
		if current {
			m.idles.Store(0) // before pop: see follow
		}
		m.play.out = m.ring.pop(m.play.out[:0])
		if m.ring.length() < len(m.ring.packets)/4 {
			m.signal()
		}
		if !current {
			continue
		}
		if drop {
			late--
			continue
		}
		m.wired.Add(uint64(p.end - uint32(was)))
		m.sounding(uint32(was), p.said)
		m.play.level = p.level
		switch b := l.bridge; {
		case p.line == l, b != nil && p.line == b.from && b.passes():
			return m.play.out
		case b != nil && p.line == b.from:
			b.put(m.play.out, generation) // the next turn of the loop takes what it can
		}
	}
}

// sounding tells the agent that a speech packet goes out after none did.
func (m *Mouth) sounding(position uint32, said moment) {
	if !m.play.speaking {
		m.play.speaking = true
		if said > 0 && m.delays != nil {
			m.delays.say.observe(m.clock() - said.time())
		}
		m.notice(agent.Notice{Kind: agent.SpeechStarted, At: time.Now(), Position: media.Duration(int(position), m.sayRate)})
	}
}

// quiet tells the agent that all that was said is on the wire.
func (m *Mouth) quiet() {
	m.signal()
	if m.ended.Load() == m.ring.head.Load() && m.lost.Load() != 0 { // what comes next is another reply
		m.lost.Store(0)
	}
	stopped := time.Duration(m.stopped.Load())
	if stopped > 0 {
		m.stopped.Store(0)
	}
	if m.play.speaking {
		m.play.speaking = false
		if stopped > 0 && m.delays != nil {
			m.delays.stop.observe(m.clock() - stopped)
		}
		m.notice(agent.Notice{Kind: agent.SpeechEnded, At: time.Now(), Position: m.Played()})
	}
}

// missed is how much of the reply under way was dropped before position.
func (m *Mouth) missed(generation, position uint32) uint32 {
	if lost := m.lost.Load(); uint32(lost>>32) == generation {
		return min(uint32(lost), position)
	}
	return 0
}

// miss takes note of n samples that will not be sent. The wheel calls it before it
// moves the position past them, so that no Stop counts them as heard.
func (m *Mouth) miss(generation, n uint32) {
	lost := m.lost.Load()
	if uint32(lost>>32) != generation {
		lost = uint64(generation) << 32
	}
	m.lost.Store(lost + uint64(n))
	if m.delays != nil {
		m.delays.dropped.Add(int64(media.Duration(int(n), m.sayRate)))
	}
}

// spoken is how much speech was put on the wire.
func (m *Mouth) spoken() time.Duration { return media.Duration(int(m.wired.Load()), m.sayRate) }
