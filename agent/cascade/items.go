package cascade

import (
	"strings"
	"time"
)

// start is where on the timeline a sentence begins.
type start struct {
	at   time.Duration
	text string
}

// take waits for the next item; false when there will be none.
func (r *reply) take() (it item, ok bool) {
	for {
		r.mu.Lock()
		if r.ctx.Err() != nil || r.taken == len(r.items) && r.closed {
			r.mu.Unlock()
			return item{}, false
		}
		if r.taken < len(r.items) {
			it = r.items[r.taken]
			r.taken++
			r.mu.Unlock()
			token(r.room)
			return it, true
		}
		r.mu.Unlock()
		select {
		case <-r.more:
		case <-r.ctx.Done():
			return item{}, false
		}
	}
}

// broke notes that the voice broke off within the item that was taken last.
func (r *reply) broke(said string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	it := &r.items[r.taken-1]
	it.said, it.broken = said, true
}

// saying notes that sound of a piece that begins at a position is about to be given
// to the call, and then that it was.
func (r *reply) saying(now bool, at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waits = now; !r.sounds {
		r.sounds, r.from = true, at
	}
}

// begins notes where the sound of a sentence begins.
func (r *reply) begins(at time.Duration, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starts = append(r.starts, start{at, text})
}

// hearing is the sentence that is heard at a position, or was last; false: none was yet.
func (r *reply) hearing(at time.Duration) (text string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.starts {
		if s.at < at {
			text, ok = s.text, true
		}
	}
	return text, ok
}

// saysNow says whether sound is being given to the call.
func (r *reply) saysNow() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waits
}

// sounded says where the first sound is, if there is one.
func (r *reply) sounded() (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.from, r.sounds
}

// text is what was generated so far, also before a false interruption, without what
// the voice could not say: what was heard is the beginning of it.
func (r *reply) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	b.WriteString(r.heard)
	for _, it := range r.items {
		switch {
		case it.own:
		case it.broken:
			b.WriteString(it.said)
		default:
			b.WriteString(it.text)
		}
	}
	return strings.TrimSpace(b.String())
}

// rest is what is left to say when heard was heard, what was heard before the
// reply went on included.
func (r *reply) rest(heard string) []item {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(heard) - len(r.heard)
	var left []item
	for _, it := range r.items {
		text := it.text
		if it.broken {
			text = it.said
		}
		switch {
		case it.done:
		case it.own, it.action != nil:
			if n <= 0 {
				left = append(left, it)
			}
		case n >= len(text):
			n -= len(text)
		default:
			left = append(left, item{text: text[max(n, 0):], style: it.style})
			n = 0
		}
	}
	return left
}
