package socket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"parley/agent/live"
)

// Slot is where a provider keeps its connection, and T, what it knows of the
// conversation on it: one at a time, connected, lost, connected anew and closed as
// live.LiveProvider asks for. The zero value but for Name is ready; a Slot must not be
// copied. Its methods may be called from any goroutine.
type Slot[T any] struct {
	// Name is the provider's; errors begin with it.
	Name string

	mu     sync.Mutex
	sock   *Socket // nil before Connect and after Close
	known  *T
	closed bool
	// giveUp ends a Connect that is under way, whose end is told by connecting.
	giveUp     context.CancelFunc
	connecting chan struct{}
}

// Connect has dial make a connection, within the time given, and keeps it. The one
// before is closed first, by a closing handshake: services refuse to go on with a
// session whose old connection is still open. A connection that dial returns with an
// error is dropped. Close ends a Connect that is under way.
func (s *Slot[T]) Connect(ctx context.Context, within time.Duration, dial func(context.Context) (*Socket, *T, error)) error {
	ctx, giveUp := context.WithTimeout(ctx, within)
	defer giveUp()
	s.mu.Lock()
	if s.connecting != nil {
		s.mu.Unlock()
		return errors.New(s.Name + ": Connect is under way already")
	}
	old, connecting := s.sock, make(chan struct{})
	s.sock, s.known, s.closed = nil, nil, false
	s.giveUp, s.connecting = giveUp, connecting
	s.mu.Unlock()

	var sock *Socket
	var known *T
	var err error
	if old != nil {
		err = old.Close(ctx)
	}
	if err == nil {
		sock, known, err = dial(ctx)
	}

	s.mu.Lock()
	switch {
	case err != nil:
	case s.closed: // meanwhile
		err = fmt.Errorf("%s: %w", s.Name, live.ErrClosed)
	default:
		s.sock, s.known = sock, known
	}
	s.giveUp, s.connecting = nil, nil
	s.mu.Unlock()
	if err != nil && sock != nil {
		sock.Drop(err)
	}
	close(connecting)
	return err
}

// With runs do with what is known of the connection; nobody else has it meanwhile, so
// that do must not wait. Without a connection the error is live.ErrClosed.
func (s *Slot[T]) With(ctx context.Context, do func(*T) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		return live.ErrClosed
	}
	return do(s.known)
}

// Receive is live.LiveProvider's. ready gives a message that need not be waited for,
// or how long to wait at most before it is asked again, 0 for as long as it takes.
// apply takes what the service sends; its error ends the connection. Both run like do
// of With.
func (s *Slot[T]) Receive(ctx context.Context, ready func(*T) (live.Message, bool, time.Duration), apply func(*T, []byte) error) (live.Message, error) {
	for {
		s.mu.Lock()
		sock, known := s.sock, s.known
		if sock == nil {
			closed := s.closed
			s.mu.Unlock()
			if closed {
				return live.Message{}, io.EOF
			}
			return live.Message{}, live.ErrClosed
		}
		m, ok, wait := ready(known)
		s.mu.Unlock()
		if ok {
			return m, nil
		}
		if err := s.take(ctx, sock, wait, func(message []byte) error { return apply(known, message) }); err != nil {
			return live.Message{}, err
		}
	}
}

// take waits for one message of the service, or for so long.
func (s *Slot[T]) take(ctx context.Context, sock *Socket, wait time.Duration, apply func([]byte) error) error {
	var timeout <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case message, ok := <-sock.In():
		if !ok {
			return sock.Err()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		err := apply(message)
		if err != nil {
			sock.Fail(err)
		}
		return err
	case <-timeout:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", s.Name, context.Cause(ctx))
	}
}

// Close is live.LiveProvider's.
func (s *Slot[T]) Close(ctx context.Context) error {
	s.mu.Lock()
	sock, connecting := s.sock, s.connecting
	s.sock, s.known, s.closed = nil, nil, true
	if s.giveUp != nil {
		s.giveUp()
	}
	s.mu.Unlock()
	if connecting != nil {
		select {
		case <-connecting:
		case <-ctx.Done():
			return fmt.Errorf("%s: closing: %w", s.Name, context.Cause(ctx))
		}
	}
	if sock == nil {
		return nil
	}
	return sock.Close(ctx)
}
