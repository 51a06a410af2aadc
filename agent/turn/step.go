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
	Digit      byte
	MaxDigits  int
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
	// Open: the caller's turn began. Reason says by what.
	Open
	// Stop: the caller has cut the agent off; the reply is over, also when nothing
	// of it was heard yet, and the pause with it. It follows an Open. Reason says
	// by what, Since when the caller's sound began.
	Stop
	// Finalize: ask the recogniser for the final transcript.
	Finalize
	// Close: the caller's turn is over; reply to Text. With Garbled, no word was
	// understood.
	Close
	// GoOn: the turn held no word, and it had cut a reply off: say the rest of that
	// reply, or ask for it again.
	GoOn
	// Discard: the turn was a noise; nothing is to be done.
	Discard
	// Idle: nobody says anything; the agent shall. Attempt counts from 1.
	Idle
	// Goodbye: nobody has said anything for too long; the agent shall end the call.
	Goodbye
)

// After Close, GoOn, Idle and Goodbye a reply counts as begun until ReplyEnded or
// Stop.

// What opens a turn, in Decision.Reason.
const (
	ByVoice      = "voice"      // it lasted for Config.Confirm
	ByWords      = "words"      // Config.ConfirmWords of an interim transcript, over the agent
	ByTranscript = "transcript" // words without voice
	ByDigit      = "digit"
)

// Decision is something to be done, at once and in order.
type Decision struct {
	Kind       DecisionKind
	Reason     string
	Since      time.Time
	Text       string
	Confidence float64
	// Digits says that Text was keyed in.
	Digits  bool
	Garbled bool
	// LastSound is when the caller's last sound, or key, of a closed turn was.
	LastSound time.Time
	Attempt   int
}

// String is the name of the kind, for tests and logs.
func (k DecisionKind) String() string {
	names := [...]string{"", "begin", "pause", "resume", "open", "stop", "finalize", "close", "go on", "discard", "idle", "goodbye"}
	if int(k) >= len(names) {
		return "unknown"
	}
	return names[k]
}

// Step takes an event and says what is to be done now. The slice is valid until
// the next Step.
func (c *Controller) Step(in Input) []Decision {
	c.out = c.out[:0]
	if in.At.After(c.now) {
		c.now = in.At
	}
	c.expire()
	switch in.Kind {
	case VoiceOn:
		c.voiceOn(in.Lag)
	case VoiceOff:
		c.voiceOff(in.Lag)
	case VoiceConfirmed:
		c.voiceConfirmed()
	case Interim:
		c.interim(in.Text)
	case Final:
		c.final(in.Text, in.Confidence)
	case Digit:
		c.digit(in.Digit)
	case Expect:
		c.expected = in.MaxDigits
	case ReplyBegan:
		c.reply(false)
	case ReplyEnded:
		c.replyEnded()
	case Hold:
		c.hold()
	case Unhold:
		c.held = false
		c.quietSince = c.now
	}
	c.expire()
	return c.out
}

// Due is when Step wants to be called again, with a Tick if nothing else happens.
func (c *Controller) Due() (time.Time, bool) {
	switch c.phase {
	case candidate, waiting, keying:
		return c.deadline, true
	case open:
		limit := c.openedAt.Add(c.cfg.MaxTurn)
		if !c.voice && c.deadline.Before(limit) {
			return c.deadline, true
		}
		return limit, true
	}
	if c.cfg.Idle > 0 && !c.replying && !c.held {
		return c.quietSince.Add(c.cfg.Idle), true
	}
	return time.Time{}, false
}

// expire does what the clock asks for.
func (c *Controller) expire() {
	for {
		due, ok := c.Due()
		if !ok || due.After(c.now) {
			return
		}
		switch c.phase {
		case candidate:
			c.open(ByVoice)
		case open:
			c.endpoint()
		case waiting:
			c.close()
		case keying:
			c.closeKeyed()
		default:
			c.idle()
		}
	}
}
