package turn

import "time"

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
		c.interim(in.Text, in.Asked)
	case Final:
		c.final(in.Text, in.Confidence, in.Asked)
	case Digit:
		c.digit(in.Digit)
	default:
		c.other(in)
	}
	c.expire()
	c.tellMute()
	c.expire()
	return c.out
}

// other takes what does not come from the caller.
func (c *Controller) other(in Input) {
	switch in.Kind {
	case Expect:
		c.expected = in.MaxDigits
	case ReplyBegan:
		c.reply(false)
	case ReplyEnded:
		c.replyEnded()
	case ReplyHeard:
		c.audible = c.replying
	case ReplyWords:
		c.speaks(in.Text)
	case Sound:
		c.audio, c.lastAudio = true, c.now
	case Hold:
		c.hold()
	case Unhold:
		c.held = false
		c.quietSince = c.now
	case ToolsBegan:
		c.tools++
	case ToolsEnded:
		c.tools = max(0, c.tools-1)
		c.quietSince = c.now
	case ExternalStart:
		c.externalStart()
	case ExternalStop:
		c.externalStop()
	case ExternalEager:
		c.eager()
	case Verdict:
		c.judged(in.Question, in.Probability)
	case Complete, Incomplete:
		c.complete(in.Kind == Complete, in.Wait)
	}
}

// Due is when Step wants to be called again, with a Tick if nothing else happens.
func (c *Controller) Due() (time.Time, bool) {
	due, ok := c.phaseDue()
	if c.listening() {
		if limit := c.lastAudio.Add(c.cfg.NoAudio); !ok || limit.Before(due) {
			return limit, true
		}
	}
	return due, ok
}

// listening says whether a voice is on whose sound may stop to come.
func (c *Controller) listening() bool { return c.voice && c.audio && c.cfg.NoAudio > 0 }

func (c *Controller) phaseDue() (time.Time, bool) {
	switch c.phase {
	case candidate, doubt, waiting, tentative, unfinished, keying:
		return c.deadline, true
	case open:
		due := c.openedAt.Add(c.cfg.MaxTurn)
		if !c.voice && c.deadline.Before(due) {
			due = c.deadline
		}
		for _, when := range []func() (time.Time, bool){c.eagerAt, c.wordlessAt} {
			if at, ok := when(); ok && at.Before(due) {
				due = at
			}
		}
		return due, true
	}
	if c.cfg.Idle > 0 && !c.replying && !c.held && c.tools == 0 {
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
		if c.listening() && !c.lastAudio.Add(c.cfg.NoAudio).After(c.now) {
			c.voiceOff(c.now.Sub(c.lastAudio))
			continue
		}
		switch c.phase {
		case candidate:
			c.certain()
		case doubt:
			c.standDown(ByNoise)
		case open:
			if at, ok := c.eagerAt(); ok && !at.After(c.now) {
				c.eager()
			} else if at, ok := c.wordlessAt(); ok && !at.After(c.now) {
				c.wordless()
			} else {
				c.endpoint()
			}
		case waiting:
			c.finish()
		case tentative:
			c.because = ByWatchdog
			c.close()
		case unfinished:
			c.goUnfinished()
		case keying:
			c.closeKeyed(ByGap)
		default:
			c.idle()
		}
	}
}
