package phone

import (
	"slices"
	"time"
)

// Stereo is a call as two channels on one clock: what the caller said, as the
// microphone gave it, and what the caller heard. The first sample of both is at
// Origin on the phone's clock.
type Stereo struct {
	// Rate is in Hz.
	Rate        int
	Origin      time.Duration
	Left, Right []int16
}

// Stereo lays out the call's sound. Packets lie where their timestamps say,
// relative to the median arrival of their stretch, so neither jitter nor loss
// moves a sample. A packet that was lost on the way to the phone is filled with
// the one before, fainter, as simple phones do.
func (l *Log) Stereo() Stereo {
	packets := l.Packets()
	out := Stereo{Rate: sampleRate}
	if len(packets) == 0 {
		return out
	}
	out.Origin = packets[0].At
	out.Left = channel(packets, Sent, out.Origin)
	out.Right = channel(packets, Heard, out.Origin)
	n := max(len(out.Left), len(out.Right))
	out.Left = append(out.Left, make([]int16, n-len(out.Left))...)
	out.Right = append(out.Right, make([]int16, n-len(out.Right))...)
	return out
}

// resync is how far a packet may be from the place that its timestamp gives
// before a new stretch is begun: after a hold, a new sender, a jump.
const resync = 150 * time.Millisecond

// stretch is a run of packets that share one timeline.
type stretch struct {
	packets []Packet
	offsets []time.Duration
}

func channel(packets []Packet, d Direction, origin time.Duration) []int16 {
	var out []int16
	for _, s := range stretches(packets, d) {
		slices.Sort(s.offsets)
		anchor := s.offsets[len(s.offsets)/2] - origin
		var before []int16
		for _, p := range s.packets {
			pcm := soundOf(p, before)
			before = pcm
			at := int((anchor + p.since(s.packets[0])) * sampleRate / time.Second)
			if at < 0 {
				continue
			}
			if end := at + len(pcm); end > len(out) {
				out = append(out, make([]int16, end-len(out))...)
			}
			copy(out[at:], pcm)
		}
	}
	return out
}

// soundOf decodes a packet, or makes up one that was not heard.
func soundOf(p Packet, before []int16) []int16 {
	if p.Direction == Heard && p.Dropped {
		out := make([]int16, len(before))
		for i, v := range before {
			out[i] = v / 2
		}
		return out
	}
	if p.pcm != nil {
		return p.pcm
	}
	name := "PCMU"
	if p.PayloadType == 8 {
		name = "PCMA"
	}
	c, _ := codecNamed(name)
	return c.pcm(p.Payload)
}

// since is how much later p is than first by their RTP timestamps; negative when it
// is before it.
func (p Packet) since(first Packet) time.Duration {
	clock := time.Duration(p.clock)
	if clock == 0 {
		clock = sampleRate
	}
	return time.Duration(int32(p.Timestamp-first.Timestamp)) * time.Second / clock
}

func stretches(packets []Packet, d Direction) []*stretch {
	var out []*stretch
	var s *stretch
	for _, p := range packets {
		if p.Direction != d || !p.Audio {
			continue
		}
		if s != nil {
			first := s.packets[0]
			offset := p.At - p.since(first)
			if last := s.offsets[len(s.offsets)-1]; p.SSRC == first.SSRC && max(offset-last, last-offset) < resync {
				s.packets, s.offsets = append(s.packets, p), append(s.offsets, offset)
				continue
			}
		}
		s = &stretch{packets: []Packet{p}, offsets: []time.Duration{p.At}}
		out = append(out, s)
	}
	return out
}
