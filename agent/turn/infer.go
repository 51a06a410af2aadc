package turn

import "time"

// inference is a reply that was asked for before the turn was closed.
type inference struct {
	on       bool
	text     string // what it is the reply to
	complete bool   // the model found the turn complete
	wait     time.Duration
}

// eagerAt is when a reply is asked for although the turn is not over.
func (c *Controller) eagerAt() (time.Time, bool) {
	if c.cfg.EagerTimeout <= 0 || c.voice || c.forced || !c.heard.covers(c.lastSound) || !c.inferable() {
		return time.Time{}, false
	}
	return c.lastSound.Add(c.cfg.EagerTimeout), true
}

// inferable says whether there are words that no reply was asked for.
func (c *Controller) inferable() bool {
	return c.heard.text != "" && !c.mere() && !(c.inferred.on && c.inferred.text == c.heard.text)
}

// eager asks for a reply before the turn is over.
func (c *Controller) eager() {
	if (c.phase == open || c.phase == waiting) && c.inferable() {
		c.infer("eager")
	}
}

func (c *Controller) infer(reason string) {
	c.uninfer()
	c.inferred = inference{on: true, text: c.heard.text}
	c.say(Decision{
		Kind: Infer, Reason: reason, Text: c.heard.text, Confidence: c.heard.confidence, LastSound: c.lastSound,
		Tentative: c.stops(StopDeferred),
	})
}

// uninfer drops the reply that was asked for, because it is none to what was said.
func (c *Controller) uninfer() {
	if c.inferred.on {
		c.inferred = inference{}
		c.say(Decision{Kind: Drop})
	}
}

// defers leaves it to the model whether the turn is over.
func (c *Controller) defers() {
	if c.inferable() {
		c.infer(string(StopDeferred))
	}
	switch {
	case c.inferred.complete:
		c.because = ByComplete
		c.close()
	case c.inferred.wait > 0:
		c.phase, c.deadline = unfinished, c.now.Add(c.inferred.wait)
	default:
		c.phase, c.deadline = tentative, c.now.Add(c.cfg.StopTimeout)
	}
}

// complete takes what the model finds.
func (c *Controller) complete(yes bool, wait time.Duration) {
	if !c.inferred.on {
		return
	}
	if wait <= 0 {
		wait = ShortPause
	}
	c.inferred.complete, c.inferred.wait = yes, min(wait, time.Minute)
	if c.phase == tentative || c.phase == unfinished {
		c.defers()
	}
}

// goUnfinished closes a turn whose caller was to go on and did not.
func (c *Controller) goUnfinished() {
	c.because = ByPause
	c.close()
}

// goesOn takes the turn back from the model, because there are more words.
func (c *Controller) goesOn() {
	if c.phase == tentative || c.phase == unfinished {
		c.phase = open
	}
}
