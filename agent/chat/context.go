package chat

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
)

// What stands in the place of a tool call's answer while there is none, or when there
// is nothing to tell.
const (
	InProgress = "IN_PROGRESS" // the tool is at work
	Cancelled  = "CANCELLED"   // it was given up
	Completed  = "COMPLETED"   // it is done, and has no result
)

// What makes messages no conversation.
var (
	// ErrUnanswered is wrapped when a tool call has no answer right behind it.
	ErrUnanswered = errors.New("chat: a tool call without an answer")
	// ErrOrphan is wrapped when an answer has no tool call before it.
	ErrOrphan = errors.New("chat: an answer without its tool call")
	// ErrCallID is wrapped when a tool call has no id, or one that is taken.
	ErrCallID = errors.New("chat: tool call id empty or taken")
	// ErrStale is returned when the conversation has changed since it was looked at.
	ErrStale = errors.New("chat: the conversation has changed meanwhile")
)

// Context is the conversation that a model is run over: messages and tools. At every
// instant each tool call in it is followed by its answer, or by a placeholder for it,
// and no answer stands without its call, so that what Snapshot returns can be sent to
// any model. It is safe for concurrent use.
type Context struct {
	mu       sync.Mutex
	entries  []entry
	tools    []ToolDefinition
	revision uint64 // grows with every change
	removed  uint64 // the revision in which messages were last removed
	next     uint64 // the next entry's id
	calls    int    // ids given to tool calls
	tokens   int

	mostMessages, mostTokens int // SetBound
	dropped                  int // messages, by the bound
}

// entry is a message with its name and its last change.
type entry struct {
	Message
	id, changed uint64
	tokens      int
}

// Snapshot is a conversation as it was at one instant. It is the receiver's own.
type Snapshot struct {
	Messages []Message
	// IDs are the names of the messages; see Append.
	IDs   []uint64
	Tools []ToolDefinition
	// Revision is that of the instant.
	Revision uint64
}

// NewContext returns a conversation that begins with instructions; "": with nothing.
func NewContext(system string) *Context {
	c := &Context{}
	c.SetSystem(system)
	return c
}

// Valid is nil when every tool call among messages is followed by its answers, in any
// order, and every answer follows its call.
func Valid(messages []Message) error {
	seen := map[string]bool{}
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		if m.Role == RoleTool {
			return fmt.Errorf("%w: %q", ErrOrphan, m.ToolCallID)
		}
		if len(m.ToolCalls) > 0 && m.Role != RoleAssistant {
			return fmt.Errorf("%w: a message of role %q calls a tool", ErrUnanswered, m.Role)
		}
		open := map[string]bool{}
		for _, call := range m.ToolCalls {
			if call.ID == "" || seen[call.ID] {
				return fmt.Errorf("%w: %q", ErrCallID, call.ID)
			}
			seen[call.ID], open[call.ID] = true, true
		}
		for ; len(open) > 0; delete(open, messages[i].ToolCallID) {
			if i++; i == len(messages) || messages[i].Role != RoleTool {
				return fmt.Errorf("%w: %q", ErrUnanswered, slices.Sorted(maps.Keys(open))[0])
			}
			if !open[messages[i].ToolCallID] {
				return fmt.Errorf("%w: %q", ErrOrphan, messages[i].ToolCallID)
			}
		}
	}
	return nil
}

// Append adds messages at the end, in one step. Tool calls among them need their
// answers right behind them: the error wraps ErrUnanswered, ErrOrphan or ErrCallID
// otherwise, and nothing was added. It returns the name of the last message, for
// Revise.
func (c *Context) Append(messages ...Message) (id uint64, err error) {
	if err := Valid(messages); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range messages {
		for _, call := range m.ToolCalls {
			if c.answer(call.ID) >= 0 {
				return 0, fmt.Errorf("%w: %q", ErrCallID, call.ID)
			}
		}
	}
	c.revision++
	for _, m := range messages {
		id = c.add(m)
	}
	c.trim()
	return id, nil
}

// add adds one message. The lock is held.
func (c *Context) add(m Message) uint64 {
	c.next++
	m.ToolCalls = cloneCalls(m.ToolCalls)
	e := entry{Message: m, id: c.next, changed: c.revision, tokens: EstimateTokens(m)}
	c.entries = append(c.entries, e)
	c.tokens += e.tokens
	return e.id
}

// AppendCalls adds a message of the assistant that calls tools, with a placeholder for
// each answer, in one step. Calls whose id is empty or taken get another one: some
// services number the calls of every answer anew. It returns the name of the message
// and the calls as they stand.
func (c *Context) AppendCalls(m Message, calls []ToolCall) (id uint64, as []ToolCall) {
	if len(calls) == 0 {
		return 0, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	as = cloneCalls(calls)
	taken := map[string]bool{}
	for i := range as {
		for as[i].ID == "" || taken[as[i].ID] || c.answer(as[i].ID) >= 0 {
			c.calls++
			as[i].ID = "call_" + strconv.Itoa(c.calls)
		}
		taken[as[i].ID] = true
	}
	c.revision++
	m.Role, m.ToolCalls = RoleAssistant, as
	id = c.add(m)
	for _, call := range as {
		c.add(Message{Role: RoleTool, Content: InProgress, ToolCallID: call.ID, Name: call.Name, At: m.At})
	}
	c.trim()
	return id, cloneCalls(as)
}

// Answer puts a result in the place of a tool call's placeholder; an empty one becomes
// Completed. It is false when the call is not in progress (any more).
func (c *Context) Answer(id, result string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.answer(id)
	if i < 0 || c.entries[i].Content != InProgress {
		return false
	}
	switch result {
	case "", InProgress:
		result = Completed
	}
	c.revise(i, result, false)
	return true
}

// answer is where the answer of a tool call stands; -1: there is no such call. The
// lock is held.
func (c *Context) answer(id string) int {
	for i := len(c.entries) - 1; i >= 0; i-- {
		if e := &c.entries[i]; e.Role == RoleTool && e.ToolCallID == id {
			return i
		}
	}
	return -1
}

// CallsInProgress are the ids of the tool calls that have no answer yet, in order.
func (c *Context) CallsInProgress() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []string
	for i := range c.entries {
		if e := &c.entries[i]; e.Role == RoleTool && e.Content == InProgress {
			ids = append(ids, e.ToolCallID)
		}
	}
	return ids
}

// Revise changes the text of one message. It is false when the message is not there
// any more, such as after a summary.
func (c *Context) Revise(id uint64, content string, interrupted bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.find(id)
	if i < 0 || c.entries[i].Role == RoleTool {
		return false
	}
	if c.entries[i].Content != content || c.entries[i].Interrupted != interrupted {
		c.revise(i, content, interrupted)
	}
	return true
}

func (c *Context) find(id uint64) int {
	return slices.IndexFunc(c.entries, func(e entry) bool { return e.id == id })
}

func (c *Context) revise(i int, content string, interrupted bool) {
	c.revision++
	e := &c.entries[i]
	e.Content, e.Interrupted, e.changed = content, interrupted, c.revision
	c.tokens -= e.tokens
	e.tokens = EstimateTokens(e.Message)
	c.tokens += e.tokens
	c.trim()
}

// isLastOf says whether a message is the last of its role.
func (c *Context) isLastOf(id uint64, role Role) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.entries) - 1; i >= 0; i-- {
		if c.entries[i].Role == role {
			return c.entries[i].id == id
		}
	}
	return false
}

// isLast says whether a message is the last of all.
func (c *Context) isLast(id uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entries) > 0 && c.entries[len(c.entries)-1].id == id
}

// SetSystem changes the instructions that the conversation begins with; "" takes them
// away.
func (c *Context) SetSystem(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	has := len(c.entries) > 0 && c.entries[0].Role == RoleSystem
	switch {
	case has && text == "":
		c.splice(0, 1)
	case has && c.entries[0].Content != text:
		c.revise(0, text, false)
	case !has && text != "":
		c.splice(0, 0, Message{Role: RoleSystem, Content: text})
	}
}

// splice puts messages in the place of those from..to. The lock is held.
func (c *Context) splice(from, to int, messages ...Message) {
	c.revision++
	c.removed = c.revision
	tail := slices.Clone(c.entries[to:])
	c.entries = c.entries[:from]
	for _, m := range messages {
		c.add(m)
	}
	c.entries = append(c.entries, tail...)
	c.tokens = 0
	for i := range c.entries {
		c.tokens += c.entries[i].tokens
	}
	c.trim()
}

// Replace puts messages in the place of all there are, instructions included. It
// returns ErrStale when anything was changed since revision, and an error as Append
// does when they are no conversation; then nothing was changed.
func (c *Context) Replace(revision uint64, messages []Message) error {
	if err := Valid(messages); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.revision != revision {
		return ErrStale
	}
	c.splice(0, len(c.entries), messages...)
	return nil
}

// Fold puts one message in the place of those from..to of a snapshot of revision. What
// was added behind them since does not matter; it returns ErrStale when one of them
// was changed, or any message removed. The error wraps ErrUnanswered or ErrOrphan when
// a tool call would be parted from its answer. before is how many messages there were.
func (c *Context) Fold(revision uint64, from, to int, with Message) (before int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.removed > revision || from < 0 || to > len(c.entries) || from >= to {
		return 0, ErrStale
	}
	kept := make([]Message, 0, len(c.entries))
	for i := range c.entries {
		if i < from || i >= to {
			kept = append(kept, c.entries[i].Message)
		} else if c.entries[i].changed > revision {
			return 0, ErrStale
		}
		if i == from {
			kept = append(kept, with)
		}
	}
	if err := Valid(kept); err != nil {
		return 0, err
	}
	before = len(c.entries)
	c.splice(from, to, with)
	return before, nil
}

// Reset forgets all messages but the instructions. Tools stay.
func (c *Context) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := 0
	if len(c.entries) > 0 && c.entries[0].Role == RoleSystem {
		from = 1
	}
	c.splice(from, len(c.entries))
}

// Snapshot returns the conversation as it is now.
func (c *Context) Snapshot() Snapshot { return c.snapshot(nil) }

// snapshot returns the conversation with other texts for some of its messages.
func (c *Context) snapshot(texts map[uint64]string) Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.entries)
	s := Snapshot{Revision: c.revision, Tools: slices.Clone(c.tools), Messages: make([]Message, n), IDs: make([]uint64, n)}
	for i := range c.entries {
		s.Messages[i], s.IDs[i] = c.entries[i].Message, c.entries[i].id
		s.Messages[i].ToolCalls = cloneCalls(s.Messages[i].ToolCalls)
		if text, ok := texts[s.IDs[i]]; ok {
			s.Messages[i].Content = text
		}
	}
	return s
}

// Revision grows with every change.
func (c *Context) Revision() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.revision
}

// Size is how many messages there are, and an estimate of their tokens.
func (c *Context) Size() (messages, tokens int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entries), c.tokens
}

func cloneCalls(calls []ToolCall) []ToolCall {
	if calls == nil {
		return nil
	}
	out := slices.Clone(calls)
	for i := range out {
		out[i].Arguments = bytes.Clone(out[i].Arguments)
	}
	return out
}
