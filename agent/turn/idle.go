package turn

// tired counts a silence or a turn without words, and says whether it was one too
// many.
func (c *Controller) tired() bool {
	c.barren++
	return c.cfg.Idle > 0 && c.barren > c.cfg.Reprompts
}

// idle is reached when nobody has said anything for Config.Idle.
func (c *Controller) idle() {
	if c.tired() {
		c.leave(BySilence)
		return
	}
	c.say(Decision{Kind: Idle, Reason: BySilence, Attempt: c.barren})
	c.reply(false)
}

func (c *Controller) leave(reason string) {
	c.say(Decision{Kind: Goodbye, Reason: reason})
	c.reply(false)
	c.leaving = true
}
