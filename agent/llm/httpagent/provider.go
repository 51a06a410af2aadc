package httpagent

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"

	"parley/agent/internal/wire"
	"parley/agent/llm"
)

// Provider opens conversations with one agent. Its pool of connections is shared
// by all of them. It is safe for concurrent use.
type Provider struct {
	cfg     Config
	client  *http.Client
	agent   string // the address as errors may show it
	skipped atomic.Uint64
	retries atomic.Uint64
}

var _ llm.Provider = (*Provider)(nil)

// New returns a Provider, or everything that is wrong with cfg. It does not
// connect.
func New(cfg Config) (*Provider, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("httpagent: %w", err)
	}
	transport := cfg.Transport
	if transport == nil {
		transport = wire.Pool()
	}
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("httpagent: %w", err)
	}
	u.RawQuery, u.Fragment = "", "" // a query may hold a secret
	return &Provider{
		cfg:    cfg,
		client: &http.Client{Transport: transport, CheckRedirect: wire.Redirect(identityHeader)},
		agent:  u.String(),
	}, nil
}

// Stats counts what a Provider met that failed no turn.
type Stats struct {
	// Skipped is the events of streams without words in them.
	Skipped uint64
	// Retries is the requests that were sent again because the agent was not
	// reached, or had no time for the first.
	Retries uint64
}

// Stats returns the counters since New.
func (p *Provider) Stats() Stats {
	return Stats{Skipped: p.skipped.Load(), Retries: p.retries.Load()}
}

// Open makes a conversation. It does not wait for the agent.
func (p *Provider) Open(ctx context.Context, c llm.Conversation) (llm.Model, error) {
	m, err := p.open(ctx, c)
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (p *Provider) open(ctx context.Context, c llm.Conversation) (*Model, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("httpagent: %w", err)
	}
	m := &Model{provider: p, conversation: c, session: c.SessionID}
	if m.session == "" {
		m.session = newSessionID()
	}
	m.life, m.end = context.WithCancelCause(context.WithoutCancel(ctx))
	if p.cfg.Identity != nil {
		token, err := p.cfg.Identity(c)
		if err != nil {
			m.end(err)
			return nil, fmt.Errorf("httpagent: the caller's identity token: %w", err)
		}
		m.identity = token
	}
	m.AppendSystemPrompt(p.cfg.System)
	if p.cfg.Notify {
		// It outlives a short call: an agent shall not hear of the end only.
		var start context.Context
		start, m.abandon = context.WithCancel(context.WithoutCancel(ctx))
		m.started = make(chan struct{})
		go m.notifyStart(start)
	}
	return m, nil
}

// Close drops the idle connections of the pool.
func (p *Provider) Close() { p.client.CloseIdleConnections() }
