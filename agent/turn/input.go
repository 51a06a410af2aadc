package turn

import "time"

// InputKind tells Inputs apart.
type InputKind uint8

// The kinds of Input.
const (
	// Tick: nothing happened but time. Every Step looks at the clock as well.
	Tick InputKind = iota
	// VoiceOn: the caller's voice began, Lag before At.
	VoiceOn
	// VoiceOff: the caller's voice ended, Lag before At.
	VoiceOff
	// Interim is a transcript that later ones replace, in Text.
	Interim
	// Final is a final transcript, in Text and Confidence; blank when nothing was
	// recognised.
	Final
	// Digit: the key Digit was pressed.
	Digit
	// Expect: the agent expects MaxDigits keys at most; 0: as configured.
	Expect
	// ReplyBegan: the agent speaks, or is about to, without having been told to by
	// a Decision: the greeting.
	ReplyBegan
	// ReplyEnded: the last sound of the reply was put on the wire, or it turned
	// out to have none.
	ReplyEnded
	// Hold: the caller hears nothing and is not heard.
	Hold
	// Unhold: the hold is over.
	Unhold
	// VoiceConfirmed: the detector is sure that the sound of the last VoiceOn is a
	// voice. Without it a sound becomes one when it has lasted for Config.Confirm.
	VoiceConfirmed
	// ReplyHeard: the first sound of the reply is on the wire.
	ReplyHeard
	// ReplyWords are words of the reply, in Text, before they are heard. What comes back
	// of them as a transcript, without a voice of the caller's, is taken for an echo.
	ReplyWords
	// Sound: sound of the caller, or silence in its stead, came. Needed by Config.NoAudio.
	Sound
	// ToolsBegan: a tool runs for the agent; ToolsEnded: it is done. As many of one as of
	// the other.
	ToolsBegan
	ToolsEnded
	// ExternalStart: somebody else says that the caller's turn begins; see StartExternal.
	ExternalStart
	// ExternalStop: somebody else says that it is over; see StopExternal. While the
	// caller's voice is on it waits for that to end, and words revoke it.
	ExternalStop
	// ExternalEager: somebody else says that it may soon be over: a reply may be begun.
	ExternalEager
	// Verdict is what a Detector made of a Judge, in Probability; Question is the Judge's.
	Verdict
	// Complete: the model that Infer asked finds that the caller is done.
	Complete
	// Incomplete: it finds that he is not. He has Wait to go on; 0: ShortPause.
	Incomplete
)

// Input is something that happened.
type Input struct {
	Kind InputKind
	// At is when it was noticed. A time before that of an earlier Input counts as
	// the earlier time.
	At time.Time
	// Lag is how long before At it truly happened.
	Lag        time.Duration
	Text       string
	Confidence float64
	// Asked says, of a transcript, that the sentence which the caller hears, or heard
	// last, is a question, or that the agent waits for an answer: a word like "yes" then is
	// one, and not a backchannel.
	Asked     bool
	Digit     byte
	MaxDigits int
	// Probability is that the caller is done.
	Probability float64
	Question    int
	Wait        time.Duration
}

// DecisionKind tells Decisions apart.
type DecisionKind uint8

// The kinds of Decision.
const (
	// Begin: tell the recogniser that voice began.
	Begin DecisionKind = iota + 1
	// Pause: silence the agent, keeping what it says; it may have to go on.
	Pause
	// Resume: the pause was for nothing; go on where it began.
	Resume
	// Open: the caller's turn began.
	Open
	// Stop: the caller has cut the agent off; the reply is over, also when nothing
	// of it was heard yet, and the pause with it. It follows an Open. Since is when the
	// caller's sound began, Silent since when the agent has been silent for it.
	Stop
	// Finalize: ask the recogniser for the final transcript.
	Finalize
	// Close: the caller's turn is over; reply to Text. With Garbled, no word was
	// understood. With Inferred, the reply is the one that the last Infer asked for. With
	// Unfinished, the caller has stopped within a turn: ask him to go on.
	Close
	// GoOn: the turn held no word, or only a backchannel, and it had cut a reply off: say
	// the rest of that reply, or ask for it again.
	GoOn
	// Discard: the turn was a noise; nothing is to be done.
	Discard
	// Idle: nobody says anything; the agent shall. Attempt counts from 1.
	Idle
	// Goodbye: nobody has said anything for too long; the agent shall end the call.
	Goodbye
	// Judge: ask the Detector whether the caller is done, and give what it says to Step as
	// a Verdict with this Question. Text is what was said so far.
	Judge
	// Infer: ask for the reply to Text, and keep it from being heard until Close says
	// Inferred. With Tentative, the model is to say whether the turn is complete.
	Infer
	// Drop: forget what the last Infer asked for.
	Drop
	// Muted: what the caller says is dropped from now on. Unmuted: no longer.
	Muted
	Unmuted
)

// After Close, GoOn, Idle and Goodbye a reply counts as begun until ReplyEnded or
// Stop.

// Rung is a step of what is done about a caller who is hard to understand.
type Rung uint8

// The rungs, each reached from the one before by another turn that was misheard, and
// left by one that was not.
const (
	Clear   Rung = iota // understood
	Repeat              // ask to say it again
	Options             // say what can be said, or which keys do it
	Person              // a person is to take over
)

// String is the name of the rung.
func (r Rung) String() string {
	names := [...]string{"clear", "repeat", "options", "person"}
	if int(r) >= len(names) {
		return "unknown"
	}
	return names[r]
}

// Decision is something to be done, at once and in order.
type Decision struct {
	Kind DecisionKind
	// Reason is what decided: a strategy or one of the By constants.
	Reason     string
	Since      time.Time
	Silent     time.Time
	Text       string
	Confidence float64
	// Digits says that Text was keyed in.
	Digits  bool
	Garbled bool
	// LastSound is when the caller's last sound, or key, of a closed turn was.
	LastSound  time.Time
	Attempt    int
	Question   int
	Tentative  bool
	Inferred   bool
	Unfinished bool
	// Misheard is what is to be done about a closed turn that was hard to understand.
	Misheard Rung
}

// String is the name of the kind, for tests and logs.
func (k DecisionKind) String() string {
	names := [...]string{
		"", "begin", "pause", "resume", "open", "stop", "finalize", "close", "go on", "discard", "idle", "goodbye",
		"judge", "infer", "drop", "muted", "unmuted",
	}
	if int(k) >= len(names) {
		return "unknown"
	}
	return names[k]
}
