package phone

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"time"

	"parley/test/audio"
)

// Direction tells sent packets from received ones.
type Direction uint8

// The directions, seen from the phone.
const (
	Sent Direction = iota + 1
	Heard
)

// Packet is one line of the phone's log.
type Packet struct {
	Direction Direction
	// At is when it was given to the network or, for a received one, when the
	// kernel took it in, since the phone began.
	At time.Duration
	// Local and Remote are the addresses of the phone and of the other side.
	Local, Remote netip.AddrPort
	PayloadType   uint8
	Marker        bool
	Sequence      uint16
	Timestamp     uint32
	SSRC          uint32
	// Payload is the packet without its RTP header.
	Payload []byte
	// Level is the loudness in dBFS of an audio packet, audio.Floor for others.
	Level float64
	// Audio is set for the payload type of the call's codec.
	Audio bool
	// Digit is the key of a telephone-event packet (RFC 4733), else 0; DigitEnd is
	// its end bit.
	Digit    byte
	DigitEnd bool
	// Dropped is set when the phone's impairment lost the packet: a sent one never
	// left, a received one was not heard.
	Dropped bool

	utterance *Utterance // that a sent packet belongs to
	pcm       []int16    // of a Coder's packet, which only it can decode, in order
	clock     uint32     // of Timestamp in Hz; 0 is 8000
}

// Log is the capture of a call at the peer: every RTP packet both ways. Its
// methods may be called while the call goes on.
type Log struct {
	mu      sync.Mutex
	packets []Packet
	heard   listener
}

func (l *Log) add(p Packet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.packets = append(l.packets, p)
	if p.Direction == Heard && p.Audio && !p.Dropped {
		l.heard.packet(p.At, p.Level)
	}
}

// Packets is a copy of the log, in order of time.
func (l *Log) Packets() []Packet {
	l.mu.Lock()
	out := slices.Clone(l.packets)
	l.mu.Unlock()
	slices.SortStableFunc(out, func(a, b Packet) int { return int(a.At - b.At) })
	return out
}

// Marks are the levels of the audio packets of one direction, for package audio.
// Those that the impairment dropped are left out.
func (l *Log) Marks(d Direction) []audio.Mark {
	var out []audio.Mark
	for _, p := range l.Packets() {
		if p.Direction == d && p.Audio && !p.Dropped {
			out = append(out, audio.Mark{At: p.At, Level: p.Level})
		}
	}
	return out
}

// Digits are the keys that went in one direction, each press once.
func (l *Log) Digits(d Direction) string {
	var out []byte
	var last uint32
	for _, p := range l.Packets() {
		if p.Direction == d && p.Digit != 0 && (len(out) == 0 || p.Timestamp != last) {
			out, last = append(out, p.Digit), p.Timestamp
		}
	}
	return string(out)
}

// Quality are the figures of one direction's stream.
type Quality struct {
	// Packets counts audio and event packets, Missing the sequence numbers between
	// the first and the last that are not there.
	Packets, Missing int
	// LongestGap is the longest time between two neighbours.
	LongestGap time.Duration
	// Deviation99 is the 99th percentile of the distance of a packet from the ideal
	// schedule that its timestamp gives, the schedule being laid through the median.
	Deviation99 time.Duration
}

// Quality measures the stream of one direction. Packets that the impairment
// dropped count as missing for Sent, and as received for Heard, because the
// measure is of the other side and of the line, not of the impairment.
func (l *Log) Quality(d Direction) Quality {
	var q Quality
	var offsets []time.Duration
	var first, last Packet
	var position, highest int
	for _, p := range l.Packets() {
		if p.Direction != d || (d == Sent && p.Dropped) {
			continue
		}
		if q.Packets == 0 {
			first, last = p, p
		}
		q.LongestGap = max(q.LongestGap, p.At-last.At)
		q.Packets++
		position += int(int16(p.Sequence - last.Sequence))
		highest = max(highest, position+1)
		if p.Audio {
			played := p.since(first)
			offsets = append(offsets, p.At-first.At-played)
		}
		last = p
	}
	q.Missing = max(0, highest-q.Packets)
	q.Deviation99 = deviation(offsets)
	return q
}

// deviation is the 99th percentile of the distances from the median.
func deviation(offsets []time.Duration) time.Duration {
	if len(offsets) == 0 {
		return 0
	}
	slices.Sort(offsets)
	median := offsets[len(offsets)/2]
	for i, o := range offsets {
		offsets[i] = max(o-median, median-o)
	}
	slices.Sort(offsets)
	return offsets[len(offsets)*99/100]
}

// listener follows the agent's speech while packets arrive.
type listener struct {
	// began is when the current or last stretch of speech began, last its last loud
	// packet; stretches are joined over pauses of up to
	// 700 ms, as between two sentences.
	began, last time.Duration
	ever        bool
}

const listenerHang = 700 * time.Millisecond

func (s *listener) packet(at time.Duration, level float64) {
	if level < audio.Loud {
		return
	}
	if !s.ever || at-s.last > listenerHang {
		s.began = at
	}
	s.last, s.ever = at, true
}

// speech is how long the agent has been speaking without a long pause, and how
// long ago its last loud packet came. ever is false before the first one.
func (l *Log) speech(now time.Duration) (speaking, silent time.Duration, ever bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.heard.ever {
		return 0, now, false
	}
	silent = max(0, now-l.heard.last)
	if silent > listenerHang {
		return 0, silent, true
	}
	return l.heard.last - l.heard.began, silent, true
}

// eventDigits are the keys of RFC 4733 events 0 to 15.
const eventDigits = "0123456789*#ABCD"

// parseRTP reads a datagram. ok is false for what is not RTP version 2, such as
// STUN and RTCP.
func parseRTP(b []byte) (p Packet, ok bool) {
	if len(b) < 12 || b[0]>>6 != 2 || (b[1] >= 192 && b[1] <= 223) {
		return p, false
	}
	head := 12 + 4*int(b[0]&0x0f)
	if b[0]&0x10 != 0 {
		if len(b) < head+4 {
			return p, false
		}
		head += 4 + 4*int(binary.BigEndian.Uint16(b[head+2:]))
	}
	end := len(b)
	if b[0]&0x20 != 0 {
		end -= int(b[len(b)-1])
	}
	if head > end {
		return p, false
	}
	p = Packet{
		PayloadType: b[1] & 0x7f, Marker: b[1]&0x80 != 0,
		Sequence: binary.BigEndian.Uint16(b[2:]), Timestamp: binary.BigEndian.Uint32(b[4:]),
		SSRC: binary.BigEndian.Uint32(b[8:]), Payload: slices.Clone(b[head:end]), Level: audio.Floor,
	}
	return p, true
}

// appendRTP writes p as a datagram.
func appendRTP(dst []byte, p Packet) []byte {
	second := p.PayloadType
	if p.Marker {
		second |= 0x80
	}
	dst = append(dst, 0x80, second)
	dst = binary.BigEndian.AppendUint16(dst, p.Sequence)
	dst = binary.BigEndian.AppendUint32(dst, p.Timestamp)
	dst = binary.BigEndian.AppendUint32(dst, p.SSRC)
	return append(dst, p.Payload...)
}
