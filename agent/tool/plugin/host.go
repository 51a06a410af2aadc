package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"parley/agent/tool"
)

// maxRequests is how many requests of one plugin are served at a time.
const maxRequests = 16

// Host is what plugins may ask for. What is nil is refused.
type Host struct {
	// Emit takes what a plugin wants known.
	Emit func(plugin string, e Emission)
	// Tools are those that plugins may call on behalf of a conversation: those of its own
	// agent, or a caller could reach by way of a plugin what the agent was not given. A
	// plugin calls not its own, and none that needs a confirmation. nil is returned for a
	// conversation that has none. It is called from several goroutines at a time.
	Tools func(session string) *tool.ToolRegistry
	// Complete asks a language model.
	Complete func(ctx context.Context, c Completion) (string, error)
	// Search looks for passages.
	Search func(ctx context.Context, s Search) (any, error)
}

// Completion is a plugin's request to a language model.
type Completion struct {
	System  string `json:"system"`
	Prompt  string `json:"prompt"`
	Session string `json:"session_id"`
}

// Search is a plugin's request for passages.
type Search struct {
	Query   string `json:"query"`
	Limit   int    `json:"limit"`
	Session string `json:"session_id"`
}

// requests serves what one process asks for.
type requests struct {
	p    *plugin
	c    *conn
	ctx  context.Context // ends with the process
	slot chan struct{}
	left sync.WaitGroup
}

// Codes of JSON-RPC.
const (
	codeMethod = -32601
	codeParams = -32602
	codeFailed = -32000
)

var errForeign = errors.New("not at work for this session_id")

// serve is called by the goroutine that reads, so it only starts the work.
func (r *requests) serve(f received) {
	select {
	case r.slot <- struct{}{}:
	default:
		r.answer(f, nil, &rpcError{codeFailed, "too many requests at once"})
		return
	}
	r.left.Go(func() {
		defer func() { <-r.slot }()
		result, err := r.do(f)
		r.answer(f, result, err)
	})
}

func (r *requests) answer(f received, result any, err error) {
	if f.ID == nil {
		if err != nil {
			r.p.stray("notification refused", len(f.Params))
		}
		return
	}
	out := frame{ID: f.ID, Result: result}
	if result == nil {
		out.Result = json.RawMessage("null") // an answer must have one
	}
	if err != nil {
		if e, ok := errors.AsType[*rpcError](err); ok {
			out.Error = e
		} else {
			out.Error = &rpcError{codeFailed, tool.CleanText(err.Error(), 300)}
		}
		out.Result = nil
	}
	if err := r.c.send(out); err != nil {
		r.p.stray("cannot be answered", len(f.Params))
	}
}

// do does what the plugin asks. A panic of the host's functions is an error of the
// request.
func (r *requests) do(f received) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, fmt.Errorf("plugin: panic in %s", tool.CleanText(f.Method, 40))
		}
	}()
	ctx, stop := context.WithTimeoutCause(r.ctx, r.p.opts.Timeout, tool.ErrTimeout)
	defer stop()
	host := &r.p.opts.Host
	switch f.Method {
	case "emit":
		var e Emission
		if err := r.read(f, &e, &e.Session); err != nil {
			return nil, err
		}
		if host.Emit == nil {
			break
		}
		host.Emit(r.p.m.Name, e)
		return "ok", nil
	case "tools/call":
		return r.call(ctx, f)
	case "llm/complete":
		var c Completion
		if err := r.read(f, &c, &c.Session); err != nil {
			return nil, err
		}
		if host.Complete == nil {
			break
		}
		return host.Complete(tool.WithSession(ctx, c.Session), c)
	case "rag/search":
		var s Search
		if err := r.read(f, &s, &s.Session); err != nil {
			return nil, err
		}
		if host.Search == nil {
			break
		}
		s.Limit = min(max(s.Limit, 1), 50)
		return host.Search(tool.WithSession(ctx, s.Session), s)
	}
	return nil, &rpcError{codeMethod, "no such method here"}
}

// read reads parameters, and holds the session they name against those the plugin is
// at work for: it may not act in the calls of others.
func (r *requests) read(f received, into any, session *string) error {
	if err := json.Unmarshal(f.Params, into); err != nil {
		return &rpcError{codeParams, "bad params"}
	}
	if !r.p.serves(*session) {
		return errForeign
	}
	return nil
}

// call runs a tool for the plugin.
func (r *requests) call(ctx context.Context, f received) (any, error) {
	var q struct {
		Tool      string         `json:"tool"`
		Name      string         `json:"name"`
		Params    map[string]any `json:"params"`
		Arguments map[string]any `json:"arguments"`
		Session   string         `json:"session_id"`
	}
	if err := r.read(f, &q, &q.Session); err != nil {
		return nil, err
	}
	if q.Tool == "" {
		q.Tool = q.Name
	}
	if q.Params == nil {
		q.Params = q.Arguments
	}
	if r.p.opts.Host.Tools == nil {
		return nil, &rpcError{codeMethod, "no such method here"}
	}
	tools := r.p.opts.Host.Tools(q.Session)
	if tools == nil {
		return nil, errForeign
	}
	if t, ok := tools.Lookup(q.Tool); ok {
		if own, ok := t.(*pluginTool); ok && own.p == r.p {
			return nil, errors.New("a plugin does not call its own tools this way")
		}
	}
	return tools.Call(tool.WithSession(ctx, q.Session), q.Tool, q.Params)
}
