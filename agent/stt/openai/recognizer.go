package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"parley/agent/internal/wire"
	"parley/agent/stt"
)

// Errors that callers may branch on.
var (
	// ErrClosed is what the methods of a closed stream return.
	ErrClosed = errors.New("stt/openai: stream closed")
	// ErrDropped is in a Result when an utterance lost audio: it was longer than
	// Config.MaxUtterance, or too many waited for a service that fell behind.
	ErrDropped = errors.New("stt/openai: audio was dropped")
)

const (
	// maxAnswer bounds an answer, in bytes, maxEvent an event of a stream.
	maxAnswer = 4 << 20
	maxEvent  = 1 << 20
	// pause is before another try.
	pause = 250 * time.Millisecond
)

// Recognizer transcribes utterances. It is safe for concurrent use; its streams share
// a pool of connections.
type Recognizer struct {
	cfg     Config
	address string
	service *wire.Service
}

var _ stt.Recognizer = (*Recognizer)(nil)

// New makes a recogniser. It does not ask the service for anything.
func New(cfg Config) (*Recognizer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("stt/openai: %w", err)
	}
	address, base, err := cfg.address()
	if err != nil {
		return nil, fmt.Errorf("stt/openai: %w", err)
	}
	r := &Recognizer{cfg: cfg, address: address}
	r.service = wire.NewService("stt/openai", base, cfg.APIKey, cfg.Header, cfg.Transport)
	r.service.Hint = hint
	return r, nil
}

// hint says what the operator is to look at.
func hint(code int) string {
	switch {
	case code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusProxyAuthRequired:
		return "check api_key"
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		return "check base_url and model"
	case code == http.StatusBadRequest || code == http.StatusUnprocessableEntity:
		return "it does not take the request; some models need format \"json\""
	case code == http.StatusTooManyRequests:
		return "it limits the rate, or the credit is used up"
	case code >= http.StatusInternalServerError:
		return "it is in trouble"
	}
	return ""
}

// Close drops the idle connections of the pool.
func (r *Recognizer) Close() { r.service.Client.CloseIdleConnections() }

// Rate implements stt.Recognizer: Config.Rate.
func (r *Recognizer) Rate() int { return r.cfg.Rate }

// Open implements stt.Recognizer. It asks the service for nothing: a stream fails when
// its first utterance does. A grammar is of no use to the service; the phrases are.
func (r *Recognizer) Open(ctx context.Context, o stt.Options, out func(stt.Result)) (stt.Stream, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("stt/openai: %w", context.Cause(ctx))
	}
	if o.Language == "" {
		o.Language = r.cfg.Language
	}
	return newStream(ctx, r, o, out), nil
}

// transcribe has pcm transcribed, once more if that may help, for ctx at most. interim
// is told what the model has found so far; it may be nil.
func (r *Recognizer) transcribe(ctx context.Context, pcm []int16, language string, e stt.Expect, interim func(string)) (transcript, error) {
	body, contentType, err := r.cfg.request(pcm, language, e, r.cfg.Stream && interim != nil)
	if err != nil {
		return transcript{}, err
	}
	t, err := r.ask(ctx, body, contentType, interim)
	wait, again := another(err)
	if err == nil || !again {
		return t, err
	}
	if end, bounded := ctx.Deadline(); bounded && time.Until(end) <= wait {
		return t, err
	}
	if wire.Sleep(ctx, wait) != nil {
		return t, err
	}
	return r.ask(ctx, body, contentType, interim)
}

// another says whether a request that failed is worth another, and after how long.
func another(err error) (time.Duration, bool) {
	var status *wire.StatusError
	if errors.As(err, &status) {
		return max(pause, status.RetryAfter), status.Code >= http.StatusInternalServerError || wire.Busy(status.Code)
	}
	return pause, wire.Unreached(err) || wire.Dropped(err)
}

// hopeless says whether all requests to come will fail like this one.
func hopeless(err error) bool {
	var status *wire.StatusError
	if !errors.As(err, &status) {
		return false
	}
	switch status.Code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusProxyAuthRequired, http.StatusPaymentRequired:
		return true
	}
	return status.Code >= 300 && status.Code < 400
}

// ask sends one request and reads its answer.
func (r *Recognizer) ask(ctx context.Context, body []byte, contentType string, interim func(string)) (transcript, error) {
	resp, err := r.service.Send(ctx, r.address, contentType, body, "application/json, text/event-stream")
	if err != nil {
		return transcript{}, err
	}
	defer resp.Body.Close()
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // none is no stream
	var t transcript
	if kind == "text/event-stream" {
		t, err = r.readStream(ctx, resp.Body, interim)
	} else {
		t, err = r.readWhole(resp.Body)
	}
	if err != nil {
		return transcript{}, r.explain(ctx, err)
	}
	return t, nil
}

func (r *Recognizer) readWhole(body io.Reader) (transcript, error) {
	b, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	switch {
	case err != nil:
		return transcript{}, err
	case len(b) > maxAnswer:
		return transcript{}, fmt.Errorf("the answer is %w, %d bytes", wire.ErrEventSize, maxAnswer)
	}
	t, err := parseAnswer(b, r.cfg.NoSpeech)
	if errors.Is(err, errNoTranscript) {
		return t, fmt.Errorf("%w (is base_url right?); it begins with: %s", err, wire.Clean(string(b[:min(len(b), 80)]), r.service.Secrets...))
	}
	return t, err
}

var errLast = errors.New("the last event")

func (r *Recognizer) readStream(ctx context.Context, body io.ReadCloser, interim func(string)) (transcript, error) {
	g := gatherer{noSpeech: r.cfg.NoSpeech}
	said, events := "", 0
	err := wire.Events(body, maxEvent, maxAnswer, func(e wire.Event) error {
		events++
		last, err := g.add(e.Data())
		if err != nil {
			return err
		}
		if last {
			return errLast
		}
		if t := g.transcript().text; interim != nil && t != "" && t != said {
			said = t
			interim(t)
		}
		return nil
	})
	switch {
	case errors.Is(err, errLast):
		wire.Settle(ctx, body)
	case err != nil:
		return transcript{}, err
	case events == 0:
		return transcript{}, io.ErrUnexpectedEOF
	}
	return g.transcript(), nil
}

// explain makes the error of an answer fit to be shown.
func (r *Recognizer) explain(ctx context.Context, err error) error {
	var f failure
	if errors.As(err, &f) {
		return fmt.Errorf("stt/openai: %s reports: %s", r.service.Address, wire.Clean(f.said, r.service.Secrets...))
	}
	return r.service.Explain(ctx, err)
}
