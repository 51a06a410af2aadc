// Package tts is the contract between a conversation and a voice. Voices are in
// the sub-packages; ttstest is the suite that all of them pass.
package tts

import (
	"context"
	"time"
)

// Voice turns text into speech. It is safe for concurrent use; a voice that can
// only speak one text at a time makes others wait, no longer than their contexts.
type Voice interface {
	// Rate is the sample rate in Hz of the PCM it makes.
	Rate() int
	// Speak synthesises one piece of text, a sentence or a clause, and gives the
	// sound to out in order while it is being made. out may block. Speak returns
	// when all was given, or with the first error: of out, of ctx, or its own.
	// Text without anything to pronounce gives no sound and no error.
	Speak(ctx context.Context, text string, out func(Chunk) error) error
}

// Styled is what a Voice may be as well: it can be told how to speak.
type Styled interface {
	// SpeakStyled is Speak in a style: a word such as "warm" or "whisper", in lower
	// case. A style that the voice does not know is left out.
	SpeakStyled(ctx context.Context, text, style string, out func(Chunk) error) error
}

// Chunk is a stretch of speech.
type Chunk struct {
	// PCM is mono at Voice.Rate. The receiver does not keep it.
	PCM []int16
	// Words begin in or after this chunk; empty where the voice does not tell.
	Words []Word
}

// Word is a word of the text with the place where its sound begins and ends,
// counted from the first sample of the text's speech.
type Word struct {
	// Text is the word as it stands in the text, with its punctuation.
	Text string
	// Start and End are counted from the first sample Speak gave for this text.
	Start, End time.Duration
}
