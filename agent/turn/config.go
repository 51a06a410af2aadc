package turn

import (
	"errors"
	"fmt"
	"time"
)

// Config says when a turn begins and ends. DefaultConfig gives values that suit a
// telephone conversation.
type Config struct {
	// Confirm is how long the caller's voice must last, from the moment it was
	// noticed, to open a turn and to cut the agent off, when the detector does not
	// confirm it earlier. Until then the agent is only paused. Longer than the
	// detector takes, so that a detector that can tell a cough from a voice decides.
	Confirm time.Duration
	// ConfirmWords is how many words of an interim transcript do the same at once,
	// also without voice. 0: none do.
	ConfirmWords int
	// SpeechTimeout ends the turn so long after the caller's last sound.
	SpeechTimeout time.Duration
	// SentenceTimeout does so when the final transcript ends a sentence.
	SentenceTimeout time.Duration
	// FinalTimeout is how long a final transcript is waited for at the end of the
	// turn. Then the turn closes with the finals that came.
	FinalTimeout time.Duration
	// FalseTimeout, counted from the caller's last sound, is how long a transcript
	// of a short voice that cut the agent off is waited for before the agent goes
	// on.
	FalseTimeout time.Duration
	// ShortVoice is the longest voice without words that counts as a noise when it
	// cut the agent off: the agent goes on, once per reply.
	ShortVoice time.Duration
	// NoiseVoice is the longest voice without words that counts as a noise when the
	// agent was quiet. A longer one closes a garbled turn.
	NoiseVoice time.Duration
	// MaxTurn closes a turn whose voice does not end, such as music on hold.
	MaxTurn time.Duration
	// DigitGap ends a keyed-in turn so long after the last digit.
	DigitGap time.Duration
	// MaxDigits ends a keyed-in turn at so many digits, unless the reply said
	// otherwise. 0: no limit but MaxKeyed.
	MaxDigits int
	// MuteGreeting drops what the caller says until the first agent turn is
	// complete, which makes the greeting uninterruptible. Digits are kept, and
	// handed on when the greeting is over.
	MuteGreeting bool
	// Idle is how long nobody may say anything before the agent is told so. 0:
	// for ever.
	Idle time.Duration
	// Reprompts is how often in a row that happens, turns without a recognised
	// word included, before the agent says goodbye.
	Reprompts int
}

// MaxKeyed bounds the digits of one turn.
const MaxKeyed = 64

// MaxText bounds the words of one turn, in bytes. What is said beyond is dropped.
const MaxText = 16 << 10

// DefaultConfig is a turn that opens when a voice is confirmed, or has lasted for
// 160 ms, and closes 0.6 s after it, with a re-prompt every 10 s of silence, twice.
func DefaultConfig() Config {
	return Config{
		Confirm:         160 * time.Millisecond,
		ConfirmWords:    2,
		SpeechTimeout:   600 * time.Millisecond,
		SentenceTimeout: 300 * time.Millisecond,
		FinalTimeout:    2 * time.Second,
		FalseTimeout:    2 * time.Second,
		ShortVoice:      1500 * time.Millisecond,
		NoiseVoice:      300 * time.Millisecond,
		MaxTurn:         60 * time.Second,
		DigitGap:        2 * time.Second,
		Idle:            10 * time.Second,
		Reprompts:       2,
	}
}

// Validate says all that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	between := func(name string, d, low, high time.Duration) {
		if d < low || d > high {
			errs = append(errs, fmt.Errorf("turn: %s %v is not between %v and %v", name, d, low, high))
		}
	}
	between("confirm", c.Confirm, 0, 2*time.Second)
	between("speech timeout", c.SpeechTimeout, 0, 10*time.Second)
	between("sentence timeout", c.SentenceTimeout, 0, 10*time.Second)
	between("final timeout", c.FinalTimeout, 10*time.Millisecond, 30*time.Second)
	between("false timeout", c.FalseTimeout, 10*time.Millisecond, 30*time.Second)
	between("short voice", c.ShortVoice, 0, time.Minute)
	between("noise voice", c.NoiseVoice, 0, time.Minute)
	between("max turn", c.MaxTurn, time.Second, time.Hour)
	between("digit gap", c.DigitGap, 100*time.Millisecond, time.Minute)
	if c.Idle != 0 {
		between("idle", c.Idle, time.Second, time.Hour)
	}
	if c.ConfirmWords < 0 || c.Reprompts < 0 {
		errs = append(errs, errors.New("turn: confirm words and reprompts may not be negative"))
	}
	if c.MaxDigits < 0 || c.MaxDigits > MaxKeyed {
		errs = append(errs, fmt.Errorf("turn: max digits %d is not between 0 and %d", c.MaxDigits, MaxKeyed))
	}
	return errors.Join(errs...)
}
