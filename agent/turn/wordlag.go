package turn

import "time"

// lag is how late the recogniser of this call is with its words, as far as that can be
// seen: words that come when the voice is over were said before.
type lag struct {
	interims bool          // it gives interim transcripts
	shown    int           // words of the utterance that it has given so far
	now      time.Duration // the most since the latest voice began
	usual    time.Duration
	closed   time.Time // when a turn was ended for want of words
	final    time.Time // when the last words of that turn came
}

// settle ends the measure of an utterance. A slow one counts at once, a quick one
// little by little.
func (l *lag) settle() {
	switch {
	case l.now > l.usual:
		l.usual = l.now
	case l.now > 0:
		l.usual -= (l.usual - l.now) / 4
	}
	l.now = 0
}

// late measures how late the words of a transcript are.
func (c *Controller) late(text string, final bool) {
	l := &c.lag
	l.interims = l.interims || !final
	words := 0
	if !blank(text) {
		words = countWords(text)
	}
	more := words > l.shown
	l.shown = max(l.shown, words)
	if final {
		l.shown = 0
	}
	if !more {
		return
	}
	switch {
	case c.phase < open && !l.closed.IsZero() && c.now.Sub(l.closed) <= c.wordLag():
		// They were said in the turn that was ended for want of them.
		l.now = max(l.now, min(c.now.Sub(l.final), c.cfg.StopTimeout))
	case (c.phase == open || c.phase == waiting || c.phase == doubt) && !c.voice && c.voiced > 0:
		l.now = max(l.now, min(c.now.Sub(c.voiceEnd), c.cfg.StopTimeout))
	}
}

// wordLag is how long words are waited for: as configured, or a quarter longer than this
// recogniser has taken.
func (c *Controller) wordLag() time.Duration {
	seen := max(c.lag.now, c.lag.usual)
	return max(c.cfg.WordLag, min(seen+seen/4, c.cfg.StopTimeout))
}

// firstWord is how long a caller takes for a first word that a recogniser can tell.
const firstWord = 300 * time.Millisecond

// wordlessAt is when a voice without words does not keep the turn open any longer: the
// words before it are final, and those of the caller would be there by now. Where the
// agent was cut off for nothing but that it is not kept silent for as long as a caller who
// may think: more words stop it again.
func (c *Controller) wordlessAt() (time.Time, bool) {
	h := &c.heard
	if c.cfg.WordLag <= 0 || h.pending || !c.stops(StopTimeout) && !c.stops(StopDetector) {
		return time.Time{}, false
	}
	switch {
	case h.text == "":
		if !c.voice || !c.lag.interims || h.interim || !c.cut || c.forgiven {
			return time.Time{}, false
		}
		return c.silent.Add(max(c.cfg.ShortVoice, firstWord+c.wordLag())), true
	case !h.interim:
		return time.Time{}, false
	}
	after, _ := c.silence()
	at := h.finalAt.Add(after + c.wordLag())
	if c.mere() {
		return later(h.finalAt, earlier(at, c.silent.Add(c.cfg.ShortVoice))), true
	}
	return at, c.voice
}

// wordless ends the turn whose voice goes on without words.
func (c *Controller) wordless() {
	end := c.heard.finalAt
	if c.heard.text == "" {
		end = c.now
	} else {
		c.lag.closed, c.lag.final = c.now, end
	}
	if c.voice {
		c.stretch(end)
	}
	c.because = ByNoWords
	c.finish()
}
