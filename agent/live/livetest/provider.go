package livetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"parley/agent/live"
)

// Bare is a provider connected to a Script: live.LiveProvider and nothing else.
type Bare struct {
	script *Script

	mu     sync.Mutex
	conn   *ScriptConn
	closed bool
	closes int
}

// Name implements live.LiveProvider.
func (p *Bare) Name() string { return "script" }

// Connect implements live.LiveProvider.
func (p *Bare) Connect(ctx context.Context, cfg live.LiveConfig) error {
	p.mu.Lock()
	old := p.conn
	p.mu.Unlock()
	if old != nil && !old.over() {
		return errors.New("livetest: connected already: the old connection is to be closed first")
	}
	c, err := p.script.connect(ctx, cfg)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn, p.closed = c, false
	return nil
}

// at is the connection, or why there is none.
func (p *Bare) at() (*ScriptConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, live.ErrClosed
	case p.conn == nil:
		return nil, live.ErrClosed
	}
	return p.conn, nil
}

func (p *Bare) send(ctx context.Context, s Sent) error {
	c, err := p.at()
	if err != nil {
		return err
	}
	return c.take(ctx, s)
}

// SendAudio implements live.LiveProvider.
func (p *Bare) SendAudio(ctx context.Context, pcm []byte) error {
	c, err := p.at()
	if err != nil {
		return err
	}
	s := Sent{Kind: SentAudio}
	if w := c.cfg.Wire; w == live.PCMU || w == live.PCMA {
		s.Payload = append([]byte(nil), pcm...)
	} else {
		s.PCM, s.Rate = samples(pcm), live.InputRate
	}
	return c.take(ctx, s)
}

// EndAudioStream implements live.LiveProvider.
func (p *Bare) EndAudioStream(ctx context.Context) error {
	return p.send(ctx, Sent{Kind: SentAudioEnd})
}

// SendText implements live.LiveProvider.
func (p *Bare) SendText(ctx context.Context, text string) error {
	return p.send(ctx, Sent{Kind: SentText, Text: text})
}

// SendToolResponse implements live.LiveProvider.
func (p *Bare) SendToolResponse(ctx context.Context, responses ...live.ToolResponse) error {
	for _, r := range responses {
		if err := p.send(ctx, Sent{Kind: SentToolResponse, Response: r}); err != nil {
			return err
		}
	}
	return nil
}

// Receive implements live.LiveProvider.
func (p *Bare) Receive(ctx context.Context) (live.Message, error) {
	p.mu.Lock()
	c, closed := p.conn, p.closed
	p.mu.Unlock()
	switch {
	case c == nil:
		return live.Message{}, live.ErrClosed
	case closed:
		return live.Message{}, io.EOF
	}
	return c.receive(ctx)
}

// Close implements live.LiveProvider.
func (p *Bare) Close(ctx context.Context) error {
	p.mu.Lock()
	c, was := p.conn, p.closed
	p.closed = true
	p.closes++
	p.mu.Unlock()
	if c == nil || was {
		return nil
	}
	if d := p.script.CloseDelay; d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return fmt.Errorf("livetest: closing takes long: %w", context.Cause(ctx))
		}
	}
	close(c.closed)
	return nil
}

// Closes is how often Close was called.
func (p *Bare) Closes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closes
}

// ScriptProvider is a provider connected to a Script that can do all that one may.
type ScriptProvider struct{ Bare }

// Truncate implements live.Truncator.
func (p *ScriptProvider) Truncate(ctx context.Context, itemID string, played time.Duration) error {
	c, err := p.at()
	if err != nil {
		return err
	}
	c.mu.Lock()
	length, known := c.items[itemID]
	c.cut[itemID] = known || c.cut[itemID]
	c.mu.Unlock()
	if !known || itemID == "" {
		return nil
	}
	return c.take(ctx, Sent{Kind: SentTruncate, ItemID: itemID, Played: min(played, length).Truncate(time.Millisecond)})
}

// ActivityStart implements live.TurnTaker.
func (p *ScriptProvider) ActivityStart(ctx context.Context) error {
	return p.send(ctx, Sent{Kind: SentActivityStart})
}

// ActivityEnd implements live.TurnTaker.
func (p *ScriptProvider) ActivityEnd(ctx context.Context) error {
	return p.send(ctx, Sent{Kind: SentActivityEnd})
}

// Instruct implements live.Instructor.
func (p *ScriptProvider) Instruct(ctx context.Context, instructions string) error {
	return p.send(ctx, Sent{Kind: SentInstruct, Text: instructions})
}

// Supports implements live.Supporter: every encoding.
func (p *ScriptProvider) Supports(live.Encoding) bool { return true }

var (
	_ live.LiveProvider = (*Bare)(nil)
	_ live.LiveProvider = (*ScriptProvider)(nil)
	_ live.Truncator    = (*ScriptProvider)(nil)
	_ live.TurnTaker    = (*ScriptProvider)(nil)
	_ live.Instructor   = (*ScriptProvider)(nil)
	_ live.Supporter    = (*ScriptProvider)(nil)
)
