package turn

import "time"

func (c *Controller) voiceOn(lag time.Duration) {
	if c.voice || c.held {
		return
	}
	c.voice, c.voiceSince = true, c.now.Add(-lag)
	c.lag.settle()
	if c.now.After(c.lastAudio) {
		c.lastAudio = c.now
	}
	if c.muted {
		return
	}
	switch c.phase {
	case quiet, doubt:
		c.begin()
		if c.leaving {
			return
		}
		if _, ok := c.asks(evidence{voice: true}); ok {
			c.weigh()
		}
	case open, waiting, tentative, unfinished:
		if !c.forced {
			c.phase = open
			c.verdict = verdict{}
			c.begin()
		}
	}
}

// weigh makes a candidate of the voice that is on. The agent is silenced at once.
func (c *Controller) weigh() {
	if c.phase == quiet {
		c.voiced = 0
	}
	c.phase, c.sure, c.deadline = candidate, false, c.now.Add(c.cfg.Confirm)
	c.nodded = time.Time{}
	if c.replying && !c.paused {
		c.paused, c.silent = true, c.now
		c.say(Decision{Kind: Pause, Reason: ByVoice, Since: c.voiceSince})
	}
}

// voiceConfirmed does what the passing of Config.Confirm would do later.
func (c *Controller) voiceConfirmed() {
	if c.voice && c.phase == candidate {
		c.certain()
	}
}

// certain is reached when the candidate is a voice. Over the agent it may be one that
// only says that it listens, until it is too long for that. One that has said so, and goes
// on without other words, is the room's.
func (c *Controller) certain() {
	c.sure = true
	if c.replying && c.cfg.BackchannelVoice > 0 {
		limit := c.voiceSince.Add(c.cfg.BackchannelVoice - c.voiced)
		nods := !c.nodded.IsZero() && c.cfg.WordLag > 0
		if nods {
			limit = later(limit, earlier(c.nodded.Add(c.wordLag()), c.silenceLimit()))
		}
		if limit.After(c.now) {
			c.deadline = limit
			return
		}
		if nods {
			c.standDown(ByBackchannel)
			return
		}
	}
	c.open(ByVoice)
}

// silenceLimit is how long the agent may be silent for what may be no interruption.
func (c *Controller) silenceLimit() time.Time {
	since := c.voiceSince
	if c.paused {
		since = c.silent
	}
	return since.Add(c.cfg.FalseTimeout)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (c *Controller) voiceOff(lag time.Duration) {
	if !c.voice {
		return
	}
	c.stretch(c.now.Add(-lag))
	switch c.phase {
	case quiet:
		if c.begun {
			c.finalize(ByVoice)
		}
	case candidate:
		if c.sure && c.replying {
			c.phase, c.deadline = doubt, earlier(c.lastSound.Add(c.cfg.FalseTimeout), c.silenceLimit())
			c.finalize(ByVoice)
			return
		}
		c.phase = quiet
		// The recogniser was told to begin; what it makes of so little may still be
		// a word, and then opens the turn.
		c.finalize(ByNoise)
		c.resume(ByNoise)
	case open:
		c.endAt()
		c.judge()
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
	c.voiceEnd = end
}
