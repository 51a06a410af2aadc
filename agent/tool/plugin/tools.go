package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"

	"parley/agent/tool"
)

// list makes tools of what the plugin describes.
func (p *plugin) list() []tool.Tool {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]tool.Tool, len(p.tools))
	for i, d := range p.tools {
		out[i] = &pluginTool{p, d}
	}
	return out
}

// names are those of the plugin's tools.
func (p *plugin) names() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]string, len(p.tools))
	for i, d := range p.tools {
		out[i] = d.Name
	}
	return out
}

// pluginTool is one tool of a plugin.
type pluginTool struct {
	p *plugin
	d described
}

// errChanged is what a conversation that has an old tool is told; a model may be.
var errChanged = errors.New("this works differently by now, it cannot be used in this conversation any more")

// current is the plugin to ask: the tool's own, or the one that took its place. A tool
// that takes other arguments there, or needs a confirmation that it did not, is refused:
// the conversation has checked neither.
func (t *pluginTool) current() (*plugin, error) {
	if t.p.successor == nil {
		return t.p, nil
	}
	p := t.p.successor(t.p.m.Name)
	if p == nil || p == t.p {
		return t.p, nil // one that went says so itself
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.tools {
		if d.Name == t.d.Name {
			if d.ConfirmationRequired && !t.d.ConfirmationRequired || !reflect.DeepEqual(d.Parameters, t.d.Parameters) {
				return nil, errChanged
			}
			return p, nil
		}
	}
	return nil, errChanged
}

// Name implements tool.Tool.
func (t *pluginTool) Name() string { return t.d.Name }

// Description implements tool.Tool.
func (t *pluginTool) Description() string { return t.d.Description }

// InputSchema implements tool.Tool.
func (t *pluginTool) InputSchema() tool.Schema { return t.d.Parameters }

// Traits implements tool.Traited.
func (t *pluginTool) Traits() tool.Traits {
	return tool.Traits{
		Confirm: t.d.ConfirmationRequired, Internal: t.d.Internal,
		ThinkingSound: t.d.ThinkingSound, Interruptible: t.d.Cancellable, Timeout: t.p.own.Timeout,
	}
}

// ConfirmationPrompt implements tool.Prompter: the plugin's own question for these
// arguments, if it knows one.
func (t *pluginTool) ConfirmationPrompt(ctx context.Context, args map[string]any) (string, error) {
	if t.d.ConfirmationPrompt != "" {
		return t.d.ConfirmationPrompt, nil
	}
	p, err := t.current()
	if err != nil {
		return "", err
	}
	if _, speaks2, err := p.live(ctx); err != nil || !speaks2 {
		return "", err
	}
	raw, err := p.request(ctx, frame{Method: "confirm", Tool: t.d.Name, Params: args}, false)
	if err != nil {
		// Older ones have no such method; the host has a question of its own then.
		if _, ok := errors.AsType[*rpcError](err); ok {
			return "", nil
		}
		return "", err
	}
	var prompt string
	if err := json.Unmarshal(raw, &prompt); err != nil {
		return "", nil
	}
	return prompt, nil
}

// Invoke implements tool.Tool.
func (t *pluginTool) Invoke(ctx context.Context, args map[string]any) (map[string]any, error) {
	if args == nil {
		args = map[string]any{}
	}
	p, err := t.current()
	if err != nil {
		return nil, err
	}
	raw, err := p.request(ctx, frame{Method: "execute", Tool: t.d.Name, Params: args}, t.d.Cancellable)
	if err != nil {
		return nil, err
	}
	o, err := readOutcome(raw)
	if err != nil {
		return nil, err
	}
	session := tool.SessionFrom(ctx)
	for _, e := range o.emit {
		if e.Session == "" {
			e.Session = session
		}
		if e.Session != session {
			t.p.log.Warn("plugin emitted for another conversation, dropped")
			continue
		}
		if t.p.opts.Host.Emit != nil {
			t.p.opts.Host.Emit(t.p.m.Name, e)
		}
	}
	return o.result, nil
}
