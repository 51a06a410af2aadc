package deepgram

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"parley/agent/live/socket"
	"parley/agent/stt"
)

const (
	// chunk is how much audio goes into a message at most: the service takes what it
	// is given, but what waits behind it is late.
	chunk = 100 * time.Millisecond
	// backlog is how many bytes may wait in the socket; the rest waits on the tape.
	backlog = 64 << 10
	// steady is how long a connection must last for its loss to be the first one.
	steady = 5 * time.Second
	// maxGarbled is how many messages in a row may make no sense.
	maxGarbled = 20
	// farewell bounds the sending of the last message.
	farewell = 250 * time.Millisecond
)

// stream is the recognition of one call. Its goroutine owns the connection and the
// hearing.
type stream struct {
	cfg      Config
	language string
	out      func(stt.Result)
	ctx      context.Context
	cancel   context.CancelFunc
	wake     chan struct{}
	done     chan struct{}

	hearing hearing
	failed  int // connections, in a row

	mu      sync.Mutex
	tape    *tape
	asks    []int64 // positions of Finalize that the goroutine does not know of yet
	phrases []string
	changed bool // the phrases are not those of the connection
	over    bool
}

func newStream(ctx context.Context, cfg Config, o stt.Options, out func(stt.Result)) *stream {
	s := &stream{
		cfg: cfg, language: o.Language, out: out, wake: make(chan struct{}, 1), done: make(chan struct{}),
		hearing: hearing{cfg: cfg}, tape: newTape(cfg.Rate, cfg.Replay), phrases: slices.Clone(o.Expect.Phrases),
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// Write implements stt.Stream. It costs a copy.
func (s *stream) Write(pcm []int16) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return ErrClosed
	}
	s.tape.write(pcm)
	s.signal()
	return nil
}

// Begin implements stt.Stream. The service finds voices by itself; it is only noted that
// audio counts from here on.
func (s *stream) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tape.begin()
}

// maxAsks bounds how often Finalize may wait for its answer. There is no use in more.
const maxAsks = 100

// Finalize implements stt.Stream.
func (s *stream) Finalize() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || len(s.asks) >= maxAsks {
		return
	}
	s.asks = append(s.asks, s.tape.end())
	s.signal()
}

// Expect implements stt.Stream. Other phrases need another connection: it is made when
// nobody speaks.
func (s *stream) Expect(e stt.Expect) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return ErrClosed
	}
	if !slices.Equal(keyterms(s.cfg.Keyterms, e.Phrases), keyterms(s.cfg.Keyterms, s.phrases)) {
		s.changed = true
	}
	s.phrases = slices.Clone(e.Phrases)
	s.signal()
	return nil
}

// Close implements stt.Stream. What the service did not say yet is not heard.
func (s *stream) Close() error {
	s.end()
	s.cancel()
	<-s.done
	return nil
}

// end refuses what comes from now on.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// report gives results to out, unless the stream is over.
func (s *stream) report(results ...stt.Result) {
	for _, r := range results {
		if s.ctx.Err() == nil {
			s.out(r)
		}
	}
}

// run keeps a connection until the stream is over, or none can be had.
func (s *stream) run(conn *connection) {
	defer close(s.done)
	defer s.cancel()
	defer s.end() // whoever writes to a stream whose context is over hears of it
	for {
		err := conn.converse()
		if s.ctx.Err() != nil {
			conn.leave()
			return
		}
		if errors.Is(err, errOther) {
			conn.leave()
			s.failed = 0
		} else {
			conn.sock.Drop(err)
			s.report(stt.Result{Err: err})
			if time.Since(conn.since) >= steady {
				s.failed = 0
			}
			s.failed++
		}
		if conn = s.reconnect(err); conn == nil {
			return
		}
	}
}

// reconnect connects anew because of err. It returns nil when the stream is over.
func (s *stream) reconnect(err error) *connection {
	for ; s.failed <= s.cfg.Attempts && !hopeless(err); s.failed++ {
		if s.failed > 1 && !s.rest(min(s.cfg.Pause<<min(s.failed-2, 16), s.cfg.MaxPause)) {
			return nil
		}
		var conn *connection
		if conn, err = s.dial(); err == nil {
			return conn
		}
		if s.ctx.Err() != nil {
			return nil
		}
	}
	s.report(stt.Result{Err: fmt.Errorf("%w: %w", stt.ErrLost, err)})
	return nil
}

// rest waits, and says whether there is still a stream.
func (s *stream) rest(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// dial makes a connection, for the phrases of now.
func (s *stream) dial() (*connection, error) {
	s.mu.Lock()
	phrases := s.phrases
	s.changed = false
	s.mu.Unlock()
	dialing, err := s.cfg.dialing(s.language, phrases)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.ConnectTimeout)
	defer cancel()
	sock, err := socket.Dial(ctx, dialing)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	c := &connection{s: s, sock: sock, clean: dialing.Clean, since: now, lastSent: now}
	s.mu.Lock()
	s.tape.again()
	c.next = s.tape.sent
	s.mu.Unlock()
	s.hearing.connected(now, c.next)
	return c, nil
}
