package turn

import (
	"slices"
	"time"
)

// phase is where the caller's turn is.
type phase uint8

const (
	quiet      phase = iota // no turn
	candidate               // voice that may prove a noise, or a backchannel
	doubt                   // a voice over the agent that is over; its words tell what it was
	open                    // the caller speaks, or has stopped for less than the timeout
	waiting                 // the final transcript was asked for
	tentative               // the model was asked whether the turn is complete
	unfinished              // it is not: the caller has time to go on
	keying                  // digits are being gathered
)

// Controller is the turn taking of one call.
type Controller struct {
	cfg   Config
	chain []starter
	words *lexicon
	wakes phrases
	now   time.Time
	out   []Decision

	phase    phase
	deadline time.Time // when the phase ends by itself; open: only without voice
	because  string    // what ends an open turn then
	openedAt time.Time

	voice      bool          // the caller's voice is on
	voiceSince time.Time     // its first sound
	voiceEnd   time.Time     // the last sound of the voice before
	lastSound  time.Time     // the same, or that of words without voice
	voiced     time.Duration // how much voice the turn held, what is on now not counted
	sure       bool          // the candidate is a voice
	nodded     time.Time     // when it was known to have said a backchannel; zero: it was not
	begun      bool          // the recogniser was told of a voice, and not to finalise it
	forced     bool          // the turn has become too long: voice does not open it again
	cut        bool          // the turn cut a reply off
	heard      transcript
	lag        lag
	inferred   inference
	verdict    verdict
	question   int
	ended      bool // ExternalStop came
	woken      bool // a wake phrase was said
	awakeUntil time.Time
	misheard   Rung

	lastAudio time.Time
	audio     bool // Sound is told

	keyed    []byte
	expected int       // keys the agent expects at most; 0: as configured
	swallow  time.Time // a '#' before then only ends a turn that is already over

	replying   bool // a reply is thought up, waits, or is heard
	audible    bool // it is heard
	forgiven   bool // that reply has gone on once after a noise
	paused     bool
	silent     time.Time // since when it is, or was when it was cut off
	own        []string  // what the agent says, in words
	stale      bool      // own is of the reply before
	greeted    bool      // the first reply is over
	tools      int       // that run
	muted      bool      // what the caller says is dropped
	told       bool      // the last edge of muted that was announced
	held       bool
	leaving    bool // the goodbye is said: only words or digits stop it, or noise would for ever
	barren     int  // silences and turns without a word since the last words
	quietSince time.Time
}

// NewController starts the turn taking of a call at now. A cfg that does not
// Validate may give turns that never end.
func NewController(cfg Config, now time.Time) *Controller {
	c := &Controller{cfg: cfg, now: now, quietSince: now, lastSound: now, lastAudio: now, wakes: phrases{}}
	if len(c.cfg.Start) == 0 {
		c.cfg.Start = []StartStrategy{StartVoice, StartTranscript}
	}
	if len(c.cfg.Stop) == 0 {
		c.cfg.Stop = []StopStrategy{StopTimeout}
	}
	for _, s := range c.cfg.Start {
		c.chain = append(c.chain, starterOf(s))
	}
	for _, p := range cfg.WakePhrases {
		c.wakes.add(fold(p, maxPhrase))
	}
	c.words = lexiconFor(cfg.Language).with(cfg.Backchannels, cfg.Commands)
	c.muted = c.mutes()
	return c
}

// Muted says whether what the caller says is to be kept from the recogniser.
func (c *Controller) Muted() bool { return c.muted }

// Speaking says whether the caller's voice is on.
func (c *Controller) Speaking() bool { return c.voice }

// Open says whether the caller's turn is open.
func (c *Controller) Open() bool { return c.phase >= open }

// Still says whether speech stands still for a reason: it is paused, or the call is
// on hold.
func (c *Controller) Still() bool { return c.paused || c.held }

// Waiting says whether a final transcript was asked for and has not come.
func (c *Controller) Waiting() bool { return c.phase == waiting || c.phase == doubt }

func (c *Controller) say(d Decision) { c.out = append(c.out, d) }

// stops says whether a strategy is one of those that end turns.
func (c *Controller) stops(s StopStrategy) bool { return slices.Contains(c.cfg.Stop, s) }

// begin tells the recogniser of a voice, finalize asks it for what it made of it.
func (c *Controller) begin() {
	c.begun = true
	c.say(Decision{Kind: Begin, Reason: ByVoice})
}

func (c *Controller) finalize(reason string) {
	c.begun = false
	c.say(Decision{Kind: Finalize, Reason: reason})
}

// open opens the turn and, when there is a reply, cuts it off.
func (c *Controller) open(reason string) {
	since := c.now
	if c.voice || c.phase == doubt {
		since = c.voiceSince
	}
	if c.phase == quiet {
		c.voiced = 0
	}
	c.phase, c.openedAt = open, c.now
	c.forced, c.cut, c.heard, c.because = false, c.replying, transcript{}, ""
	c.verdict, c.ended = verdict{}, false
	c.keyed, c.leaving = c.keyed[:0], false
	c.say(Decision{Kind: Open, Reason: reason, Since: since})
	if c.replying {
		if !c.paused {
			c.silent = c.now
		}
		c.replying, c.audible, c.paused = false, false, false
		c.say(Decision{Kind: Stop, Reason: reason, Since: since, Silent: c.silent})
	}
}

// reply notes that a reply began; again, that it is one that went on after a noise.
func (c *Controller) reply(again bool) {
	c.replying, c.audible, c.forgiven, c.stale = true, false, again, true
}

func (c *Controller) replyEnded() {
	if !c.replying {
		return
	}
	c.replying, c.audible, c.leaving, c.greeted = false, false, false, true
	c.quietSince = c.now
	c.stayAwake()
	c.resume(ByEnd)
	switch {
	case c.phase == doubt: // nothing is left to interrupt: its words open a turn or none
		c.phase = quiet
	case c.phase == candidate && c.sure:
		c.open(ByVoice)
	}
}

func (c *Controller) resume(reason string) {
	if c.paused {
		c.paused = false
		c.say(Decision{Kind: Resume, Reason: reason})
	}
}

func (c *Controller) hold() {
	c.voiceOff(0)
	c.held = true
}
