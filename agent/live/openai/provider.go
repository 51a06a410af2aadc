package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"parley/agent/live"
	"parley/agent/live/socket"
)

// Connect implements live.LiveProvider. A connection that is still there is closed
// first, and the service has seen that before another one is asked for.
func (p *Provider) Connect(ctx context.Context, s live.LiveConfig) error {
	if err := s.Validate(); err != nil {
		return fmt.Errorf("openai: %w: %w", live.ErrRejected, err)
	}
	return p.slot.Connect(ctx, p.cfg.ConnectTimeout, func(ctx context.Context) (*socket.Socket, *talk, error) { return p.connect(ctx, s) })
}

// connect makes a connection and sets its session up. A connection that it made is
// returned with an error, too.
func (p *Provider) connect(ctx context.Context, s live.LiveConfig) (*socket.Socket, *talk, error) {
	names := newNames(s.Tools)
	up, err := newUplink(p.cfg, s)
	if err != nil {
		return nil, nil, err
	}
	dialing, err := p.cfg.dialing(or(s.Model, p.cfg.Model))
	if err != nil {
		return nil, nil, err
	}
	sock, err := socket.Dial(ctx, dialing)
	if err != nil {
		return nil, nil, err
	}
	t := &talk{
		cfg: p.cfg, session: s, sock: sock, clean: dialing.Clean, names: names, up: up,
		guard: guard{wire: s.Wire}, open: map[string]*reply{}, parts: map[string]*part{},
	}
	return sock, t, p.setUp(ctx, t)
}

// setUp sends the session's settings, waits until the service has confirmed them, and
// tells it what was said before.
func (p *Provider) setUp(ctx context.Context, t *talk) error {
	if err := t.post(p.cfg.sessionUpdate(t.session, t.names)); err != nil {
		return refusedBy(err) // it may have been closed at once
	}
	var expires int64
	for {
		e, err := t.take(ctx)
		if err != nil {
			return err
		}
		switch e.Type {
		case "error":
			return e.Error.err(orRejected(e.Error.kind()), t.clean)
		case "session.created", "session.updated":
			var s confirmed
			if err := json.Unmarshal(e.Session, &s); err != nil {
				return fmt.Errorf("openai: %w: its session cannot be read", live.ErrRejected)
			}
			expires = max(expires, s.ExpiresAt)
			if e.Type == "session.created" {
				continue // with the settings of before
			}
			if err := s.check(t.session); err != nil {
				return err
			}
			t.ends = p.cfg.end(time.Now(), expires)
			if t.session.Temperature != nil && !p.cfg.Beta {
				t.warn(errors.New("openai: the service takes no temperature; what was set is not used"))
			}
			return p.replay(t)
		}
	}
}

func orRejected(kind error) error {
	if kind == nil || errors.Is(kind, live.ErrLost) {
		return live.ErrRejected
	}
	return kind
}

// take is the next event during the set-up.
func (t *talk) take(ctx context.Context) (event, error) {
	for {
		select {
		case message, ok := <-t.sock.In():
			if !ok {
				return event{}, refusedBy(t.sock.Err())
			}
			e, err := parse(message)
			if err == nil {
				return e, nil
			}
			if t.garbled++; t.garbled >= maxGarbled {
				return event{}, fmt.Errorf("openai: %w: it says nothing that can be read", live.ErrLost)
			}
		case <-ctx.Done():
			return event{}, fmt.Errorf("openai: connecting: %w", context.Cause(ctx))
		}
	}
}

// refusedBy is err, of a connection that ended before the session was confirmed. A
// service that closes it for a reason of its own refuses.
func refusedBy(err error) error {
	var closed *socket.Closed
	if !errors.As(err, &closed) {
		return err
	}
	if strings.Contains(closed.Reason, "api_key") {
		return fmt.Errorf("openai: %w: %w", live.ErrAuth, closed)
	}
	// 3000 is what the service closes with when it has sent an error (RFC 6455, 7.4.2).
	if closed.Code == 1008 || closed.Code == 3000 {
		return fmt.Errorf("openai: %w: %w", live.ErrRejected, closed)
	}
	if closed.Code == 1013 {
		return fmt.Errorf("openai: %w: %w", live.ErrBusy, closed)
	}
	return err
}

// replay tells a new connection what was said before. Calls of the connection before
// that are not answered yet will be answered over this one.
func (p *Provider) replay(t *talk) error {
	for _, o := range history(t.session.History, p.cfg.Beta, t.names) {
		if err := t.post(o); err != nil {
			return err
		}
	}
	p.mu.Lock()
	open := maps.Clone(p.open)
	p.mu.Unlock()
	told := map[string]bool{}
	for _, s := range t.session.History {
		switch {
		case s.Response != nil:
			delete(open, s.Response.ID)
		case s.Call != nil:
			told[s.Call.ID] = true
			open[s.Call.ID] = *s.Call
		}
	}
	before := &reply{done: true, calls: len(open)}
	p.mu.Lock()
	p.open = maps.Clone(open)
	p.mu.Unlock()
	for id, call := range open {
		t.open[id] = before
		if told[id] {
			continue
		}
		if err := t.post(create(t.event("call"), callItem(call, t.names))); err != nil {
			return err
		}
	}
	return nil
}

// Receive implements live.LiveProvider.
func (p *Provider) Receive(ctx context.Context) (live.Message, error) {
	m, err := p.slot.Receive(ctx, (*talk).ready, (*talk).takeOne)
	p.note(m)
	return m, err
}

// takeOne takes a message of the service.
func (t *talk) takeOne(message []byte) error {
	e, err := parse(message)
	switch {
	case err == nil:
		t.garbled = 0
		return t.apply(e)
	case t.garbled < maxGarbled:
		t.garbled++
		t.warn(err)
		return nil
	}
	return fmt.Errorf("openai: %w: it says nothing that can be read", live.ErrLost)
}

// ready is what Receive can return without waiting, or how long to wait.
func (t *talk) ready() (live.Message, bool, time.Duration) {
	if len(t.out) > 0 {
		m := t.out[0]
		t.out = t.out[1:]
		return m, true, 0
	}
	if t.warned {
		return live.Message{}, false, 0
	}
	// By the clock: a service that has little to say need not announce its end.
	left := time.Until(t.ends)
	if left > t.cfg.RenewBefore {
		return live.Message{}, false, left - t.cfg.RenewBefore
	}
	t.warned = true
	return live.Message{GoAway: &live.GoAway{TimeLeft: max(0, left)}}, true, 0
}

// maxOpen is how many calls are remembered for a connection to come.
const maxOpen = 256

// note remembers the calls that m tells of.
func (p *Provider) note(m live.Message) {
	if len(m.ToolCalls) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range m.ToolCalls {
		if len(p.open) < maxOpen {
			p.open[c.ID] = c
		}
	}
}

// Close implements live.LiveProvider.
func (p *Provider) Close(ctx context.Context) error { return p.slot.Close(ctx) }
