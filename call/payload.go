package call

import (
	"context"
	"fmt"
	"strings"

	"parley/agent"
	"parley/media"
)

// This is the way of sound between the network and an agent that speaks the call's own
// codec: nothing is decoded for it and coded again.

var _ agent.PayloadSpeaker = (*Mouth)(nil)

// bytewise says whether payloads of l are one byte a sample, each for itself, so that
// they can be cut and joined anywhere: G.711.
func (l *line) bytewise() bool {
	_, follows := l.enc.(media.Idler)
	return !follows && l.codec.PacketTimes == nil && len(l.idle) == l.samples
}

// carries says whether l has this encoding, bytewise.
func (l *line) carries(encoding string) bool {
	return strings.EqualFold(l.codec.Name, encoding) && l.bytewise()
}

// wish is an agent's wish for the caller's sound as it came (agent.Call.Payloads).
type wish struct {
	encoding string // empty: no such wish
	hear     func([]byte)
	enc      media.Encoder // for what is made up; nil while the line has another codec
	payload  []byte
}

// payloads implements agent.Call.Payloads.
func (e *ear) payloads(encoding string, hear func([]byte)) {
	e.coded = wish{encoding: encoding, hear: hear, payload: make([]byte, 0, media.Samples(maxFill, bytesPerSecond))}
	if err := e.coded.use(e.line); err != nil {
		e.coded = wish{} // then the sound comes decoded
	}
}

// use notes the line that is in force from now on.
func (c *wish) use(l *line) (err error) {
	c.enc = nil
	if c.encoding == "" || !l.carries(c.encoding) {
		return nil
	}
	if c.enc, err = l.codec.NewEncoder(); err != nil { // line.enc is Say's
		return fmt.Errorf("call: %s encoder: %w", l.codec.Name, err)
	}
	return nil
}

// give hands a payload on, or codes what was made up.
func (c *wish) give(pcm []int16, payload []byte) {
	if payload == nil {
		var err error
		if c.payload, err = c.enc.Encode(c.payload[:0], pcm); err != nil {
			return
		}
		payload = c.payload
	}
	c.hear(payload)
}

// SayPayload implements agent.PayloadSpeaker.
func (m *Mouth) SayPayload(ctx context.Context, encoding string, payload []byte) error {
	m.saying.Add(1)
	defer m.saying.Add(-1)
	if err := m.ready(ctx); err != nil {
		return err
	}
	p := &m.say
	if !p.line.carries(encoding) || m.sayRate != p.line.codec.SampleRate {
		return agent.ErrEncoding
	}
	if len(p.pcm) > 0 {
		m.Flush()
	}
	size := p.line.samples
	for len(payload) > 0 {
		n := min(size-len(p.coded), len(payload))
		p.coded = append(p.coded, payload[:n]...)
		payload = payload[n:]
		p.in, p.out = p.in+uint64(n), p.out+uint64(n)
		if len(p.coded) < size {
			return nil
		}
		if err := m.wait(ctx, size); err != nil {
			// A packet that has no room is dropped with the rest, as Say does.
			p.coded = p.coded[:0]
			return err
		}
		m.pushCoded(reserve)
	}
	return nil
}

// pushCoded queues the packet in say.coded.
func (m *Mouth) pushCoded(reserve int) {
	p := &m.say
	m.ring.push(packet{
		generation: p.generation, end: m.end(), line: p.line, said: p.first(), level: p.meter.level(p.line, p.coded),
	}, p.coded, reserve)
	p.coded = p.coded[:0]
}

// flushCoded fills an incomplete packet up with silence and queues it.
func (m *Mouth) flushCoded() {
	if p := &m.say; len(p.coded) > 0 {
		p.coded = append(p.coded, p.line.idle[len(p.coded):]...)
		m.pushCoded(0)
	}
}
