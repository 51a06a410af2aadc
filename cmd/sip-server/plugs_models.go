package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"go.uber.org/zap"

	"parley/agent/chat"
	"parley/agent/llm"
	"parley/agent/llm/ollama"
	"parley/agent/llm/openai"
	"parley/agent/llm/runtime"
	"parley/agent/tool/plugin"
	"parley/config"
	"parley/identity"
)

// completer makes the model of an agent that is built in. Empty model: the configured
// one.
func (p *plugs) completer(prefix string, a *config.Assistant, model string) (llm.Completer, error) {
	switch a.LLM.Provider {
	case "openai":
		c, err := openai.New(a.OpenAIConfig(model))
		if err != nil {
			return nil, p.cfg.Complain(prefix+"openai", err)
		}
		p.undo = append(p.undo, c.Close)
		return c, nil
	case "ollama":
		c, err := ollama.New(a.OllamaConfig(model))
		if err != nil {
			return nil, p.cfg.Complain(prefix+"ollama", err)
		}
		p.undo = append(p.undo, c.Close)
		return c, nil
	}
	return nil, p.cfg.Complain(prefix+"llm", fmt.Errorf("provider: no model %q", a.LLM.Provider))
}

// builtIn makes the agent that is built in, over a model.
func (p *plugs) builtIn(prefix string, a *config.Assistant) (llm.Provider, error) {
	completer, err := p.completer(prefix, a, "")
	if err != nil {
		return nil, err
	}
	cfg, err := a.RuntimeConfig()
	if err != nil {
		return nil, p.cfg.Complain(prefix+"runtime", err)
	}
	box := p.toolbox(a)
	parts := runtime.Parts{
		Tools: box.registry, Calls: &box.policy, Gate: box.gate,
		OnError: func(c llm.Conversation, err error) {
			p.log.Warn("agent trouble", zap.String("call_id", c.CallID), zap.String("session_id", c.SessionID), zap.Error(err))
		},
	}
	if a.Runtime.SummaryModel != "" {
		if parts.Summarizer, err = p.completer(prefix, a, a.Runtime.SummaryModel); err != nil {
			return nil, err
		}
	}
	index, err := p.library(prefix, a)
	if err != nil {
		return nil, err
	}
	if index != nil {
		parts.Retriever = index
		box.search = func(ctx context.Context, s plugin.Search) (any, error) {
			return index.Search(ctx, s.Query, min(max(s.Limit, 1), 20))
		}
	}
	box.complete = completion(completer)
	// Skills change when they are read again: calls from then on have the new ones.
	current := &changing{}
	var failed error
	p.tools.watchSkills(func(all []plugin.Skill) {
		own := parts
		own.Skills = skillsOf(box.skills(all))
		provider, err := runtime.New(cfg, completer, own)
		if err != nil {
			failed = err
			p.log.Error("skills are not taken", zap.Error(err))
			return
		}
		current.to.Store(&provider)
	})
	if current.to.Load() == nil {
		return nil, p.cfg.Complain(prefix+"runtime", failed)
	}
	return current, nil
}

// changing is a provider that may be replaced; conversations end with the one that they
// began with.
type changing struct{ to atomic.Pointer[llm.Provider] }

// Open implements llm.Provider.
func (c *changing) Open(ctx context.Context, conversation llm.Conversation) (llm.Model, error) {
	return (*c.to.Load()).Open(ctx, conversation)
}

// skillsOf are skills as the built-in agent takes them.
func skillsOf(all []plugin.Skill) []runtime.Skill {
	var out []runtime.Skill
	for _, s := range all {
		out = append(out, runtime.Skill{Name: s.Name, Description: s.Description, Triggers: s.Triggers, Text: s.Text})
	}
	return out
}

// completion lets plugins ask a model.
func completion(model llm.Completer) func(context.Context, plugin.Completion) (string, error) {
	return func(ctx context.Context, c plugin.Completion) (string, error) {
		if c.Prompt == "" {
			return "", errors.New("prompt is empty")
		}
		var messages []chat.Message
		if c.System != "" {
			messages = append(messages, chat.Message{Role: chat.RoleSystem, Content: c.System})
		}
		messages = append(messages, chat.Message{Role: chat.RoleUser, Content: c.Prompt})
		got, err := model.Complete(ctx, llm.Request{Messages: messages}, func(llm.Delta) error { return nil })
		return got.Text, err
	}
}

// identityTokens makes the tokens by which an agent over HTTP knows who calls, where
// tokens are signed. Callers who are nobody in particular have none.
func (p *plugs) identityTokens() (func(llm.Conversation) (string, error), error) {
	sign := p.cfg.SignerConfig()
	if !sign.Enabled() {
		return nil, nil
	}
	signer, err := identity.NewSigner(sign)
	if err != nil {
		return nil, p.cfg.Complain("identity.sign", err)
	}
	return func(c llm.Conversation) (string, error) {
		if c.ResourceID == "" {
			return "", nil
		}
		return signer.Mint(c.ResourceID, "", map[string]any{"call_id": c.CallID, "session_id": c.SessionID}, 0)
	}, nil
}
