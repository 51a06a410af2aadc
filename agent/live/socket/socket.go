// Package socket is the WebSocket between a realtime provider and its service. It
// keeps what is to be sent in order without ever making the sender wait, notices a
// peer that is gone, bounds what it reads, and says in the terms of agent/live why a
// connection failed. A Slot keeps a provider's one connection, a Lead the audio before
// a caller's turn. It knows no service's messages.
package socket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"parley/agent/live"
)

// Config says where to connect and how patient to be. The zero value of a duration
// or a size is its default.
type Config struct {
	// Name is the provider's; errors begin with it.
	Name string
	// URL is the address, ws, wss, http or https.
	URL string
	// Header goes with the handshake.
	Header http.Header
	// Secrets are texts that must not appear in errors, such as the key.
	Secrets []string
	// Transport replaces the one that is made for each connection.
	Transport http.RoundTripper

	// WriteTimeout is how long one message may take to leave; 10 s.
	WriteTimeout time.Duration
	// PingEvery is the time between pings, PongWithin how long an answer may take.
	// 15 s and 40 s. Answers that take 25 s have been seen on healthy connections.
	PingEvery, PongWithin time.Duration
	// CloseWithin bounds the closing handshake; 750 ms.
	CloseWithin time.Duration
	// MaxMessage bounds one message of the service, in bytes; 8 MiB.
	MaxMessage int64
	// MaxQueue bounds what waits to be sent, in bytes; 4 MiB.
	MaxQueue int
}

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.WriteTimeout, 10 * time.Second},
		{&c.PingEvery, 15 * time.Second},
		{&c.PongWithin, 40 * time.Second},
		{&c.CloseWithin, 750 * time.Millisecond},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if c.MaxMessage <= 0 {
		c.MaxMessage = 8 << 20
	}
	if c.MaxQueue <= 0 {
		c.MaxQueue = 4 << 20
	}
	return c
}

// Socket is one connection. Its methods may be called from any goroutine, and at the
// same time.
type Socket struct {
	cfg  Config
	conn *websocket.Conn
	in   chan []byte
	// kill ends reads and writes at once; the library then closes the connection.
	kill context.CancelFunc
	live context.Context
	// delivering is set while the reader waits for somebody to take a message: pongs
	// are not read then, so that their absence says nothing. taken counts the messages.
	delivering atomic.Bool
	taken      atomic.Uint64

	mu      sync.Mutex
	queue   []posted // what waits to be sent
	queued  int      // its bytes
	spare   [][]byte // buffers to use again
	err     error    // why it ended; nil while it is open
	wrote   error    // why writing failed
	closing bool

	wake    chan struct{} // the queue is not empty
	closed  chan struct{} // Close was called, or the connection failed
	reading sync.WaitGroup
	others  sync.WaitGroup
}

// Dial connects. ctx bounds the handshake only. The error wraps live.ErrAuth,
// ErrBusy, ErrRejected or ErrLost, or ctx's error.
func Dial(ctx context.Context, cfg Config) (*Socket, error) {
	cfg = cfg.withDefaults()
	transport := cfg.Transport
	if transport == nil {
		own := newTransport()
		defer own.CloseIdleConnections()
		transport = own
	}
	conn, resp, err := websocket.Dial(ctx, cfg.URL, &websocket.DialOptions{
		HTTPHeader: cfg.Header,
		HTTPClient: &http.Client{
			Transport: transport,
			// A service that sends us elsewhere would be sent the key there.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	})
	if err != nil {
		return nil, cfg.refused(ctx, resp, err)
	}
	conn.SetReadLimit(cfg.MaxMessage)
	s := &Socket{cfg: cfg, conn: conn, in: make(chan []byte, 16), wake: make(chan struct{}, 1), closed: make(chan struct{})}
	s.live, s.kill = context.WithCancel(context.Background())
	s.reading.Go(s.read)
	s.others.Go(s.write)
	s.others.Go(s.ping)
	return s, nil
}

// In is what the service sends, in order. It is closed at the end; Err then says why.
// What was received before is still to be had.
func (s *Socket) In() <-chan []byte { return s.in }

// Err is nil while the connection is open, io.EOF after Close, and otherwise why the
// connection is gone; that wraps live.ErrLost, and *Closed when the service said why.
func (s *Socket) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Buffer lends an empty buffer for one message, to be given back with Post.
func (s *Socket) Buffer() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.spare)
	if n == 0 {
		return make([]byte, 0, 4096)
	}
	b := s.spare[n-1]
	s.spare = s.spare[:n-1]
	return b[:0]
}

// Post sends a message after those that were posted before. It never waits: the
// message is sent later, or the connection ends. It owns message from now on. The
// error is that of Err.
func (s *Socket) Post(message []byte) error {
	return s.post(posted{kind: websocket.MessageText, data: message})
}

// PostBinary is Post of a binary message, such as audio.
func (s *Socket) PostBinary(message []byte) error {
	return s.post(posted{kind: websocket.MessageBinary, data: message})
}

// Send is Post that waits until the message has left, for ctx at most: for the last
// one before Close, which sends nothing that waits.
func (s *Socket) Send(ctx context.Context, message []byte) error {
	left := make(chan struct{})
	if err := s.post(posted{websocket.MessageText, message, left}); err != nil {
		return err
	}
	select {
	case <-left:
		return nil
	case <-s.closed:
		return s.Err()
	case <-ctx.Done():
		return fmt.Errorf("%s: sending: %w", s.cfg.Name, context.Cause(ctx))
	}
}

// posted is a message with its kind (RFC 6455, section 5.6).
type posted struct {
	kind websocket.MessageType
	data []byte
	left chan struct{} // closed once it was sent; may be nil
}

// Queued is how many bytes wait to be sent, of messages that did not begin to leave.
func (s *Socket) Queued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queued
}

func (s *Socket) post(message posted) error {
	s.mu.Lock()
	if s.err != nil {
		defer s.mu.Unlock()
		return s.err
	}
	if s.queued+len(message.data) > s.cfg.MaxQueue {
		s.mu.Unlock()
		s.Fail(fmt.Errorf("%s: %w: it takes no more than %d bytes at a time", s.cfg.Name, live.ErrLost, s.cfg.MaxQueue))
		return s.Err()
	}
	s.queue = append(s.queue, message)
	s.queued += len(message.data)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// Fail ends the connection at once for the reason err, unless it has ended. Close is
// still to be called by whoever must know that its goroutines have ended.
func (s *Socket) Fail(err error) {
	s.mu.Lock()
	first := s.err == nil
	if first {
		s.err = err
		close(s.closed)
	}
	s.mu.Unlock()
	if first {
		s.kill()
	}
}

// read hands over what arrives.
func (s *Socket) read() {
	defer close(s.in)
	for {
		_, message, err := s.conn.Read(s.live)
		if err != nil {
			s.mu.Lock()
			closing := s.closing
			if s.wrote != nil && errors.Is(err, net.ErrClosed) {
				err = s.wrote
			}
			s.mu.Unlock()
			s.Fail(s.cfg.lost(err))
			if !closing {
				_ = s.conn.CloseNow() // it is gone, whatever the error
			}
			return
		}
		s.delivering.Store(true)
		select {
		case s.in <- message:
		case <-s.closed: // nobody takes it any more, but the closing handshake must be read
		}
		s.taken.Add(1)
		s.delivering.Store(false)
	}
}

// write sends what is queued.
func (s *Socket) write() {
	stall := time.AfterFunc(time.Hour, func() {
		s.Fail(fmt.Errorf("%s: %w: a message did not leave in %s", s.cfg.Name, live.ErrLost, s.cfg.WriteTimeout))
	})
	stall.Stop()
	defer stall.Stop()
	for {
		select {
		case <-s.wake:
		case <-s.closed:
			return
		}
		for {
			message, ok := s.next()
			if !ok {
				break
			}
			stall.Reset(s.cfg.WriteTimeout)
			err := s.conn.Write(s.live, message.kind, message.data)
			stall.Stop()
			if err != nil {
				// The reader may know better why: the service says so before it closes.
				s.mu.Lock()
				s.wrote = err
				s.mu.Unlock()
				_ = s.conn.CloseNow()
				return
			}
			if message.left != nil {
				close(message.left)
			}
			s.reuse(message.data)
		}
	}
}

// next takes the oldest message of the queue.
func (s *Socket) next() (posted, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 || s.err != nil {
		return posted{}, false
	}
	message := s.queue[0]
	s.queue = slices.Delete(s.queue, 0, 1)
	s.queued -= len(message.data)
	return message, true
}

// maxSpare is how many buffers are kept, and spareSize how large they may be.
const (
	maxSpare  = 16
	spareSize = 64 << 10
)

func (s *Socket) reuse(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.spare) < maxSpare && cap(b) <= spareSize {
		s.spare = append(s.spare, b)
	}
}

// ping asks from time to time whether the service is still there.
func (s *Socket) ping() {
	every := time.NewTicker(s.cfg.PingEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-s.closed:
			return
		}
		before := s.taken.Load()
		ctx, cancel := context.WithTimeout(s.live, s.cfg.PongWithin)
		err := s.conn.Ping(ctx)
		late := errors.Is(ctx.Err(), context.DeadlineExceeded)
		cancel()
		// A ping that could not be sent is the writer's to judge.
		if err != nil && late && !s.delivering.Load() && s.taken.Load() == before {
			s.Fail(fmt.Errorf("%s: %w: no answer in %s", s.cfg.Name, live.ErrLost, s.cfg.PongWithin))
		}
	}
}

// Close ends the connection and waits for its goroutines, for ctx at most. The
// closing handshake is tried for Config.CloseWithin, so that the service knows that
// the session is over before another one is asked for. Messages that still wait to be
// sent are not. It may be called more than once.
func (s *Socket) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.err == nil {
		s.err = io.EOF
		close(s.closed)
	}
	if !s.closing {
		s.closing = true
		s.others.Go(s.shake)
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.reading.Wait()
		s.others.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.kill()
		return fmt.Errorf("%s: closing: %w", s.cfg.Name, ctx.Err())
	}
}

// Drop ends a connection that is of no use, without ceremony, for the reason err.
func (s *Socket) Drop(err error) {
	s.Fail(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.Close(ctx) // it has failed
}

// shake is the closing handshake, cut off when it takes too long.
func (s *Socket) shake() {
	timer := time.AfterFunc(s.cfg.CloseWithin, s.kill)
	defer timer.Stop()
	// Whatever its error is, the connection is closed.
	_ = s.conn.Close(websocket.StatusNormalClosure, "")
	s.kill()
	_ = s.conn.CloseNow()
}
