package turn

import "time"

// verdict is what the Detector said.
type verdict struct{ known, done bool }

// endAt sets when an open turn without voice ends, and what ends it: whichever of the
// stop strategies is first.
func (c *Controller) endAt() {
	c.deadline, c.because = c.lastSound.Add(c.cfg.StopTimeout), ByWatchdog
	sooner := func(after time.Duration, reason string) {
		if at := c.lastSound.Add(after); at.Before(c.deadline) {
			c.deadline, c.because = at, reason
		}
	}
	for _, s := range c.cfg.Stop {
		switch s {
		case StopTimeout:
			sooner(c.silence())
		case StopDetector:
			switch {
			case !c.verdict.known:
				sooner(c.silence())
			case c.verdict.done:
				sooner(0, string(StopDetector))
			default:
				sooner(c.cfg.DetectorTimeout, string(StopDetector))
			}
		case StopExternal:
			if c.ended {
				sooner(0, string(StopExternal))
			}
		}
	}
}

// silence is how long the caller may be silent, and what for.
func (c *Controller) silence() (time.Duration, string) {
	covered := c.heard.covers(c.lastSound)
	text := c.heard.text
	if c.heard.pending {
		text += " " + c.heard.tail
	}
	switch {
	case c.spells(text):
		return max(c.cfg.SpellingTimeout, c.cfg.SpeechTimeout), BySpelling
	case !covered:
		return max(c.cfg.SpeechTimeout, c.cfg.STTLatency), string(StopTimeout)
	case c.words.endsSentence(c.heard.text):
		return min(c.cfg.SpeechTimeout, c.cfg.SentenceTimeout), BySentence
	}
	return c.cfg.SpeechTimeout, string(StopTimeout)
}

// spells says whether the caller gives digits or spells, and has not given as many as
// the agent expects.
func (c *Controller) spells(text string) bool {
	if c.expected > 0 && c.words.count(text) >= c.expected {
		return false
	}
	return c.words.gives(text, c.expected > 0)
}

// judge asks the Detector.
func (c *Controller) judge() {
	if c.voice || c.phase != open || !c.stops(StopDetector) {
		return
	}
	c.question++
	c.verdict = verdict{}
	c.say(Decision{Kind: Judge, Reason: string(StopDetector), Text: c.heard.text, Question: c.question})
}

// judged takes what the Detector said, unless it was of what is past.
func (c *Controller) judged(question int, probability float64) {
	if question != c.question || c.voice || c.phase != open {
		return
	}
	c.verdict = verdict{known: true, done: probability >= c.cfg.DetectorThreshold}
	c.endAt()
}

func (c *Controller) externalStop() {
	if c.phase != open {
		return
	}
	c.ended = true
	if !c.voice {
		c.endAt()
	}
}

// endpoint is reached when the caller has been quiet for long enough, or has
// spoken for too long.
func (c *Controller) endpoint() {
	tooLong := !c.now.Before(c.openedAt.Add(c.cfg.MaxTurn))
	if tooLong {
		c.forced, c.because = true, ByMaxTurn
	}
	if c.voice { // MaxTurn: what goes on now is not speech to wait for
		c.stretch(c.now)
	} else if c.heard.covers(c.lastSound) {
		c.finish()
		return
	}
	c.phase = waiting
	c.deadline = c.now.Add(c.cfg.FinalTimeout)
	if limit := c.lastSound.Add(c.cfg.FalseTimeout); c.forgivable() && limit.Before(c.deadline) {
		c.deadline = limit
	}
	c.finalize(c.because)
}

// finish is reached when all words of the turn are there, or are waited for no more.
func (c *Controller) finish() {
	if c.stops(StopDeferred) && !c.forced && c.heard.text != "" && !c.mere() {
		c.defers()
		return
	}
	c.close()
}

// forgivable says whether the turn looks like a noise that cut the agent off.
func (c *Controller) forgivable() bool {
	return c.cut && !c.forgiven && c.heard.text == "" && (c.voiced <= c.cfg.ShortVoice || c.because == ByNoWords)
}

// mere says whether the turn that cut the agent off held only a backchannel.
func (c *Controller) mere() bool {
	return c.cut && !c.heard.asked && c.words.listens(c.heard.text)
}

// close ends a spoken turn with the words that came.
func (c *Controller) close() {
	c.phase = quiet
	c.stayAwake()
	if c.heard.text == "" || c.mere() {
		c.uninfer()
	}
	switch {
	case c.mere():
		c.barren = 0
		c.say(Decision{Kind: GoOn, Reason: ByBackchannel, Text: c.heard.text})
		c.reply(c.forgiven)
	case c.heard.text != "":
		c.closeWords()
	case c.forgivable():
		c.say(Decision{Kind: GoOn, Reason: ByNoise})
		c.reply(true)
	case !c.cut && c.voiced < c.cfg.NoiseVoice && !c.heard.interim:
		c.say(Decision{Kind: Discard, Reason: ByNoise})
	case c.tired():
		// The turn is closed all the same: whoever opened it sees it end.
		c.say(Decision{Kind: Discard, Reason: ByGarbled})
		c.leave(ByGarbled)
	default:
		c.say(Decision{Kind: Close, Reason: c.because, Garbled: true, LastSound: c.lastSound, Misheard: c.mishears(true)})
		c.reply(false)
	}
}

// closeWords ends a turn that was understood.
func (c *Controller) closeWords() {
	c.barren = 0
	inferred := c.inferred.on && c.inferred.text == c.heard.text && c.because != ByPause
	if !inferred {
		c.uninfer()
	}
	c.inferred = inference{}
	c.say(Decision{
		Kind: Close, Reason: c.because, Text: c.heard.text, Confidence: c.heard.confidence, LastSound: c.lastSound,
		Inferred: inferred, Unfinished: c.because == ByPause,
		Misheard: c.mishears(c.heard.confidence > 0 && c.heard.confidence < c.cfg.MinConfidence),
	})
	c.reply(false)
}

// mishears counts turns that were hard to understand; one that was not ends the count.
func (c *Controller) mishears(this bool) Rung {
	if !this {
		c.misheard = Clear
	} else if c.misheard < Person {
		c.misheard++
	}
	return c.misheard
}
