package turn

// mutes says whether one of the strategies wants the caller not to be listened to.
func (c *Controller) mutes() bool {
	if c.cfg.MuteGreeting && !c.greeted {
		return true
	}
	for _, m := range c.cfg.Mute {
		switch {
		case m == MuteAgent && c.audible,
			m == MuteFirstTurn && !c.greeted,
			m == MuteFirstSpeech && !c.greeted && c.audible,
			m == MuteTools && c.tools > 0:
			return true
		}
	}
	return false
}

// tellMute says when the caller is listened to no longer, or again. What came before it
// was taken as it was before: the state before an input decides what becomes of it.
func (c *Controller) tellMute() {
	c.muted = c.mutes()
	if c.muted == c.told {
		return
	}
	c.told = c.muted
	if c.muted {
		c.say(Decision{Kind: Muted})
		c.hush()
		return
	}
	c.say(Decision{Kind: Unmuted})
	c.listen()
}

// hush ends what the caller was about to say.
func (c *Controller) hush() {
	switch c.phase {
	case candidate, doubt:
		c.finalize(ByMute)
		c.standDown(ByMute)
	case open, waiting, tentative, unfinished:
		if c.voice {
			c.stretch(c.now)
			c.voice = true // it goes on, and is heard again when the mute is over
			c.voiceSince = c.now
		}
		if c.begun {
			c.finalize(ByMute)
		}
		c.because = ByMute
		if c.heard.text == "" && !c.forgivable() {
			c.phase = quiet
			c.uninfer()
			c.say(Decision{Kind: Discard, Reason: ByMute})
			return
		}
		c.close()
	}
}

// listen takes the caller as he is found when the mute is over: what he keyed in
// meanwhile, or the voice that is on.
func (c *Controller) listen() {
	if len(c.keyed) > 0 && c.phase != keying {
		ahead := append([]byte(nil), c.keyed...)
		c.keyed = c.keyed[:0]
		for _, d := range ahead {
			c.digit(d)
		}
		return
	}
	if c.voice { // what came before now is not heard
		c.voice = false
		c.voiceOn(0)
	}
}
