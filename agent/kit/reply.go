package kit

import (
	"strings"
	"time"

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

// heard is what was heard of it when its speech, which begins at from and has come to
// to, was played up to at. Where the service tells the times of words they are used;
// elsewhere characters are taken to be of equal length, and the last word that was not
// heard to its end is left out.
func (r *reply) heard(begun bool, from, to, at time.Duration) string {
	if !begun || at <= from {
		return r.held
	}
	spoken := chat.NewSpoken("")
	text := r.text.String()
	last, began := 0, time.Duration(0)
	length := lengthOf(r.received)
	for _, m := range r.marks {
		if m.end <= last || m.until < began {
			continue
		}
		spoken.Begin(from+began, text[last:m.end])
		spoken.Grow(m.until - began)
		spoken.End()
		last, began = m.end, m.until
	}
	if last < len(text) {
		spoken.Begin(from+began, text[last:])
		spoken.Grow(max(length, to-from) - began)
		if r.done && (!r.own || r.said) {
			spoken.End()
		}
	}
	return strings.TrimSpace(joinHeard(r.held, spoken.Heard(at)))
}
