package turn

import (
	"slices"
	"time"
)

// evidence is that the caller may have begun a turn.
type evidence struct {
	voice, external bool
	text            string // words
	certain         bool   // enough words to cut the agent off
	command         bool
	reason          string // why they are enough
}

// answer is what a start strategy makes of evidence.
type answer uint8

const (
	pass   answer = iota // ask the next strategy
	accept               // the turn begins
	refuse               // it does not, and what was said is dropped
)

// starter is a start strategy: what it makes of evidence, and in which words.
type starter func(c *Controller, e evidence) (answer, string)

func starterOf(s StartStrategy) starter {
	switch s {
	case StartVoice:
		return startVoice
	case StartTranscript:
		return startTranscript
	case StartMinWords:
		return startMinWords
	case StartWakePhrase:
		return startWakePhrase
	case StartExternal:
		return startExternal
	}
	return func(*Controller, evidence) (answer, string) { return pass, "" }
}

func startVoice(_ *Controller, e evidence) (answer, string) {
	if e.voice {
		return accept, ByVoice
	}
	return pass, ""
}

func startTranscript(_ *Controller, e evidence) (answer, string) {
	if e.text != "" && e.certain {
		return accept, e.reason
	}
	return pass, ""
}

func startMinWords(c *Controller, e evidence) (answer, string) {
	switch {
	case e.text == "":
		return pass, ""
	case c.replying && e.command:
		return accept, ByCommand
	case !c.replying || countWords(e.text) >= c.cfg.MinWords:
		return accept, string(StartMinWords)
	}
	return refuse, ""
}

func startWakePhrase(c *Controller, e evidence) (answer, string) {
	switch {
	case c.awake():
		return pass, ""
	case e.text != "" && c.wakes.within(fold(e.text, maxLook)):
		c.woken, c.awakeUntil = true, c.now.Add(c.cfg.WakeTimeout)
		return accept, string(StartWakePhrase)
	}
	return refuse, ""
}

func startExternal(_ *Controller, e evidence) (answer, string) {
	if e.external {
		return accept, string(StartExternal)
	}
	return pass, ""
}

// asks asks the strategies in turn what they make of evidence.
func (c *Controller) asks(e evidence) (reason string, ok bool) {
	for _, s := range c.chain {
		switch a, reason := s(c, e); a {
		case accept:
			return reason, true
		case refuse:
			return "", false
		}
	}
	return "", false
}

// awake says whether a wake phrase is still good: while the agent replies, and for a while
// after it.
func (c *Controller) awake() bool {
	return c.woken && (c.replying || c.now.Before(c.awakeUntil))
}

// stayAwake has the next turn need no wake phrase for a while; without such a while each
// turn needs one.
func (c *Controller) stayAwake() {
	c.woken = c.woken && c.cfg.WakeTimeout > 0
	c.awakeUntil = c.now.Add(c.cfg.WakeTimeout)
}

// opens says whether the words of a transcript open a turn, and why. Those that do not
// are dropped.
func (c *Controller) opens(text string, final, asked bool) (reason string, ok bool) {
	if c.echo(text) {
		return "", false
	}
	e := evidence{text: text, certain: true, reason: ByTranscript, command: c.words.commanding(text)}
	if c.replying {
		e.certain, e.reason = c.meant(text, final, asked || c.leaving, e.command)
		if !e.certain && e.reason == ByBackchannel {
			if c.phase == doubt { // an interim one will do: the voice is over, and a final one with more stops the agent still
				c.standDown(ByBackchannel)
			}
			if c.phase == candidate && c.nodded.IsZero() {
				c.nodded = c.now
			}
			return "", false
		}
	}
	if e.certain && (c.phase == candidate || c.phase == doubt) { // the voice was let in already
		return e.reason, true
	}
	return c.asks(e)
}

// meant says whether words over the agent are meant to interrupt it, and why they are or
// are not: until a transcript is final, few words may become anything.
func (c *Controller) meant(text string, final, asked, command bool) (certain bool, reason string) {
	switch {
	case command:
		return true, ByCommand
	case asked:
		return true, ByAnswer
	case c.words.listens(text):
		return false, ByBackchannel
	case final:
		return true, ByTranscript
	case c.cfg.ConfirmWords > 0 && countWords(text) >= c.cfg.ConfirmWords:
		return true, ByWords
	}
	return false, ""
}

// standDown lets the agent go on: what interrupted it was no interruption.
func (c *Controller) standDown(reason string) {
	c.phase = quiet
	c.resume(reason)
}

func (c *Controller) externalStart() {
	if c.muted || c.phase >= open {
		return
	}
	if reason, ok := c.asks(evidence{external: true}); ok {
		c.open(reason)
		c.soft()
	}
}

const (
	// ownWords is how many words of the agent's are kept to know its echo by, and
	// echoTail how long after a reply its echo may still be recognised.
	ownWords = 160
	echoTail = 2 * time.Second
	// echoWords is how many words of a transcript are looked at for that.
	echoWords = 16
)

// speaks takes words of the agent's.
func (c *Controller) speaks(text string) {
	if c.stale {
		c.own, c.stale = c.own[:0], false
	}
	c.own = append(c.own, fold(text, MaxText)...)
	if over := len(c.own) - ownWords; over > 0 {
		c.own = slices.Delete(c.own, 0, over)
	}
}

// echo says whether text is what the agent says, come back over the line: most of its
// words, in that order, with no voice of the caller's to have said them.
func (c *Controller) echo(text string) bool {
	if len(c.own) == 0 || c.voice || c.now.Sub(c.voiceEnd) < c.cfg.FalseTimeout && !c.voiceEnd.IsZero() ||
		!c.replying && c.now.Sub(c.quietSince) > echoTail {
		return false
	}
	words := fold(text, maxLook)
	words = words[:min(len(words), echoWords)]
	same := common(words, c.own)
	return same > 0 && 4*same >= 3*len(words)
}

// common is how many words a and b have in common in the same order.
func common(a, b []string) int {
	row := make([]int, len(a)+1)
	for _, w := range b {
		diagonal := 0
		for i := range a {
			above := row[i+1]
			if a[i] == w {
				row[i+1] = diagonal + 1
			} else {
				row[i+1] = max(row[i+1], row[i])
			}
			diagonal = above
		}
	}
	return row[len(a)]
}
