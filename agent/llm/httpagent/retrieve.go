package httpagent

import (
	"context"
	"errors"
	"strings"
	"time"

	"parley/agent/llm"
)

// search is a retrieval for one text.
type search struct {
	text   string
	cancel context.CancelFunc
	done   chan struct{} // closed when found is set
	found  []string
}

// Prefetch begins the retrieval for what the caller has said so far, so that it is
// under way when the turn is complete. A search for another text is given up.
func (m *Model) Prefetch(text string) { m.look(text) }

// look is the search for text, which it begins unless it is under way; nil when there is
// nothing to search for or with.
func (m *Model) look(text string) *search {
	retrieve := m.provider.cfg.Retrieve
	if retrieve == nil || strings.TrimSpace(text) == "" {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life.Err() != nil {
		return nil
	}
	if m.search != nil {
		if m.search.text == text {
			return m.search
		}
		m.search.cancel()
	}
	ctx, cancel := context.WithTimeout(m.life, m.provider.cfg.RetrieveTimeout)
	s := &search{text: text, cancel: cancel, done: make(chan struct{})}
	m.search = s
	m.work.Go(func() {
		defer cancel()
		defer close(s.done)
		found, err := retrieve(ctx, m.conversation, text)
		if ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			return // nobody wants it any more
		}
		if err == nil {
			s.found = found
		}
		if err != nil || len(found) > 0 {
			m.emit(llm.Happening{Kind: "retrieval", Text: strings.Join(s.found, "\n"), Err: err})
		}
	})
	return s
}

// found is what was found for a turn. That a search fails, or takes too long, is no
// failure of the turn; the error is that of ctx.
func (m *Model) found(ctx context.Context, text string) ([]string, error) {
	s := m.look(text)
	if s == nil {
		return nil, nil
	}
	late := time.NewTimer(m.provider.cfg.RetrieveTimeout + grace)
	defer late.Stop()
	select {
	case <-s.done:
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.search == s {
			m.search = nil // the same words later are another question
		}
		return s.found, nil
	case <-late.C: // it does not heed its context
		return nil, nil
	case <-ctx.Done():
		s.cancel()
		return nil, context.Cause(ctx)
	}
}

// grace is what a Retrieve may need to notice that its time is over.
const grace = 20 * time.Millisecond

// emit reports what happens beside the replies.
func (m *Model) emit(h llm.Happening) {
	if m.conversation.Emit != nil {
		m.conversation.Emit(h)
	}
}
