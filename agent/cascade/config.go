// Package cascade is a conversation made of three parts: a recogniser hears the
// caller, a model thinks up the reply, a voice speaks it.
package cascade

import (
	"errors"
	"fmt"
	"time"

	"parley/agent"
	"parley/agent/llm"
	"parley/agent/stt"
	"parley/agent/tts"
	"parley/agent/turn"
)

// Config plugs a conversation together. STT, TTS and LLM must be set; start from
// DefaultConfig for the rest. Phrases that are empty are not spoken.
type Config struct {
	STT stt.Recognizer
	TTS tts.Voice
	LLM llm.Provider

	// Language is a BCP 47 tag, for the recogniser and for cutting sentences;
	// empty means the recogniser's own, and English.
	Language string
	// Turn says whose turn it is.
	Turn turn.Config
	// Greeting opens the conversation. Empty: the model is asked for one.
	Greeting string

	// FirstToken is how long the model may think before its first word, and
	// between two pieces of a reply; the time in which it waits for the voice does
	// not count. Then the reply has failed.
	FirstToken time.Duration
	// Fallback is spoken when a reply failed, after the sentences that were
	// complete.
	Fallback string
	// Filler is spoken when the model has not said a word FillerAfter after it was
	// asked. 0: never.
	Filler      string
	FillerAfter time.Duration
	// FirstSound is how long the voice may take to give the first sound of a
	// sentence, and between two chunks of it. Then the sentence is skipped.
	FirstSound time.Duration

	// Reprompts are spoken in turn when nobody has said anything for Turn.Idle.
	// None: the model is asked, with llm.Turn.Nothing.
	Reprompts []string
	// Goodbye is spoken before the call is ended because nobody says anything.
	Goodbye string

	// TransferFailed is spoken when a transfer failed and the reply has no words of its
	// own for that. Empty: nothing.
	TransferFailed string

	// ReopenTries is how often a lost recogniser is opened again before the agent
	// gives the call up, with pauses that grow from ReopenPause to 5 s.
	ReopenTries int
	ReopenPause time.Duration
	// Deaf is spoken before the call is ended because the recogniser is gone.
	Deaf string

	// NoAudio ends the caller's voice when no sound, not even silence, has come for so
	// long: a microphone was muted within a word. 0: never.
	NoAudio time.Duration

	// SecretDigits leaves keyed-in digits out of all events.
	SecretDigits bool
}

// DefaultConfig is everything but the three parts.
func DefaultConfig() Config {
	return Config{
		Turn:           turn.DefaultConfig(),
		FirstToken:     8 * time.Second,
		Fallback:       "Sorry, I did not get that. Could you say it again?",
		FirstSound:     8 * time.Second,
		Goodbye:        "I cannot hear you. Goodbye.",
		TransferFailed: "I am sorry, I could not connect you. How else can I help?",
		NoAudio:        time.Second,
		ReopenTries:    8,
		ReopenPause:    100 * time.Millisecond,
		Deaf:           "I am sorry, I cannot hear you at the moment. Please call again later.",
	}
}

// Validate says all that is wrong with c.
func (c Config) Validate() error {
	errs := []error{c.Turn.Validate()}
	if c.STT == nil || c.TTS == nil || c.LLM == nil {
		errs = append(errs, errors.New("cascade: a recogniser, a voice and a model are needed"))
	}
	positive := func(name string, d time.Duration) {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("cascade: %s must be positive, not %v", name, d))
		}
	}
	positive("first token timeout", c.FirstToken)
	positive("first sound timeout", c.FirstSound)
	positive("reopen pause", c.ReopenPause)
	if c.NoAudio < 0 || c.NoAudio > 0 && c.NoAudio < 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("cascade: no audio %v is neither 0 nor at least 100ms", c.NoAudio))
	}
	if c.FillerAfter < 0 {
		errs = append(errs, fmt.Errorf("cascade: filler after %v is negative", c.FillerAfter))
	}
	if c.ReopenTries < 0 {
		errs = append(errs, fmt.Errorf("cascade: reopen tries %d is negative", c.ReopenTries))
	}
	return errors.Join(errs...)
}

// New makes the agent for calls.
func New(cfg Config) (agent.Opener, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &opener{cfg}, nil
}

type opener struct{ cfg Config }

// Format is the recogniser's rate in and the voice's rate out.
func (o *opener) Format() agent.Format {
	return agent.Format{HearRate: o.cfg.STT.Rate(), SayRate: o.cfg.TTS.Rate()}
}
