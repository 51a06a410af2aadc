package httpagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"
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
}

const (
	accept     = "text/event-stream, text/plain, application/json"
	retryAfter = 250 * time.Millisecond
	errorBytes = 512
)

// ask sends r and gives the reply to s. A request that did not reach the agent, or
// that it had no time for, is sent once more: it is part of no conversation yet.
func (p *Provider) ask(ctx context.Context, m *Model, r *request, s *sink) error {
	var reused bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused },
	})
	resp, err := p.post(traced, m, r)
	if err == nil && busy(resp.StatusCode) || unreached(err) || reused && dropped(err) {
		if resp != nil {
			drain(resp.Body)
		}
		if err := sleep(ctx, retryAfter); err != nil {
			return p.explain(ctx, err)
		}
		p.retries.Add(1)
		resp, err = p.post(ctx, m, r)
	}
	if err != nil {
		return p.explain(ctx, err)
	}
	defer resp.Body.Close()
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
	settle(ctx, resp.Body)
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
	if id := headerText(m.conversation.CallID); id != "" {
		req.Header.Set("X-Call-Id", id)
	}
	if token := headerText(m.identity); token != "" {
		req.Header.Set("X-Identity-Token", token)
	}
	return p.client.Do(req)
}

// headerText is s as a header may carry it: visible ASCII, bounded.
func headerText(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		s = url.PathEscape(s)
	}
	return s[:min(len(s), 4096)]
}

// busy tells the answers of an agent, or of what stands before it, that did not
// take the request.
func busy(code int) bool {
	return code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable || code == http.StatusBadGateway
}

// unreached tells errors of a request that was never sent.
func unreached(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH)
}

// dropped tells errors of a connection that the agent closed. On one that served
// before, that is what an idle connection looks like whose time was up just as the
// request was written; net/http does not send a POST again by itself.
func dropped(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
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
		return fmt.Errorf("httpagent: %s answered %s, a redirect that does not keep the request (only 307 and 308 do, and none from https to http): set [agent] url to where the agent really is", p.agent, resp.Status)
	case code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusProxyAuthRequired:
		hint = ": check [agent] api_key"
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		hint = ": check the path in [agent] url; the endpoint must take POST"
	case busy(code):
		hint = ": the agent is overloaded or down behind its proxy"
	case code >= 500:
		hint = ": look into the agent's own log"
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 4*errorBytes))
	err := fmt.Errorf("httpagent: %s answered %s%s", p.agent, resp.Status, hint)
	if text := p.clean(string(body)); text != "" {
		err = fmt.Errorf("%w; it said: %s", err, text)
	}
	return err
}

// clean makes at most 512 bytes of a text of the agent fit for an error: without
// control characters, and without the key, should the agent say it back.
func (p *Provider) clean(text string) string {
	text = valid(text)
	if p.cfg.APIKey != "" {
		text = strings.ReplaceAll(text, p.cfg.APIKey, "[api_key]")
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsControl(r) || !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	for len(text) > errorBytes {
		_, size := utf8.DecodeLastRuneInString(text[:errorBytes+1])
		text = text[:max(errorBytes+1-size, 0)]
	}
	return text
}

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
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err // its text holds the whole address
	}
	var word *agentError
	switch {
	case errors.As(err, &word):
		return fmt.Errorf("httpagent: %s: %w", p.agent, &agentError{word.what, p.clean(word.said)})
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("httpagent: cannot reach %s: is the agent running, and is [agent] url right? %w", p.agent, err)
	case dropped(err):
		return fmt.Errorf("httpagent: %s closed the connection before the reply was complete: look into the agent's own log. %w", p.agent, err)
	}
	return fmt.Errorf("httpagent: %s: %w", p.agent, err)
}

// drain reads a little of a body that nobody wants, and closes it, so that the
// connection may serve again.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 4<<10)
	_ = body.Close()
}

// settle waits for the end of a stream whose last word was said, but not long. The
// connection serves again when the end came.
func settle(ctx context.Context, body io.ReadCloser) {
	stop := time.AfterFunc(50*time.Millisecond, func() { _ = body.Close() })
	defer stop.Stop()
	defer context.AfterFunc(ctx, func() { _ = body.Close() })()
	_, _ = io.CopyN(io.Discard, body, 4<<10)
}
