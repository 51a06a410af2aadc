package chat

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Verdict is what a model thinks of the caller's turn.
type Verdict uint8

// The verdicts.
const (
	// Undecided: the answer has not begun.
	Undecided Verdict = iota
	// Complete: the caller is done, and what follows answers it. An answer without a
	// marker counts as this.
	Complete
	// ShortPause: the caller stopped within a thought and is about to go on.
	ShortPause
	// LongPause: the caller wants time to think.
	LongPause
)

// The markers that a model begins its answer with.
const (
	completeMarker   = '✓'
	shortPauseMarker = '○'
	longPauseMarker  = '◐'
)

// Pause is how long a caller is waited for who is not done; 0 for one who is.
func (v Verdict) Pause() time.Duration {
	switch v {
	case ShortPause:
		return 5 * time.Second
	case LongPause:
		return 10 * time.Second
	}
	return 0
}

// MarkerPrompt tells a model to judge whether the caller is done.
const MarkerPrompt = "The caller may not be done speaking. Begin your answer with exactly one of these signs. " +
	"✓ and a space, then your answer: what the caller said is complete. " +
	"○ and nothing else: the caller was cut off in the middle of a sentence and is about to go on. " +
	"◐ and nothing else: the caller needs time to think or to look something up. " +
	"A short answer to a question of yours is complete."

// Marker reads the verdict off the beginning of an answer that comes bit by bit. The
// zero value is ready. It belongs to one goroutine.
type Marker struct {
	verdict Verdict
	lead    bool   // the white space after the marker is being dropped
	rest    string // white space that leads, and of a character that has not all come
}

// Write takes the next bit, of any length, and returns what of it is to be spoken, and
// the verdict. After ShortPause and LongPause that is nothing.
func (m *Marker) Write(text string) (words string, v Verdict) {
	if m.verdict == Undecided {
		whole := m.rest + text
		text = strings.TrimLeftFunc(whole, unicode.IsSpace)
		if !utf8.FullRuneInString(text) { // also when there is none
			m.rest = whole
			return "", Undecided
		}
		m.rest = ""
		r, size := utf8.DecodeRuneInString(text)
		switch r {
		case shortPauseMarker:
			m.verdict = ShortPause
		case longPauseMarker:
			m.verdict = LongPause
		case completeMarker:
			m.verdict, m.lead, text = Complete, true, text[size:]
		default:
			m.verdict, text = Complete, whole
		}
	}
	if m.verdict != Complete {
		return "", m.verdict
	}
	if m.lead {
		text = strings.TrimLeftFunc(m.rest+text, func(r rune) bool { return unicode.IsSpace(r) || r == completeMarker || r == '\ufe0e' || r == '\ufe0f' })
		if m.rest = ""; text != "" && !utf8.FullRuneInString(text) {
			m.rest, text = text, ""
		}
		m.lead = text == ""
	}
	return text, Complete
}

// End returns what Write kept: white space, and of an answer that ended within a
// character.
func (m *Marker) End() (words string, v Verdict) {
	words, m.rest = strings.ToValidUTF8(m.rest, "\ufffd"), ""
	if strings.TrimSpace(words) != "" {
		m.verdict = Complete
	}
	return words, m.verdict
}

// MisheardNote tells a model what to do about a turn that was not understood well, for
// the attempt-th time in a row from 1: first to ask again, then to offer a choice, then
// a person.
func MisheardNote(attempt int) string {
	const heard = "The last words of the caller were hard to understand, and the transcript may be wrong. "
	switch {
	case attempt <= 1:
		return heard + "Ask the caller to say it again, in one short sentence, and do not guess."
	case attempt == 2:
		return heard + "Asking again did not help. Offer two or three likely choices that can be answered with one word."
	}
	return heard + "It keeps failing. Offer to connect the caller with a person or to take a message, if you can do that, and do not ask the same again."
}
