// Package api is the HTTP side of the gateway: whether it lives, whether it takes
// calls, and its figures for Prometheus. What it shows it is told by an Observer's
// methods (Metrics) or asks through functions (Sources), so it knows calls but
// neither SIP nor RTP.
package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
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
)

// Server is the HTTP side. Its methods may be called from any goroutine.
type Server struct {
	cfg      Config
	ready    func() error
	metrics  *Metrics
	log      *zap.Logger
	listener net.Listener
}

// New makes a Server. ready says why no call is taken now, nil when one is; it
// must not block. log may be nil.
func New(cfg Config, ready func() error, m *Metrics, log *zap.Logger) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if ready == nil || m == nil {
		return nil, errors.New("api: a server needs to know whether calls are taken, and metrics")
	}
	if log == nil {
		log = zap.NewNop()
	}
	return &Server{cfg: cfg, ready: ready, metrics: m, log: log}, nil
}

// Handler answers the API's requests.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /trunks", s.trunks)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{
		Registry:      s.metrics.registry,
		ErrorLog:      stdLog{s.log},
		ErrorHandling: promhttp.ContinueOnError,
		Timeout:       writeTimeout / 2,
	}))
	return mux
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

// Serve answers requests until ctx is done, then finishes those under way. All of
// its goroutines have ended when it returns. Call Listen first.
func (s *Server) Serve(ctx context.Context) error {
	if s.listener == nil {
		<-ctx.Done()
		return nil
	}
	server := &http.Server{
		Handler:           s.Handler(),
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
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		err := server.Shutdown(limit)
		if err != nil {
			err = errors.Join(err, server.Close())
		}
		closed <- err
	}()
	if err := server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("api: %w", err)
	}
	if err := <-closed; err != nil {
		return fmt.Errorf("api: shutdown: %w", err)
	}
	return nil
}

// healthz says that the process lives, whatever else it does.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") }

// readyz says whether new calls are taken: a load balancer sends none to one that
// is starting, draining or full.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := s.ready(); err != nil {
		answer(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
		return
	}
	answer(w, http.StatusOK, "ready")
}

// answer writes a line of text that no cache keeps.
func answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n") // the client left: nothing to do about it
}

// stdLog gives promhttp's errors to zap.
type stdLog struct{ log *zap.Logger }

// Println is what promhttp calls.
func (l stdLog) Println(v ...any) { l.log.Warn("metrics", zap.String("err", fmt.Sprint(v...))) }
