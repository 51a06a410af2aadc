// Package api is the HTTP side of the gateway: whether it lives, whether it takes
// calls, its figures for Prometheus, and the calls themselves: list, place, change,
// end and watch them. What it shows it is told by an Observer's methods (Metrics),
// asks through functions (Sources) or through Calls, so it knows calls but neither
// SIP nor RTP. openapi.yaml describes all of it.
package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"parley/identity"
)

// The bounds of one HTTP exchange. A scraper on a bad line may be slow; one that
// never finishes must not hold a connection for ever.
const (
	headerTimeout   = 5 * time.Second
	readTimeout     = 10 * time.Second
	writeTimeout    = 30 * time.Second
	idleTimeout     = time.Minute
	shutdownTimeout = 5 * time.Second
	maxHeader       = 16 << 10 // bytes
	// maxConns is how many connections there may be beside those of streams.
	maxConns = 256
)

// Parts are what a Server is plugged together from.
type Parts struct {
	// Ready says why no call is taken now, nil when one is; it must not block.
	Ready func() error
	// Metrics are the figures to show.
	Metrics *Metrics
	// Calls are the calls of the gateway. nil: what is about calls answers 501.
	Calls Calls
	// Verify checks a bearer JWT, as (*identity.Verifier).Verify does: its error names
	// the rule that was broken and holds nothing of the token. Config.Tokens needs it.
	Verify func(token string) (identity.Claims, error)
	// Mint makes a JWT for a subject and an audience with more claims, which ends
	// after ttl, as (*identity.Signer).Mint does. nil: POST /token answers 501.
	Mint func(subject, audience string, claims map[string]any, ttl time.Duration) (string, error)
	// TokenTTL is how long minted tokens last unless asked for less, as
	// identity.SignerConfig.TTL. 0 is five minutes.
	TokenTTL time.Duration
	// Log is nil for none.
	Log *zap.Logger
}

// Server is the HTTP side. Its methods may be called from any goroutine.
type Server struct {
	cfg      Config
	parts    Parts
	log      *zap.Logger
	listener net.Listener
	keys     *keyring
	rates    *rates
	once     *once
	streams  atomic.Int64
	now      func() time.Time

	// life ends when Serve is to return: streams and long requests end with it.
	life context.Context
	end  context.CancelFunc
}

// New makes a Server.
func New(cfg Config, p Parts) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	switch {
	case p.Ready == nil || p.Metrics == nil:
		return nil, errors.New("api: a server needs to know whether calls are taken, and metrics")
	case cfg.Tokens && cfg.Listen != "" && p.Verify == nil:
		return nil, errors.New("api: tokens: there is nothing to verify them with; configure identity.token, or set api.tokens to false")
	}
	if p.TokenTTL == 0 {
		p.TokenTTL = tokenTime
	}
	if p.Log == nil {
		p.Log = zap.NewNop()
	}
	s := &Server{
		cfg: cfg, parts: p, log: p.Log,
		keys: newKeyring(cfg.Keys), rates: newRates(cfg.RatePerSecond, cfg.RateBurst), once: newOnce(),
		now: time.Now,
	}
	s.life, s.end = context.WithCancel(context.Background())
	return s, nil
}

// Listen binds the configured address; Serve then needs no more luck. It returns
// the address bound, and nil when the HTTP side is off.
func (s *Server) Listen() (net.Addr, error) {
	if s.cfg.Listen == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", s.cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("api: cannot listen (set api.listen to another address, or to \"\"): %w", err)
	}
	s.listener = l
	return l.Addr(), nil
}

// Serve answers requests until ctx is done, then ends the streams of events and
// finishes the requests under way. All of its goroutines have ended when it
// returns. Call Listen first, and Serve once.
func (s *Server) Serve(ctx context.Context) error {
	defer s.end()
	if s.listener == nil {
		<-ctx.Done()
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	requests := newUnderWay(s.Handler())
	server := &http.Server{
		Handler:           requests,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          zap.NewStdLog(s.log),
	}
	closed := make(chan error, 1)
	go func() {
		<-ctx.Done()
		s.end()
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		err := server.Shutdown(limit)
		if err != nil {
			err = errors.Join(err, server.Close())
		}
		closed <- err
	}()
	failed := server.Serve(bound(s.listener, maxConns+s.cfg.MaxStreams))
	if errors.Is(failed, http.ErrServerClosed) {
		failed = nil
	}
	stop()
	err := errors.Join(failed, <-closed)
	requests.wait() // also for those whose connection was cut
	if err != nil {
		return fmt.Errorf("api: serving: %w", err)
	}
	return nil
}

// underWay lets its owner wait for the requests that are being answered.
type underWay struct {
	handler http.Handler
	mu      sync.Mutex
	none    *sync.Cond // signalled when count is 0
	count   int
	over    bool
}

func newUnderWay(h http.Handler) *underWay {
	u := &underWay{handler: h}
	u.none = sync.NewCond(&u.mu)
	return u
}

// ServeHTTP answers until wait was called.
func (u *underWay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	if u.over {
		u.mu.Unlock()
		return
	}
	u.count++
	u.mu.Unlock()
	defer func() {
		u.mu.Lock()
		if u.count--; u.count == 0 {
			u.none.Broadcast()
		}
		u.mu.Unlock()
	}()
	u.handler.ServeHTTP(w, r)
}

// wait returns when no request is under way, and none will be.
func (u *underWay) wait() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = true
	for u.count > 0 {
		u.none.Wait()
	}
}

// healthz says that the process lives, whatever else it does.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request, _ client) error {
	return answer(w, http.StatusOK, "ok")
}

// readyz says whether new calls are taken: a load balancer sends none to one that
// is starting, draining or full.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request, _ client) error {
	if err := s.parts.Ready(); err != nil {
		w.Header().Set("Retry-After", "5")
		return answer(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
	}
	return answer(w, http.StatusOK, "ready")
}

// answer writes a line of text.
func answer(w http.ResponseWriter, code int, text string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n") // the client left: nothing to do about it
	return nil
}
