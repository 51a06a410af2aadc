package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"syscall"
	"time"
)

const (
	retryAfter = 250 * time.Millisecond
	// longestRetry is the longest that a request waits for a service that asks for it: a
	// caller listens to the silence.
	longestRetry = 2 * time.Second
)

// Service is one HTTP service that takes JSON. Its errors begin with its Room, name
// its address without the query, and hold no secret. Safe for concurrent use once made.
type Service struct {
	// Room begins the texts of errors.
	Room string
	// Address is the service as errors show it.
	Address string
	// Header goes with each request.
	Header http.Header
	// Secrets are not shown in errors.
	Secrets []string
	// Hint says what the operator is to look at, by status code; it may return "".
	Hint func(code int) string
	// Client sends the requests.
	Client *http.Client
}

// NewService is the service at base, with key as its Bearer token (empty: none) and
// header besides. The values of header are taken for secrets.
func NewService(room string, base *url.URL, key string, header map[string]string, transport http.RoundTripper) *Service {
	if transport == nil {
		transport = Pool()
	}
	shown := *base
	shown.RawQuery, shown.Fragment, shown.User = "", "", nil
	s := &Service{Room: room, Address: shown.String(), Header: make(http.Header), Secrets: []string{key}}
	s.Header.Set("User-Agent", "parley")
	var names []string
	for name, value := range header {
		s.Header.Set(name, value)
		names = append(names, name)
		s.Secrets = append(s.Secrets, value)
	}
	for _, values := range base.Query() {
		for _, value := range values {
			if len(value) >= 12 { // an api-version is none, and is often said back
				s.Secrets = append(s.Secrets, value)
			}
		}
	}
	if key != "" {
		s.Header.Set("Authorization", "Bearer "+key)
	}
	s.Client = &http.Client{Transport: transport, CheckRedirect: Redirect(names...)}
	return s
}

// StatusError is an answer that is no success.
type StatusError struct {
	// Code is the HTTP status.
	Code int
	// RetryAfter is how long the service asks to be left alone; 0: it does not say.
	RetryAfter time.Duration
	// Said is what the service says of it, bounded and without secrets.
	Said string

	text string
}

func (e *StatusError) Error() string { return e.text }

// Post sends body to the address, accepting answers of the media types named, and
// returns an answer of 2xx, whose Body is to be closed. What did not reach the service,
// or what it had no room for, is sent once more.
func (s *Service) Post(ctx context.Context, address string, body any, accept string) (*http.Response, error) {
	var data bytes.Buffer
	enc := json.NewEncoder(&data)
	enc.SetEscapeHTML(false) // words are sent as they are
	if err := enc.Encode(body); err != nil {
		return nil, fmt.Errorf("%s: the request: %w", s.Room, err)
	}
	var reused bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused },
	})
	resp, err := s.post(traced, address, jsonType, data.Bytes(), accept)
	pause := retryAfter
	if err == nil {
		pause = max(pause, RetryAfter(resp.Header, time.Now()))
	}
	if pause <= longestRetry && (err == nil && Busy(resp.StatusCode) || Unreached(err) || reused && Dropped(err)) {
		if resp != nil {
			Drain(resp.Body)
		}
		if err := Sleep(ctx, pause); err != nil {
			return nil, s.Explain(ctx, err)
		}
		resp, err = s.post(ctx, address, jsonType, data.Bytes(), accept)
	}
	if err != nil {
		return nil, s.Explain(ctx, err)
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, s.status(resp)
}

const jsonType = "application/json"

// Send sends body, of the media type named, once, and returns an answer of 2xx, whose
// Body is to be closed. Whoever calls it decides what is worth another try.
func (s *Service) Send(ctx context.Context, address, contentType string, body []byte, accept string) (*http.Response, error) {
	resp, err := s.post(ctx, address, contentType, body, accept)
	if err != nil {
		return nil, s.Explain(ctx, err)
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, s.status(resp)
}

func (s *Service) post(ctx context.Context, address, contentType string, body []byte, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = s.Header.Clone()
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", accept)
	return s.Client.Do(req)
}

// status is the error of an answer.
func (s *Service) status(resp *http.Response) error {
	e := &StatusError{Code: resp.StatusCode, RetryAfter: RetryAfter(resp.Header, time.Now())}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s answered %s", s.Room, s.Address, Clean(resp.Status))
	hint := ""
	if e.Code >= 300 && e.Code < 400 {
		hint = "a redirect that does not keep the request (only 307 and 308 do, and none from https to http)"
	} else if s.Hint != nil {
		hint = s.Hint(e.Code)
	}
	if hint != "" {
		b.WriteString(": " + hint)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, "; it asks to be left alone for %v", e.RetryAfter.Round(time.Millisecond))
	}
	if e.Said = s.Said(Excerpt(resp.Body)); e.Said != "" {
		b.WriteString("; it said: " + e.Said)
	}
	e.text = b.String()
	return e
}

// Said is what a service says of an error, as an error may show it: the message of a
// JSON object, or the text.
func (s *Service) Said(body string) string {
	var o struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  string          `json:"detail"`
	}
	if json.Unmarshal([]byte(body), &o) == nil {
		if text := FailureText(o.Error); text != "" {
			body = text
		} else if o.Message != "" {
			body = o.Message
		} else if o.Detail != "" {
			body = o.Detail
		}
	}
	return Clean(body, s.Secrets...)
}

// FailureText is what the value of a field "error" says: a text, or the message of an
// object. Empty: there is no failure.
func FailureText(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	switch string(raw) {
	case "", "null", "false", `""`, "{}":
		return ""
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var o struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(raw, &o) == nil && o.Message != "" {
		return o.Message
	}
	return string(raw)
}

// Explain says what went wrong in words that tell the operator what to do. What
// cancelled the request is still in the chain.
func (s *Service) Explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%s: cancelled: %w", s.Room, cause)
	}
	err = Bare(err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s: cannot reach %s: is it running, and is base_url right? %w", s.Room, s.Address, err)
	case Dropped(err):
		return fmt.Errorf("%s: %s closed the connection before the answer was complete: %w", s.Room, s.Address, err)
	}
	return fmt.Errorf("%s: %s: %w", s.Room, s.Address, err)
}
