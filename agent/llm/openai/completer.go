package openai

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"parley/agent/internal/wire"
	"parley/agent/llm"
	"parley/agent/llm/internal/answer"
)

// Completer runs one model of one service. Its pool of connections is shared by all
// calls. It is safe for concurrent use.
type Completer struct {
	cfg     Config
	service *wire.Service
	chat    string // addresses
	embed   string
	shape   atomic.Int32 // a shape, the strictest that was needed
}

var (
	_ llm.Completer = (*Completer)(nil)
	_ llm.Embedder  = (*Completer)(nil)
)

// New returns a Completer, or everything that is wrong with cfg. It does not connect.
func New(cfg Config) (*Completer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	at, err := cfg.endpoints()
	if err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	if cfg.DeveloperRole == "" {
		if cfg.DeveloperRole = "system"; at.isOpenAI() {
			cfg.DeveloperRole = "developer"
		}
	}
	if cfg.MaxTokensField == "" {
		if cfg.MaxTokensField = "max_tokens"; at.isOpenAI() {
			cfg.MaxTokensField = "max_completion_tokens"
		}
	}
	first := asTheyAre
	if cfg.DeveloperRole == roleMerge {
		first = merged
	}
	c := &Completer{cfg: cfg, chat: at.chat, embed: at.embeddings}
	c.service = wire.NewService("openai", at.base, cfg.APIKey, cfg.Header, cfg.Transport)
	c.service.Hint = hint
	c.shape.Store(int32(first))
	return c, nil
}

// Close drops the idle connections of the pool.
func (c *Completer) Close() { c.service.Client.CloseIdleConnections() }

// hint says what the operator is to look at.
func hint(code int) string {
	switch {
	case code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusProxyAuthRequired:
		return "check api_key"
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		return "check base_url and model"
	case code == http.StatusBadRequest || code == http.StatusUnprocessableEntity:
		return "it does not take the request; some services need another developer_role or max_tokens_field, or no_usage"
	case code == http.StatusTooManyRequests:
		return "it limits the rate, or the credit is used up"
	case code >= 500:
		return "the service is down or overloaded"
	}
	return ""
}

const (
	accept = "text/event-stream, application/json"
	// afterFinish is how long to wait for the number of tokens and the end of a stream
	// that has said why it is over.
	afterFinish = 200 * time.Millisecond
)

// Complete runs the model over r. See llm.Completer.
func (c *Completer) Complete(ctx context.Context, r llm.Request, out func(llm.Delta) error) (llm.Completion, error) {
	if c.cfg.Model == "" {
		return llm.Completion{}, errors.New("openai: model: is not set")
	}
	names := newNames()
	resp, err := c.post(ctx, r, names)
	if err != nil {
		return llm.Completion{}, answer.Refused(err)
	}
	defer resp.Body.Close()
	a := answer.New(out)
	if err := read(resp, a); err != nil {
		return a.Partial(), answer.Failed(ctx, c.service, err)
	}
	done, err := a.Close()
	if err != nil {
		return done, answer.Failed(ctx, c.service, err)
	}
	if err := context.Cause(ctx); err != nil {
		return a.Partial(), answer.Failed(ctx, c.service, err)
	}
	for i := range done.ToolCalls {
		done.ToolCalls[i].Name = names.ours(done.ToolCalls[i].Name)
	}
	wire.Settle(ctx, resp.Body)
	return done, nil
}

// post sends the request, and once more in a stricter shape when the service does not
// take the roles or the order of the messages. The shape that it takes is kept.
func (c *Completer) post(ctx context.Context, r llm.Request, names *names) (*http.Response, error) {
	now := shape(c.shape.Load())
	resp, err := c.service.Post(ctx, c.chat, c.body(r, names, now), accept)
	first := err
	for as := now + 1; as <= folded && err != nil && refusesRoles(err); as++ {
		if resp, err = c.service.Post(ctx, c.chat, c.body(r, names, as), accept); err == nil {
			c.shape.Store(int32(as))
			return resp, nil
		}
	}
	if err != nil && ctx.Err() == nil && refusesRoles(err) {
		return nil, first // it is about what was asked for
	}
	return resp, err
}

// read takes the answer by what it looks like: some services send one object though
// they were asked for a stream, some give either the wrong media type.
func read(resp *http.Response, a *answer.Answer) error {
	body := bufio.NewReaderSize(resp.Body, 4<<10)
	first, err := firstByte(body)
	switch {
	case errors.Is(err, io.EOF):
		return nil // an answer without a word
	case err != nil:
		return err
	case first == '{':
		return readWhole(body, a)
	case first == '<' || first == '[':
		text, _ := io.ReadAll(io.LimitReader(body, 4*wire.ErrorBytes))
		return &answer.ServiceError{What: fmt.Sprintf("sent no answer but %q; is it another service's page?", wire.Clean(resp.Header.Get("Content-Type"))), Text: string(text)}
	}
	return readEvents(resp, body, a)
}

// firstByte is the first byte that is no white space.
func firstByte(body *bufio.Reader) (byte, error) {
	for {
		b, err := body.Peek(1)
		if err != nil {
			return 0, err
		}
		switch b[0] {
		case ' ', '\t', '\r', '\n', 0xEF, 0xBB, 0xBF: // a byte order mark
		default:
			return b[0], nil
		}
		if _, err := body.Discard(1); err != nil {
			return 0, err
		}
	}
}

// readWhole takes an answer that is one object.
func readWhole(body io.Reader, a *answer.Answer) error {
	data, err := io.ReadAll(io.LimitReader(body, answer.MaxText*4+1))
	if err != nil {
		return err
	}
	if len(data) > answer.MaxText*4 {
		return &answer.ServiceError{What: "sent an answer larger than 4 MiB"}
	}
	return payload(string(data), a)
}

// errDone is the service's "[DONE]".
var errDone = errors.New("done")

// readEvents takes a stream.
func readEvents(resp *http.Response, body io.Reader, a *answer.Answer) error {
	var enough *time.Timer
	defer func() {
		if enough != nil {
			enough.Stop()
		}
	}()
	err := wire.Events(body, answer.MaxFrame, answer.MaxBody, func(e wire.Event) error {
		if err := event(e, a); err != nil {
			return err
		}
		if a.Finished() && enough == nil {
			enough = time.AfterFunc(afterFinish, func() { _ = resp.Body.Close() })
		}
		return nil
	})
	var given *answer.OutError
	var said *answer.ServiceError
	switch {
	case errors.Is(err, errDone):
		return nil
	case errors.As(err, &given), errors.As(err, &said):
		return err
	case a.Finished(): // whatever became of the rest
		return nil
	case err != nil:
		return err
	case !framed(resp):
		return io.ErrUnexpectedEOF
	}
	return nil
}

// framed says whether HTTP itself tells a whole body from one that broke off.
func framed(resp *http.Response) bool {
	return resp.ContentLength >= 0 || len(resp.TransferEncoding) > 0 || resp.ProtoMajor >= 2
}

// event takes one event.
func event(e wire.Event, a *answer.Answer) error {
	data := e.Data()
	if e.Name == "error" {
		return failure(json.RawMessage(data), data)
	}
	if len(e.Lines) > 1 && !json.Valid([]byte(data)) {
		// Services that end each line with one newline, not with a blank line.
		for _, line := range e.Lines {
			if err := payload(line, a); err != nil {
				return err
			}
		}
		return nil
	}
	return payload(data, a)
}

// failure is the error that a service reports: an object with or without the field
// "error", or a text.
func failure(raw json.RawMessage, otherwise string) error {
	var o struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Code    json.RawMessage `json:"code"`
		Type    string          `json:"type"`
		Status  json.RawMessage `json:"status_code"`
	}
	_ = json.Unmarshal(raw, &o) // a text is no object
	text := wire.FailureText(o.Error)
	if text != "" {
		inner := o.Error
		o.Code, o.Type, o.Status = nil, "", nil
		_ = json.Unmarshal(inner, &o)
	} else if text = o.Message; text == "" {
		text = otherwise
	}
	why := strings.ToLower(string(o.Code) + " " + o.Type + " " + string(o.Status))
	busy := false
	for _, word := range []string{"429", "503", "529", "rate_limit", "overloaded", "unavailable", "capacity"} {
		busy = busy || strings.Contains(why, word)
	}
	return &answer.ServiceError{Text: text, Busy: busy}
}
