package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"parley/agent/live"
	"parley/agent/live/socket"
	"parley/agent/tool"
)

// talk is what is known of a connection and of the conversation on it. The Slot that
// keeps it lets one goroutine at a time have it; nothing in here waits.
type talk struct {
	cfg     Config
	session live.LiveConfig
	sock    *socket.Socket
	clean   func(string) string
	names   *names
	up      *uplink
	guard   guard

	out []live.Message // what Receive returns next

	ends   time.Time // when the service ends the session
	warned bool      // GoAway was told

	// The service makes one reply at a time. asked is the one that we asked for and that
	// has not begun, active the one that has, waiting are those to ask for afterwards.
	asked    *wish
	lastWish *wish
	active   string
	waiting  []*wish
	// cutNext: what was asked for was cancelled before it began.
	cutNext bool
	// speaking is whether the caller does, as far as the service's voice detection goes.
	speaking bool
	serial   int

	replies []*reply // the newest
	items   []*heard // those of replies, the newest
	// open are the calls to be answered, by id.
	open map[string]*reply
	// parts are calls whose arguments are still coming, by item.
	parts map[string]*part
	// user is the item whose transcript is coming, told whether some was given on.
	user     string
	garbled  int
	userDone []string // items whose transcript was told, the newest
}

// wish is a reply that we ask for.
type wish struct {
	id           string // of the event
	instructions string // empty: those of the session
	// covered: the caller is speaking, and the reply to that will do.
	covered bool
}

// reply is one of the model's, while it matters.
type reply struct {
	id string
	// done: the service has ended it. cut: we or the caller did.
	done, cut bool
	// interrupt: it was stopped for the result of a tool.
	interrupt bool
	// calls is how many of its calls are to be answered; speak is set when an answer
	// wants words.
	calls int
	speak bool
}

// heard is an item of a reply that is spoken.
type heard struct {
	id    string
	reply *reply
	// bytes of audio were given on; half is the first byte of a sample to come.
	bytes int
	half  []byte
	cut   bool
	// words: part of its transcript was given on; said: all of it.
	words, said bool
}

// part is a call whose arguments are coming.
type part struct {
	name, callID string
	arguments    []byte
	told         bool
}

// What is remembered at most.
const (
	maxReplies   = 32
	maxItems     = 64
	maxParts     = 64
	maxWaiting   = 16
	maxArguments = 256 << 10
	maxGarbled   = 32
)

// post sends a message.
func (t *talk) post(o object) error {
	b, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("openai: a message that JSON cannot hold: %w", err)
	}
	return t.sock.Post(b)
}

// event is a new id for a message, by which the service's errors name it.
func (t *talk) event(what string) string {
	t.serial++
	return fmt.Sprintf("%s_%d", what, t.serial)
}

// tell adds a message for Receive.
func (t *talk) tell(m live.Message) { t.out = append(t.out, m) }

// warn tells of an error that ends nothing.
func (t *talk) warn(err error) { t.tell(live.Message{Warning: err}) }

// want asks for a reply, now or when the one under way has ended: a service that is
// asked meanwhile refuses.
func (t *talk) want(w *wish) error {
	if t.asked == nil && t.active == "" && !w.covered {
		return t.ask(w)
	}
	if w.instructions == "" && slices.ContainsFunc(t.waiting, func(o *wish) bool { return o.instructions == "" }) {
		return nil // one reply answers all that there is by then
	}
	if len(t.waiting) == maxWaiting {
		return fmt.Errorf("openai: %d replies wait already", maxWaiting)
	}
	t.waiting = append(t.waiting, w)
	return nil
}

func (t *talk) ask(w *wish) error {
	w.id = t.event("reply")
	o := object{"type": "response.create", "event_id": w.id}
	if w.instructions != "" {
		o["response"] = object{"instructions": w.instructions}
	}
	t.asked, t.lastWish = w, w
	return t.post(o)
}

// next asks for what waits, when nothing is under way.
func (t *talk) next() {
	at := slices.IndexFunc(t.waiting, func(w *wish) bool { return !w.covered || !t.callerSpeaks() })
	if t.asked != nil || t.active != "" || at < 0 {
		return
	}
	w := t.waiting[at]
	t.waiting = slices.Delete(t.waiting, at, at+1)
	w.covered = false
	if err := t.ask(w); err != nil {
		t.warn(err)
	}
}

// cancel stops the reply that is under way, which it returns, or that was asked for.
func (t *talk) cancel() (*reply, error) {
	if t.active == "" && t.asked == nil {
		return nil, nil
	}
	o := object{"type": "response.cancel", "event_id": t.event("cancel")}
	if t.active == "" {
		t.cutNext = true
		return nil, t.post(o)
	}
	r := t.reply(t.active)
	if r.cut {
		return r, nil // once is enough
	}
	r.cut = true
	if r.id != unknownReply {
		o["response_id"] = r.id
	}
	return r, t.post(o)
}

// unknownReply is the active one when the service only said that there is one.
const unknownReply = "?"

// reply is the one of that id, made when it is new.
func (t *talk) reply(id string) *reply {
	for _, r := range slices.Backward(t.replies) {
		if r.id == id {
			return r
		}
	}
	r := &reply{id: id}
	if len(t.replies) >= maxReplies {
		t.replies = slices.Delete(t.replies, 0, 1)
	}
	t.replies = append(t.replies, r)
	return r
}

// item is the spoken item of that id, made when it is new and belongs to a reply.
func (t *talk) item(id, replyID string) *heard {
	if h := t.known(id); h != nil {
		return h
	}
	if len(t.items) >= maxItems {
		t.items = slices.Delete(t.items, 0, 1)
	}
	h := &heard{id: id, reply: t.reply(replyID)}
	t.items = append(t.items, h)
	return h
}

// known is the spoken item of that id, or nil.
func (t *talk) known(id string) *heard {
	for _, h := range slices.Backward(t.items) {
		if h.id == id {
			return h
		}
	}
	return nil
}

// truncate is Truncate.
func (t *talk) truncate(itemID string, played time.Duration) error {
	if itemID == "" { // cut before its first sound
		_, err := t.cancel()
		return err
	}
	at := slices.IndexFunc(t.items, func(h *heard) bool { return h.id == itemID })
	if at < 0 || t.items[at].cut {
		return nil
	}
	h := t.items[at]
	h.cut = true
	if !h.reply.done {
		if _, err := t.cancel(); err != nil {
			return err
		}
	}
	for _, later := range t.items[at+1:] { // what follows it was not heard either
		if later.reply == h.reply && !later.cut {
			later.cut = true
			if err := t.forgetItem(later.id); err != nil {
				return err
			}
		}
	}
	played = max(0, min(played, lasts(t.session.Wire, h.bytes)))
	if played < time.Millisecond {
		return t.forgetItem(h.id)
	}
	return t.post(object{
		"type": "conversation.item.truncate", "event_id": t.event("truncate"),
		"item_id": h.id, "content_index": 0, "audio_end_ms": played.Milliseconds(),
	})
}

// forgetItem takes an item out of the conversation.
func (t *talk) forgetItem(id string) error {
	return t.post(object{"type": "conversation.item.delete", "event_id": t.event("delete"), "item_id": id})
}

// answer is SendToolResponse. Answers to calls that are not open are refused.
func (t *talk) answer(r live.ToolResponse) error {
	from, ok := t.open[r.ID]
	if !ok {
		return fmt.Errorf("openai: no call with the id %.64q waits for an answer", r.ID)
	}
	if err := t.post(create(t.event("answer"), answerItem(r))); err != nil {
		return err
	}
	delete(t.open, r.ID)
	from.calls--
	if r.Scheduling == tool.ToolResponseSchedulingSilent {
		return t.goOn(from)
	}
	from.speak = true
	if r.Scheduling == tool.ToolResponseSchedulingInterrupt && t.active != "" && t.active != from.id {
		now, err := t.cancel()
		if err != nil {
			return err
		}
		if now != nil {
			now.interrupt = true
		}
	}
	return t.goOn(from)
}

// goOn has the model speak when the last call of a reply is answered. The service
// does not do so by itself.
func (t *talk) goOn(r *reply) error {
	if !r.done || r.calls > 0 || !r.speak {
		return nil
	}
	r.speak = false
	// Not into the caller's words.
	return t.want(&wish{covered: t.callerSpeaks()})
}

// callerSpeaks is what the service's voice detection says, or ActivityStart.
func (t *talk) callerSpeaks() bool { return t.speaking || t.up.open }
