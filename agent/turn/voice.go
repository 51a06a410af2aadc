package turn

import "time"

func (c *Controller) voiceOn(lag time.Duration) {
	if c.voice || c.held {
		return
	}
	c.voice, c.voiceSince = true, c.now.Add(-lag)
	if c.Muted() {
		return
	}
	switch c.phase {
	case quiet:
		if c.leaving {
			c.say(Decision{Kind: Begin})
			return
		}
		c.phase, c.deadline = candidate, c.now.Add(c.cfg.Confirm)
		c.say(Decision{Kind: Begin})
		if c.replying {
			c.paused = true
			c.say(Decision{Kind: Pause})
		}
	case open, waiting:
		if !c.forced {
			c.phase = open
			c.say(Decision{Kind: Begin})
		}
	}
}

func (c *Controller) voiceOff(lag time.Duration) {
	if !c.voice {
		return
	}
	c.stretch(c.now.Add(-lag))
	switch c.phase {
	case quiet:
		if c.leaving {
			c.say(Decision{Kind: Finalize})
		}
	case candidate:
		c.phase = quiet
		// The recogniser was told to begin; what it makes of so little may still be
		// a word, and then opens the turn.
		c.say(Decision{Kind: Finalize})
		c.resume()
	case open:
		c.endAt()
	}
}

// voiceConfirmed does what the passing of Config.Confirm would do later.
func (c *Controller) voiceConfirmed() {
	if c.voice && c.phase == candidate {
		c.open(ByVoice)
	}
}

// stretch ends the voice that is on at its last sound.
func (c *Controller) stretch(end time.Time) {
	c.voice = false
	if end.Before(c.voiceSince) {
		end = c.voiceSince
	}
	c.voiced += end.Sub(c.voiceSince)
	if end.After(c.lastSound) {
		c.lastSound = end
	}
}

// endAt sets when an open turn without voice ends.
func (c *Controller) endAt() {
	timeout := c.cfg.SpeechTimeout
	if c.heard.covers(c.lastSound) && endsSentence(c.heard.text) {
		timeout = min(timeout, c.cfg.SentenceTimeout)
	}
	c.deadline = c.lastSound.Add(timeout)
}
