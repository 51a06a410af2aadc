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
	style  string // how it is spoken
	said   string // of text, where the voice broke off within it
	broken bool
	own    bool // the gateway's own words (a fallback), no part of what the model said
	action *llm.Action
	done   bool // the action was begun
}

// purpose is why a reply is spoken.
type purpose uint8

const (
	greeting purpose = iota
	answer           // to a turn of the caller
	prompt           // nobody says anything, or somebody else wants it said
	farewell         // the last words: what the caller says does not change that the call ends
)

// reply is one reply on its way from the model to the caller. The loop makes it,
// the model's worker puts pieces in, the voice's worker takes them out; a newer
// reply takes its place as a whole, so that nothing of an old one can be mistaken
// for the new one's.
type reply struct {
	purpose purpose
	turn    llm.Turn      // what the model is asked
	ask     bool          // the model is asked
	since   time.Time     // the caller's last sound; zero: it answers no turn
	known   bool          // it goes on after a false interruption: the model knows of it
	before  time.Duration // of it was heard before that
	behind  time.Duration // it begins behind this, where a filler ends

	ctx      context.Context // of everything about it
	cancel   context.CancelCauseFunc
	thinking context.Context // of the model
	giveUp   context.CancelCauseFunc
	spoken   *chat.Spoken
	judged   bool // the model has given its first piece; its worker's alone

	mu      sync.Mutex
	items   []item
	taken   int  // items[:taken] were given to the voice
	asked   bool // the model has been asked
	closed  bool
	sealed  bool // the caller is not done: it has no words
	works   bool // a tool is at work
	style   string
	heard   string
	pending *chat.Splitter
	plain   chat.Markdown
	space   string    // white space after the last item
	last    time.Time // when the model was asked, or gave its last chunk
	blocked bool      // the model waits for the voice
	from    time.Duration
	waits   bool // the voice waits for the call to take its sound
	sounds  bool // the voice has given the first sound
	starts  []start

	more, room chan struct{} // tokens: there may be an item, there may be room

	// The loop's alone.
	started   bool // the first packet was seen on the wire
	expects   bool // it said what the caller may say
	said      bool // the voice has given everything, up to end
	end       time.Duration
	lastPause time.Time // of the model, after which pause was called
	marks     []markedAction
	version   uint64        // of the model, of a reply that was begun early
	adopted   chan struct{} // of such a one: closed when the turn has ended and it is heard
	held      []event       // about it, until then
	leaves    bool          // the agent ends the call after it
	failed    error         // ends the session after it
	told      chan error    // of an announcement: how it ended; nil of others
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

// write takes a piece of the model's; it waits while too much is waiting for the
// voice.
func (r *reply) write(c llm.Chunk) error {
	r.mu.Lock()
	if !r.closed {
		if c.Style != "" && c.Style != r.style {
			r.add(r.pending.Flush())
			r.style = c.Style
		}
		if c.Thinking { // what was said before is all there is for now
			r.add(r.pending.Flush())
		}
		if c.Text != "" || c.Thinking || r.works {
			r.last = time.Now()
		}
		r.works = c.Thinking
		r.add(r.pending.Write(c.Text))
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
		r.put(item{text: r.space + lead + words, style: r.style})
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

// seal ends a reply that has no words because the caller is not done.
func (r *reply) seal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed, r.sealed = true, true
	token(r.more)
}

func (r *reply) isSealed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sealed
}

// working says whether the model waits for a tool.
func (r *reply) working() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.works && !r.closed
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

// silentSince is since when the model is expected to say something, and for how long it
// may be silent; false when it is not expected to.
func (r *reply) silentSince(firstToken, toolTime time.Duration) (since time.Time, limit time.Duration, thinks bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if limit = firstToken; r.works {
		limit = toolTime
	}
	return r.last, limit, r.ask && !r.closed && !r.blocked
}
