package kit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"parley/agent"
	"parley/agent/live"
	"parley/media"
	"parley/media/g711"
)

// rate is how many samples a second has.
type rate int

// samples is how many samples last as long as d.
func (r rate) samples(d time.Duration) int { return int(int64(d) * int64(r) / int64(time.Second)) }

// length is how long so many samples last.
func (r rate) length(samples int) time.Duration {
	return time.Duration(int64(samples) * int64(time.Second) / int64(r))
}

// sound is how the sound of a call goes to the model and comes from it: as PCM of the
// contract's rates, or as the call's own G.711, which is one byte a sample at 8 kHz both
// ways.
type sound struct {
	wire        live.Encoding
	hears, says rate
	width       int  // bytes of a sample on the way to and from the model
	silence     byte // what every byte of silence is

	// Of G.711 only.
	name string // "PCMU" or "PCMA"
	enc  media.Encoder
	dec  media.Decoder
}

// pcmSound is what goes over the contract with every provider.
func pcmSound() sound {
	return sound{wire: live.PCM16, hears: live.InputRate, says: live.OutputRate, width: 2}
}

// g711Sound is the sound of a call that has an encoding of G.711.
func g711Sound(wire live.Encoding) (sound, error) {
	codec, silence := g711.PCMU(), g711.IdlePCMU
	if wire == live.PCMA {
		codec, silence = g711.PCMA(), g711.IdlePCMA
	}
	s := sound{wire: wire, hears: g711.Rate, says: g711.Rate, width: 1, silence: silence, name: codec.Name}
	var errs [2]error
	s.enc, errs[0] = codec.NewEncoder()
	s.dec, errs[1] = codec.NewDecoder()
	if err := errors.Join(errs[:]...); err != nil {
		return sound{}, fmt.Errorf("kit: %s: %w", codec.Name, err)
	}
	return s, nil
}

// coded says whether the sound is not PCM.
func (s *sound) coded() bool { return s.enc != nil }

// supports says whether a provider takes an encoding.
func supports(p live.LiveProvider, e live.Encoding) bool {
	s, ok := p.(live.Supporter)
	return ok && s.Supports(e)
}

// soundOf is how the sound of a call goes to its provider. A call of one law whose
// provider takes only the other is converted: that costs less than PCM of another rate.
func (o *opener) soundOf(c agent.Call, p live.LiveProvider) (sound, error) {
	own := live.Encoding(strings.ToLower(c.Codec))
	if !o.passes || own != live.PCMU && own != live.PCMA {
		return pcmSound(), nil
	}
	for _, e := range []live.Encoding{own, live.PCMU, live.PCMA} {
		if supports(p, e) {
			return g711Sound(e)
		}
	}
	return sound{}, fmt.Errorf("kit: %s took G.711 when the agent was made, and does not now", p.Name())
}

// passesG711 says whether the providers of cfg take G.711 at all.
func passesG711(cfg Config) bool {
	if !cfg.PassThrough {
		return false
	}
	p := cfg.Provider()
	return supports(p, live.PCMU) || supports(p, live.PCMA)
}

// hearPayload is Hear for sound that is coded as the model wants it.
func (s *conversation) hearPayload(payload []byte) {
	s.lastFrame.Store(time.Now().UnixNano())
	s.up.take(payload)
}

// samples is how long the chunk is.
func (c *chunk) samples() int { return len(c.pcm) + len(c.coded) }

// skip drops the first n samples.
func (c *chunk) skip(n int) {
	if c.coded != nil {
		c.coded = c.coded[n:]
		return
	}
	c.pcm = c.pcm[n:]
}

// only keeps the first n samples.
func (c *chunk) only(n int) {
	if c.coded != nil {
		c.coded = c.coded[:n:n]
		return
	}
	c.pcm = c.pcm[:n:n]
}

// sayCoded says sound that is coded: as it is, or decoded while the call has another
// codec, which a re-INVITE may bring at any time.
func (s *speech) sayCoded(ctx context.Context, payload []byte) error {
	if s.payloads != nil {
		if err := s.payloads.SayPayload(ctx, s.sound.name, payload); !errors.Is(err, agent.ErrEncoding) {
			return err
		}
	}
	var err error
	if s.pcm, err = s.sound.dec.Decode(s.pcm[:0], payload); err != nil {
		return fmt.Errorf("kit: %s: %w", s.sound.name, err)
	}
	return s.speaker.Say(ctx, s.pcm)
}
