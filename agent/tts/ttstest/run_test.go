package ttstest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/tts"
	"parley/agent/tts/ttstest"
)

func TestTone(t *testing.T) {
	ttstest.Run(t, ttstest.Subject{
		New:   func(*testing.T) tts.Voice { return ttstest.NewTone() },
		Words: true,
	})
}

func TestToneWordsAreExact(t *testing.T) {
	v := &ttstest.Tone{SampleRate: 8000}
	var pcm []int16
	var words []tts.Word
	err := v.Speak(t.Context(), "one two three", func(c tts.Chunk) error {
		pcm = append(pcm, c.PCM...)
		words = append(words, c.Words...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pcm) != 3*2000 || v.Length("one two three") != 750*time.Millisecond {
		t.Errorf("%d samples, length %v", len(pcm), v.Length("one two three"))
	}
	for i, w := range words {
		start, end := int(w.Start.Milliseconds())*8, int(w.End.Milliseconds())*8
		if pcm[start+1] == 0 || pcm[end-1] == 0 {
			t.Errorf("word %d is silent at its ends", i)
		}
		for _, x := range pcm[end : end+400] {
			if x != 0 {
				t.Fatalf("word %d is not silent after its end", i)
			}
		}
	}
}

func TestToneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &ttstest.Tone{FirstByte: 300 * time.Millisecond, EachWord: 10 * time.Millisecond}
		begin := time.Now()
		var first time.Duration
		err := v.Speak(t.Context(), "one two", func(tts.Chunk) error {
			if first == 0 {
				first = time.Since(begin)
			}
			return nil
		})
		if err != nil || first != 310*time.Millisecond || time.Since(begin) != 320*time.Millisecond {
			t.Errorf("first %v, all %v, %v", first, time.Since(begin), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := v.Speak(ctx, "one", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want context.DeadlineExceeded", err)
		}
	})
}

func TestToneFails(t *testing.T) {
	v := &ttstest.Tone{FailAfter: 2}
	words := 0
	err := v.Speak(t.Context(), "a b c d", func(c tts.Chunk) error { words += len(c.Words); return nil })
	if !errors.Is(err, ttstest.ErrTone) || words != 2 {
		t.Errorf("%d words, %v", words, err)
	}
	mine := errors.New("mine")
	v = &ttstest.Tone{Err: mine}
	if err := v.Speak(t.Context(), "a", nil); !errors.Is(err, mine) {
		t.Errorf("error %v, want mine", err)
	}
}
