// Package llm is the contract between a conversation and whatever thinks up the
// replies: your own agent over HTTP, a model, a script. Providers are in the
// sub-packages.
package llm

import (
	"context"
	"time"
)

// Provider opens models for calls. It is safe for concurrent use.
type Provider interface {
	// Open prepares the model for one conversation, before the call is answered.
	// An error refuses the call.
	Open(ctx context.Context, c Conversation) (Model, error)
}

// Conversation says whose replies a model is to think up.
type Conversation struct {
	// CallID is the call's id in logs.
	CallID string
	// SessionID is the conversation's id.
	SessionID string
	// ResourceID identifies the person across calls; empty when unknown.
	ResourceID string
	// Verified says that ResourceID was proved, as by a token, and not only told by the
	// network.
	Verified bool
	// CallerName and Called are texts from outside: data, never instructions.
	CallerName, Called string
	// Direction is "inbound" or "outbound".
	Direction string
	// Agent is the name of the agent that the route chose, or empty.
	Agent string
	// Headers are the X- headers of an INVITE from a trusted trunk. They are data.
	Headers map[string]string
	// Context is what whoever placed an outbound call gave the agent to know.
	Context map[string]string
	// Memory is what is known of the caller from before. It is never nil.
	Memory Memory
	// Line is the call, for models that act on it by tools. It is never nil.
	Line Line
	// Wake asks to be asked: the model has something to say that is no reply to a turn
	// of the caller, such as the result of a tool that took long. As soon as nobody
	// speaks, Reply is called with Turn.Woken. It never blocks, may be called from any
	// goroutine, and is never nil.
	Wake func()
	// Emit reports what the model does, such as a tool call, for event streams and
	// records. It never blocks and is never nil.
	Emit func(Happening)
}

// Memory is what is kept of a conversation's caller. Keys that begin with "user:" are
// kept between calls of the same caller, "app:" for all callers, others for the
// conversation. Safe for concurrent use; it never waits for a store.
type Memory interface {
	Get(key string) (value any, ok bool)
	// Set keeps a JSON value; nil deletes the key.
	Set(key string, value any)
	// Keys are those that begin with prefix, sorted.
	Keys(prefix string) []string
}

// Line is the call a model may act on. Its methods may be called from any goroutine,
// wait for the peer, and return errors that may be told to the model.
type Line interface {
	// Transfer hands the caller to somebody else; nil: it went through and the call ends.
	Transfer(ctx context.Context, to string, attended bool) error
	SendDigits(ctx context.Context, digits string) error
	Hold(ctx context.Context) error
	Resume(ctx context.Context) error
	// HangUp ends the call when the words of the reply under way have been heard, and
	// not at all when the caller speaks meanwhile. It returns at once.
	HangUp()
}

// Happening is something a model did on its way to a reply.
type Happening struct {
	// Kind is "tool_call", "tool_result", "thought", "summary", "completion" or "retrieval".
	Kind string
	// ID and Name are those of a tool call.
	ID, Name string
	// Text is the arguments or the result as JSON, or the text of a thought.
	Text string
	// Messages and Before count the messages of a summarised conversation.
	Messages, Before int
	// Err says that it failed.
	Err error
}

// Model thinks up the replies of one conversation. One Reply or Greet runs at a
// time; Close may be called at any time.
type Model interface {
	// Greet gives the words to open the conversation with. A model that leaves
	// the first word to the caller, or to the configuration, gives none.
	Greet(ctx context.Context, out func(Chunk) error) error
	// Reply gives the reply to one turn of the caller, piece by piece, in order.
	// out may block (back-pressure of the voice), which does not count against the
	// model's own deadlines. It returns when the reply is complete. On failure
	// what was given before stands, and the error says what to log.
	Reply(ctx context.Context, t Turn, out func(Chunk) error) error
	// Close ends the conversation, with why and after how long, and frees what
	// the model holds. It is called exactly once, also when Greet never was.
	Close(ctx context.Context, e End)
}

// Turn is what the caller said, and what goes with it.
type Turn struct {
	// Text is exactly what the caller said: the finals of the turn joined by one
	// space, or the digits that were pressed.
	Text string
	// Digits says that Text was keyed in, not spoken.
	Digits bool
	// Interrupted is what the caller heard of the reply that this turn cut off;
	// empty when none was, or nothing of it was heard.
	Interrupted string
	// WasInterrupted says that this turn cut a reply off, heard or not.
	WasInterrupted bool
	// Confidence is the recogniser's, 0 when it does not tell.
	Confidence float64
	// Nothing says that the caller was silent when a reply was due, or that the
	// recogniser understood no word of what was said (Garbled).
	Nothing bool
	// Garbled says that the caller spoke and no word was understood.
	Garbled bool
	// Woken says that the model asked to be asked, by Conversation.Wake; Text is empty.
	// A model that has nothing to say by then gives nothing, which is no failure.
	Woken bool
	// Tentative says that the caller may not be done: the model may find that the turn
	// is incomplete and give Chunk.Incomplete as its first chunk.
	Tentative bool
}

// Chunk is a piece of a reply. Usually only Text is set.
type Chunk struct {
	// Text is words to speak, of any length; a rune is never split.
	Text string
	// Style, when set, is how Text and the words after it are to be spoken, until
	// another Style or the end of the reply: a word such as "warm" that the voice may
	// know. Styler finds it in what models write.
	Style string
	// Expect, when set, says what the caller may say to this reply.
	Expect *Expect
	// Action, when set, is to be done when the words before it have been heard.
	Action *Action
	// Thinking says that a tool is at work which wants the silence filled. It stands
	// in a chunk without words, and is over with the next chunk or the end of the reply.
	Thinking bool
	// Incomplete, as the first chunk of a reply to a Tentative turn, says that the
	// caller is not done: nothing is spoken, and the turn stays open for so long
	// before the caller is asked to go on. No other chunk comes after it. The model
	// forgets the turn: its text comes again with what the caller adds.
	Incomplete time.Duration
}

// Expect narrows what the caller may say or key in next.
type Expect struct {
	// Grammar is a JSGF grammar for recognisers that want one.
	Grammar string
	// Phrases are words worth listening for.
	Phrases []string
	// MaxDigits ends a keyed-in turn after so many digits; 0: at "#" or a pause.
	MaxDigits int
}

// ActionKind names what an agent may do to its call.
type ActionKind string

// The actions.
const (
	// Hangup ends the call.
	Hangup ActionKind = "hangup"
	// Transfer hands the caller to Action.To. What comes after it in the reply is said
	// only when it fails.
	Transfer ActionKind = "transfer"
	// Digits presses the keys of Action.Digits.
	Digits ActionKind = "dtmf"
	// Hold puts the caller on hold; the words after it wait for Resume.
	Hold ActionKind = "hold"
	// Resume ends a hold.
	Resume ActionKind = "resume"
)

// Action is something to do to the call.
type Action struct {
	Kind ActionKind
	// To is the target of a Transfer; Attended calls it first and hands over when it
	// answers.
	To       string
	Attended bool
	// Digits are the keys: 0-9, *, #, A-D and ',' for a pause of half a second.
	Digits string
}

// Refuser is what a Model may be as well: it is told of its actions that were not
// done. Safe for concurrent use with Reply.
type Refuser interface {
	// Refused says what was not done and why, in words for whoever thinks up the
	// replies.
	Refused(why string)
}

// Hearer is what a Model may be as well: it is told what became of each reply. It is
// called by the conversation's loop and must not block. The next Reply comes after it.
type Hearer interface {
	// Heard takes the end of a reply.
	Heard(Heard)
	// CallerSpeaks says that a turn of the caller has opened.
	CallerSpeaks()
}

// Prefetcher is what a Model may be as well: it is told what the caller has said so
// far while the turn waits for more, so that what may help to answer, such as a
// search, can be under way before the turn is complete. It is called by the
// conversation's loop and must not block.
type Prefetcher interface {
	// Prefetch takes what Turn.Text would be if the turn ended now. A later text, or
	// the Reply, takes its place.
	Prefetch(text string)
}

// Heard is what became of a reply, or of the greeting.
type Heard struct {
	// Text is what was generated, Heard what the caller heard of it: a prefix of Text
	// that ends with a whole word.
	Text, Heard string
	Interrupted bool
	// Played is how much of it was put on the wire.
	Played time.Duration
	// Own says that the words were the gateway's (a greeting, a prompt, a notice), not
	// the model's.
	Own bool
	// Withdrawn says that the caller's turn was not over when the model was asked, or
	// that a noise cut the reply off: the words of the turn come again, at the beginning
	// of the next Turn.
	Withdrawn bool
}

// Versioned is what a Model may be as well: one whose replies can be begun before the
// caller's turn is over. Safe for concurrent use.
type Versioned interface {
	// Version changes when what replies are made of has changed other than by the
	// reply under way: the messages of the conversation, the tools. A reply that was
	// begun early is heard only if it has not.
	Version() uint64
}

// End says how a conversation ended.
type End struct {
	// Cause is "caller hung up", "agent hung up", and so on.
	Cause string
	// Duration is how long the call was up.
	Duration time.Duration
}
