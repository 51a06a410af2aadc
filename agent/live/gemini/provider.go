package gemini

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genai"

	"parley/agent/live"
	"parley/agent/live/socket"
)

// talk is what is known of a connection and of the conversation on it. The Slot that
// keeps it lets one goroutine at a time have it; nothing in here waits.
type talk struct {
	session live.LiveConfig
	sock    *socket.Socket
	clean   func(string) string
	names   *names
	kept    *kept

	out []live.Message // what Receive returns next

	// gated: audio goes out between ActivityStart and ActivityEnd only.
	gated, speaking bool
	lead            *socket.Lead

	// replying: the model's turn is under way; item is its name for us.
	replying bool
	number   int // of the connection
	turns    int
	item     string
	half     []byte // the first byte of a sample to come
	// heard and spoke: parts of a transcript were given on whose end is to come.
	heard, spoke bool
	usage        genai.UsageMetadata

	// open are calls of this connection, before those of connections before it, with
	// whether this one knows the call.
	open    map[string]live.ToolCall
	before  map[string]bool
	late    map[string]bool // tools whose calls the model does not wait for
	garbled int
	// serial numbers the calls that have no id; nameless are theirs.
	serial   int
	nameless map[string]bool
}

// What is remembered and borne at most.
const (
	maxOpen    = 256
	maxGarbled = 32
)

// Connect implements live.LiveProvider. A connection that is still there is closed
// first: the service does not let a conversation go on while the old one is open. It
// goes on with what the service has kept, or begins with cfg.History.
func (p *Provider) Connect(ctx context.Context, s live.LiveConfig) error {
	if err := s.Validate(); err != nil {
		return fmt.Errorf("gemini: %w: %w", live.ErrRejected, err)
	}
	if s.Wire != "" && s.Wire != live.PCM16 {
		return fmt.Errorf("gemini: %w: it takes no %s", live.ErrRejected, s.Wire)
	}
	return p.slot.Connect(ctx, p.cfg.ConnectTimeout, func(ctx context.Context) (*socket.Socket, *talk, error) {
		return p.connect(ctx, s)
	})
}

// again is how long to wait before a conversation is asked for once more: the service
// may not have noticed the end of the old connection yet.
const again = 500 * time.Millisecond

// connect goes on with the conversation, or makes a new one of what was said.
func (p *Provider) connect(ctx context.Context, s live.LiveConfig) (*socket.Socket, *talk, error) {
	handle := p.kept.resumable(len(s.History) > 0)
	if handle == "" {
		return p.open(ctx, s, "")
	}
	sock, t, err := p.open(ctx, s, handle)
	if reason := closedBy(err); reason != nil && reason.Code == 1011 {
		sock.Drop(err)
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("gemini: connecting: %w", context.Cause(ctx))
		}
		sock, t, err = p.open(ctx, s, handle)
	}
	if closedBy(err) == nil || errors.Is(err, live.ErrAuth) {
		return sock, t, err
	}
	sock.Drop(err)
	p.kept.forget()
	return p.open(ctx, s, "")
}

// closedBy is how the service closed the connection, if that is what err is about.
func closedBy(err error) *socket.Closed {
	var closed *socket.Closed
	if errors.As(err, &closed) {
		return closed
	}
	return nil
}

// resumable is the handle of a conversation that the service has kept whole, or "".
// With a history at hand a handle that does not cover the latest is not worth it.
func (k *kept) resumable(history bool) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if history && (k.stale || len(k.open) > 0) {
		return ""
	}
	return k.handle
}

func (k *kept) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.handle = ""
}

// open makes one connection and sets its session up. A connection that it made is
// returned with an error, too.
func (p *Provider) open(ctx context.Context, s live.LiveConfig, handle string) (*socket.Socket, *talk, error) {
	dialing, err := p.cfg.dialing()
	if err != nil {
		return nil, nil, err
	}
	sock, err := socket.Dial(ctx, dialing)
	if err != nil {
		return nil, nil, err
	}
	t := &talk{
		session: s, sock: sock, clean: dialing.Clean, names: newNames(s.Tools), kept: &p.kept, gated: s.LocalTurns,
		lead: socket.NewLead(int(p.cfg.Lead*live.InputRate/time.Second) * 2),
		open: map[string]live.ToolCall{}, before: map[string]bool{}, late: map[string]bool{}, nameless: map[string]bool{},
	}
	p.kept.mu.Lock()
	p.kept.connections++
	t.number = p.kept.connections
	p.kept.mu.Unlock()
	for _, d := range s.Tools {
		t.late[d.Name] = d.Behavior == live.ToolBehaviorNonBlocking
	}
	seed := handle == "" && len(s.History) > 0
	if err := t.post(&genai.LiveClientMessage{Setup: p.cfg.setup(s, t.names, handle, seed)}); err != nil {
		return sock, nil, refusedBy(err) // it may have been closed at once
	}
	if err := t.confirmed(ctx); err != nil {
		return sock, nil, err
	}
	return sock, t, t.recall(seed)
}

// confirmed waits until the service has confirmed the session.
func (t *talk) confirmed(ctx context.Context) error {
	for {
		select {
		case message, ok := <-t.sock.In():
			if !ok {
				return refusedBy(t.sock.Err())
			}
			m, err := parse(message)
			switch {
			case err != nil:
				if t.garbled++; t.garbled >= maxGarbled {
					return errNoSense
				}
			case m.Error != nil:
				err := m.Error.err(t.clean)
				if !errors.Is(err, live.ErrAuth) && !errors.Is(err, live.ErrBusy) {
					err = fmt.Errorf("%w: %w", live.ErrRejected, err)
				}
				return err
			case m.SetupComplete != nil:
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("gemini: connecting: %w", context.Cause(ctx))
		}
	}
}

var errNoSense = fmt.Errorf("gemini: %w: it says nothing that can be read", live.ErrLost)

// refusedBy is err, of a connection that ended before the session was confirmed. The
// service says why in the reason only.
func refusedBy(err error) error {
	closed := closedBy(err)
	if closed == nil {
		return err
	}
	if kind := ofReason(closed.Reason); kind != nil {
		return fmt.Errorf("gemini: %w: %w", kind, closed)
	}
	switch closed.Code {
	case 1002, 1003, 1007, 1008:
		return fmt.Errorf("gemini: %w: %w", live.ErrRejected, closed)
	case 1013:
		return fmt.Errorf("gemini: %w: %w", live.ErrBusy, closed)
	}
	return err
}

// ofReason is the error of agent/live that a text of the service speaks of, if any.
func ofReason(reason string) error {
	reason = strings.ToLower(reason)
	for _, about := range []struct {
		kind  error
		words []string
	}{
		{live.ErrAuth, []string{"api key", "api_key", "permission", "unauthenticated", "credential"}},
		{live.ErrBusy, []string{"quota", "exhausted", "overloaded", "unavailable", "rate limit"}},
	} {
		for _, word := range about.words {
			if strings.Contains(reason, word) {
				return about.kind
			}
		}
	}
	return nil
}

// recall tells a new conversation what was said before. Calls of the connection before
// that are not answered yet will be answered over this one.
func (t *talk) recall(seed bool) error {
	t.kept.mu.Lock()
	defer t.kept.mu.Unlock()
	for id := range t.kept.open {
		t.before[id] = false
	}
	if !seed {
		return nil
	}
	for _, s := range t.session.History {
		switch {
		case s.Response != nil:
			delete(t.before, s.Response.ID)
			delete(t.kept.open, s.Response.ID)
		case s.Call != nil:
			t.before[s.Call.ID] = true
			t.kept.open[s.Call.ID] = *s.Call
		}
	}
	turns := history(t.session.History, t.names)
	if len(turns) == 0 {
		return nil
	}
	return t.post(&genai.LiveClientMessage{ClientContent: &genai.LiveClientContent{Turns: turns, TurnComplete: true}})
}

// post sends a message.
func (t *talk) post(m any) error {
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("gemini: a message that JSON cannot hold: %w", err)
	}
	return t.sock.Post(b)
}

// Receive implements live.LiveProvider.
func (p *Provider) Receive(ctx context.Context) (live.Message, error) {
	return p.slot.Receive(ctx, (*talk).ready, (*talk).takeOne)
}

// ready is what Receive can return without waiting.
func (t *talk) ready() (live.Message, bool, time.Duration) {
	if len(t.out) == 0 {
		return live.Message{}, false, 0
	}
	m := t.out[0]
	t.out = t.out[1:]
	return m, true, 0
}

// takeOne takes a message of the service.
func (t *talk) takeOne(message []byte) error {
	m, err := parse(message)
	switch {
	case err == nil:
		t.garbled = 0
		return t.apply(m)
	case t.garbled < maxGarbled:
		t.garbled++
		t.warn(err)
		return nil
	}
	return errNoSense
}

// Close implements live.LiveProvider.
func (p *Provider) Close(ctx context.Context) error { return p.slot.Close(ctx) }
