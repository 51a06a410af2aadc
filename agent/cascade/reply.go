package cascade

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"
	"unicode"

	"parley/agent/chat"
	"parley/agent/llm"
)

// What ends a reply before its time.
var (
	errInterrupted = errors.New("cascade: interrupted")
	errNoWord      = errors.New("cascade: the model gave no word in time")
)

// ahead is how many pieces of a reply may wait for the voice before the model has
// to wait. It is generous: a reply that is complete can go on after a false
// interruption where it was cut.
const ahead = 64

// item is a piece of a reply: words for the voice, or something to do when the
// words before it were heard.
type item struct {
	text   string // as generated, without Markdown, the white space before it included
	said   string // of text, where the voice broke off within it
	broken bool
	own    bool // the gateway's own words (filler, fallback), no part of what the model said
	action *llm.Action
	done   bool // the action was begun
}

// purpose is why a reply is spoken.
type purpose uint8

const (
	greeting purpose = iota
	answer           // to a turn of the caller
	prompt           // nobody says anything
	farewell         // the last words: what the caller says does not change that the call ends
)

// reply is one reply on its way from the model to the caller. The loop makes it,
// the model's worker puts pieces in, the voice's worker takes them out; a newer
// reply takes its place as a whole, so that nothing of an old one can be mistaken
// for the new one's.
type reply struct {
	purpose purpose
	turn    llm.Turn  // what the model is asked
	ask     bool      // the model is asked
	since   time.Time // the caller's last sound; zero: it answers no turn
	again   bool      // it goes on after a false interruption

	ctx      context.Context // of everything about it
	cancel   context.CancelCauseFunc
	thinking context.Context // of the model
	giveUp   context.CancelCauseFunc
	spoken   *chat.Spoken

	mu      sync.Mutex
	items   []item
	taken   int  // items[:taken] were given to the voice
	asked   bool // the model has been asked
	closed  bool
	heard   string
	pending *chat.Splitter
	plain   chat.Markdown
	space   string    // white space after the last item
	last    time.Time // when the model was asked, or gave its last chunk
	blocked bool      // the model waits for the voice
	from    time.Duration
	waits   bool // the voice waits for the call to take its sound
	sounds  bool // the voice has given the first sound

	more, room chan struct{} // tokens: there may be an item, there may be room

	// The loop's alone.
	started   bool // the first packet was seen on the wire
	expects   bool // it said what the caller may say
	said      bool // the voice has given everything, up to end
	end       time.Duration
	lastPause time.Time // of the model, after which pause was called
	marks     []markedAction
	failed    error      // ends the session after it
	told      chan error // of an announcement: how it ended; nil of others
}

// markedAction is an action with the place on the timeline it waits for.
type markedAction struct {
	*llm.Action
	at   time.Duration
	done chan struct{} // closed when it was done, or could not be
}

// newReply makes a reply; heard is what was heard of it before, when it goes on.
func newReply(life context.Context, p purpose, language, heard string) *reply {
	r := &reply{
		purpose: p, heard: heard, spoken: chat.NewSpoken(heard),
		pending: chat.NewSplitterFor(language), last: time.Now(),
		more: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}
	r.ctx, r.cancel = context.WithCancelCause(life)
	r.thinking, r.giveUp = context.WithCancelCause(r.ctx)
	return r
}

func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// begin says whether the model is still to be asked, and notes that it is.
func (r *reply) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = !r.closed
	return r.asked
}

// wasAsked says whether the model knows of the reply. Once abandoned, a reply it
// does not know of will not be asked for.
func (r *reply) wasAsked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// write takes a piece of the model's text; it waits while too much is waiting for
// the voice.
func (r *reply) write(text string) error {
	r.mu.Lock()
	if !r.closed && text != "" {
		r.last = time.Now()
		r.add(r.pending.Write(text))
	}
	r.mu.Unlock()
	return r.waitForRoom()
}

// add puts pieces in as generated. The lock is held.
func (r *reply) add(pieces []string) {
	for _, piece := range pieces {
		words := strings.TrimSpace(r.plain.Plain(piece))
		if words == "" {
			if strings.TrimSpace(piece) == "" {
				r.space += piece
			}
			continue
		}
		lead := piece[:len(piece)-len(strings.TrimLeftFunc(piece, unicode.IsSpace))]
		tail := piece[len(strings.TrimRightFunc(piece, unicode.IsSpace)):]
		r.put(item{text: r.space + lead + words})
		r.space = tail
	}
}

// put adds an item. The lock is held.
func (r *reply) put(it item) {
	r.items = append(r.items, it)
	token(r.more)
}

func (r *reply) waitForRoom() error {
	for {
		r.mu.Lock()
		full := !r.closed && len(r.items)-r.taken >= ahead
		if r.blocked && !full {
			r.last = time.Now()
		}
		r.blocked = full
		r.mu.Unlock()
		if !full {
			return context.Cause(r.thinking)
		}
		select {
		case <-r.room:
		case <-r.thinking.Done():
			return context.Cause(r.thinking)
		}
	}
}

// act puts an action behind the words so far. Nothing comes after a Hangup.
func (r *reply) act(a llm.Action) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.last = time.Now()
	r.add(r.pending.Flush())
	r.put(item{action: &a})
	r.closed = a.Kind == llm.Hangup
}

// began notes that an action was begun: a reply that goes on does not do it again.
func (r *reply) began(a *llm.Action) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.items {
		if r.items[i].action == a {
			r.items[i].done = true
		}
	}
}

// sorry says text when the reply has nothing more to say.
func (r *reply) sorry(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text != "" && r.closed && r.taken == len(r.items) && r.ctx.Err() == nil {
		r.put(item{text: text, own: true})
	}
}

// tell says how an announcement ended; once.
func (r *reply) tell(err error) {
	if r.told != nil {
		r.told <- err // there is room for one
		r.told = nil
	}
}

// pause gives the voice a sentence that is complete if nothing more comes for now.
func (r *reply) pause() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.add(r.pending.Pause())
	}
}

// filler speaks for a model that has said nothing yet.
func (r *reply) filler(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed && len(r.items) == 0 {
		r.put(item{text: text, own: true})
	}
}

// close says that the model is done; with err, instead of what it left unfinished,
// fallback is spoken. It reports whether the reply was open until now.
func (r *reply) close(err error, fallback string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	if err == nil {
		r.add(r.pending.Flush())
	} else if fallback != "" {
		r.put(item{text: fallback, own: true})
	}
	r.closed = true
	token(r.more)
	return true
}

// abandon ends the reply for the model and the voice, and says whether the model
// was done with it.
func (r *reply) abandon(cause error) (complete bool) {
	r.mu.Lock()
	complete = r.closed
	r.closed = true
	r.mu.Unlock()
	r.cancel(cause)
	return complete
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

// silentSince is since when the model is expected to say something; false when it
// is not.
func (r *reply) silentSince() (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last, r.ask && !r.closed && !r.blocked
}

// empty says whether nothing is to be spoken so far.
func (r *reply) empty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.items) == 0
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

// text is what was generated so far, also before a false interruption.
func (r *reply) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	b.WriteString(r.heard)
	for _, it := range r.items {
		if !it.own {
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
			left = append(left, item{text: text[max(n, 0):]})
			n = 0
		}
	}
	return left
}
