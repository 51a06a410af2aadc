package deepgram

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/agent/live/socket"
	"parley/agent/stt"
)

// errOther ends a connection that another one is to follow, for other phrases.
var errOther = errors.New("stt/deepgram: other phrases")

// connection is one to the service. The stream's goroutine owns it.
type connection struct {
	s        *stream
	sock     *socket.Socket
	clean    func(string) string
	since    time.Time
	lastSent time.Time
	samples  int64 // that were sent
	next     int64 // position of the sample behind them
	garbled  int
}

// converse talks with the service until there is a reason not to.
func (c *connection) converse() error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if err := c.send(); err != nil {
			return err
		}
		results, stalled := c.s.hearing.expire(time.Now())
		c.deliver(results)
		if stalled {
			return ErrStalled
		}
		if c.due() {
			return errOther
		}
		timer.Reset(time.Until(c.wakeAt()))
		select {
		case <-c.s.ctx.Done():
			return c.s.ctx.Err()
		case <-c.s.wake:
		case <-timer.C:
		case b, ok := <-c.sock.In():
			if !ok {
				return c.sock.Err()
			}
			if err := c.take(b); err != nil {
				return err
			}
		}
	}
}

// wakeAt is when there is something to do, if nothing happens.
func (c *connection) wakeAt() time.Time {
	at := c.lastSent.Add(c.s.cfg.KeepAlive)
	if due, ok := c.s.hearing.due(); ok && due.Before(at) {
		at = due
	}
	return at
}

// due says whether it is time for a connection with other phrases.
func (c *connection) due() bool {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed && s.tape.voice < 0 && len(s.asks) == 0 && s.hearing.idle()
}

// send sends what there is to be sent: audio, Finalize in its place, and a sign of life.
func (c *connection) send() error {
	for {
		sent, err := c.sendSome()
		if err != nil {
			return err
		}
		if sent {
			c.lastSent = time.Now()
			continue
		}
		if time.Since(c.lastSent) < c.s.cfg.KeepAlive {
			return nil
		}
		if err := c.sock.Post(append(c.sock.Buffer(), keepAliveMessage...)); err != nil {
			return err
		}
		c.lastSent = time.Now()
	}
}

// sendSome sends one message, if there is one and room for it.
func (c *connection) sendSome() (sent bool, err error) {
	s := c.s
	s.mu.Lock()
	asks, lost := s.asks, s.tape.lost
	s.asks, s.tape.lost = nil, false
	s.mu.Unlock()
	if lost {
		s.report(stt.Result{Err: ErrDropped})
	}
	for _, position := range asks {
		if len(s.hearing.asks) < maxAsks {
			c.deliver(s.hearing.ask(position))
		}
	}
	if c.sock.Queued() > backlog {
		return false, nil
	}
	limit, asking := s.hearing.unsent()
	s.mu.Lock()
	if !asking {
		limit = s.tape.end()
	}
	if s.tape.sent != c.next { // something was dropped
		c.next = s.tape.sent
		s.hearing.splice(c.samples, c.next)
	}
	var b []byte
	if s.tape.sent < limit {
		b = s.tape.next(c.sock.Buffer(), int(s.tape.samples(chunk)), limit)
	}
	s.mu.Unlock()
	switch {
	case len(b) > 0:
		c.samples += int64(len(b) / 2)
		c.next += int64(len(b) / 2)
		s.hearing.sent = c.next
		return true, c.sock.PostBinary(b)
	case asking:
		s.hearing.asked(time.Now())
		return true, c.sock.Post(append(c.sock.Buffer(), finalizeMessage...))
	}
	return false, nil
}

// take takes a message of the service.
func (c *connection) take(b []byte) error {
	m, err := parse(b)
	if err != nil {
		if c.garbled++; c.garbled == 1 {
			c.s.report(stt.Result{Err: err})
		}
		if c.garbled >= maxGarbled {
			return fmt.Errorf("stt/deepgram: it says nothing that can be read: %w", err)
		}
		return nil
	}
	c.garbled = 0
	if m.Type == "Error" {
		return fmt.Errorf("stt/deepgram: the service reports: %s", c.clean(m.failure()))
	}
	c.deliver(c.s.hearing.take(m, time.Now()))
	return nil
}

// deliver gives results to the stream's owner, and lets go of the audio that they are of.
func (c *connection) deliver(results []stt.Result) {
	final := false
	for _, r := range results {
		final = final || r.Final
	}
	s := c.s
	s.mu.Lock()
	s.tape.settle(s.hearing.heard, false)
	if final {
		s.tape.settle(s.hearing.answered, true)
	}
	s.mu.Unlock()
	s.report(results...)
}

// leave ends a connection that is well, as the service wants it: it bills by the time
// that it is open.
func (c *connection) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	// A connection that does not take it is closed all the same.
	_ = c.sock.Send(ctx, append(c.sock.Buffer(), closeStreamMessage...))
	closing, end := context.WithTimeout(context.Background(), time.Second)
	defer end()
	_ = c.sock.Close(closing)
}
