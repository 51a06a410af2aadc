package llm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// FromClients makes a Provider of Clients: open is called for each call, before it
// is answered, and its error refuses the call. Clients keep the conversation, so all
// that a turn's text cannot say reaches only those that are TurnTakers.
func FromClients(open func(ctx context.Context, c Conversation) (Client, error)) Provider {
	return clients{open}
}

type clients struct {
	open func(context.Context, Conversation) (Client, error)
}

func (p clients) Open(ctx context.Context, c Conversation) (Model, error) {
	client, err := p.open(ctx, c)
	if err != nil {
		return nil, err
	}
	if client == nil {
		return nil, errors.New("llm: no client was made")
	}
	m := &clientModel{client: client}
	m.life, m.end = context.WithCancelCause(context.WithoutCancel(ctx))
	return m, nil
}

// clientModel is a Client as a Model.
type clientModel struct {
	client Client

	life context.Context // until Close
	end  context.CancelCauseFunc

	mu       sync.Mutex
	running  chan struct{} // closed when the Chat that began last has returned; nil: none did
	farewell func()        // for the Chat that outlived Close
}

var (
	errCallOver = errors.New("llm: the call is over")
	// errGarbled makes the conversation ask the caller to say it again.
	errGarbled = fmt.Errorf("%w: not a word of the caller was understood", ErrEmpty)
)

// Greet gives nothing: a Client answers turns.
func (m *clientModel) Greet(context.Context, func(Chunk) error) error { return nil }

// Reply has the Client chat.
func (m *clientModel) Reply(ctx context.Context, t Turn, out func(Chunk) error) error {
	taker, takes := m.client.(TurnTaker)
	if t.Text == "" && !takes {
		if t.Garbled {
			return errGarbled
		}
		return nil
	}
	defer m.begin()()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(m.life, func() { cancel(context.Cause(m.life)) })()
	if err := context.Cause(m.life); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if takes {
		taker.TakeTurn(t)
	}
	w := &clientWords{out: out, cancel: cancel}
	text, err := m.client.Chat(ctx, t.Text, w.chunk, w.sentence)
	return w.end(ctx, text, err)
}

// begin waits for the Chat before and returns what ends this one.
func (m *clientModel) begin() (end func()) {
	this := make(chan struct{})
	m.mu.Lock()
	before := m.running
	m.running = this
	m.mu.Unlock()
	if before != nil {
		<-before
	}
	return func() {
		m.mu.Lock()
		close(this)
		farewell := m.farewell
		m.farewell = nil
		m.mu.Unlock()
		if farewell != nil {
			farewell()
		}
	}
}

// Close ends what runs, waits for it as long as ctx lets it, and closes the Client;
// one that does not heed its context is closed when its Chat returns.
func (m *clientModel) Close(ctx context.Context, e End) {
	m.end(errCallOver)
	closer, ok := m.client.(Closer)
	m.mu.Lock()
	running := m.running
	m.mu.Unlock()
	if running != nil {
		select {
		case <-running:
		case <-ctx.Done():
			m.mu.Lock()
			defer m.mu.Unlock()
			select {
			case <-running:
			default:
				if ok {
					m.farewell = func() { closer.Close(context.WithoutCancel(ctx), e) }
				}
				return
			}
		}
	}
	if ok {
		closer.Close(ctx, e)
	}
}

// Heard tells a Client that wants to know.
func (m *clientModel) Heard(h Heard) {
	if c, ok := m.client.(Hearer); ok {
		c.Heard(h)
	}
}

// CallerSpeaks tells a Client that wants to know.
func (m *clientModel) CallerSpeaks() {
	if c, ok := m.client.(Hearer); ok {
		c.CallerSpeaks()
	}
}

// Refused tells a Client that wants to know.
func (m *clientModel) Refused(why string) {
	if c, ok := m.client.(Refuser); ok {
		c.Refused(why)
	}
}

// Prefetch tells a Client that wants to know.
func (m *clientModel) Prefetch(text string) {
	if c, ok := m.client.(Prefetcher); ok {
		c.Prefetch(text)
	}
}

var (
	_ Hearer     = (*clientModel)(nil)
	_ Refuser    = (*clientModel)(nil)
	_ Prefetcher = (*clientModel)(nil)
)

// clientWords are the words of one Chat on their way to out. Clients call back with
// chunks, with sentences, or with both; whichever comes first gives the words, since
// either is all of them. A Client that calls back with neither returns them.
type clientWords struct {
	out    func(Chunk) error
	cancel context.CancelCauseFunc

	mu     sync.Mutex // held while out blocks: who calls back has to wait
	over   bool
	by     byte            // 'c'hunks, 's'entences, 0: not known
	kept   []byte          // of a rune that is not complete
	said   strings.Builder // what out took
	failed error           // of out
}

func (w *clientWords) chunk(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.by == 's' || text == "" {
		return
	}
	w.by = 'c'
	w.kept = append(w.kept, text...)
	whole := WholeRunes(w.kept)
	w.give(string(w.kept[:whole]))
	w.kept = append(w.kept[:0], w.kept[whole:]...)
}

func (w *clientWords) sentence(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if text = strings.TrimSpace(text); w.over || w.by == 'c' || text == "" {
		return
	}
	w.by = 's'
	if w.said.Len() > 0 {
		text = " " + text
	}
	w.give(text)
}

// give gives text to out. The lock is held.
func (w *clientWords) give(text string) {
	if text == "" || w.failed != nil {
		return
	}
	w.said.WriteString(text)
	if w.failed = w.out(Chunk{Text: ValidText(text)}); w.failed != nil {
		w.cancel(w.failed)
	}
}

// end gives what no callback gave, and says how the Chat ended.
func (w *clientWords) end(ctx context.Context, text string, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	switch {
	case w.failed != nil:
		return w.failed
	case ctx.Err() != nil: // also when the Client makes nothing of it
		return context.Cause(ctx)
	case err != nil:
		return err
	}
	if rest, ok := strings.CutPrefix(text, w.said.String()); ok && w.by != 's' {
		w.give(rest)
	} else if len(w.kept) > 0 {
		w.give(string(w.kept))
	}
	return w.failed
}
