package runtime

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"parley/agent/chat"
	"parley/agent/llm"
	"parley/agent/tool"
)

// model is the conversation of one call.
type model struct {
	*core
	p      *provider
	c      llm.Conversation
	search *search // nil: there is no Retriever
	prompt *prompt

	turns     sync.Mutex // guards the rest; never held while something is waited for
	withdrawn bool       // the words of the last turn come again
	misheard  int        // turns in a row that were hard to understand
	spoken    int        // turns with words
	forgotten bool       // the caller wants nothing to be kept
}

// newModel makes a conversation whose tools are run by what made makes.
func newModel(ctx context.Context, p *provider, c llm.Conversation, made func(*model) (hands, error)) (*model, error) {
	m := &model{p: p, c: c}
	m.core = newCore(ctx, p.cfg, p.completer, p.parts.Summarizer, p.now, c.Emit)
	var err error
	if m.hands, err = made(m); err != nil {
		m.end(err)
		return nil, err
	}
	m.prompt = newPrompt(p, c)
	m.pair.Context().SetSystem(m.prompt.text())
	if p.parts.Retriever != nil {
		m.search = newSearch(m.life, p.cfg.Retrieval, p.parts.Retriever, func(passages []string, err error) {
			m.report(llm.Happening{Kind: "retrieval", Text: strings.Join(passages, "\n"), Err: err})
		})
	}
	return m, nil
}

// Greet opens the conversation, where Config.Greeting says how.
func (m *model) Greet(ctx context.Context, out func(llm.Chunk) error) error {
	if m.cfg.Greeting == "" {
		return nil
	}
	x := &exchange{out: out, at: m.remark(greetingLead + m.cfg.Greeting)}
	ctx, done, err := m.enter(ctx, x)
	if err != nil {
		return err
	}
	defer done()
	return m.reply(ctx, x)
}

// Reply answers one turn.
func (m *model) Reply(ctx context.Context, t llm.Turn, out func(llm.Chunk) error) error {
	if err := context.Cause(m.life); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if t.Woken && !m.pair.Untold() {
		return nil // it was told in another reply
	}
	m.unheard(t)
	x := m.begin(t)
	x.out = out
	ctx, done, err := m.enter(ctx, x)
	if err != nil {
		return err
	}
	defer done()
	if m.search != nil && t.Text != "" && !t.Digits {
		if passages := m.search.wait(ctx, t.Text); len(passages) > 0 {
			x.notes = append(x.notes, passagesNote(passages))
		}
	}
	err = m.reply(ctx, x)
	if x.incomplete && x.wrote {
		m.turns.Lock()
		m.withdrawn = true
		m.turns.Unlock()
	}
	return err
}

// unheard ends the reply before, if nobody has told what was heard of it.
func (m *model) unheard(t llm.Turn) {
	m.settle()
	u := chat.Uttered{Heard: chat.Plain(m.pair.Assistant().Generated())}
	if t.WasInterrupted {
		u = chat.Uttered{Heard: t.Interrupted, Interrupted: true}
	}
	m.pair.Assistant().Stop(u)
	m.pair.Assistant().Speaking(false)
	m.out.deliver()
}

// begin writes down what the caller said, and makes the notes that go with it.
func (m *model) begin(t llm.Turn) *exchange {
	x := &exchange{woken: t.Woken, unsure: t.Tentative}
	m.turns.Lock()
	defer m.turns.Unlock()
	text := tool.CleanText(t.Text, maxTurn)
	m.listen(t, text)
	if t.WasInterrupted {
		x.notes = append(x.notes, interruptedNote(t.Interrupted))
	}
	switch {
	case t.Woken:
		x.at = m.remark(m.lateResults())
	case text == "":
		x.at = m.remark(silenceNote(t.Garbled, m.misheard))
	default:
		if t.Digits {
			x.notes = append(x.notes, digitsNote)
		} else if m.misheard > 0 {
			x.notes = append(x.notes, chat.MisheardNote(m.misheard))
		}
		m.said(x, text)
	}
	return x
}

// listen is what a turn means besides its answer. The lock is held.
func (m *model) listen(t llm.Turn, text string) {
	low := t.Confidence > 0 && t.Confidence < m.cfg.LowConfidence
	switch {
	case t.Garbled, text != "" && !t.Digits && low:
		m.misheard++
	case text != "":
		m.misheard = 0
	}
	if text == "" {
		return
	}
	if !m.withdrawn {
		m.spoken++
	}
	if !t.Digits {
		answer := text
		if low {
			answer = "" // words that nobody is sure of are no answer, and above all no yes
		}
		m.p.parts.Gate.Caller(m.c.SessionID, answer)
		if m.prompt.trigger(text) {
			m.pair.Context().SetSystem(m.prompt.text())
		}
	}
}

// said writes the caller's words, or in place of those that they repeat. The lock is
// held.
func (m *model) said(x *exchange, text string) {
	u := m.pair.User()
	again := m.withdrawn
	m.withdrawn = false
	if id, before := u.Last(); again && strings.HasPrefix(text, before) && u.Amend(text) {
		x.at, x.wrote = id, true
		return
	}
	u.Retract()
	u.Start("turn")
	u.Add(chat.Transcript{Text: text, Final: true, UserID: m.c.ResourceID})
	if x.draft = x.unsure; !x.draft {
		u.Stop("turn")
		x.at, _ = u.Last()
		x.wrote = true
	}
}

// remark writes a notice into the conversation, and returns its name.
func (m *model) remark(text string) uint64 {
	id, err := m.pair.Context().Append(chat.Message{Role: chat.RoleDeveloper, Content: text, At: m.now()})
	if err != nil {
		m.fault(err)
	}
	return id
}

// lateResults tells which results have come.
func (m *model) lateResults() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := m.late
	m.late = nil
	return wokenNote(names)
}

// Heard implements llm.Hearer.
func (m *model) Heard(h llm.Heard) {
	u := chat.Uttered{Sent: h.Text, Heard: h.Heard, Interrupted: h.Interrupted}
	a := m.pair.Assistant()
	switch {
	case h.Own:
		if h.Heard != "" {
			a.Speak(h.Text)
			a.Stop(u)
			m.changed()
		}
	default:
		x := m.settle()
		a.Speaking(false)
		if len(m.pair.Assistant().Generated()) > 0 {
			a.Stop(u)
		} else if !a.Resume(u) && h.Heard != "" {
			a.Speak(h.Text)
			a.Stop(u)
		}
		// Words that were cut off, and the gateway's own, are no question that was put.
		if !h.Interrupted {
			m.p.parts.Gate.Asked(m.c.SessionID, h.Heard)
		}
		m.turns.Lock()
		m.withdrawn = m.withdrawn || h.Withdrawn && x != nil && x.wrote
		m.turns.Unlock()
	}
	m.out.deliver()
	m.summarizer.Check()
}

// CallerSpeaks implements llm.Hearer: tools that may be interrupted are.
func (m *model) CallerSpeaks() { m.hands.interrupt() }

// Prefetch implements llm.Prefetcher.
func (m *model) Prefetch(text string) {
	if m.search != nil {
		m.search.begin(tool.CleanText(text, maxTurn))
	}
}

// Refused implements llm.Refuser.
func (m *model) Refused(why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refused = append(m.refused, refusedNote(why))
	m.version++
}

// Version implements llm.Versioned.
func (m *model) Version() uint64 {
	m.refreshTools()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.version
}

// Close implements llm.Model.
func (m *model) Close(ctx context.Context, e llm.End) {
	m.end(ErrClosed)
	var errs []error
	if m.search != nil {
		errs = append(errs, m.search.close(ctx))
	}
	errs = append(errs, m.hands.close(ctx), m.core.close(ctx))
	m.p.parts.Gate.End(m.c.SessionID)
	errs = append(errs, m.keep(ctx))
	for _, err := range errs {
		m.fault(err)
	}
}

// fault tells whoever runs the gateway.
func (m *model) fault(err error) {
	if err != nil && m.p.parts.OnError != nil && !errors.Is(err, ErrClosed) {
		m.p.parts.OnError(m.c, err)
	}
}

// started is when the call began, for the prompt.
func started(now time.Time) string { return now.Format("Monday, 2006-01-02 15:04 MST") }

var (
	_ llm.Hearer     = (*model)(nil)
	_ llm.Prefetcher = (*model)(nil)
	_ llm.Refuser    = (*model)(nil)
	_ llm.Versioned  = (*model)(nil)
)

// reset begins another conversation; instructions and tools stay.
func (m *model) reset() {
	m.settle()
	m.turns.Lock()
	defer m.turns.Unlock()
	m.withdrawn, m.misheard = false, 0
	m.pair.Assistant().Stop(chat.Uttered{Interrupted: true})
	m.pair.User().Retract()
	m.pair.User().Stop("reset")
	m.pair.Context().Reset()
	m.mu.Lock()
	m.late, m.refused, m.ran, m.before = nil, nil, false, nil
	m.version++
	m.mu.Unlock()
	m.out.deliver()
}
