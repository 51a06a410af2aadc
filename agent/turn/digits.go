package turn

// digit takes a key. Keys win over speech: a spoken turn that is open when the
// first key comes becomes the keyed one, and words are not listened for until it
// is closed.
func (c *Controller) digit(key byte) {
	if c.Muted() {
		if len(c.keyed) < MaxKeyed {
			c.keyed = append(c.keyed, key)
		}
		return
	}
	if key == '#' && c.phase != keying && c.now.Before(c.swallow) {
		return // after so many digits as were asked for, some press it from habit
	}
	switch c.phase {
	case quiet, candidate:
		c.open(ByDigit)
	case open, waiting:
		c.keyed = c.keyed[:0]
	}
	c.phase, c.deadline = keying, c.now.Add(c.cfg.DigitGap)
	if key == '#' && len(c.keyed) > 0 {
		c.closeKeyed()
		return
	}
	c.keyed = append(c.keyed, key)
	if key == '#' {
		c.closeKeyed()
	} else if len(c.keyed) >= c.maxDigits() {
		c.swallow = c.now.Add(c.cfg.DigitGap)
		c.closeKeyed()
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

func (c *Controller) closeKeyed() {
	last := c.now
	if gap := c.deadline.Add(-c.cfg.DigitGap); gap.Before(last) {
		last = gap
	}
	c.phase, c.barren = quiet, 0
	c.say(Decision{Kind: Close, Text: string(c.keyed), Digits: true, LastSound: last})
	c.keyed = c.keyed[:0]
	c.reply(false)
}
