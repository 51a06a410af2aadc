package sipp

import (
	"encoding/binary"
	"math"

	"github.com/zaf/g711"

	"parley/media/g722"
)

// sounds are the files of sound that scenarios play, by name.
var sounds = map[string]func() []byte{
	"speech.ulaw":    speech,
	"wide.g722":      wide,
	"lossy.pcap":     func() []byte { return capture(lossy()) },
	"reordered.pcap": func() []byte { return capture(reordered()) },
}

// Sound of the captures, in packets of 20 ms.
const (
	captured = 100 // two seconds
	lostOf   = 10  // every tenth is missing in lossy.pcap
)

// speech is two seconds of sound in u-law without a header, as SIPp streams it.
func speech() []byte {
	out := make([]byte, 16000)
	for i := range out {
		out[i] = g711.EncodeUlawFrame(int16(voice(float64(i) / 8000)))
	}
	return out
}

// voice is something like a voice, in 16 bits.
func voice(t float64) float64 {
	return 8000 * math.Abs(math.Sin(5*t)) * math.Sin(2*math.Pi*(220+80*math.Sin(3*t))*t)
}

// wide is two seconds in G.722.
func wide() []byte {
	pcm := make([]int16, 32000)
	for i := range pcm {
		pcm[i] = int16(voice(float64(i) / 16000))
	}
	out, err := g722.NewEncoder().Encode(nil, pcm)
	if err != nil {
		panic(err) // the length is even
	}
	return out
}

// packet is one of a capture: when it is sent in units of 20 ms, and what it is the
// how-manieth of.
type packet struct {
	slot float64
	seq  int
}

// lossy is a stream of which every tenth packet did not arrive.
func lossy() []packet {
	var out []packet
	for i := range captured {
		if i%lostOf != lostOf/2 {
			out = append(out, packet{float64(i), i})
		}
	}
	return out
}

// reordered is a stream in which every tenth packet is overtaken by the next, and
// another comes twice.
func reordered() []packet {
	var out []packet
	for i := 0; i < captured; i++ {
		switch i % 10 {
		case 4:
			out = append(out, packet{float64(i), i + 1}, packet{float64(i) + 0.5, i})
			i++
		case 8:
			out = append(out, packet{float64(i), i}, packet{float64(i) + 0.3, i})
		default:
			out = append(out, packet{float64(i), i})
		}
	}
	return out
}

// capture writes a stream of speech as a pcap file of Ethernet, which SIPp plays.
func capture(packets []packet) []byte {
	const sound, rtp, udp, ip, ethernet = 160, 12, 8, 20, 14
	le, be, pcm := binary.LittleEndian, binary.BigEndian, speech()
	b := le.AppendUint32(nil, 0xa1b2c3d4)
	b = le.AppendUint16(b, 2)
	b = le.AppendUint16(b, 4)
	b = append(b, make([]byte, 8)...)
	b = le.AppendUint32(b, 65535)
	b = le.AppendUint32(b, 1)
	for _, p := range packets {
		at := int64(p.slot * 20000)
		b = le.AppendUint32(b, uint32(at/1e6))
		b = le.AppendUint32(b, uint32(at%1e6))
		const size = ethernet + ip + udp + rtp + sound
		b = le.AppendUint32(b, size)
		b = le.AppendUint32(b, size)
		b = append(b, make([]byte, ethernet-2)...)
		b = be.AppendUint16(b, 0x0800)
		b = append(b, 0x45, 0)
		b = be.AppendUint16(b, ip+udp+rtp+sound)
		b = append(b, 0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1)
		b = be.AppendUint16(b, 6000)
		b = be.AppendUint16(b, 6000)
		b = be.AppendUint16(b, udp+rtp+sound)
		b = append(b, 0, 0, 0x80, 0)
		b = be.AppendUint16(b, uint16(1000+p.seq))
		b = be.AppendUint32(b, uint32(5000+p.seq*sound))
		b = be.AppendUint32(b, 0x50415253)
		b = append(b, pcm[p.seq*sound:][:sound]...)
	}
	return b
}
