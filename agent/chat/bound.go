package chat

import (
	"errors"
	"fmt"
)

// ErrForgotten is what a SummaryFailed event wraps when a conversation has become too
// long because no summary came, and its oldest messages were dropped.
var ErrForgotten = errors.New("chat: the conversation is too long")

// SetBound has the conversation never be longer than so many messages and, as
// estimated, tokens; 0: no bound of the kind. What is too much goes at once, down to
// three quarters of the bounds: the oldest exchanges, each from a message of the
// caller's to before the next, whole, so that no tool call is parted from its answer.
// Instructions and the newest summary stay, and so does what a tool is at work for. Of an
// exchange that alone is too long the oldest messages go, but never its newest.
func (c *Context) SetBound(messages, tokens int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mostMessages, c.mostTokens = messages, tokens
	c.trim()
}

// Dropped is how many messages the bound has cost.
func (c *Context) Dropped() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dropped
}

// exceeds says whether a size is more than so many quarters of the bounds.
func (c *Context) exceeds(messages, tokens, quarters int) bool {
	return c.mostMessages > 0 && 4*messages > quarters*c.mostMessages || c.mostTokens > 0 && 4*tokens > quarters*c.mostTokens
}

// trim drops what is beyond the bounds. The lock is held.
func (c *Context) trim() {
	if !c.exceeds(len(c.entries), c.tokens, 4) {
		return
	}
	before := len(c.entries)
	for _, begins := range []func(i int) bool{c.beginsExchange, c.beginsGroup} {
		if c.exceeds(len(c.entries), c.tokens, 3) {
			c.dropOldest(begins)
		}
	}
	if n := before - len(c.entries); n > 0 {
		c.dropped += n
		c.revision++
		c.removed = c.revision
	}
}

// beginsExchange says whether a message is the first of the caller's in a row.
func (c *Context) beginsExchange(i int) bool {
	return c.entries[i].Role == RoleUser && (i == 0 || c.entries[i-1].Role != RoleUser)
}

// beginsGroup says whether a message is one that may stand without those before it.
func (c *Context) beginsGroup(i int) bool { return c.entries[i].Role != RoleTool }

// dropOldest drops the parts of the conversation that begin where begins says, oldest
// first and never the last, until it is short enough. The lock is held.
func (c *Context) dropOldest(begins func(i int) bool) {
	first := 0
	for first < len(c.entries) && (c.entries[first].Role == RoleSystem || isSummary(c.entries[first].Message)) {
		first++
	}
	kept := append([]entry(nil), c.entries[:first]...)
	messages, tokens := len(c.entries), c.tokens
	for from := first; from < len(c.entries); {
		to, atWork, cost := from, false, 0
		for ; to < len(c.entries) && (to == from || !begins(to)); to++ {
			e := &c.entries[to]
			atWork = atWork || e.Role == RoleTool && e.Content == InProgress
			cost += e.tokens
		}
		if atWork || to == len(c.entries) || !c.exceeds(messages, tokens, 3) {
			kept = append(kept, c.entries[from:to]...)
		} else {
			messages, tokens = messages-(to-from), tokens-cost
		}
		from = to
	}
	c.entries, c.tokens = kept, tokens
}

// forgets tells, once, that messages were dropped because no summary came.
func (s *Summarizer) forgets() {
	n := s.conversation.Dropped()
	if n == 0 {
		return
	}
	s.mu.Lock()
	told := s.forgot
	s.forgot = true
	s.mu.Unlock()
	if !told {
		tell(&s.out, s.cfg.Events.SummaryFailed, fmt.Errorf("%w: no summary came in time, and its %d oldest messages were dropped; more will be while that is so", ErrForgotten, n))
		s.out.deliver()
	}
}
