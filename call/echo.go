package call

import (
	"parley/media"
	"parley/media/vad"
)

// This is how loud the agent is on the line, packet by packet, for the ear: on a line
// without echo cancellation the agent comes back as if it were the caller.
//
//	Say ─> level ─> ring ─> wheel: slot ──> vad.Echo ──> floor ──> voice detector
//	                                caller's sound ──┘

// guard keeps the agent's echo from being taken for the caller.
func (e *ear) guard() (err error) {
	e.floor = vad.Quiet
	e.echo, err = vad.NewEcho(vad.EchoConfig{})
	return err
}

// level is the level of a packet of pcm at the line's rate, in dBFS.
func (l *line) level(pcm []int16) int8 {
	return int8(vad.Loudness(pcm, media.Samples(media.FrameTime, l.codec.SampleRate)))
}

// meter tells how loud payloads are that nobody decodes.
type meter struct {
	line *line
	dec  media.Decoder // nil when it cannot be made
	pcm  []int16
}

// unknown is the level of speech that cannot be told, in dBFS.
const unknown = -20

func (m *meter) level(l *line, payload []byte) int8 {
	if m.line != l {
		m.line = l
		m.dec, _ = l.codec.NewDecoder() // line.dec is the wheel's
	}
	if m.dec == nil {
		return unknown
	}
	pcm, err := m.dec.Decode(m.pcm[:0], payload)
	if err != nil {
		return unknown
	}
	m.pcm = pcm
	return l.level(pcm)
}
