package turn

// StartStrategy names what may open a turn.
type StartStrategy string

// The start strategies.
const (
	// StartVoice: voice activity. A sound that the detector confirms, or that lasted for
	// Config.Confirm.
	StartVoice StartStrategy = "voice"
	// StartTranscript: transcription, for voices too soft to be noticed. Over the agent it
	// takes a final transcript, or Config.ConfirmWords of an interim one.
	StartTranscript StartStrategy = "transcript"
	// StartMinWords: while the agent speaks, Config.MinWords in one transcript; else one
	// word. What has fewer is dropped, and is not counted with what follows.
	StartMinWords StartStrategy = "min_words"
	// StartWakePhrase: without one of Config.WakePhrases, strategies behind this one are
	// not asked, and what was said is dropped.
	StartWakePhrase StartStrategy = "wake_phrase"
	// StartExternal: somebody else says so, by ExternalStart.
	StartExternal StartStrategy = "external"
)

// StopStrategy names what may end a turn.
type StopStrategy string

// The stop strategies.
const (
	// StopTimeout: silence, of Config.SpeechTimeout, SentenceTimeout or SpellingTimeout.
	StopTimeout StopStrategy = "timeout"
	// StopDetector: a turn-detection model. It is asked by Judge and answers by Verdict;
	// until it has, and when it does not, silence decides as by StopTimeout.
	StopDetector StopStrategy = "detector"
	// StopExternal: somebody else says so, by ExternalStop.
	StopExternal StopStrategy = "external"
	// StopDeferred: when one of the others says that the turn is over, the language model is
	// asked (Infer), and says by Complete or Incomplete whether it is.
	StopDeferred StopStrategy = "deferred"
)

// MuteStrategy names when the caller is not listened to.
type MuteStrategy string

// The mute strategies.
const (
	// MuteAgent: while the agent is heard.
	MuteAgent MuteStrategy = "agent"
	// MuteFirstTurn: until the first agent turn is complete.
	MuteFirstTurn MuteStrategy = "first_turn"
	// MuteFirstSpeech: while the first agent turn is heard, but not before it.
	MuteFirstSpeech MuteStrategy = "first_speech"
	// MuteTools: while a tool runs.
	MuteTools MuteStrategy = "tools"
)

func starts() []StartStrategy {
	return []StartStrategy{StartVoice, StartTranscript, StartMinWords, StartWakePhrase, StartExternal}
}

func stops() []StopStrategy {
	return []StopStrategy{StopTimeout, StopDetector, StopExternal, StopDeferred}
}

func mutes() []MuteStrategy {
	return []MuteStrategy{MuteAgent, MuteFirstTurn, MuteFirstSpeech, MuteTools}
}

// What decided, in Decision.Reason, besides the names of the strategies. Of Open and
// Stop:
const (
	ByVoice      = string(StartVoice)
	ByTranscript = string(StartTranscript)
	ByWords      = "words"   // Config.ConfirmWords of an interim transcript, over the agent
	ByCommand    = "command" // a command, or a no
	ByAnswer     = "answer"  // a word, after a question
	ByDigit      = "digit"
)

// Of Close, GoOn, Discard and Finalize:
const (
	BySentence = "sentence"   // silence behind a sentence
	BySpelling = "spelling"   // silence behind digits or letters
	ByComplete = "complete"   // the model found the turn complete
	ByPause    = "incomplete" // it found that it is not, and the caller did not go on
	ByWatchdog = "stop_timeout"
	ByMaxTurn  = "max_turn"
	ByMute     = "muted"
	ByNoWords  = "no_words" // a voice goes on, and no more words come
)

// Of Pause, Resume, GoOn and Discard, and of Idle and Goodbye:
const (
	ByNoise       = "noise"
	ByBackchannel = "backchannel"
	ByEnd         = "reply_ended"
	BySilence     = "silence"
	ByGarbled     = "garbled"
)
