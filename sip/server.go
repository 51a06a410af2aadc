package sip

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	wire "github.com/emiago/sipgo/sip"
	"go.uber.org/zap"
)

// Server is a SIP user agent: it owns the sockets, transactions and dialogs.
// Make it with NewServer, then Listen, then Serve. All methods may be called
// from any goroutine.
type Server struct {
	cfg    Config
	log    *zap.Logger
	noise  *noise
	parser *wire.Parser
	seed   maphash.Seed // of the To tags of answers without state

	txs     txTable
	clients clientTable
	dialogs dialogTable
	counter counter

	draining atomic.Bool
	life     context.Context // ends with ErrShutdown when stopping
	kill     context.CancelCauseFunc
	done     <-chan struct{} // of life
	wg       sync.WaitGroup

	mu        sync.Mutex
	listeners []*listener
	conns     map[*tcpConn]struct{}
	sources   map[netip.Addr]int   // accepted connections, by where they come from
	invites   map[*Invite]struct{} // without a final response
	links     map[string]*link     // trunks at work, by name
	lines     map[string]*Registration
	legs      map[*leg]struct{} // of calls of ours that are not answered
	handler   Handler
	closing   bool
	serving   bool
}

// Handler takes one new INVITE, on a goroutine of its own. The INVITE is past
// validation and 100 was sent. ctx is Invite.Context. A panic is answered 500 and
// logged, and so is a return without a final response.
type Handler func(ctx context.Context, inv *Invite)

// NewServer makes a server that is not bound yet. A nil log is silence.
func NewServer(cfg Config, log *zap.Logger) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if log == nil {
		log = zap.NewNop()
	}
	life, kill := context.WithCancelCause(context.Background())
	return &Server{
		cfg:     cfg,
		log:     log,
		noise:   newNoise(log),
		parser:  newParser(),
		seed:    maphash.MakeSeed(),
		txs:     txTable{byKey: make(map[string]*serverTx), merge: make(map[string]*serverTx)},
		clients: clientTable{byKey: make(map[string]*clientTx)},
		dialogs: dialogTable{byKey: make(map[dialogKey]*Dialog)},
		counter: newCounter(),
		conns:   make(map[*tcpConn]struct{}),
		sources: make(map[netip.Addr]int),
		invites: make(map[*Invite]struct{}),
		links:   make(map[string]*link),
		lines:   make(map[string]*Registration),
		legs:    make(map[*leg]struct{}),
		life:    life,
		kill:    kill,
		done:    life.Done(),
	}, nil
}

// Serve reads messages and calls h for every new INVITE until ctx is done, then
// stops: calls still waiting are answered 503, calls of ours that ring are
// cancelled, contexts end with ErrShutdown,
// sockets are closed. Every goroutine of the server has ended when Serve returns,
// so it waits for handlers that are running. Hanging up calls is for whoever
// answered them, before ctx ends. Serve runs once, and closes what Listen bound
// also when it returns an error.
func (s *Server) Serve(ctx context.Context, h Handler) error {
	s.mu.Lock()
	switch {
	case s.serving:
		s.mu.Unlock()
		return errors.New("sip: Serve runs once")
	case s.listeners == nil:
		s.mu.Unlock()
		return errors.New("sip: Serve before Listen")
	}
	s.serving, s.handler = true, h
	listeners := s.listeners
	s.mu.Unlock()

	s.start(ctx, listeners)
	<-ctx.Done()
	return s.stop(listeners)
}

// stop ends everything and waits.
func (s *Server) stop(listeners []*listener) error {
	s.mu.Lock()
	s.closing = true
	s.kill(ErrShutdown)
	var waiting []*Invite
	for inv := range s.invites {
		waiting = append(waiting, inv)
	}
	legs := slices.Collect(maps.Keys(s.legs))
	s.mu.Unlock()

	for _, inv := range waiting {
		inv.fail(&RejectError{Code: 503, Rule: "shutdown", Text: "The server is stopping", RetryAfter: s.cfg.RetryAfter}, ErrShutdown)
	}
	for _, l := range legs {
		l.drop(Reason{})
	}
	for _, d := range s.dialogs.all() {
		d.end(ErrShutdown)
	}
	var errs []error
	for _, l := range listeners {
		if err := l.close(); err != nil {
			errs = append(errs, fmt.Errorf("sip: closing %s: %w", l.cfg.Addr, err))
		}
	}
	s.mu.Lock()
	for c := range s.conns {
		s.wg.Go(c.farewell) // TLS and WebSocket say good-bye first, which may take time
	}
	s.mu.Unlock()
	s.wg.Wait()
	s.noise.flush()
	return errors.Join(errs...)
}

// Drain with true refuses new calls with 503 and Retry-After, and answers
// OPTIONS outside of calls the same, so that peers choose another server. Calls
// go on. False takes it back.
func (s *Server) Drain(on bool) { s.draining.Store(on) }

func (s *Server) stopped() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// spawn runs f on a goroutine that Serve waits for. Nothing is run when the
// server is stopping: it returns false.
func (s *Server) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.wg.Go(f)
	return true
}

// pause waits, and returns false when the server is stopping.
func (s *Server) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.done:
		return false
	}
}
