package turn

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Config says when a turn begins and ends. DefaultConfig gives values that suit a
// telephone conversation.
type Config struct {
	// Start is what opens a turn, in the order in which it is asked. Empty: StartVoice
	// and StartTranscript.
	Start []StartStrategy
	// Stop is what ends one; the first to say so does. Empty: StopTimeout.
	Stop []StopStrategy
	// Mute is when what the caller says is dropped; one of them suffices. Digits are
	// kept, and handed on when the caller is heard again.
	Mute []MuteStrategy

	// Confirm is how long the caller's voice must last, from the moment it was
	// noticed, to open a turn and to cut the agent off, when the detector does not
	// confirm it earlier. Until then the agent is only paused. Longer than the
	// detector takes, so that a detector that can tell a cough from a voice decides.
	Confirm time.Duration
	// ConfirmWords is how many words of an interim transcript do the same at once,
	// also without voice. 0: none do.
	ConfirmWords int
	// BackchannelVoice is how long a confirmed voice may last over the agent and still be
	// a mere "mm-hm": so long the agent is paused and not cut off, unless words tell
	// earlier. What the caller said, or FalseTimeout without a word of it, then decides
	// whether the agent goes on. 0: a confirmed voice cuts it off, which is right where no
	// transcript comes.
	BackchannelVoice time.Duration
	// Backchannels and Commands are added to those of the language: what a listener says
	// without interrupting, and what stops the agent at once.
	Backchannels []string
	Commands     []string
	// MinWords is how many words over the agent StartMinWords wants.
	MinWords int
	// WakePhrases are those of StartWakePhrase, WakeTimeout how long after a turn or a
	// reply no other is needed. 0: each turn needs one.
	WakePhrases []string
	WakeTimeout time.Duration

	// SpeechTimeout ends the turn so long after the caller's last sound.
	SpeechTimeout time.Duration
	// SentenceTimeout does so when the final transcript ends a sentence.
	SentenceTimeout time.Duration
	// SpellingTimeout does so while the caller spells or gives digits.
	SpellingTimeout time.Duration
	// STTLatency is how long after the caller's last sound the recogniser may take to give
	// a final transcript by itself. The turn ends no sooner without one. 0: it is asked.
	STTLatency time.Duration
	// WordLag is how late interim transcripts may be. A voice that goes on without words,
	// of somebody else in the room, does not keep open a turn whose words are final: it
	// ends so long after silence would have ended it. 0: the voice has to end. It needs a
	// recogniser that gives interim transcripts, and final ones by itself.
	WordLag time.Duration
	// DetectorThreshold is the probability from which the verdict of a Detector is that the
	// caller is done, and DetectorTimeout how long he may be silent when it is not.
	DetectorThreshold float64
	DetectorTimeout   time.Duration
	// StopTimeout closes a turn that nothing ends so long after the caller's last sound,
	// and one whose inference does not say whether it is complete.
	StopTimeout time.Duration
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
	// MuteGreeting is MuteFirstTurn by itself: it drops what the caller says until the
	// first agent turn is complete, which makes the greeting uninterruptible.
	MuteGreeting bool
	// Idle is how long nobody may say anything before the agent is told so. 0:
	// for ever.
	Idle time.Duration
	// Reprompts is how often in a row that happens, turns without a recognised
	// word included, before the agent says goodbye.
	Reprompts int

	// What a conversation sets by settings of its own:

	// Language is a BCP 47 tag; empty means English. It says which words are backchannels,
	// commands, digits and ends of sentences.
	Language string `key:"-"`
	// NoAudio ends the caller's voice when no sound, not even silence, has come for so
	// long: a microphone was muted within a word. 0: never. It needs Sound.
	NoAudio time.Duration `key:"-"`
	// EagerTimeout asks for a reply so long after the caller's last sound, before the turn
	// is over; it is used when no more words come. 0: never.
	EagerTimeout time.Duration `key:"-"`
	// MinConfidence is the confidence below which a turn counts as misheard. 0: only one
	// without words does.
	MinConfidence float64 `key:"-"`
}

// MaxKeyed bounds the digits of one turn.
const MaxKeyed = 64

// MaxText bounds the words of one turn, in bytes. What is said beyond is dropped.
const MaxText = 16 << 10

// How long an inference that found a turn incomplete usually has it wait, for
// Input.Wait: after a pause that is short, or one that a caller makes who thinks.
const (
	ShortPause = 5 * time.Second
	LongPause  = 10 * time.Second
)

// DefaultConfig is a turn that opens when a voice is confirmed, or has lasted for
// 160 ms, and closes 0.6 s after it, with a re-prompt every 10 s of silence, twice.
func DefaultConfig() Config {
	return Config{
		Start:             []StartStrategy{StartVoice, StartTranscript},
		Stop:              []StopStrategy{StopTimeout},
		Mute:              []MuteStrategy{},
		Confirm:           160 * time.Millisecond,
		ConfirmWords:      2,
		BackchannelVoice:  800 * time.Millisecond,
		MinWords:          3,
		WakeTimeout:       10 * time.Second,
		SpeechTimeout:     600 * time.Millisecond,
		SentenceTimeout:   300 * time.Millisecond,
		SpellingTimeout:   1500 * time.Millisecond,
		WordLag:           900 * time.Millisecond,
		DetectorThreshold: 0.5,
		DetectorTimeout:   3 * time.Second,
		StopTimeout:       5 * time.Second,
		FinalTimeout:      2 * time.Second,
		FalseTimeout:      2 * time.Second,
		ShortVoice:        1500 * time.Millisecond,
		NoiseVoice:        300 * time.Millisecond,
		MaxTurn:           60 * time.Second,
		DigitGap:          2 * time.Second,
		Idle:              10 * time.Second,
		Reprompts:         2,
	}
}

// Validate says all that is wrong with c.
func (c Config) Validate() error {
	return errors.Join(c.checkTimes(), c.checkNumbers(), c.checkStrategies(),
		checkPhrases("backchannels", c.Backchannels), checkPhrases("commands", c.Commands))
}

func (c Config) checkTimes() error {
	var errs []error
	between := func(name string, d, low, high time.Duration) {
		if d < low || d > high {
			errs = append(errs, fmt.Errorf("turn: %s %v is not between %v and %v", name, d, low, high))
		}
	}
	between("confirm", c.Confirm, 0, 2*time.Second)
	between("backchannel voice", c.BackchannelVoice, 0, 5*time.Second)
	between("wake timeout", c.WakeTimeout, 0, time.Hour)
	between("speech timeout", c.SpeechTimeout, 0, 10*time.Second)
	between("sentence timeout", c.SentenceTimeout, 0, 10*time.Second)
	between("spelling timeout", c.SpellingTimeout, 0, 10*time.Second)
	between("word lag", c.WordLag, 0, 10*time.Second)
	between("stt latency", c.STTLatency, 0, 10*time.Second)
	between("detector timeout", c.DetectorTimeout, 0, 30*time.Second)
	between("stop timeout", c.StopTimeout, time.Second, time.Minute)
	between("eager timeout", c.EagerTimeout, 0, 10*time.Second)
	between("final timeout", c.FinalTimeout, 10*time.Millisecond, 30*time.Second)
	between("false timeout", c.FalseTimeout, 10*time.Millisecond, 30*time.Second)
	between("short voice", c.ShortVoice, 0, time.Minute)
	between("noise voice", c.NoiseVoice, 0, time.Minute)
	if c.NoAudio != 0 {
		between("no audio", c.NoAudio, 100*time.Millisecond, time.Minute)
	}
	between("max turn", c.MaxTurn, time.Second, time.Hour)
	between("digit gap", c.DigitGap, 100*time.Millisecond, time.Minute)
	if c.Idle != 0 {
		between("idle", c.Idle, time.Second, time.Hour)
	}
	return errors.Join(errs...)
}

func (c Config) checkNumbers() error {
	var errs []error
	for _, n := range []struct {
		name  string
		value int
	}{{"confirm words", c.ConfirmWords}, {"min words", c.MinWords}, {"reprompts", c.Reprompts}} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("turn: %s %d is negative", n.name, n.value))
		}
	}
	for _, n := range []struct {
		name  string
		value float64
	}{{"detector threshold", c.DetectorThreshold}, {"min confidence", c.MinConfidence}} {
		if math.IsNaN(n.value) || n.value < 0 || n.value > 1 {
			errs = append(errs, fmt.Errorf("turn: %s %v is not between 0 and 1", n.name, n.value))
		}
	}
	if c.MaxDigits < 0 || c.MaxDigits > MaxKeyed {
		errs = append(errs, fmt.Errorf("turn: max digits %d is not between 0 and %d", c.MaxDigits, MaxKeyed))
	}
	return errors.Join(errs...)
}

func (c Config) checkStrategies() error {
	errs := []error{
		known("start", c.Start, starts()), known("stop", c.Stop, stops()), known("mute", c.Mute, mutes()),
	}
	if slices.Contains(c.Start, StartWakePhrase) && len(c.WakePhrases) == 0 {
		errs = append(errs, fmt.Errorf("turn: wake phrases: none, but start has %q", StartWakePhrase))
	}
	if len(c.Stop) == 1 && c.Stop[0] == StopDeferred {
		errs = append(errs, fmt.Errorf("turn: stop has only %q, which another has to ask: add %q", StopDeferred, StopTimeout))
	}
	return errors.Join(append(errs, checkPhrases("wake phrases", c.WakePhrases))...)
}

// known says which of list are not among those there are, or there twice.
func known[T ~string](name string, list, all []T) error {
	var errs []error
	for i, one := range list {
		switch {
		case !slices.Contains(all, one):
			errs = append(errs, fmt.Errorf("turn: %s: %q, must be one of %q", name, one, all))
		case slices.Contains(list[:i], one):
			errs = append(errs, fmt.Errorf("turn: %s: %q is there twice", name, one))
		}
	}
	return errors.Join(errs...)
}
