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

// codec is one of the two encodings of G.711.
type codec struct {
	name        string
	payloadType uint8
	encode      func(int16) uint8
	decode      func(uint8) int16
}

// codecNamed finds a codec by its name in SDP.
func codecNamed(name string) (codec, error) {
	switch strings.ToUpper(name) {
	case "PCMU":
		return codec{"PCMU", 0, g711.EncodeUlawFrame, g711.DecodeUlawFrame}, nil
	case "PCMA":
		return codec{"PCMA", 8, g711.EncodeAlawFrame, g711.DecodeAlawFrame}, nil
	}
	return codec{}, fmt.Errorf("phone: no codec %q; PCMU and PCMA are there", name)
}

func (c codec) pcm(payload []byte) []int16 {
	out := make([]int16, len(payload))
	for i, v := range payload {
		out[i] = c.decode(v)
	}
	return out
}
