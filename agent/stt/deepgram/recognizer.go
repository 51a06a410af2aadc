package deepgram

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"parley/agent/live"
	"parley/agent/live/socket"
	"parley/agent/stt"
)

// Errors that callers may branch on.
var (
	// ErrClosed is what the methods of a closed stream return.
	ErrClosed = errors.New("stt/deepgram: stream closed")
	// ErrDropped is in a Result when the caller's audio was dropped: there was no
	// connection, or it was too slow, for longer than Config.Replay.
	ErrDropped = errors.New("stt/deepgram: audio was dropped")
	// ErrStalled is in a Result when the service did not say anything after Finalize.
	ErrStalled = errors.New("stt/deepgram: the service stands still")
)

// Recognizer opens streams. It is safe for concurrent use and holds nothing that would
// need closing.
type Recognizer struct{ cfg Config }

var _ stt.Recognizer = (*Recognizer)(nil)

// New makes a recogniser. It does not ask the service for anything.
func New(cfg Config) (*Recognizer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("stt/deepgram: %w", err)
	}
	return &Recognizer{cfg: cfg}, nil
}

// Rate implements stt.Recognizer: Config.Rate.
func (r *Recognizer) Rate() int { return r.cfg.Rate }

// Open implements stt.Recognizer. It returns once there is a connection. A grammar is
// of no use to the service; the phrases are. The error wraps live.ErrAuth, ErrBusy,
// ErrRejected or ErrLost, or that of ctx.
func (r *Recognizer) Open(ctx context.Context, o stt.Options, out func(stt.Result)) (stt.Stream, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("stt/deepgram: %w", context.Cause(ctx))
	}
	if o.Language == "" {
		o.Language = r.cfg.Language
	}
	s := newStream(ctx, r.cfg, o, out)
	conn, err := s.dial()
	if err != nil {
		s.cancel()
		return nil, err
	}
	go s.run(conn)
	return s, nil
}

// dialing is how a stream connects.
func (c Config) dialing(language string, phrases []string) (socket.Config, error) {
	u, err := c.base()
	if err != nil {
		return socket.Config{}, fmt.Errorf("stt/deepgram: %w", err)
	}
	d := socket.Config{
		Name: "stt/deepgram", Header: http.Header{}, Secrets: []string{c.APIKey}, Transport: c.Transport,
		WriteTimeout: 5 * time.Second, PingEvery: 10 * time.Second, PongWithin: 20 * time.Second,
		CloseWithin: 500 * time.Millisecond, MaxMessage: 1 << 20,
	}
	q := u.Query()
	for _, values := range q {
		for _, value := range values {
			if len(value) >= 12 { // a short one is none, and is often said back
				d.Secrets = append(d.Secrets, value)
			}
		}
	}
	for name, values := range c.query(language, phrases) {
		q[name] = values
	}
	u.RawQuery = q.Encode()
	d.URL = u.String()
	d.Header.Set("User-Agent", "parley")
	for name, value := range c.Header {
		d.Header.Set(name, value)
		d.Secrets = append(d.Secrets, value)
	}
	if c.APIKey != "" {
		d.Header.Set("Authorization", "Token "+c.APIKey)
	}
	return d, nil
}

// hopeless says whether another attempt would fail like this one.
func hopeless(err error) bool {
	return errors.Is(err, live.ErrAuth) || errors.Is(err, live.ErrRejected)
}
