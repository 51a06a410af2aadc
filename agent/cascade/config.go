// Package cascade is a conversation made of three parts: a recogniser hears the
// caller, a model thinks up the reply, a voice speaks it.
package cascade

import (
	"errors"
	"fmt"
	"time"

	"parley/agent"
	"parley/agent/chat"
	"parley/agent/llm"
	"parley/agent/machine"
	"parley/agent/stt"
	"parley/agent/tts"
	"parley/agent/turn"
	"parley/media/tone"
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
	// Turn says whose turn it is. What it leaves to the conversation (its language, NoAudio,
	// EagerTimeout, MinConfidence) is set from here.
	Turn turn.Config
	// Detector is the turn-detection model of turn.StopDetector; nil: silence decides.
	Detector turn.Detector
	// Greeting opens the conversation. Empty: the model is asked for one.
	Greeting string

	// FirstToken is how long the model may think before its first word, and
	// between two pieces of a reply; the time in which it waits for the voice does
	// not count. Then the reply has failed.
	FirstToken time.Duration
	// ToolTime takes the place of FirstToken while a tool is at work
	// (llm.Chunk.Thinking), and is how long a tool may keep silent callers from being
	// asked whether they are there.
	ToolTime time.Duration
	// Fallback is spoken when a reply failed, after the sentences that were
	// complete.
	Fallback string

	// FillerAfter is how long a caller who waits for a reply hears nothing before the
	// silence is filled, until the first word: by Filler, and where FillerTone is set
	// by a soft tone every two seconds. 0: never.
	FillerAfter time.Duration
	Filler      string
	FillerTone  bool
	// FillerEvery is the time from one Filler to the next.
	FillerEvery time.Duration

	// FirstSound is how long the voice may take to give the first sound of a
	// sentence, and between two chunks of it. Then the sentence is skipped.
	FirstSound time.Duration
	// VoiceTries ends the call when the voice could not speak so many sentences of the
	// model's in a row. 0: never. Fallback is spoken after a reply whose end could not be,
	// and Apology before the call is ended: by a voice that has its phrases ready (package
	// tts/prepared), or not at all.
	VoiceTries int
	Apology    string

	// GoOn asks a caller to finish a turn that the model found incomplete
	// (turn.StopDeferred). Empty: the model is asked to reply to what there is.
	GoOn string
	// Eager asks the model when the words are final and the caller has been silent for so
	// long, before that ends the turn. What it says is heard if nothing has changed when
	// the turn ends; else the model is asked twice for one turn. 0: never.
	Eager time.Duration

	// MinConfidence is the recogniser's confidence, 0 to 1, below which words are not
	// trusted, such as those of a song: no model is told them. 0: all are.
	MinConfidence float64
	// Misheard are what is said to callers who are not understood: to say it again, and
	// the next time what they may say. None: the model is told so. The third time
	// MisheardPerson is said, and the caller is transferred to MisheardTo, if there is
	// one. A turn that is understood begins anew.
	Misheard       []string
	MisheardPerson string
	MisheardTo     string

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

	// CloseTimeout is how long the model may take for what it does when the call is over,
	// such as a summary. The caller is gone by then. It should be less than the gateway's
	// end_timeout.
	CloseTimeout time.Duration

	// SecretDigits leaves keyed-in digits out of all events.
	SecretDigits bool

	// DetectMachine finds out whether a person or a machine took an outbound call
	// before anything is said, for MachineWait at most. A machine is given
	// MachineMessage (the greeting, when that is empty) after its tone, for which is
	// waited no longer than BeepWait, and the call ends; with MachineHangUp it ends
	// at once.
	DetectMachine  bool
	MachineWait    time.Duration
	BeepWait       time.Duration
	MachineMessage string
	MachineHangUp  bool
}

// DefaultConfig is everything but the three parts.
func DefaultConfig() Config {
	machines := machine.DefaultConfig()
	return Config{
		Turn:           turn.DefaultConfig(),
		FirstToken:     8 * time.Second,
		ToolTime:       2 * time.Minute,
		Fallback:       "Sorry, I did not get that. Could you say it again?",
		FillerAfter:    time.Second,
		FillerTone:     true,
		FillerEvery:    10 * time.Second,
		FirstSound:     8 * time.Second,
		VoiceTries:     5,
		Apology:        "I am sorry, something does not work here at the moment. Please call again later.",
		MinConfidence:  0.3,
		Goodbye:        "I cannot hear you. Goodbye.",
		TransferFailed: "I am sorry, I could not connect you. How else can I help?",
		NoAudio:        time.Second,
		CloseTimeout:   4 * time.Second,
		ReopenTries:    8,
		ReopenPause:    100 * time.Millisecond,
		Deaf:           "I am sorry, I cannot hear you at the moment. Please call again later.",
		MachineWait:    machines.Decide,
		BeepWait:       machines.BeepWait,
	}
}

// Validate says all that is wrong with c.
func (c Config) Validate() error {
	errs := []error{c.Turn.Validate()}
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("cascade: "+format, args...)) }
	if c.STT == nil || c.TTS == nil || c.LLM == nil {
		wrong("a recogniser, a voice and a model are needed")
	}
	for _, d := range []struct {
		name string
		is   time.Duration
	}{
		{"first token timeout", c.FirstToken}, {"tool time", c.ToolTime}, {"first sound timeout", c.FirstSound},
		{"reopen pause", c.ReopenPause},
	} {
		if d.is <= 0 {
			wrong("%s must be positive, not %v", d.name, d.is)
		}
	}
	if c.FillerAfter < 0 {
		wrong("filler after %v is negative", c.FillerAfter)
	}
	if c.FillerEvery < time.Second {
		wrong("filler every %v is less than a second", c.FillerEvery)
	}
	if c.ReopenTries < 0 {
		wrong("reopen tries %d is negative", c.ReopenTries)
	}
	if c.VoiceTries < 0 {
		wrong("voice tries %d is negative", c.VoiceTries)
	}
	if c.CloseTimeout < 100*time.Millisecond || c.CloseTimeout > time.Minute {
		wrong("close timeout %v is not between 100ms and 1m", c.CloseTimeout)
	}
	if c.NoAudio < 0 || c.NoAudio > 0 && c.NoAudio < 100*time.Millisecond {
		wrong("no audio %v is neither 0 nor at least 100ms", c.NoAudio)
	}
	if c.Eager < 0 || c.Eager > 10*time.Second {
		wrong("eager %v is not between 0 and 10s", c.Eager)
	}
	if !(c.MinConfidence >= 0 && c.MinConfidence <= 1) { // nor NaN
		wrong("min confidence %v is not between 0 and 1", c.MinConfidence)
	}
	if c.MisheardTo != "" && len(c.Misheard) == 0 {
		wrong("misheard to %q is never reached without misheard phrases", c.MisheardTo)
	}
	if c.MachineWait < time.Second || c.MachineWait > time.Minute {
		wrong("machine wait %v is not between 1s and 1m", c.MachineWait)
	}
	if c.BeepWait < time.Second || c.BeepWait > 10*time.Minute {
		wrong("beep wait %v is not between 1s and 10m", c.BeepWait)
	}
	return errors.Join(errs...)
}

// Phrases are the texts that calls have in common, as they are given to the voice: those
// to have ready for the case that it fails.
func (c Config) Phrases() []string {
	cut := chat.NewSplitterFor(c.Language)
	all := []string{c.Fallback, c.Apology, c.Deaf, c.Goodbye, c.Filler, c.TransferFailed, c.GoOn, c.MisheardPerson}
	all = append(append(all, c.Misheard...), c.Reprompts...)
	all = append(all, cut.Write(c.Greeting)...)
	return append(all, cut.Flush()...)
}

// turns is how turns are taken.
func (c Config) turns() turn.Config {
	t := c.Turn
	t.Language, t.NoAudio, t.EagerTimeout, t.MinConfidence = c.Language, c.NoAudio, c.Eager, c.MinConfidence
	return t
}

// machines is how machines are told from people.
func (c Config) machines() machine.Config {
	m := machine.DefaultConfig()
	m.Decide, m.BeepWait = c.MachineWait, c.BeepWait
	return m
}

// New makes the agent for calls.
func New(cfg Config) (agent.Opener, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	o := &opener{cfg: cfg, filler: &filler{}}
	if cfg.FillerTone {
		o.filler.tone = tone.Waiting(cfg.TTS.Rate())
	}
	return o, nil
}

type opener struct {
	cfg    Config
	filler *filler // of all calls
}

// Format is the recogniser's rate in and the voice's rate out.
func (o *opener) Format() agent.Format {
	return agent.Format{HearRate: o.cfg.STT.Rate(), SayRate: o.cfg.TTS.Rate()}
}
