// Package llmtest helps to test what has to do with models: Fake is a model that
// follows a script, Run is the suite that providers of models pass.
package llmtest

import (
	"context"
	"errors"
	"sync"
	"time"

	"parley/agent/llm"
)

// Fake is a Provider whose models do what they are told. Set its fields before
// the first Open; the methods may be called from any goroutine. The zero value
// gives a model that greets nobody and has nothing to say.
type Fake struct {
	// OpenErr, when set, refuses every conversation.
	OpenErr error
	// Greeting is what Greet does.
	Greeting []Step
	// Replies are what the first, second … turn of each conversation gets.
	Replies [][]Step
	// Answer, when set, gives the steps for turns that Replies has none for.
	Answer func(llm.Turn) []Step

	mu     sync.Mutex
	models []*Model
}

// Step is one thing a Fake does. The fields are done in their order.
type Step struct {
	// Wait passes first, or less when the reply is cancelled.
	Wait time.Duration
	// Hang waits until the reply is cancelled.
	Hang bool
	// Text, Style, Expect, Action, Thinking and Incomplete are given as a Chunk, if any
	// is set.
	Text       string
	Style      string
	Expect     *llm.Expect
	Action     *llm.Action
	Thinking   bool
	Incomplete time.Duration
	// Split gives Text in chunks of so many runes. Style goes with the first of them,
	// Expect and Action go with the last.
	Split int
	// Err ends the reply.
	Err error
}

// Say is a step that gives text.
func Say(text string) Step { return Step{Text: text} }

// Slowly is the steps that give text in chunks of n runes, with wait before each.
func Slowly(text string, n int, wait time.Duration) []Step {
	var steps []Step
	for _, part := range split(text, n) {
		steps = append(steps, Step{Wait: wait, Text: part})
	}
	return steps
}

// Hang is a step that lasts until the reply is cancelled.
func Hang() Step { return Step{Hang: true} }

// Fail is a step that ends the reply with err.
func Fail(err error) Step { return Step{Err: err} }

// Act is a step that asks for an action.
func Act(a llm.Action) Step { return Step{Action: &a} }

// Open makes a model, or fails with OpenErr.
func (f *Fake) Open(ctx context.Context, c llm.Conversation) (llm.Model, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if f.OpenErr != nil {
		return nil, f.OpenErr
	}
	m := &Model{Conversation: c, fake: f, closed: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.models = append(f.models, m)
	return m, nil
}

// Models are the models opened so far, in order.
func (f *Fake) Models() []*Model {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*Model(nil), f.models...)
}

// Model is one conversation of a Fake, and the record of it.
type Model struct {
	// Conversation is what it was opened with.
	Conversation llm.Conversation

	fake   *Fake
	closed chan struct{}

	mu        sync.Mutex
	turns     []llm.Turn
	given     string
	greeted   int
	cancelled int
	running   int
	overlaps  int
	ends      []llm.End
	heard     []llm.Heard
	opened    int
}

var _ llm.Hearer = (*Model)(nil)

// ErrClosed is what a reply of a closed Model ends with.
var ErrClosed = errors.New("llmtest: the model is closed")

// Greet does Fake.Greeting.
func (m *Model) Greet(ctx context.Context, out func(llm.Chunk) error) error {
	m.mu.Lock()
	m.greeted++
	m.mu.Unlock()
	return m.run(ctx, m.fake.Greeting, out)
}

// Reply does the steps for the turn.
func (m *Model) Reply(ctx context.Context, t llm.Turn, out func(llm.Chunk) error) error {
	m.mu.Lock()
	n := len(m.turns)
	m.turns = append(m.turns, t)
	m.mu.Unlock()
	var steps []Step
	switch {
	case n < len(m.fake.Replies):
		steps = m.fake.Replies[n]
	case m.fake.Answer != nil:
		steps = m.fake.Answer(t)
	}
	return m.run(ctx, steps, out)
}

// Close ends what is running.
func (m *Model) Close(_ context.Context, e llm.End) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.ends) == 0 {
		close(m.closed)
	}
	m.ends = append(m.ends, e)
}

func (m *Model) run(ctx context.Context, steps []Step, out func(llm.Chunk) error) error {
	m.mu.Lock()
	m.running++
	if m.running > 1 {
		m.overlaps++
	}
	m.mu.Unlock()
	err := m.steps(ctx, steps, out)
	m.mu.Lock()
	m.running--
	if err != nil && ctx.Err() != nil {
		m.cancelled++
	}
	m.mu.Unlock()
	return err
}

func (m *Model) steps(ctx context.Context, steps []Step, out func(llm.Chunk) error) error {
	for _, s := range steps {
		if err := m.wait(ctx, s); err != nil {
			return err
		}
		if s.Text != "" || s.Expect != nil || s.Action != nil || s.Thinking || s.Incomplete > 0 {
			if err := m.give(s, out); err != nil {
				return err
			}
		}
		if s.Err != nil {
			return s.Err
		}
	}
	return context.Cause(ctx)
}

func (m *Model) wait(ctx context.Context, s Step) error {
	var passed <-chan time.Time
	switch {
	case s.Hang:
	case s.Wait > 0:
		timer := time.NewTimer(s.Wait)
		defer timer.Stop()
		passed = timer.C
	default:
		select {
		case <-m.closed:
			return ErrClosed
		default:
			return context.Cause(ctx)
		}
	}
	select {
	case <-passed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-m.closed:
		return ErrClosed
	}
}

func (m *Model) give(s Step, out func(llm.Chunk) error) error {
	parts := split(s.Text, s.Split)
	for i, part := range parts {
		c := llm.Chunk{Text: part, Thinking: s.Thinking, Incomplete: s.Incomplete}
		if i == 0 {
			c.Style = s.Style
		}
		if i == len(parts)-1 {
			c.Expect, c.Action = s.Expect, s.Action
		}
		if err := out(c); err != nil {
			return err
		}
		m.mu.Lock()
		m.given += part
		m.mu.Unlock()
	}
	return nil
}

// split cuts text into parts of n runes; 0: not at all. There is always one part.
func split(text string, n int) []string {
	runes := []rune(text)
	if n <= 0 || len(runes) <= n {
		return []string{text}
	}
	var parts []string
	for ; len(runes) > n; runes = runes[n:] {
		parts = append(parts, string(runes[:n]))
	}
	return append(parts, string(runes))
}

// Turns are the turns it was given, in order.
func (m *Model) Turns() []llm.Turn {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]llm.Turn(nil), m.turns...)
}

// Given is all the text that out took.
func (m *Model) Given() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.given
}

// Greeted is how often Greet was called.
func (m *Model) Greeted() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.greeted
}

// Cancelled is how many replies ended because their context was done.
func (m *Model) Cancelled() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cancelled
}

// Overlaps is how many replies began while another ran, which no caller may do.
func (m *Model) Overlaps() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.overlaps
}

// Heard notes what became of a reply.
func (m *Model) Heard(h llm.Heard) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heard = append(m.heard, h)
}

// CallerSpeaks notes that a turn of the caller has opened.
func (m *Model) CallerSpeaks() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opened++
}

// HeardAll is what became of the replies, in order.
func (m *Model) HeardAll() []llm.Heard {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]llm.Heard(nil), m.heard...)
}

// CallerSpoke is how many turns of the caller have opened.
func (m *Model) CallerSpoke() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.opened
}

// Ends are the calls to Close; there must be exactly one in the end.
func (m *Model) Ends() []llm.End {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]llm.End(nil), m.ends...)
}
