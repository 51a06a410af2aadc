package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"parley/agent/llm"
	"parley/agent/tts"
	"parley/agent/tts/flite"
	"parley/test/audio"
)

// hiss is the level in dBFS of the noise in the agent's voice. No telephone hears it, but
// each packet of speech, also between two words, is told by it from the silence that the
// gateway sends when the agent is paused. speaks is where packets are told apart.
const (
	hiss   = -57.0
	speaks = -72.0
)

// chunk is how much of its speech the voice gives at once.
const chunk = 100 * time.Millisecond

// voice is the agent's: flite's, each sentence synthesised once.
type voice struct {
	from tts.Voice

	mu   sync.Mutex
	said map[string][]int16
}

func newVoice() (*voice, error) {
	v, err := flite.New(flite.DefaultConfig())
	if err != nil {
		return nil, fmt.Errorf("the agent's voice: %w", err)
	}
	own := &voice{from: v, said: map[string][]int16{}}
	for _, s := range story {
		if _, err := own.sound(s); err != nil {
			return nil, err
		}
	}
	return own, nil
}

// Rate implements tts.Voice.
func (v *voice) Rate() int { return v.from.Rate() }

// Speak implements tts.Voice.
func (v *voice) Speak(ctx context.Context, text string, out func(tts.Chunk) error) error {
	pcm, err := v.sound(text)
	if err != nil {
		return err
	}
	n := int(chunk.Seconds() * float64(v.Rate()))
	for len(pcm) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		m := min(n, len(pcm))
		if err := out(tts.Chunk{PCM: pcm[:m]}); err != nil {
			return err
		}
		pcm = pcm[m:]
	}
	return nil
}

func (v *voice) sound(text string) ([]int16, error) {
	text = strings.TrimSpace(text)
	v.mu.Lock()
	defer v.mu.Unlock()
	if pcm, ok := v.said[text]; ok {
		return pcm, nil
	}
	pcm, err := synthesize(v.from, text)
	if err != nil {
		return nil, err
	}
	pcm = leveled(pcm, agentLevel)
	random := rand.New(rand.NewPCG(uint64(len(text)), 5))
	noise := make([]int16, len(pcm))
	for i := range noise {
		noise[i] = int16(1000 * random.NormFloat64())
	}
	noise = louder(noise, hiss-audio.Level(noise))
	for i, n := range noise {
		pcm[i] = clip(float64(pcm[i]) + float64(n))
	}
	v.said[text] = pcm
	return pcm, nil
}

// teller is a model that tells a story: all of it as the greeting and as each reply, from
// where it likes, or a short answer.
type teller struct {
	tells  bool
	expect *llm.Expect // nil: anything may be said
}

// Open implements llm.Provider.
func (t teller) Open(context.Context, llm.Conversation) (llm.Model, error) {
	return &telling{teller: t}, nil
}

type telling struct {
	teller
	at int
}

// Greet implements llm.Model.
func (t *telling) Greet(_ context.Context, out func(llm.Chunk) error) error {
	if !t.tells {
		return nil
	}
	return t.tell(out)
}

// Reply implements llm.Model.
func (t *telling) Reply(_ context.Context, _ llm.Turn, out func(llm.Chunk) error) error {
	if t.tells {
		return t.tell(out)
	}
	return out(llm.Chunk{Text: "That is noted.", Expect: t.expect})
}

// tell tells the story twice over from another sentence than the last time, so that it
// does not end while there is somebody to interrupt it.
func (t *telling) tell(out func(llm.Chunk) error) error {
	t.at += 3
	for i := range 2 * len(story) {
		c := llm.Chunk{Text: story[(t.at+i)%len(story)] + " "}
		if i == 0 {
			c.Expect = t.expect
		}
		if err := out(c); err != nil {
			return err
		}
	}
	return nil
}

// Close implements llm.Model.
func (t *telling) Close(context.Context, llm.End) {}
