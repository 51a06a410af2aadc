package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"go.uber.org/zap"

	"parley/agent"
	"parley/agent/kit"
	"parley/agent/live"
	"parley/agent/live/gemini"
	liveopenai "parley/agent/live/openai"
	"parley/agent/tool/plugin"
	"parley/agent/tts"
	"parley/config"
	"parley/media/resample"
)

// realtime makes an agent of a model that hears and speaks itself.
func (p *plugs) realtime(prefix string, a *config.Assistant) (agent.Opener, error) {
	cfg, err := a.RealtimeConfig()
	if err != nil {
		return nil, p.cfg.Complain(prefix+"realtime", err)
	}
	if cfg.Provider, err = p.liveProvider(prefix, a); err != nil {
		return nil, err
	}
	// The gateway's own words need a voice; an agent without one says less.
	if voice, err := p.speaker(prefix, a); err == nil {
		cfg.Voice = ownWords(p.ready(voice, cfg.Apology, cfg.Filler))
	} else {
		p.notes = append(p.notes, "the apology and the filler of [realtime] have no voice: "+err.Error())
	}
	box := p.toolbox(a)
	cfg.Tools, cfg.Policy, cfg.Gate = box.registry, box.policy, box.gate
	current := &changingAgent{}
	p.tools.watchSkills(func(all []plugin.Skill) {
		own := cfg
		own.Session.Instructions = withSkills(cfg.Session.Instructions, box.skills(all))
		var opener agent.Opener
		if opener, err = kit.New(own); err == nil {
			current.to.Store(&opener)
		}
	})
	if err != nil {
		return nil, p.cfg.Complain(prefix+"realtime", err)
	}
	return current, nil
}

// withSkills adds skills to instructions. A realtime model is told all of them, and when
// each is meant.
func withSkills(instructions string, skills []plugin.Skill) string {
	parts := []string{instructions}
	for _, s := range skills {
		if len(s.Triggers) > 0 {
			parts = append(parts, "When the caller speaks of "+strings.Join(s.Triggers, ", ")+":\n"+s.Text)
			continue
		}
		parts = append(parts, s.Text)
	}
	return strings.Join(parts, "\n\n")
}

// changingAgent is an agent that may be replaced; calls end with the one that they began
// with.
type changingAgent struct{ to atomic.Pointer[agent.Opener] }

// Format implements agent.Opener; it is the same of all.
func (c *changingAgent) Format() agent.Format { return (*c.to.Load()).Format() }

// Open implements agent.Opener.
func (c *changingAgent) Open(ctx context.Context, call agent.Call) (agent.Session, error) {
	return (*c.to.Load()).Open(ctx, call)
}

// liveProvider makes the connections to a realtime model.
func (p *plugs) liveProvider(prefix string, a *config.Assistant) (func() live.LiveProvider, error) {
	switch a.LLM.Provider {
	case "openai-realtime":
		cfg := a.RealtimeOpenAIConfig()
		return connections(p, prefix+"realtime.openai", func() (*liveopenai.Provider, error) { return liveopenai.New(cfg) })
	case "gemini-live":
		cfg := a.RealtimeGeminiConfig()
		return connections(p, prefix+"realtime.gemini", func() (*gemini.Provider, error) { return gemini.New(cfg) })
	}
	return nil, p.cfg.Complain(prefix+"llm", fmt.Errorf("provider: no realtime model %q", a.LLM.Provider))
}

// connections tries whether one can be made, and makes one for each call then.
func connections[P live.LiveProvider](p *plugs, section string, make func() (P, error)) (func() live.LiveProvider, error) {
	if _, err := make(); err != nil {
		return nil, p.cfg.Complain(section, err)
	}
	return func() live.LiveProvider {
		provider, err := make()
		if err != nil { // it was tried above
			p.log.Error("a realtime model cannot be made", zap.Error(err))
		}
		return provider
	}, nil
}

// ownWords is a voice at the rate that a call of a realtime model wants.
func ownWords(voice tts.Voice) kit.Voice {
	return func(ctx context.Context, text string, rate int, say func(pcm []int16) error) error {
		r, err := resample.New(voice.Rate(), rate, resample.Voice)
		if err != nil {
			return err
		}
		var out []int16
		err = voice.Speak(ctx, text, func(c tts.Chunk) error {
			out = r.Process(out[:0], c.PCM)
			return say(out)
		})
		if err != nil {
			return err
		}
		return say(r.Flush(out[:0]))
	}
}
