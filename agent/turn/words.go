package turn

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// transcript is what the recogniser made of a turn.
type transcript struct {
	text       string    // the finals, joined
	confidence float64   // the lowest that was told
	finalAt    time.Time // when the last final came
	pending    bool      // an interim came after it
	tail       string    // the end of that interim
	interim    bool      // there was an interim at all
	asked      bool      // the words answer a question
}

// covers says whether the last final came after the caller's last sound and
// nothing since hints at more words, so that no further final need be waited for.
func (t *transcript) covers(lastSound time.Time) bool {
	return !t.finalAt.IsZero() && !t.finalAt.Before(lastSound) && !t.pending
}

func (t *transcript) add(now time.Time, text string, confidence float64) {
	t.finalAt, t.pending, t.tail = now, false, ""
	if len(t.text)+len(text) >= MaxText {
		return
	}
	if t.text != "" && !startsWithSpace(text) && !startsWithSpace(lastRune(t.text)) {
		t.text += " "
	}
	t.text += text
	if confidence > 0 && (t.confidence == 0 || confidence < t.confidence) {
		t.confidence = confidence
	}
}

func (c *Controller) interim(text string, asked bool) {
	if blank(text) || c.muted || c.phase == keying {
		return
	}
	c.late(text, false)
	if c.phase < open {
		reason, ok := c.opens(text, false, asked)
		if !ok {
			return
		}
		c.open(reason)
	}
	c.goesOn()
	c.heard.pending, c.heard.interim, c.heard.tail = true, true, tail(text, maxLook)
	c.heard.asked = c.heard.asked || asked
	c.ended = c.ended && !c.voice // it was not the end
	c.soft()
}

func (c *Controller) final(text string, confidence float64, asked bool) {
	if c.muted || c.phase == keying {
		return
	}
	c.late(text, true)
	if blank(text) {
		c.heard.pending = false
		switch c.phase {
		case waiting:
			c.finish()
		case doubt:
			c.standDown(ByNoise)
		case open: // there is nothing but what there was
			if c.heard.text != "" && !c.voice {
				c.heard.finalAt = c.now
				c.endAt()
			}
		}
		return
	}
	if c.phase < open {
		reason, ok := c.opens(text, true, asked)
		if !ok {
			return
		}
		c.open(reason)
	}
	c.goesOn()
	c.heard.add(c.now, text, confidence)
	c.heard.asked = c.heard.asked || asked
	if c.inferred.on && c.inferred.text != c.heard.text {
		c.uninfer()
	}
	if c.phase == waiting {
		c.finish()
		return
	}
	c.soft()
	c.judge()
}

// soft sets the end of an open turn after words. A caller too soft to be noticed as
// a voice has spoken until just now.
func (c *Controller) soft() {
	if c.voice || c.phase != open {
		return
	}
	if c.voiced == 0 {
		c.lastSound = c.now
	}
	c.endAt()
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }

func startsWithSpace(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return unicode.IsSpace(r)
}

func lastRune(text string) string {
	_, size := utf8.DecodeLastRuneInString(text)
	return text[len(text)-size:]
}

// countWords counts the words of text. In scripts written without spaces two
// characters count as one word.
func countWords(text string) int {
	words := 0
	for _, field := range strings.Fields(text) {
		unspaced := 0
		for _, r := range field {
			if unspacedRune(r) {
				unspaced++
			}
		}
		words += max(1, (unspaced+1)/2)
	}
	return words
}
