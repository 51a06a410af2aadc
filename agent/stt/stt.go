// Package stt is the contract between a conversation and a speech recogniser.
// Recognisers are in the sub-packages; stttest is the suite that all of them pass.
package stt

import (
	"context"
	"time"
)

// Recognizer opens recognition streams. It is safe for concurrent use.
type Recognizer interface {
	// Rate is the sample rate in Hz of the PCM its streams take.
	Rate() int
	// Open starts a stream for one call. Results are given to out in order, from
	// one goroutine of the stream at a time; out must not block and is not called
	// after Close returned. ctx bounds the opening and the life of the stream.
	Open(ctx context.Context, o Options, out func(Result)) (Stream, error)
}

// Options say what a stream shall listen for.
type Options struct {
	// Language is a BCP 47 tag such as "en-US"; empty means the recogniser's own.
	Language string
	// Expect is what the caller may say first.
	Expect Expect
}

// Expect narrows what the caller may say next. Recognisers that cannot use it
// ignore it.
type Expect struct {
	// Grammar is a JSGF grammar ("#JSGF V1.0; …"). Empty: the recogniser's own
	// vocabulary.
	Grammar string
	// Phrases are words worth listening for (boosting, keyterms).
	Phrases []string
}

// Stream recognises the speech of one call. Write, Finalize and Expect are called
// from one goroutine, Close from any.
type Stream interface {
	// Write takes PCM at Recognizer.Rate, of any length, in real time, silence
	// included. It does not keep pcm and does not wait for recognition: a stream
	// that falls behind drops its oldest audio and says so in a Result with Err.
	Write(pcm []int16) error
	// Begin says that the caller's voice began; audio from shortly before it was
	// already written. Recognisers with endpointing of their own ignore it.
	Begin()
	// Finalize says that the caller's turn ended: a final Result shall come as
	// soon as possible, with empty Text when nothing was recognised.
	Finalize()
	// Expect changes what the caller may say, from the next utterance on.
	Expect(Expect) error
	// Close ends the stream, waits for its goroutines and frees it. It may be
	// called more than once.
	Close() error
}

// Result is a transcript of what the caller said.
type Result struct {
	// Text is the words, without surrounding white space. Empty on a final result
	// means that the utterance held no recognisable words.
	Text string
	// Final tells a final transcript from an interim one, which later results
	// replace.
	Final bool
	// Confidence is 0 to 1; 0 when the recogniser does not tell.
	Confidence float64
	// Words are the words with their times from the stream's first sample, where
	// the recogniser tells.
	Words []Word
	// Err is set when the stream lost audio or its connection. Text is then empty.
	// A stream that cannot go on reports an error that is ErrLost (errors.Is).
	Err error
}

// Word is one word with its place in the stream's audio.
type Word struct {
	Text       string
	Start, End time.Duration
}
