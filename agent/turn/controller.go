package turn

import "time"

// phase is where the caller's turn is.
type phase uint8

const (
	quiet     phase = iota // no turn
	candidate              // voice that may prove a noise
	open                   // the caller speaks, or has stopped for less than the timeout
	waiting                // the final transcript was asked for
	keying                 // digits are being gathered
)

// Controller is the turn taking of one call.
type Controller struct {
	cfg Config
	now time.Time
	out []Decision

	phase    phase
	deadline time.Time // when the phase ends by itself; open: only without voice
	openedAt time.Time

	voice      bool          // the caller's voice is on
	voiceSince time.Time     // its first sound
	lastSound  time.Time     // the last sound of the voice before, or of words without voice
	voiced     time.Duration // how much voice the turn held, what is on now not counted
	forced     bool          // the turn has become too long: voice does not open it again
	cut        bool          // the turn cut a reply off
	heard      transcript

	keyed    []byte
	expected int       // keys the agent expects at most; 0: as configured
	swallow  time.Time // a '#' before then only ends a turn that is already over

	replying   bool // a reply is thought up, waits, or is heard
	forgiven   bool // that reply has gone on once after a noise
	paused     bool
	greeted    bool // the first reply is over
	held       bool
	leaving    bool // the goodbye is said: only words or digits stop it, or noise would for ever
	barren     int  // silences and turns without a word since the last words
	quietSince time.Time
}

// NewController starts the turn taking of a call at now. A cfg that does not
// Validate may give turns that never end.
func NewController(cfg Config, now time.Time) *Controller {
	return &Controller{cfg: cfg, now: now, quietSince: now, lastSound: now}
}

// Muted says whether what the caller says is to be kept from the recogniser.
func (c *Controller) Muted() bool { return c.cfg.MuteGreeting && !c.greeted }

// Speaking says whether the caller's voice is on.
func (c *Controller) Speaking() bool { return c.voice }

// Open says whether the caller's turn is open.
func (c *Controller) Open() bool { return c.phase > candidate }

// Still says whether speech stands still for a reason: it is paused, or the call is
// on hold.
func (c *Controller) Still() bool { return c.paused || c.held }

// Waiting says whether a final transcript was asked for and has not come.
func (c *Controller) Waiting() bool { return c.phase == waiting }

func (c *Controller) say(d Decision) { c.out = append(c.out, d) }

// open opens the turn and, when there is a reply, cuts it off.
func (c *Controller) open(reason string) {
	since := c.now
	if c.voice {
		since = c.voiceSince
	}
	c.phase, c.openedAt = open, c.now
	c.voiced, c.forced, c.cut, c.heard = 0, false, c.replying, transcript{}
	c.keyed, c.leaving = c.keyed[:0], false
	c.say(Decision{Kind: Open, Reason: reason, Since: since})
	if c.replying {
		c.replying, c.paused = false, false
		c.say(Decision{Kind: Stop, Reason: reason, Since: since})
	}
}

// endpoint is reached when the caller has been quiet for long enough, or has
// spoken for too long.
func (c *Controller) endpoint() {
	if c.voice { // MaxTurn: what goes on now is not speech to wait for
		c.stretch(c.now)
		c.forced = true
	} else if c.heard.covers(c.lastSound) {
		c.close()
		return
	}
	c.forced = c.forced || !c.now.Before(c.openedAt.Add(c.cfg.MaxTurn))
	c.phase = waiting
	c.deadline = c.now.Add(c.cfg.FinalTimeout)
	if limit := c.lastSound.Add(c.cfg.FalseTimeout); c.forgivable() && limit.Before(c.deadline) {
		c.deadline = limit
	}
	c.say(Decision{Kind: Finalize})
}

// forgivable says whether the turn looks like a noise that cut the agent off.
func (c *Controller) forgivable() bool {
	return c.cut && !c.forgiven && c.heard.text == "" && c.voiced <= c.cfg.ShortVoice
}

// close ends a spoken turn with the words that came.
func (c *Controller) close() {
	c.phase = quiet
	switch {
	case c.heard.text != "":
		c.barren = 0
		c.say(Decision{Kind: Close, Text: c.heard.text, Confidence: c.heard.confidence, LastSound: c.lastSound})
		c.reply(false)
	case c.forgivable():
		c.say(Decision{Kind: GoOn})
		c.reply(true)
	case !c.cut && c.voiced < c.cfg.NoiseVoice && !c.heard.interim:
		c.say(Decision{Kind: Discard})
	case c.tired():
		// The turn is closed all the same: whoever opened it sees it end.
		c.say(Decision{Kind: Discard})
		c.leave()
	default:
		c.say(Decision{Kind: Close, Garbled: true, LastSound: c.lastSound})
		c.reply(false)
	}
}

// tired counts a silence or a turn without words, and says whether it was one too
// many.
func (c *Controller) tired() bool {
	c.barren++
	return c.cfg.Idle > 0 && c.barren > c.cfg.Reprompts
}

// idle is reached when nobody has said anything for Config.Idle.
func (c *Controller) idle() {
	if c.tired() {
		c.leave()
		return
	}
	c.say(Decision{Kind: Idle, Attempt: c.barren})
	c.reply(false)
}

func (c *Controller) leave() {
	c.say(Decision{Kind: Goodbye})
	c.reply(false)
	c.leaving = true
}

// reply notes that a reply began.
func (c *Controller) reply(again bool) { c.replying, c.forgiven = true, again }

func (c *Controller) replyEnded() {
	if !c.replying {
		return
	}
	c.replying, c.leaving = false, false
	c.quietSince = c.now
	c.resume()
	if c.greeted {
		return
	}
	muted := c.Muted()
	c.greeted = true
	if !muted {
		return
	}
	if len(c.keyed) > 0 { // keyed ahead while the greeting was heard
		ahead := append([]byte(nil), c.keyed...)
		c.keyed = c.keyed[:0]
		for _, d := range ahead {
			c.digit(d)
		}
	} else if c.voice { // speaking since before; what came before now is not heard
		c.voice = false
		c.voiceOn(0)
	}
}

func (c *Controller) resume() {
	if c.paused {
		c.paused = false
		c.say(Decision{Kind: Resume})
	}
}

func (c *Controller) hold() {
	c.voiceOff(0)
	c.held = true
}
