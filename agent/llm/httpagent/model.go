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

	mu      sync.Mutex
	session string
	system  []string
	summary string
	refused []string // actions, for the next request
	running *turn
}

var (
	_ llm.Model   = (*Model)(nil)
	_ llm.Refuser = (*Model)(nil)
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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(m.life, func() { cancel(context.Cause(m.life)) })()
	this := &turn{cancel: cancel, done: make(chan struct{})}
	defer close(this.done)
	if err := m.supersede(ctx, this); err != nil {
		return err
	}
	r := m.request("chat")
	r.Text = t.Text
	r.Interrupted = t.Interrupted
	r.System = m.instructions(t)
	r.Summary = m.rollingSummary()
	b := newBudget(cancel, "the time for a whole turn (timeout_ms)", m.provider.cfg.Timeout, m.provider.cfg.FirstTokenTimeout)
	defer b.halt()
	if retrieve := m.provider.cfg.Retrieve; retrieve != nil && t.Text != "" {
		if found, err := retrieve(ctx, m.conversation, t.Text); err == nil {
			r.Context = found
		}
	}
	return m.provider.ask(ctx, m, r, &sink{
		budget: b,
		out:    out,
		refuse: m.Refused,
		act:    m.provider.cfg.Actions,
		skip:   func() { m.provider.skipped.Add(1) },
	})
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
}

// Refused says that an action the agent asked for was not done, and why. The agent
// is told with the next turn.
func (m *Model) Refused(why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refused = append(m.refused, why)
}

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

func (m *Model) rollingSummary() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.summary
}

// instructions are the system text of a turn.
func (m *Model) instructions(t llm.Turn) string {
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
	m.refused = nil
	return strings.Join(parts, "\n\n")
}

func newSessionID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
