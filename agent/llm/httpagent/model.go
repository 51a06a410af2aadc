package httpagent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/agent/internal/wire"
	"parley/agent/llm"
)

// Model is one conversation with the agent. Its methods may be called from any
// goroutine; a Reply that begins while another runs ends that one first.
type Model struct {
	provider     *Provider
	conversation llm.Conversation
	identity     string

	life context.Context // until Close
	end  context.CancelCauseFunc

	started chan struct{} // closed when the "start" request is over; nil: not sent
	abandon context.CancelFunc

	work    sync.WaitGroup // searches and digests
	mu      sync.Mutex
	session string
	system  []string
	summary string
	minutes minutes
	search  *search  // the last one; nil: none
	refused []string // actions, for the next request
	running *turn
}

var (
	_ llm.Model      = (*Model)(nil)
	_ llm.Refuser    = (*Model)(nil)
	_ llm.Hearer     = (*Model)(nil)
	_ llm.Prefetcher = (*Model)(nil)
)

// turn is a running Reply.
type turn struct {
	cancel context.CancelCauseFunc
	done   chan struct{}
}

var (
	errClosed     = errors.New("httpagent: the call is over")
	errSuperseded = errors.New("httpagent: a newer turn came")
)

const (
	garbledNote = "The caller spoke, but not a word of it was understood. Ask them to say it again."
	silentNote  = "The caller said nothing."
	noticeTime  = 5 * time.Second
)

// Greet gives nothing: the agent answers turns.
func (m *Model) Greet(context.Context, func(llm.Chunk) error) error { return nil }

// Reply sends the turn to the agent and gives its words as they come.
func (m *Model) Reply(ctx context.Context, t llm.Turn, out func(llm.Chunk) error) error {
	if t.Woken && t.Text == "" {
		return nil // it never asks to be asked
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(m.life, func() { cancel(context.Cause(m.life)) })()
	this := &turn{cancel: cancel, done: make(chan struct{})}
	defer close(this.done)
	if err := m.supersede(ctx, this); err != nil {
		return err
	}
	found, err := m.found(ctx, t.Text)
	if err != nil {
		return err
	}
	r := m.request("chat")
	r.Text, r.Interrupted, r.Context = t.Text, t.Interrupted, found
	refused := m.instruct(r, t)
	said := m.note(t)
	b := newBudget(cancel, "the time for a whole turn (timeout_ms)", m.provider.cfg.Timeout, m.provider.cfg.FirstTokenTimeout)
	defer b.halt()
	err = m.provider.ask(ctx, m, r, &sink{
		budget: b,
		out: func(c llm.Chunk) error {
			said(c.Text)
			return out(c)
		},
		styler: m.styler(),
		refuse: m.Refused,
		act:    m.provider.cfg.Actions,
		skip:   func() { m.provider.skipped.Add(1) },
	})
	if !r.reached { // it has not heard of them
		m.mu.Lock()
		m.refused = append(refused, m.refused...)
		m.mu.Unlock()
	}
	return err
}

func (m *Model) styler() *llm.Styler {
	if len(m.provider.cfg.Styles) == 0 {
		return nil
	}
	return llm.NewStyler(m.provider.cfg.Styles)
}

// supersede makes this the running turn, once the one before has ended.
func (m *Model) supersede(ctx context.Context, this *turn) error {
	m.mu.Lock()
	last := m.running
	m.running = this
	m.mu.Unlock()
	if last != nil {
		last.cancel(errSuperseded)
		<-last.done
	}
	return context.Cause(ctx)
}

// OneShot asks the agent for a text that has nothing to do with the conversation,
// such as a summary of it. It has a time bound of its own; only the end of the
// call and ctx cancel it.
func (m *Model) OneShot(ctx context.Context, system, user string) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(m.life, func() { cancel(context.Cause(m.life)) })()
	r := m.request("oneshot")
	r.Text, r.System = user, system
	b := newBudget(cancel, "the time for a request beside the conversation", m.provider.cfg.OneShotTimeout, 0)
	defer b.halt()
	var text strings.Builder
	err := m.provider.ask(ctx, m, r, &sink{
		budget: b,
		out:    func(c llm.Chunk) error { text.WriteString(c.Text); return nil },
		refuse: func(string) {},
		skip:   func() {},
	})
	if err != nil {
		return "", err
	}
	return text.String(), nil
}

// AppendSystemPrompt adds instructions to those that go with each turn, also after
// a Reset. What is there already is not added again.
func (m *Model) AppendSystemPrompt(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if text = strings.TrimSpace(text); text != "" && !slices.Contains(m.system, text) {
		m.system = append(m.system, text)
	}
}

// SetSummary sets the digest of earlier turns that goes with each turn.
func (m *Model) SetSummary(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.summary = text
}

// Reset begins the conversation anew: the agent is given another session_id. Who
// is calling stays the same.
func (m *Model) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session, m.summary, m.refused = newSessionID(), "", nil
	m.minutes = minutes{era: m.minutes.era + 1}
}

// Refused says that an action the agent asked for was not done, and why. The agent
// is told with the next turn.
func (m *Model) Refused(why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.refused) < maxRefused && !slices.Contains(m.refused, why) {
		m.refused = append(m.refused, why)
	}
}

// maxRefused bounds what waits to be told: the actions of one reply may be many.
const maxRefused = 16

// Close cancels what is running and, when the agent wants to know, tells it that
// the call is over.
func (m *Model) Close(ctx context.Context, e llm.End) {
	m.end(errClosed)
	m.mu.Lock()
	last := m.running
	m.mu.Unlock()
	if last != nil {
		select {
		case <-last.done:
		case <-ctx.Done(): // out blocks, and whoever is behind it waits for us
		}
	}
	m.rest(ctx)
	if m.started == nil {
		return
	}
	select {
	case <-m.started:
	case <-ctx.Done():
		m.abandon()
		<-m.started
	}
	m.abandon()
	r := m.request("end")
	seconds := e.Duration.Seconds()
	r.Cause, r.Duration = e.Cause, &seconds
	m.notify(ctx, r)
}

// notifyStart tells the agent that a call began. That it failed is no reason to
// fail the call: the first turn will tell.
func (m *Model) notifyStart(ctx context.Context) {
	defer close(m.started)
	r := m.request("start")
	r.Caller, r.Called = m.conversation.ResourceID, m.conversation.Called
	r.CallerName, r.Direction = m.conversation.CallerName, m.conversation.Direction
	r.Greeting = m.provider.cfg.Greeting
	r.Agent, r.Headers, r.Known = m.conversation.Agent, m.conversation.Headers, m.conversation.Context
	m.notify(ctx, r)
}

func (m *Model) notify(ctx context.Context, r *request) {
	ctx, cancel := context.WithTimeout(ctx, noticeTime)
	defer cancel()
	resp, err := m.provider.post(ctx, m, r)
	if err != nil {
		return
	}
	wire.Drain(resp.Body)
}

// request is the part of a request that all types have.
func (m *Model) request(kind string) *request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &request{SessionID: m.session, ResourceID: m.conversation.ResourceID, Type: kind}
}

// rest waits for what runs beside the conversation, as long as ctx lets it.
func (m *Model) rest(ctx context.Context) {
	idle := make(chan struct{})
	go func() { m.work.Wait(); close(idle) }()
	select {
	case <-idle:
	case <-ctx.Done(): // a Retrieve that does not heed its context
	}
}

// instruct sets what of a turn's request is no text of the caller: the instructions and
// the digest. It returns the refusals that are told with it.
func (m *Model) instruct(r *request, t llm.Turn) (refused []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	parts := slices.Clone(m.system)
	switch {
	case t.Garbled:
		parts = append(parts, garbledNote)
	case t.Nothing:
		parts = append(parts, silentNote)
	}
	for _, why := range m.refused {
		parts = append(parts, "An action of your last reply was not done: "+why)
	}
	refused, m.refused = m.refused, nil
	r.System, r.Summary = strings.Join(parts, "\n\n"), m.summary
	return refused
}

func newSessionID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
