package phone

import (
	"fmt"
	"strings"

	"github.com/zaf/g711"
)

// sampleRate is the rate in Hz of everything the phone speaks and hears.
const sampleRate = 8000

// frameSamples is the length of one 20 ms packet.
const frameSamples = sampleRate / 50

// Coder is an encoding that the phone does not have itself, for Config.Coders. Sound
// goes through it at 8 kHz in packets of 20 ms.
type Coder struct {
	// Name, ClockRate and Channels are those of the rtpmap attribute (RFC 8866 section
	// 6.6); Channels is not written when it is 0.
	Name                string
	ClockRate, Channels int
	// PayloadType is a dynamic one, 96 to 127.
	PayloadType uint8
	// New makes the two directions of one call. encode takes 160 samples, decode gives
	// as many, or none of what is no packet. Each is called by one goroutine at a time.
	New func() (encode func(pcm []int16) []byte, decode func(payload []byte) []int16, err error)
}

// codec is one of the two encodings of G.711, or a Coder's.
type codec struct {
	name        string
	payloadType uint8
	encode      func(int16) uint8
	decode      func(uint8) int16
	coder       *Coder // nil: G.711
	in          func(payload []byte) []int16
	out         func(pcm []int16) []byte
}

// ready is c with the coder of one call.
func (c codec) ready() (codec, error) {
	if c.coder == nil {
		return c, nil
	}
	var err error
	c.out, c.in, err = c.coder.New()
	return c, err
}

// rtpmap is the attribute's value without the payload type.
func (c codec) rtpmap() string {
	if c.coder == nil || c.coder.Channels == 0 {
		return fmt.Sprintf("%s/%d", c.name, c.clock())
	}
	return fmt.Sprintf("%s/%d/%d", c.name, c.clock(), c.coder.Channels)
}

// clock is the rate in Hz of the RTP timestamps.
func (c codec) clock() uint32 {
	if c.coder != nil {
		return uint32(c.coder.ClockRate)
	}
	return sampleRate
}

// payload encodes one packet.
func (c codec) payload(pcm []int16) []byte {
	if c.coder != nil {
		return c.out(pcm)
	}
	out := make([]byte, len(pcm))
	for i, v := range pcm {
		out[i] = c.encode(v)
	}
	return out
}

// codecNamed finds a codec by its name in SDP.
func codecNamed(name string) (codec, error) {
	switch strings.ToUpper(name) {
	case "PCMU":
		return codec{name: "PCMU", payloadType: 0, encode: g711.EncodeUlawFrame, decode: g711.DecodeUlawFrame}, nil
	case "PCMA":
		return codec{name: "PCMA", payloadType: 8, encode: g711.EncodeAlawFrame, decode: g711.DecodeAlawFrame}, nil
	}
	return codec{}, fmt.Errorf("phone: no codec %q; PCMU and PCMA are there", name)
}

func (c codec) pcm(payload []byte) []int16 {
	if c.coder != nil {
		return c.in(payload)
	}
	out := make([]int16, len(payload))
	for i, v := range payload {
		out[i] = c.decode(v)
	}
	return out
}
