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

// Script is a service in memory, for tests of what uses providers. It obeys
// testing/synctest. Set its fields before the first Connect; the methods may be called
// from any goroutine.
type Script struct {
	// ConnectDelay is how long connecting takes, CloseDelay how long closing does.
	ConnectDelay, CloseDelay time.Duration
	// OnConnect, when set, decides about the n-th connection, from 1: its error is
	// Connect's.
	OnConnect func(n int, cfg live.LiveConfig) error
	// OnSent, when set, sees everything that providers send, on their goroutines, after
	// it was noted: a model that answers. Its error is the sending method's.
	OnSent func(c *ScriptConn, s Sent) error

	mu      sync.Mutex
	refuse  error
	conns   []*ScriptConn
	tries   int
	waiting chan *ScriptConn
}

// NewScript returns a Script.
func NewScript() *Script { return &Script{waiting: make(chan *ScriptConn, 64)} }

// Provider makes a provider that connects to s and can do all that a provider may.
func (s *Script) Provider() *ScriptProvider { return &ScriptProvider{Bare{script: s}} }

// Bare makes a provider with the methods of live.LiveProvider and no others.
func (s *Script) Bare() *Bare { return &Bare{script: s} }

// Conns are the connections made so far, in order.
func (s *Script) Conns() []*ScriptConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*ScriptConn(nil), s.conns...)
}

// Last is the newest connection, nil before the first.
func (s *Script) Last() *ScriptConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) == 0 {
		return nil
	}
	return s.conns[len(s.conns)-1]
}

// Open is how many connections are open now.
func (s *Script) Open() int {
	n := 0
	for _, c := range s.Conns() {
		if !c.over() {
			n++
		}
	}
	return n
}

// Tries is how often a provider tried to connect.
func (s *Script) Tries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tries
}

// Accept implements Service.
func (s *Script) Accept(ctx context.Context) (Conn, error) {
	select {
	case c := <-s.waiting:
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Refuse implements Service.
func (s *Script) Refuse(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = err
	return nil
}

// connect makes a connection for p.
func (s *Script) connect(ctx context.Context, cfg live.LiveConfig) (*ScriptConn, error) {
	s.mu.Lock()
	s.tries++
	n, refuse := s.tries, s.refuse
	s.mu.Unlock()
	if s.ConnectDelay > 0 {
		select {
		case <-time.After(s.ConnectDelay):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if refuse != nil {
		return nil, fmt.Errorf("livetest: %w", refuse)
	}
	if s.OnConnect != nil {
		if err := s.OnConnect(n, cfg); err != nil {
			return nil, err
		}
	}
	c := &ScriptConn{
		script: s, cfg: cfg, gone: make(chan struct{}), closed: make(chan struct{}),
		told: make(chan struct{}, 1), came: make(chan struct{}, 1), items: map[string]time.Duration{}, cut: map[string]bool{},
	}
	s.mu.Lock()
	s.conns = append(s.conns, c)
	s.mu.Unlock()
	select {
	case s.waiting <- c:
	default: // nobody accepts: whoever tests uses Conns
	}
	return c, nil
}

// ScriptConn is a connection to a Script.
type ScriptConn struct {
	script       *Script
	cfg          live.LiveConfig
	gone, closed chan struct{} // dropped by the service; closed by the provider
	told, came   chan struct{} // tokens: there is a message, there is a Sent

	mu     sync.Mutex
	queue  []live.Message
	sent   []Sent
	next   int
	items  map[string]time.Duration // what was received of each
	cut    map[string]bool
	odd    map[string][]byte
	failed error
}

// Config is what the connection was set up with.
func (c *ScriptConn) Config() live.LiveConfig { return c.cfg }

// Setup implements Conn.
func (c *ScriptConn) Setup() Setup {
	wire := c.cfg.Wire
	if wire == live.PCM16 {
		wire = ""
	}
	return Setup{
		Model: c.cfg.Model, Voice: c.cfg.Voice, Instructions: c.cfg.Instructions, Language: c.cfg.Language,
		Tools: c.cfg.Tools, LocalTurns: c.cfg.LocalTurns, LocalCuts: c.cfg.LocalCuts, Transcribe: c.cfg.Transcribe,
		Temperature: c.cfg.Temperature, Wire: wire, History: c.cfg.History,
	}
}

// Tell implements Conn. It also has the provider receive messages that no provider
// would send, as they are.
func (c *ScriptConn) Tell(m live.Message) error {
	if c.over() {
		return live.ErrClosed
	}
	c.mu.Lock()
	c.queue = append(c.queue, m)
	c.mu.Unlock()
	token(c.told)
	return nil
}

// Garble implements Conn: memory cannot be garbled.
func (c *ScriptConn) Garble() error { return ErrCannot }

// Drop implements Conn.
func (c *ScriptConn) Drop() { c.Fail(fmt.Errorf("%w: dropped", live.ErrLost)) }

// Fail ends the connection with the error that Receive shall return.
func (c *ScriptConn) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.failed = err
		close(c.gone)
	}
}

// Next implements Conn.
func (c *ScriptConn) Next(ctx context.Context) (Sent, error) {
	for {
		c.mu.Lock()
		if c.next < len(c.sent) {
			s := c.sent[c.next]
			c.next++
			c.mu.Unlock()
			return s, nil
		}
		c.mu.Unlock()
		select {
		case <-c.came:
		case <-c.closed:
			return Sent{}, io.EOF
		case <-ctx.Done():
			return Sent{}, ctx.Err()
		}
	}
}

// All is everything that was sent of the given kinds, of all kinds but audio when none
// is given.
func (c *ScriptConn) All(kinds ...Kind) []Sent {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Sent
	for _, s := range c.sent {
		wanted := len(kinds) == 0 && s.Kind != SentAudio
		for _, k := range kinds {
			wanted = wanted || s.Kind == k
		}
		if wanted {
			out = append(out, s)
		}
	}
	return out
}

// over says whether the connection has ended.
func (c *ScriptConn) over() bool {
	select {
	case <-c.gone:
	case <-c.closed:
	default:
		return false
	}
	return true
}

func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take notes what the provider sends.
func (c *ScriptConn) take(ctx context.Context, s Sent) error {
	select {
	case <-c.closed:
		return live.ErrClosed
	case <-c.gone:
		return fmt.Errorf("%w: dropped", live.ErrLost)
	default:
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	s.At = time.Now()
	c.mu.Lock()
	c.sent = append(c.sent, s)
	c.mu.Unlock()
	token(c.came)
	if f := c.script.OnSent; f != nil {
		return f(c, s)
	}
	return nil
}

// receive takes the next message, as a provider gives it on.
func (c *ScriptConn) receive(ctx context.Context) (live.Message, error) {
	for {
		c.mu.Lock()
		if len(c.queue) > 0 {
			m := c.queue[0]
			c.queue = c.queue[1:]
			dead := m.ItemID != "" && c.cut[m.ItemID]
			if dead {
				m.Audio, m.Agent, m.ItemID = nil, live.Transcript{}, ""
			}
			m.Audio = c.whole(m)
			c.mu.Unlock()
			return m, nil
		}
		failed := c.failed
		c.mu.Unlock()
		if failed != nil {
			return live.Message{}, failed
		}
		select {
		case <-c.told:
		case <-c.gone:
		case <-c.closed:
			return live.Message{}, io.EOF
		case <-ctx.Done():
			return live.Message{}, errors.Join(live.ErrLost, context.Cause(ctx))
		}
	}
}

// whole counts the audio of m and keeps half a sample for the next. The lock is held.
func (c *ScriptConn) whole(m live.Message) []byte {
	rate := int64(live.OutputRate) * 2
	if c.cfg.Wire == live.PCMU || c.cfg.Wire == live.PCMA {
		rate = 8000
	} else if len(m.Audio) > 0 {
		if c.odd == nil {
			c.odd = map[string][]byte{}
		}
		all := append(c.odd[m.ItemID], m.Audio...)
		c.odd[m.ItemID] = append([]byte(nil), all[len(all)&^1:]...)
		m.Audio = all[:len(all)&^1]
	}
	c.items[m.ItemID] += time.Duration(int64(len(m.Audio)) * int64(time.Second) / rate)
	return m.Audio
}
