package kit

import (
	"strings"
	"time"
	"unicode/utf8"

	"parley/agent/chat"
)

// reply is what the model says at one go, or words of the gateway's own. The loop
// makes it; where it lies on the timeline is the speech's to say, under its lock.
type reply struct {
	own      bool      // the gateway's own voice
	filler   bool      // and no words of the agent's
	again    bool      // the rest of one that a noise cut off
	since    time.Time // the caller's last sound; zero: it answers no turn
	suspect  bool      // it may answer a turn that is out of date
	held     string    // what was heard before a noise cut it off
	text     strings.Builder
	marks    []spokenMark
	pending  *chat.Splitter
	items    []*item
	odd      []byte // half a sample
	rate     rate   // of its sound
	done     bool   // the model has said all of it
	said     bool   // all was given to the call
	started  bool   // its first packet was seen on the wire
	told     chan error
	received int       // samples
	grew     time.Time // when something of it came last

	// Guarded by speech.mu.
	begun    bool
	from, to time.Duration
}

// item is a part of a reply that the service has a name for.
type item struct {
	id       string
	received int // samples
	// Guarded by speech.mu.
	begun    bool
	from, to time.Duration
}

// spokenMark says that text[:end] is what the audio up to until holds.
type spokenMark struct {
	end   int
	until time.Duration
}

// itemOf is the item of a name, made when there is none. Audio without a name is of the
// item before.
func (r *reply) itemOf(id string) *item {
	if n := len(r.items); n > 0 && (id == "" || r.items[n-1].id == id) {
		return r.items[n-1]
	}
	for _, it := range r.items {
		if it.id == id {
			return it
		}
	}
	it := &item{id: id}
	r.items = append(r.items, it)
	return it
}

// samples makes samples of audio; half a sample waits for the next.
func (r *reply) samples(b []byte) []int16 {
	if len(r.odd) > 0 {
		b = append(r.odd, b...)
		r.odd = nil
	}
	if len(b)%2 != 0 {
		r.odd = append([]byte(nil), b[len(b)-1])
		b = b[:len(b)-1]
	}
	pcm := make([]int16, len(b)/2)
	for i := range pcm {
		pcm[i] = int16(uint16(b[2*i]) | uint16(b[2*i+1])<<8)
	}
	return pcm
}

// whole is all the words of it, those before a noise included.
func (r *reply) whole() string {
	return strings.TrimSpace(joinHeard(r.held, r.text.String()))
}

// joinHeard joins what was heard with what came after.
func joinHeard(heard, rest string) string {
	if heard == "" || rest == "" || strings.HasPrefix(rest, " ") {
		return heard + rest
	}
	return heard + " " + rest
}

// slowRune is how long a character is taken to last while more may come of a reply:
// slow speech, so that not too much counts as heard.
const slowRune = 80 * time.Millisecond

// heard is what was heard of it when its speech, which begins at from and has come to
// to, was played up to at. Where the service tells the times of words they are used;
// elsewhere characters are taken to be of equal length, the space behind a word to be
// of the word, and the last word that was not heard to its end is left out.
func (r *reply) heard(begun bool, from, to, at time.Duration) string {
	if !begun || at <= from {
		return r.held
	}
	spoken := chat.NewSpoken("")
	text := r.text.String()
	last, began := 0, time.Duration(0)
	for _, m := range r.marks {
		if m.end <= last || m.until < began {
			continue
		}
		spoken.Begin(from+began, text[last:m.end])
		spoken.Grow(m.until - began)
		spoken.End()
		last, began = m.end, m.until
	}
	if rest := text[last:]; rest != "" {
		length := max(r.rate.length(r.received), to-from) - began
		spoken.Begin(from+began, rest)
		spoken.Grow(length)
		whole := r.done && (!r.own || r.said)
		words(spoken, rest, length, whole)
		if whole {
			spoken.End()
		}
	}
	return strings.TrimSpace(joinHeard(r.held, spoken.Heard(at)))
}

// words gives spoken the times of words that lie evenly in a stretch of speech. Where
// words are not parted by spaces, spoken reckons by itself.
func words(spoken *chat.Spoken, text string, length time.Duration, whole bool) {
	list := strings.Fields(text)
	runes := 0
	for _, w := range list {
		n := utf8.RuneCountInString(w)
		if n > longestWord {
			return
		}
		runes += n + 1
	}
	if !whole {
		length = max(length, time.Duration(runes)*slowRune)
	}
	n := 0
	for _, w := range list {
		n += utf8.RuneCountInString(w) + 1
		spoken.Word(w, time.Duration(int64(length)*int64(n)/int64(runes)))
	}
}

// longestWord is of how many characters words are at most; what is longer is of a
// script without spaces.
const longestWord = 30
