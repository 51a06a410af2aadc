package stream

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// The times of a connection.
const (
	// writeTimeout bounds one write; then the connection is broken.
	writeTimeout = 10 * time.Second
	// pingEvery is how often an agent has to show that it lives, and how long it has.
	pingEvery = 20 * time.Second
	// closeTimeout bounds the farewell.
	closeTimeout = 800 * time.Millisecond
)

// silentError is an agent that answers no ping.
type silentError struct{}

func (*silentError) Error() string { return "the agent answers no ping" }

// link is one connection to an agent. Reading belongs to its reader, writing to one
// goroutine at a time.
type link struct {
	conn  *websocket.Conn
	wire  net.Conn // below it
	since time.Time
	life  context.Context // ends with the link
	end   context.CancelFunc

	killed atomic.Bool
	busy   atomic.Bool // the reader does not read: no pong can come

	mu   sync.Mutex
	why  error         // that it ended, the first reason
	done chan struct{} // closed when nothing reads any more
}

// fail ends the link for a reason. It may be called by any goroutine and does not wait.
func (l *link) fail(err error) {
	l.because(err)
	l.killed.Store(true)
	l.end()
	_ = l.wire.SetDeadline(longAgo()) // fails only when it is closed
}

// unwritable ends the link because it cannot be written to. The agent may have said why
// it closes: what it sent before is read.
func (l *link) unwritable(err error) {
	l.because(err)
	l.killed.Store(true)
	l.end()
	_ = l.wire.SetWriteDeadline(longAgo())
	_ = l.wire.SetReadDeadline(time.Now().Add(closeTimeout))
}

// because notes why it ends: the first reason, but the agent's own before ours.
func (l *link) because(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why == nil || websocket.CloseStatus(l.why) == -1 && websocket.CloseStatus(err) != -1 {
		l.why = err
	}
}

// reason is why it ended.
func (l *link) reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

// write sends one message.
func (l *link) write(kind websocket.MessageType, message []byte) error {
	return l.writeWithin(writeTimeout, kind, message)
}

// writeWithin sends one message, or breaks the link when that takes longer.
func (l *link) writeWithin(limit time.Duration, kind websocket.MessageType, message []byte) error {
	// Deadlines and no context: that would cost garbage for each frame.
	if err := l.wire.SetWriteDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if l.killed.Load() { // fail came between
		return net.ErrClosed
	}
	err := l.conn.Write(context.Background(), kind, message)
	if err == nil {
		err = l.wire.SetWriteDeadline(time.Time{}) // pings are written beside
	}
	if l.killed.Load() {
		_ = l.wire.SetWriteDeadline(longAgo())
	}
	return err
}

// run reads until the link ends, and pings meanwhile.
func (l *link) run(handle func(websocket.MessageType, []byte) error) {
	var pings sync.WaitGroup
	pings.Go(l.ping)
	l.fail(l.read(handle))
	pings.Wait()
	close(l.done)
}

// read gives every message to handle.
func (l *link) read(handle func(websocket.MessageType, []byte) error) error {
	for {
		kind, message, err := l.conn.Read(context.Background())
		if err != nil {
			return err
		}
		l.busy.Store(true)
		err = handle(kind, message)
		l.busy.Store(false)
		if err != nil {
			return err
		}
	}
}

// ping ends the link of an agent that does not answer.
func (l *link) ping() {
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-l.life.Done():
			return
		case <-ticker.C:
		}
		if l.busy.Load() {
			continue
		}
		within, done := context.WithTimeout(l.life, pingEvery)
		_ = l.conn.Ping(within) // what cannot be written is the writer's to find out
		silent := within.Err() != nil
		done()
		if silent && l.life.Err() == nil && !l.busy.Load() {
			l.fail(&silentError{})
			return
		}
	}
}

// What the end of a link means.
type ending uint8

const (
	// broken: the agent may be called again.
	broken ending = iota
	// left: the agent has ended the conversation.
	left
	// refused: the agent, or we, cannot go on like this.
	refused
)

// meaning is what a link's end by err means.
func meaning(err error) ending {
	switch code := websocket.CloseStatus(err); {
	case errors.Is(err, websocket.ErrMessageTooBig):
		return refused
	case code == websocket.StatusNormalClosure, code == websocket.StatusNoStatusRcvd, code >= 3000:
		return left
	case code == -1, code == websocket.StatusGoingAway, code >= websocket.StatusInternalError && code <= websocket.StatusBadGateway:
		return broken
	}
	return refused
}
