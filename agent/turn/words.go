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
	interim    bool      // there was an interim at all
}

// covers says whether the last final came after the caller's last sound and
// nothing since hints at more words, so that no further final need be waited for.
func (t *transcript) covers(lastSound time.Time) bool {
	return !t.finalAt.IsZero() && !t.finalAt.Before(lastSound) && !t.pending
}

func (t *transcript) add(now time.Time, text string, confidence float64) {
	t.finalAt, t.pending = now, false
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

func (c *Controller) interim(text string) {
	if blank(text) || c.Muted() || c.phase == keying {
		return
	}
	if c.phase <= candidate {
		switch {
		case !c.replying:
			c.open(ByTranscript)
		case c.cfg.ConfirmWords > 0 && countWords(text) >= c.cfg.ConfirmWords:
			c.open(ByWords)
		default:
			return
		}
	}
	c.heard.pending, c.heard.interim = true, true
	c.soft()
}

func (c *Controller) final(text string, confidence float64) {
	if c.Muted() || c.phase == keying {
		return
	}
	if blank(text) {
		c.heard.pending = false
		if c.phase == waiting {
			c.close()
		}
		return
	}
	if c.phase <= candidate {
		c.open(ByTranscript)
	}
	c.heard.add(c.now, text, confidence)
	if c.phase == waiting {
		c.close()
		return
	}
	c.soft()
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

// endsSentence says whether text ends with a mark that ends a sentence, in any
// script (the property Sentence_Terminal), closing quotes and brackets aside.
func endsSentence(text string) bool {
	text = strings.TrimRightFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.In(r, unicode.Pe, unicode.Pf, unicode.Quotation_Mark)
	})
	r, _ := utf8.DecodeLastRuneInString(text)
	return unicode.Is(unicode.Sentence_Terminal, r)
}

// countWords counts the words of text. In scripts written without spaces two
// characters count as one word.
func countWords(text string) int {
	words := 0
	for _, field := range strings.Fields(text) {
		unspaced := 0
		for _, r := range field {
			if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) {
				unspaced++
			}
		}
		words += max(1, (unspaced+1)/2)
	}
	return words
}
