package cartesia

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"parley/agent/live/socket"
)

// errClosed is the error of a voice after Close.
var errClosed = errors.New(room + ": the voice is closed")

// pool keeps connections that wait for a text. Each has a goroutine that reads it meanwhile:
// what is left of a cancelled text is thrown away, and one that the service closes is gone
// from the pool at that moment.
type pool struct {
	cfg Config

	mu      sync.Mutex
	idle    []*conn // the last one waits the shortest
	open    map[*conn]struct{}
	closed  bool
	closing context.Context
	stop    context.CancelFunc
	sitters sync.WaitGroup
}

// conn is one connection.
type conn struct {
	*socket.Socket
	wake chan struct{} // takes it from its sitter
	gone chan struct{} // closed by the sitter of a connection that has ended
}

func newPool(cfg Config) *pool {
	p := &pool{cfg: cfg, open: map[*conn]struct{}{}}
	p.closing, p.stop = context.WithCancel(context.Background())
	return p
}

// take is a connection for one text, that of the last one if it can be had. fresh asks for a
// new one.
func (p *pool) take(ctx context.Context, fresh bool) (*conn, error) {
	for !fresh {
		p.mu.Lock()
		n := len(p.idle)
		if n == 0 || p.closed {
			p.mu.Unlock()
			break
		}
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		select {
		case c.wake <- struct{}{}:
			return c, nil
		case <-c.gone:
		}
	}
	return p.dial(ctx)
}

func (p *pool) dial(ctx context.Context) (*conn, error) {
	if p.closing.Err() != nil {
		return nil, errClosed
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.ConnectTimeout)
	defer cancel()
	defer context.AfterFunc(p.closing, cancel)()
	sock, err := socket.Dial(ctx, p.cfg.dialing())
	if err != nil {
		if p.closing.Err() != nil {
			return nil, errClosed
		}
		return nil, err
	}
	c := &conn{Socket: sock, wake: make(chan struct{})}
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.open[c] = struct{}{}
	}
	p.mu.Unlock()
	if closed {
		sock.Drop(errClosed)
		return nil, errClosed
	}
	return c, nil
}

// put gives a connection back. One that failed, or is too much, is closed.
func (p *pool) put(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return // Close ends it
	}
	keep := c.Err() == nil && len(p.idle) < p.cfg.MaxIdle
	if keep {
		c.gone = make(chan struct{})
		p.idle = append(p.idle, c)
	}
	p.sitters.Go(func() {
		if keep && p.sit(c) {
			return
		}
		p.end(c)
	})
}

// sit reads a connection that waits, until it is taken (true) or is to be closed.
func (p *pool) sit(c *conn) bool {
	limit := time.NewTimer(p.cfg.IdleTimeout)
	defer limit.Stop()
	for {
		select {
		case _, open := <-c.In():
			if open {
				continue
			}
		case <-limit.C:
		case <-p.closing.Done():
		case <-c.wake:
			return true
		}
		break
	}
	close(c.gone) // whoever is taking it just now takes another
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.idle, c); i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
	}
	return false
}

// end closes a connection, by a closing handshake if it can still be had.
func (p *pool) end(c *conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := c.Close(ctx); err != nil { // it takes too long, and is killed
		c.Drop(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

// close ends all connections, those that speak too, and waits for their goroutines.
func (p *pool) close() {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	p.stop()
	waiting := slices.Clone(p.idle)
	var speaking []*conn
	for c := range p.open {
		if !slices.Contains(waiting, c) {
			speaking = append(speaking, c)
		}
	}
	p.mu.Unlock()
	if first {
		for _, c := range speaking {
			c.Fail(errClosed)
			p.sitters.Go(func() { p.end(c) })
		}
	}
	p.sitters.Wait()
}

// lost says that a connection ended while it spoke.
func lost(c *conn) error {
	if err := c.Err(); err != nil {
		return err
	}
	return fmt.Errorf("%s: the connection ended", room)
}
