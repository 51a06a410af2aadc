package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	ctx, giveUp := context.WithTimeout(ctx, p.cfg.ConnectTimeout)
	defer giveUp()
	p.mu.Lock()
	if p.connecting != nil {
		p.mu.Unlock()
		return errors.New("openai: Connect is under way already")
	}
	old := p.talk
	p.talk, p.closed = nil, false
	p.giveUp, p.connecting = giveUp, make(chan struct{})
	p.mu.Unlock()

	t, err := p.connect(ctx, old, s)

	p.mu.Lock()
	switch {
	case err != nil:
	case p.closed: // meanwhile
		err = fmt.Errorf("openai: %w", live.ErrClosed)
	default:
		p.talk = t
	}
	connecting := p.connecting
	p.giveUp, p.connecting = nil, nil
	p.mu.Unlock()
	if err != nil && t != nil {
		drop(t.sock, err)
	}
	close(connecting)
	return err
}

// connect makes the connection and sets its session up. A connection that it made is
// returned with an error, too.
func (p *Provider) connect(ctx context.Context, old *talk, s live.LiveConfig) (*talk, error) {
	if old != nil {
		if err := old.sock.Close(ctx); err != nil {
			return nil, err
		}
	}
	names := newNames(s.Tools)
	up, err := newUplink(p.cfg, s)
	if err != nil {
		return nil, err
	}
	dialing, err := p.cfg.dialing(or(s.Model, p.cfg.Model))
	if err != nil {
		return nil, err
	}
	sock, err := socket.Dial(ctx, dialing)
	if err != nil {
		return nil, err
	}
	t := &talk{
		cfg: p.cfg, session: s, sock: sock, clean: dialing.Clean, names: names, up: up,
		guard: guard{wire: s.Wire}, open: map[string]*reply{}, parts: map[string]*part{},
	}
	if err := p.setUp(ctx, t); err != nil {
		return t, err
	}
	return t, nil
}

// drop ends a connection that is of no use, without ceremony.
func drop(sock *socket.Socket, why error) {
	sock.Fail(why)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = sock.Close(ctx) // it has failed
}

// setUp sends the session's settings, waits until the service has confirmed them, and
// tells it what was said before.
func (p *Provider) setUp(ctx context.Context, t *talk) error {
	if err := t.post(p.cfg.sessionUpdate(t.session, t.names)); err != nil {
		return err
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
	for {
		p.mu.Lock()
		t := p.talk
		if t == nil {
			defer p.mu.Unlock()
			if p.closed {
				return live.Message{}, io.EOF
			}
			return live.Message{}, live.ErrClosed
		}
		if m, ok := t.ready(time.Now()); ok {
			p.note(m)
			p.mu.Unlock()
			return m, nil
		}
		until := time.Until(t.ends.Add(-p.cfg.RenewBefore))
		if t.warned {
			until = time.Hour
		}
		p.mu.Unlock()
		if err := p.wait(ctx, t, until); err != nil {
			return live.Message{}, err
		}
	}
}

// wait takes one message of the service, or returns after d.
func (p *Provider) wait(ctx context.Context, t *talk, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case message, ok := <-t.sock.In():
		if !ok {
			return t.sock.Err()
		}
		e, err := parse(message)
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case err == nil:
			t.garbled = 0
			err = t.apply(e)
		case t.garbled < maxGarbled:
			t.garbled++
			t.warn(err)
			return nil
		default:
			err = fmt.Errorf("openai: %w: it says nothing that can be read", live.ErrLost)
		}
		if err != nil {
			t.sock.Fail(err)
		}
		return err
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("openai: %w", context.Cause(ctx))
	}
}

// ready is what Receive can return without waiting.
func (t *talk) ready(now time.Time) (live.Message, bool) {
	if len(t.out) > 0 {
		m := t.out[0]
		t.out = t.out[1:]
		return m, true
	}
	// By the clock: a service that has little to say need not announce its end.
	if left := t.ends.Sub(now); !t.warned && left <= t.cfg.RenewBefore {
		t.warned = true
		return live.Message{GoAway: &live.GoAway{TimeLeft: max(0, left)}}, true
	}
	return live.Message{}, false
}

// maxOpen is how many calls are remembered for a connection to come.
const maxOpen = 256

// note remembers the calls that m tells of. The lock is held.
func (p *Provider) note(m live.Message) {
	for _, c := range m.ToolCalls {
		if len(p.open) < maxOpen {
			p.open[c.ID] = c
		}
	}
}

// Close implements live.LiveProvider.
func (p *Provider) Close(ctx context.Context) error {
	p.mu.Lock()
	t := p.talk
	p.talk, p.closed = nil, true
	connecting := p.connecting
	if p.giveUp != nil {
		p.giveUp()
	}
	p.mu.Unlock()
	if connecting != nil {
		select {
		case <-connecting:
		case <-ctx.Done():
			return fmt.Errorf("openai: closing: %w", context.Cause(ctx))
		}
	}
	if t == nil {
		return nil
	}
	return t.sock.Close(ctx)
}
