package chat

import (
	"sync"
	"time"
)

// Events are told what happens in a conversation: each field that is set is called,
// one at a time, in the order in which things happened, and never under a lock, so a
// handler may use whatever it is told about. A handler runs on the goroutine that made
// something happen, or on one that makes something else happen at the same time; it
// should not take long.
type Events struct {
	// UserTurnStarted: the caller's turn began.
	UserTurnStarted func(UserTurnStarted)
	// UserTurnInferenceTriggered: there is enough to answer.
	UserTurnInferenceTriggered func(UserTurnInferenceTriggered)
	// UserTurnStopped: the caller's turn ended. Once per turn.
	UserTurnStopped func(UserTurnStopped)
	// UserTurnStopTimeout: the turn was closed because nothing decided that it ended;
	// UserTurnStopped follows.
	UserTurnStopTimeout func()
	// UserTurnIdle: the caller has said nothing for the idle time.
	UserTurnIdle func()
	// UserTurnMessageAdded: words of the caller were written to the conversation; more
	// than once per turn where an early inference answers a part of it.
	UserTurnMessageAdded func(UserTurnMessageAdded)
	// UserMuteStarted, UserMuteStopped: what the caller says is dropped, or heard again.
	UserMuteStarted, UserMuteStopped func()
	// AssistantTurnStarted: the agent's turn began.
	AssistantTurnStarted func(AssistantTurnStarted)
	// AssistantTurnStopped: the agent's turn ended. Once per turn.
	AssistantTurnStopped func(AssistantTurnStopped)
	// AssistantThought: a model has finished a thought.
	AssistantThought func(AssistantThought)
	// Completion: a model has finished an answer, or was stopped within it.
	Completion func(Completion)
	// SummaryRequested: a summary is being made.
	SummaryRequested func(SummaryRequested)
	// SummaryApplied: a summary was written into the conversation.
	SummaryApplied func(SummaryApplied)
	// SummaryFailed: no summary could be made, or the conversation had changed under it
	// (ErrStale).
	SummaryFailed func(error)
}

// UserTurnStarted tells which strategy decided that the caller's turn began.
type UserTurnStarted struct {
	Strategy string
	At       time.Time
}

// UserTurnInferenceTriggered tells which strategy decided that there is enough to answer.
type UserTurnInferenceTriggered struct{ Strategy string }

// UserTurnStopped is a caller's turn that has ended.
type UserTurnStopped struct {
	// Strategy decided that the turn was over; empty when nothing did: it timed out, or
	// the conversation ended.
	Strategy string
	// Content is all that was said in the turn, what an early inference answered
	// included; empty for a turn without words.
	Content string
	// At is when the turn began.
	At time.Time
	// UserID is who spoke, where that is known.
	UserID string
}

// UserTurnMessageAdded is a message of the caller that was written to the conversation.
type UserTurnMessageAdded struct {
	// Content is what was written now, not the whole turn.
	Content string
	At      time.Time
	UserID  string
}

// AssistantTurnStarted tells when the agent's turn began.
type AssistantTurnStarted struct{ At time.Time }

// AssistantTurnStopped is an agent's turn that has ended.
type AssistantTurnStopped struct {
	// Content is what the caller heard of it; empty when that was nothing.
	Content     string
	Interrupted bool
	// At is when the turn began.
	At time.Time
}

// AssistantThought is a piece of a model's reasoning, whole.
type AssistantThought struct {
	Content string
	At      time.Time
}

// Completion is a model's answer, gathered.
type Completion struct {
	Text string
	// Completed is false for an answer that was cut short: Text is what there was.
	Completed bool
}

// SummaryRequested tells what is to be summarised.
type SummaryRequested struct {
	// Messages and Tokens are the size of the conversation, Summarized how many of the
	// messages are to become a summary.
	Messages, Tokens, Summarized int
}

// SummaryApplied is a summary that took the place of messages.
type SummaryApplied struct {
	// OriginalMessageCount is how many messages the conversation had, NewMessageCount
	// how many it has.
	OriginalMessageCount, NewMessageCount int
	// SummarizedMessageCount is how many became the summary.
	SummarizedMessageCount int
	// PreservedMessageCount is how many were kept as they are, instructions included.
	PreservedMessageCount int
	// Summary is its text.
	Summary string
}

// outbox calls handlers in order and outside of locks: put under whatever lock guards
// what happened, deliver when it is released.
type outbox struct {
	mu      sync.Mutex
	waiting []func()
	busy    bool
}

// put adds a call.
func (o *outbox) put(call func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting = append(o.waiting, call)
}

// tell adds the call of a handler that may be nil.
func tell[E any](o *outbox, handler func(E), e E) {
	if handler != nil {
		o.put(func() { handler(e) })
	}
}

// note adds the call of a handler without anything to tell.
func (o *outbox) note(handler func()) {
	if handler != nil {
		o.put(handler)
	}
}

// deliver makes the calls that wait, unless somebody does already: then that one makes
// these as well, so that the order holds and a handler may itself make things happen.
func (o *outbox) deliver() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy {
		return
	}
	o.busy = true
	defer func() { o.busy = false }() // also when a handler panics
	for len(o.waiting) > 0 {
		call := o.waiting[0]
		o.waiting = o.waiting[1:]
		func() {
			o.mu.Unlock()
			defer o.mu.Lock()
			call()
		}()
	}
}
