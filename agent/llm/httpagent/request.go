package httpagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"syscall"
	"time"

	"parley/agent/internal/wire"
)

// request is the body of a request.
type request struct {
	SessionID   string   `json:"session_id"`
	ResourceID  string   `json:"resource_id,omitempty"`
	Type        string   `json:"type"`
	Text        string   `json:"text"`
	System      string   `json:"system,omitempty"`
	Interrupted string   `json:"interrupted_text,omitempty"`
	Context     []string `json:"context,omitempty"`
	Summary     string   `json:"summary,omitempty"`

	// Of "start" and "end" alone.
	Caller     string   `json:"caller,omitempty"`
	CallerName string   `json:"caller_name,omitempty"`
	Called     string   `json:"called,omitempty"`
	Direction  string   `json:"direction,omitempty"`
	Greeting   string   `json:"greeting,omitempty"`
	Cause      string   `json:"cause,omitempty"`
	Duration   *float64 `json:"duration_seconds,omitempty"`
	// What is known of the call from elsewhere, of "start".
	Agent   string            `json:"agent,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Known   map[string]string `json:"call_context,omitempty"`

	reached bool // the agent has answered it, whatever
}

const (
	accept     = "text/event-stream, text/plain, application/json"
	retryAfter = 250 * time.Millisecond
	// identityHeader carries the token that says who the caller is.
	identityHeader = "X-Identity-Token"
)

// ask sends r and gives the reply to s. A request that did not reach the agent, or
// that it had no time for, is sent once more: it is part of no conversation yet.
func (p *Provider) ask(ctx context.Context, m *Model, r *request, s *sink) error {
	var reused bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused },
	})
	resp, err := p.post(traced, m, r)
	if err == nil && wire.Busy(resp.StatusCode) || wire.Unreached(err) || reused && wire.Dropped(err) {
		if resp != nil {
			wire.Drain(resp.Body)
		}
		if err := wire.Sleep(ctx, retryAfter); err != nil {
			return p.explain(ctx, err)
		}
		p.retries.Add(1)
		resp, err = p.post(ctx, m, r)
	}
	if err != nil {
		return p.explain(ctx, err)
	}
	defer resp.Body.Close()
	r.reached = true
	if err := p.status(resp); err != nil {
		return err
	}
	if err := read(resp, s); err != nil {
		var given *outError
		if errors.As(err, &given) {
			return given.err
		}
		return p.explain(ctx, err)
	}
	wire.Settle(ctx, resp.Body)
	return nil
}

func (p *Provider) post(ctx context.Context, m *Model, r *request) (*http.Response, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false) // text is exactly what was said
	if err := enc.Encode(r); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.cfg.URL, bytes.NewReader(body.Bytes()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", "parley")
	if p.cfg.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+p.cfg.APIKey)
	}
	if id := wire.HeaderText(m.conversation.CallID); id != "" {
		req.Header.Set("X-Call-Id", id)
	}
	if token := wire.HeaderText(m.identity); token != "" {
		req.Header.Set(identityHeader, token)
	}
	return p.client.Do(req)
}

// status is an error unless the agent answered 2xx.
func (p *Provider) status(resp *http.Response) error {
	code := resp.StatusCode
	if code >= 200 && code < 300 {
		return nil
	}
	hint := ""
	switch {
	case code >= 300 && code < 400:
		return fmt.Errorf("httpagent: %s answered %s, a redirect that does not keep the request (only 307 and 308 do, and none from https to http): set [agent] url to where the agent really is", p.agent, wire.Clean(resp.Status))
	case code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusProxyAuthRequired:
		hint = ": check [agent] api_key"
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		hint = ": check the path in [agent] url; the endpoint must take POST"
	case wire.Busy(code):
		hint = ": the agent is overloaded or down behind its proxy"
	case code >= 500:
		hint = ": look into the agent's own log"
	}
	err := fmt.Errorf("httpagent: %s answered %s%s", p.agent, wire.Clean(resp.Status), hint)
	if text := p.clean(wire.Excerpt(resp.Body)); text != "" {
		err = fmt.Errorf("%w; it said: %s", err, text)
	}
	return err
}

// clean makes a text of the agent fit for an error, without the key should the agent
// say it back.
func (p *Provider) clean(text string) string { return wire.Clean(text, p.cfg.APIKey) }

// explain says what went wrong in words that tell the operator what to do. What
// cancelled the turn is still in the chain.
func (p *Provider) explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		var late *timeoutError
		if errors.As(cause, &late) {
			return fmt.Errorf("httpagent: %s was too slow: %w", p.agent, cause)
		}
		return fmt.Errorf("httpagent: cancelled: %w", cause)
	}
	err = wire.Bare(err)
	var word *agentError
	switch {
	case errors.As(err, &word):
		return fmt.Errorf("httpagent: %s: %w", p.agent, &agentError{word.what, p.clean(word.said)})
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("httpagent: cannot reach %s: is the agent running, and is [agent] url right? %w", p.agent, err)
	case wire.Dropped(err):
		return fmt.Errorf("httpagent: %s closed the connection before the reply was complete: look into the agent's own log. %w", p.agent, err)
	}
	return fmt.Errorf("httpagent: %s: %w", p.agent, err)
}
