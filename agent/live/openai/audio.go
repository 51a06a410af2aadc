package openai

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"parley/agent/live"
	"parley/agent/live/socket"
	"parley/media/resample"
)

// uplink makes messages of what the caller says. It is not safe for concurrent use.
type uplink struct {
	wire live.Encoding
	up   *resample.Resampler
	// in, out and raw are room for the conversion of one piece.
	in, out []int16
	raw     []byte
	// gated: audio goes out between ActivityStart and ActivityEnd only, and lead is the
	// newest before.
	gated, open bool
	lead        *socket.Lead
	// sent counts the bytes of the turn.
	sent int
}

func newUplink(cfg Config, s live.LiveConfig) (*uplink, error) {
	u := &uplink{wire: s.Wire, gated: s.LocalTurns}
	if !u.g711() {
		var err error
		if u.up, err = resample.New(live.InputRate, wireRate, resample.Voice); err != nil {
			return nil, fmt.Errorf("openai: %w", err)
		}
	}
	u.lead = socket.NewLead(u.bytes(cfg.Lead))
	return u, nil
}

func (u *uplink) g711() bool { return u.wire == live.PCMU || u.wire == live.PCMA }

// bytes is how many bytes on the wire last as long as d.
func (u *uplink) bytes(d time.Duration) int {
	if u.g711() {
		return int(d * 8000 / time.Second)
	}
	return int(d*wireRate/time.Second) * 2
}

// lasts is how long n bytes on the wire last.
func lasts(wire live.Encoding, n int) time.Duration {
	if wire == live.PCMU || wire == live.PCMA {
		return time.Duration(n) * time.Second / 8000
	}
	return time.Duration(n/2) * time.Second / wireRate
}

// convert is pcm, as SendAudio has it, as the service takes it. The result is good
// until the next call.
func (u *uplink) convert(pcm []byte) ([]byte, error) {
	if u.g711() {
		return pcm, nil
	}
	if len(pcm)%2 != 0 {
		return nil, fmt.Errorf("openai: %d bytes are no whole samples of 16 bits", len(pcm))
	}
	u.in = u.in[:0]
	for ; len(pcm) >= 2; pcm = pcm[2:] {
		u.in = append(u.in, int16(binary.LittleEndian.Uint16(pcm)))
	}
	u.out = u.up.Process(u.out[:0], u.in)
	u.raw = u.raw[:0]
	for _, s := range u.out {
		u.raw = binary.LittleEndian.AppendUint16(u.raw, uint16(s))
	}
	return u.raw, nil
}

// appendAudio appends the message that carries raw to dst.
func appendAudio(dst, raw []byte) []byte {
	dst = append(dst, `{"type":"input_audio_buffer.append","audio":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, raw)
	return append(dst, `"}`...)
}

// silence is n bytes of it.
func (u *uplink) silence(n int) []byte {
	switch u.wire {
	case live.PCMU:
		return bytes.Repeat([]byte{0xff}, n)
	case live.PCMA:
		return bytes.Repeat([]byte{0xd5}, n)
	}
	return make([]byte, n)
}

// guard looks whether audio is what the service says that it is. What is declared
// G.711 and is PCM, or the other way round, would be loud noise in the caller's ear.
//
// The two bytes of a 16-bit sample behave differently: the upper one is small for all
// but the loudest sound, the lower one is anything. Bytes of G.711, and of anything
// compressed, behave alike whether their place is odd or even.
type guard struct {
	wire    live.Encoding
	decided bool
	n       int     // bytes that were looked at
	even    float64 // sums of magnitudes, the bytes taken as signed
	odd     float64
	// of the samples, the bytes taken as PCM: energy, and of neighbours' product.
	energy, product float64
	last            float64
	pair            [2]byte // the bytes of last
	half            []byte
}

// What the guard needs to make up its mind.
const (
	guardLeast = 2400  // bytes: 50 ms of PCM, 300 ms of G.711
	guardMost  = 96000 // bytes of sound after which it trusts
)

// check looks at audio that follows upon what it has seen. Its error says what is
// wrong.
func (g *guard) check(audio []byte) error {
	if g.decided {
		return nil
	}
	if g.n == 0 {
		for _, magic := range []string{"RIFF", "OggS", "fLaC", "ID3"} {
			if bytes.HasPrefix(audio, []byte(magic)) {
				return fmt.Errorf("openai: %w: it sends files (%s) where %s was agreed", live.ErrRejected, magic, g.name())
			}
		}
	}
	g.half = append(g.half, audio...)
	pcm := g.half
	for ; len(pcm) >= 2; pcm = pcm[2:] {
		if pcm[0] == pcm[1] || [2]byte(pcm) == g.pair {
			continue // silence, in any encoding
		}
		g.pair = [2]byte(pcm)
		g.even += magnitude(pcm[0])
		g.odd += magnitude(pcm[1])
		s := float64(int16(binary.LittleEndian.Uint16(pcm)))
		g.energy += s * s
		g.product += s * g.last
		g.last = s
		g.n += 2
	}
	g.half = append(g.half[:0], pcm...)
	if g.n < guardLeast {
		return nil
	}
	g.decided = g.n > guardMost
	pairs := float64(g.n / 2)
	even, odd := g.even/pairs, g.odd/pairs
	smooth := g.product / g.energy // 1: each sample is like the one before
	switch {
	case g.wire == live.PCMU || g.wire == live.PCMA:
		if max(even, odd) > 2*min(even, odd) && smooth > 0.5 {
			return fmt.Errorf("openai: %w: it sends 16-bit PCM where %s was agreed", live.ErrRejected, g.name())
		}
	case min(even, odd) > 40 && max(even, odd) < 1.15*min(even, odd) && smooth < 0.3:
		return fmt.Errorf("openai: %w: it sends something that is no 16-bit PCM", live.ErrRejected)
	}
	return nil
}

func (g *guard) name() string {
	now, _ := formats(g.wire)
	return now.Type
}

// magnitude is that of a byte as a signed number.
func magnitude(b byte) float64 {
	v := int8(b)
	if v < 0 {
		return -float64(v)
	}
	return float64(v)
}
