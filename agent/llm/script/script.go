// Package script is a model that follows a file: states with something to say and
// words, keys or numbers to expect. It needs no key, no network and no machine
// learning, and what it will say can be read in advance. The built-in receptionist
// shows all that a file may hold.
package script

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"time"

	"parley/agent/llm"
)

// Config says which script to follow.
type Config struct {
	// File is the script. Empty: the receptionist that is built in.
	File string
	// Now tells the time, for what is said about it. Nil: time.Now.
	Now func() time.Time
}

// Receptionist is the script that is built in.
//
//go:embed receptionist.toml
var receptionist []byte

// Receptionist returns the script that is built in.
func Receptionist() []byte { return append([]byte(nil), receptionist...) }

// Provider follows one script in all conversations. What it knows of callers is what
// llm.Conversation.Memory has of them. It is safe for concurrent use.
type Provider struct {
	script *script
	now    func() time.Time
}

var _ llm.Provider = (*Provider)(nil)

// New reads and checks the script. The error is of type Mistakes when the script
// can be read and is wrong; it lists everything that is.
func New(cfg Config) (*Provider, error) {
	name, text := "receptionist.toml (built in)", receptionist
	if cfg.File != "" {
		var err error
		if text, err = os.ReadFile(cfg.File); err != nil {
			return nil, fmt.Errorf("script: cannot read the script: %w", err)
		}
		name = cfg.File
	}
	s, err := parse(name, text)
	if err != nil {
		return nil, fmt.Errorf("script: %w", err)
	}
	p := &Provider{script: s, now: cfg.Now}
	if p.now == nil {
		p.now = time.Now
	}
	return p, nil
}

// Open makes a conversation.
func (p *Provider) Open(ctx context.Context, c llm.Conversation) (llm.Model, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("script: %w", err)
	}
	m := &Model{provider: p, facts: map[string]string{"name": spokenName(c.CallerName)}}
	m.at = place{state: p.script.start, back: p.script.start}
	m.recall(c.Memory)
	return m, nil
}
