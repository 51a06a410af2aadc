package runtime

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"parley/agent/llm"
	"parley/agent/tool"
)

// ErrClosed is what a reply of a conversation that is over ends with.
var ErrClosed = errors.New("runtime: the conversation is over")

// New makes a provider of the built-in agent over a model.
func New(cfg Config, completer llm.Completer, parts Parts) (llm.Provider, error) {
	errs := []error{cfg.Validate(), parts.validate()}
	if completer == nil {
		errs = append(errs, errors.New("runtime: there is no model"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if parts.Gate == nil {
		parts.Gate = tool.NewGate(tool.GateConfig{Verbatim: cfg.SpeakQuestions})
	}
	return &provider{cfg: cfg, completer: completer, parts: parts}, nil
}

type provider struct {
	cfg       Config
	completer llm.Completer
	parts     Parts
}

// Open begins a conversation. It makes no request.
func (p *provider) Open(ctx context.Context, c llm.Conversation) (llm.Model, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	m, err := newModel(context.WithoutCancel(ctx), p, whole(c), newCallTools)
	if err != nil {
		return nil, fmt.Errorf("runtime: %w", err)
	}
	return m, nil
}

// whole fills in what nobody lent.
func whole(c llm.Conversation) llm.Conversation {
	if c.SessionID == "" {
		c.SessionID = "unnamed-" + rand.Text() // confirmations are bound to it
	}
	if c.Memory == nil {
		c.Memory = &forgetful{values: map[string]any{}}
	}
	if c.Wake == nil {
		c.Wake = func() {}
	}
	if c.Emit == nil {
		c.Emit = func(llm.Happening) {}
	}
	return c
}

// now is the clock.
func (p *provider) now() time.Time {
	if p.parts.Now != nil {
		return p.parts.Now()
	}
	return time.Now()
}

// forgetful is a memory that nobody lent: it lasts as long as the conversation.
type forgetful struct {
	mu     sync.Mutex
	values map[string]any
}

func (f *forgetful) Get(key string) (any, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := f.values[key]
	return v, ok
}

func (f *forgetful) Set(key string, value any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.values[key] = value; value == nil {
		delete(f.values, key)
	}
}

func (f *forgetful) Keys(prefix string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return keysOf(f.values, prefix)
}
