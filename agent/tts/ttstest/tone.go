package ttstest

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"time"

	"parley/agent/tts"
)

// ErrTone is the error of a Tone that was told to fail and given no error.
var ErrTone = errors.New("ttstest: the voice broke")

// Tone is a voice without a synthesiser: every word is a burst of tone followed by
// silence, so the place of each word in the sound is known to the sample. It is
// instant unless told otherwise. The zero value is ready for use; the fields must
// not be changed once it speaks. It is safe for concurrent use and starts no
// goroutine.
type Tone struct {
	// SampleRate in Hz; 0 means 16000.
	SampleRate int
	// Word and Gap are the lengths of a word's tone and of the silence after it;
	// 0 means 200 ms and 50 ms.
	Word, Gap time.Duration
	// ChunkLength is the sound given at once; 0 means 20 ms.
	ChunkLength time.Duration
	// FirstByte is waited before the first chunk, EachWord before each word.
	FirstByte, EachWord time.Duration
	// Sleep waits, or returns the context's error. Nil means a timer, which also
	// obeys testing/synctest.
	Sleep func(ctx context.Context, d time.Duration) error
	// FailAfter is the number of whole words that are spoken in each text before it
	// fails with Err; it applies when Err is set or FailAfter is positive.
	FailAfter int
	// Err is what a failing Speak returns; nil means ErrTone.
	Err error

	mu     sync.Mutex
	spoken []string
}

// NewTone returns a Tone at 16 kHz with words of 200 ms and gaps of 50 ms.
func NewTone() *Tone { return &Tone{} }

// Rate implements tts.Voice.
func (v *Tone) Rate() int {
	if v.SampleRate == 0 {
		return 16000
	}
	return v.SampleRate
}

// Spoken returns the texts given to Speak so far, in order.
func (v *Tone) Spoken() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]string(nil), v.spoken...)
}

// Frequency is the tone in Hz of the i-th word of a text, counted from 0.
func Frequency(i int) float64 { return 400 + 50*float64(i%32) }

// Words returns the words of text with the times at which Speak will place them.
func (v *Tone) Words(text string) []tts.Word {
	word, gap := v.lengths()
	var out []tts.Word
	for i, w := range strings.Fields(text) {
		start := time.Duration(i) * (word + gap)
		out = append(out, tts.Word{Text: w, Start: start, End: start + word})
	}
	return out
}

// Length is how long the sound of text is.
func (v *Tone) Length(text string) time.Duration {
	word, gap := v.lengths()
	return time.Duration(len(strings.Fields(text))) * (word + gap)
}

// Speak implements tts.Voice.
func (v *Tone) Speak(ctx context.Context, text string, out func(tts.Chunk) error) error {
	v.mu.Lock()
	v.spoken = append(v.spoken, text)
	v.mu.Unlock()
	if err := v.wait(ctx, v.FirstByte); err != nil {
		return err
	}
	fails := v.Err != nil || v.FailAfter > 0
	for i, w := range v.Words(text) {
		if fails && i >= v.FailAfter {
			if v.Err != nil {
				return v.Err
			}
			return ErrTone
		}
		if err := v.wait(ctx, v.EachWord); err != nil {
			return err
		}
		if err := v.word(ctx, i, w, out); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// word gives the sound of one word, its gap included, in chunks.
func (v *Tone) word(ctx context.Context, i int, w tts.Word, out func(tts.Chunk) error) error {
	rate := v.Rate()
	word, gap := v.lengths()
	first := samples(w.Start, rate)
	tone := samples(w.Start+word, rate) - first
	pcm := make([]int16, samples(w.Start+word+gap, rate)-first)
	step := 2 * math.Pi * Frequency(i) / float64(rate)
	for n := range tone {
		pcm[n] = int16(8000 * math.Sin(step*float64(n)))
	}
	size := v.chunk()
	words := []tts.Word{w}
	for len(pcm) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(size, len(pcm))
		if err := out(tts.Chunk{PCM: pcm[:n:n], Words: words}); err != nil {
			return err
		}
		pcm, words = pcm[n:], nil
	}
	return nil
}

func (v *Tone) lengths() (word, gap time.Duration) {
	word, gap = v.Word, v.Gap
	if word == 0 {
		word = 200 * time.Millisecond
	}
	if gap == 0 {
		gap = 50 * time.Millisecond
	}
	return word, gap
}

func (v *Tone) chunk() int {
	if n := samples(v.ChunkLength, v.Rate()); n > 0 {
		return n
	}
	return samples(20*time.Millisecond, v.Rate())
}

func (v *Tone) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	if v.Sleep != nil {
		return v.Sleep(ctx, d)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// samples is exact for whole milliseconds; the place of a word is computed from
// the text's start, so nothing drifts.
func samples(d time.Duration, rate int) int {
	return int(int64(d) * int64(rate) / int64(time.Second))
}
