package openai

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/zaf/g711"

	"parley/agent/live"
)

// voice is speech-like PCM: a buzz with two formants that comes and goes, and hiss
// between.
func voice(rate int, length time.Duration, level float64) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	n := int(length.Seconds() * float64(rate))
	out := make([]byte, 0, 2*n)
	for i := range n {
		at := float64(i) / float64(rate)
		syllable := math.Max(0, math.Sin(2*math.Pi*3*at))
		v := 0.0
		for h := 1.0; h < 20; h++ {
			f := 120 * h
			v += math.Sin(2*math.Pi*f*at+h) * (math.Exp(-math.Pow((f-600)/300, 2)) + 0.5*math.Exp(-math.Pow((f-1800)/400, 2)))
		}
		v = v/3*syllable + 0.05*(1-syllable)*random.NormFloat64()
		out = binary.LittleEndian.AppendUint16(out, uint16(int16(max(-32767, min(32767, v*level*32767)))))
	}
	return out
}

func noise(length time.Duration, level float64) []byte {
	random := rand.New(rand.NewPCG(3, 4))
	var out []byte
	for range int(length.Seconds() * wireRate) {
		out = binary.LittleEndian.AppendUint16(out, uint16(int16((2*random.Float64()-1)*level*32767)))
	}
	return out
}

func sine(hz, level float64) []byte {
	var out []byte
	for i := range wireRate {
		out = binary.LittleEndian.AppendUint16(out, uint16(int16(level*32767*math.Sin(2*math.Pi*hz*float64(i)/wireRate))))
	}
	return out
}

// TestFormat is BR-134 and BR-155: audio of another format than was agreed is an
// error, and audio of the right one never is.
func TestFormat(t *testing.T) {
	second := time.Second
	wav := append([]byte("RIFF\x24\x00\x00\x00WAVEfmt "), voice(wireRate, second, 0.3)...)
	random := make([]byte, 48000)
	for i := range random {
		random[i] = byte(rand.New(rand.NewPCG(uint64(i), 9)).Uint32())
	}
	for name, c := range map[string]struct {
		wire  live.Encoding
		audio []byte
		wrong string
	}{
		"pcm: a voice":                  {live.PCM16, voice(wireRate, 3*second, 0.3), ""},
		"pcm: a loud voice":             {live.PCM16, voice(wireRate, 3*second, 1), ""},
		"pcm: a soft voice":             {live.PCM16, voice(wireRate, 3*second, 0.01), ""},
		"pcm: clipped":                  {live.PCM16, voice(wireRate, 3*second, 4), ""},
		"pcm: hiss":                     {live.PCM16, noise(3*second, 0.2), ""},
		"pcm: silence":                  {live.PCM16, make([]byte, 96000), ""},
		"pcm: a tone":                   {live.PCM16, sine(440, 0.5), ""},
		"pcm: a tone as loud as can be": {live.PCM16, sine(1000, 1), ""},
		"pcm: a high tone":              {live.PCM16, sine(7000, 0.5), ""},
		"pcm: in truth µ-law":           {"", g711.EncodeUlaw(voice(8000, 3*second, 0.3)), "it sends something that is no 16-bit PCM"},
		"pcm: in truth A-law":           {live.PCM16, g711.EncodeAlaw(voice(8000, 3*second, 0.3)), "it sends something that is no 16-bit PCM"},
		"pcm: in truth compressed":      {live.PCM16, random, "it sends something that is no 16-bit PCM"},
		"pcm: in truth a file":          {live.PCM16, wav, "it sends files (RIFF) where audio/pcm was agreed"},
		"pcm: in truth MP3":             {live.PCM16, append([]byte("ID3\x04"), random...), "it sends files (ID3) where audio/pcm was agreed"},
		"µ-law: a voice":                {live.PCMU, g711.EncodeUlaw(voice(8000, 3*second, 0.3)), ""},
		"µ-law: a soft voice":           {live.PCMU, g711.EncodeUlaw(voice(8000, 3*second, 0.003)), ""},
		"µ-law: silence":                {live.PCMU, []byte(strings.Repeat("\xff\x7f", 8000)), ""},
		"A-law: a voice":                {live.PCMA, g711.EncodeAlaw(voice(8000, 3*second, 0.3)), ""},
		"A-law: silence":                {live.PCMA, []byte(strings.Repeat("\xd5\x55", 8000)), ""},
		"µ-law: in truth pcm":           {live.PCMU, voice(wireRate, second, 0.3), "it sends 16-bit PCM where audio/pcmu was agreed"},
		"µ-law: in truth soft pcm":      {live.PCMU, voice(wireRate, second, 0.02), "it sends 16-bit PCM where audio/pcmu was agreed"},
		"A-law: in truth pcm":           {live.PCMA, voice(8000, second, 0.3), "it sends 16-bit PCM where audio/pcma was agreed"},
	} {
		for _, piece := range []int{160, 999, 9600} {
			g := guard{wire: c.wire}
			var err error
			at := 0
			for ; at < len(c.audio) && err == nil; at += piece {
				err = g.check(c.audio[at:min(at+piece, len(c.audio))])
			}
			switch {
			case c.wrong == "" && err != nil:
				t.Errorf("%s, after %d bytes: %v", name, at, err)
			case c.wrong != "" && (!errors.Is(err, live.ErrRejected) || !strings.HasSuffix(err.Error(), c.wrong)):
				t.Errorf("%s: %v, want %s", name, err, c.wrong)
			case c.wrong != "" && at > 9600+piece:
				t.Errorf("%s: noticed after %d bytes only", name, at)
			}
		}
	}
}

// TestUplinkAllocates nothing for a packet: this is done 50 times a second for each
// call.
func TestUplinkAllocates(t *testing.T) {
	for _, wire := range []live.Encoding{live.PCM16, live.PCMU} {
		u, err := newUplink(DefaultConfig(), live.LiveConfig{Wire: wire, LocalTurns: true})
		if err != nil {
			t.Fatal(err)
		}
		pcm := voice(live.InputRate, 20*time.Millisecond, 0.3)
		buffer := make([]byte, 0, 4096)
		one := func() {
			raw, err := u.convert(pcm)
			if err != nil {
				t.Fatal(err)
			}
			u.lead.Keep(raw)
			buffer = appendAudio(buffer[:0], raw)
		}
		for range 100 {
			one()
		}
		if n := testing.AllocsPerRun(100, one); n != 0 {
			t.Errorf("%s: %v allocations for a packet", wire, n)
		}
	}
}
