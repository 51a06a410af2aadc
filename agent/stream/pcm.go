package stream

import (
	"encoding/binary"
	"encoding/json"

	"github.com/coder/websocket"

	"parley/agent"
)

// pcm is the protocol of docs/stream.md: binary frames of 16-bit little-endian samples,
// and JSON text.
type pcm struct {
	call agent.Call
	rate int
	next int64 // the sample that the agent expects
	anew bool  // after a break it does not know that

	odd  byte // half a sample that a frame ended with; read's
	half bool
}

func newPCM(c agent.Call, rate int) *pcm { return &pcm{call: c, rate: rate} }

func (d *pcm) hear(dst []byte, pcm []int16) []byte {
	for _, s := range pcm {
		dst = binary.LittleEndian.AppendUint16(dst, uint16(s))
	}
	return dst
}

func (d *pcm) say(dst []int16, sound []byte) []int16 {
	for ; len(sound) > 1; sound = sound[2:] {
		dst = append(dst, int16(binary.LittleEndian.Uint16(sound)))
	}
	return dst
}

func (d *pcm) connected(dst []byte, p *progress) []byte {
	o := newOpening(d.call, d.rate)
	if p != nil {
		o.Type, o.progress = "resume", p
	}
	return d.tell(dst, o)
}

func (d *pcm) begin(dst []byte, again bool) []byte {
	if again {
		d.anew = true
		return nil
	}
	return d.tell(dst, started{"start"})
}

func (d *pcm) sound(dst []byte, f *frame) (websocket.MessageType, []byte) {
	d.next = f.at + int64(len(f.sound)/2)
	return websocket.MessageBinary, append(dst, f.sound...)
}

func (d *pcm) gap(dst []byte, f *frame) []byte {
	lost := f.at - d.next
	if lost == 0 && !d.anew {
		return nil
	}
	d.anew = false
	return d.tell(dst, gapHeard{"gap", milliseconds(f.at, d.rate), milliseconds(lost, d.rate)})
}

func (d *pcm) tell(dst []byte, message any) []byte {
	text, err := json.Marshal(message)
	if err != nil {
		return nil // there is nothing in messages.go that does not marshal
	}
	return append(dst, text...)
}

func (d *pcm) read(kind websocket.MessageType, text []byte) (any, error) {
	if kind == websocket.MessageText {
		return readText(text)
	}
	if what := disguised(text); what != "" {
		return nil, bad("sound", "is %s; send raw 16-bit little-endian samples at %d Hz", what, d.rate)
	}
	if d.half && len(text) > 0 {
		text = append([]byte{d.odd}, text...)
		d.half = false
	}
	if len(text)%2 != 0 {
		d.odd, d.half = text[len(text)-1], true
		text = text[:len(text)-1]
	}
	return sayCommand{text}, nil
}

var _ dialect = (*pcm)(nil)
