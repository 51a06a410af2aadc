package turn

// What ends a keyed-in turn, in Decision.Reason.
const (
	ByHash  = "hash"
	ByGap   = "digit_gap"
	ByCount = "max_digits"
)

// digit takes a key. Keys win over speech: a spoken turn that is open when the
// first key comes becomes the keyed one, and words are not listened for until it
// is closed.
func (c *Controller) digit(key byte) {
	if c.muted && c.phase != keying {
		if len(c.keyed) < MaxKeyed {
			c.keyed = append(c.keyed, key)
		}
		return
	}
	if key == '#' && c.phase != keying && c.now.Before(c.swallow) {
		return // after so many digits as were asked for, some press it from habit
	}
	switch c.phase {
	case quiet, candidate, doubt:
		c.open(ByDigit)
	case open, waiting, tentative, unfinished:
		c.keyed = c.keyed[:0]
		c.uninfer()
	}
	c.phase, c.begun, c.deadline = keying, false, c.now.Add(c.cfg.DigitGap)
	if key == '#' && len(c.keyed) > 0 {
		c.closeKeyed(ByHash)
		return
	}
	c.keyed = append(c.keyed, key)
	if key == '#' {
		c.closeKeyed(ByHash)
	} else if len(c.keyed) >= c.maxDigits() {
		c.swallow = c.now.Add(c.cfg.DigitGap)
		c.closeKeyed(ByCount)
	}
}

func (c *Controller) maxDigits() int {
	switch {
	case c.expected > 0:
		return min(c.expected, MaxKeyed)
	case c.cfg.MaxDigits > 0:
		return c.cfg.MaxDigits
	}
	return MaxKeyed
}

func (c *Controller) closeKeyed(reason string) {
	last := c.now
	if gap := c.deadline.Add(-c.cfg.DigitGap); gap.Before(last) {
		last = gap
	}
	c.phase, c.barren = quiet, 0
	c.stayAwake()
	c.say(Decision{Kind: Close, Reason: reason, Text: string(c.keyed), Digits: true, LastSound: last, Misheard: c.mishears(false)})
	c.keyed = c.keyed[:0]
	c.reply(false)
}
