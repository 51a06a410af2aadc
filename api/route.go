package api

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// handler answers a request of a client who may make it; an error becomes a
// problem.
type handler func(w http.ResponseWriter, r *http.Request, c client) error

// route is one operation.
type route struct {
	method, path string
	name         string // operationId of the description, and the metric's label
	scope        string // "" for any client
	public       bool   // no login, no rate
	serve        handler
}

// routes are all operations there are.
func (s *Server) routes() []route {
	read, write := ScopeRead, ScopeWrite
	return []route{
		{"GET", "/healthz", "getHealth", "", true, s.healthz},
		{"GET", "/readyz", "getReadiness", "", true, s.readyz},
		{"GET", "/openapi.yaml", "getOpenAPIAsYAML", "", true, document("application/yaml", descriptionYAML)},
		{"GET", "/openapi.json", "getOpenAPI", "", true, document("application/json", descriptionJSON)},
		{"GET", "/metrics", "getMetrics", read, false, s.scraped()},
		{"GET", "/trunks", "listTrunks", read, false, s.trunks},
		{"GET", "/calls", "listCalls", read, false, s.withCalls(s.listCalls)},
		{"POST", "/calls", "placeCall", write, false, s.withCalls(s.dialCall)},
		{"GET", "/calls/{id}", "getCall", read, false, s.withCalls(s.getCall)},
		{"DELETE", "/calls/{id}", "endCall", write, false, s.withCalls(s.endCall)},
		{"GET", "/calls/{id}/events", "streamEvents", read, false, s.withCalls(s.streamEvents)},
		{"POST", "/calls/{id}/transfer", "transferCall", write, false, s.withCalls(act(s, s.transfer))},
		{"POST", "/calls/{id}/dtmf", "sendDigits", write, false, s.withCalls(act(s, s.dtmf))},
		{"POST", "/calls/{id}/hold", "holdCall", write, false, s.withCalls(act(s, s.hold))},
		{"POST", "/calls/{id}/resume", "resumeCall", write, false, s.withCalls(act(s, s.resume))},
		{"POST", "/calls/{id}/say", "sayInCall", write, false, s.withCalls(act(s, s.say))},
		{"POST", "/calls/{id}/record", "recordCall", write, false, s.withCalls(act(s, s.record))},
		{"POST", "/token", "mintToken", ScopeToken, false, s.mintToken},
	}
}

// withCalls refuses what is about calls where there are none to be had.
func (s *Server) withCalls(h handler) handler {
	if s.parts.Calls != nil {
		return h
	}
	return func(http.ResponseWriter, *http.Request, client) error {
		return trouble(http.StatusNotImplemented, "not_supported", "This server knows no calls.", "")
	}
}

// scraped is GET /metrics.
func (s *Server) scraped() handler {
	h := promhttp.HandlerFor(s.parts.Metrics.registry, promhttp.HandlerOpts{
		Registry:      s.parts.Metrics.registry,
		ErrorLog:      stdLog{s.log},
		ErrorHandling: promhttp.ContinueOnError,
		Timeout:       writeTimeout / 2,
	})
	return func(w http.ResponseWriter, r *http.Request, _ client) error {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8") // when it is not done in time
		h.ServeHTTP(w, r)
		return nil
	}
}

// Handler answers the API's requests.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for _, r := range s.routes() {
		mux.Handle(r.method+" "+r.path, s.handle(r))
		methods[r.path] = append(methods[r.path], r.method)
		if r.method == http.MethodGet {
			methods[r.path] = append(methods[r.path], http.MethodHead)
		}
	}
	for path, allowed := range methods {
		allow := strings.Join(allowed, ", ")
		mux.Handle(path, s.handle(route{path: path, name: "other", public: true, serve: func(http.ResponseWriter, *http.Request, client) error {
			return trouble(http.StatusMethodNotAllowed, "method", "This path does not take that method.", "Use "+allow+".").with("Allow", allow)
		}}))
	}
	mux.Handle("/", s.handle(route{path: "/", name: "other", public: true, serve: func(http.ResponseWriter, *http.Request, client) error {
		return trouble(http.StatusNotFound, "no_path", "There is no such path.", "GET /openapi.yaml says which there are.")
	}}))
	return mux
}

// handle is what all operations have in common: who it is, whether they may, how
// often, the answer to an error, a line in the log and a figure.
func (s *Server) handle(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := s.now()
		rec := &recorder{ResponseWriter: w}
		h := rec.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		var c client
		err := s.serve(rec, r, rt, &c)
		if err != nil {
			p := problemOf(err)
			if p.Status == http.StatusInternalServerError {
				s.log.Error("request failed", zap.String("request", rt.name), zap.Error(p.cause))
			}
			if rec.status == 0 {
				fail(rec, p)
			}
		}
		s.parts.Metrics.answered(rt.name, rec.code())
		s.logRequest(r, rt, c, rec.code(), s.now().Sub(began))
	})
}

// serve answers, or says why not. A handler that panics fails alone.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, rt route, c *client) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("api: %s: %v\n%s", rt.name, fault, debug.Stack())
		}
	}()
	if rt.public {
		return rt.serve(w, r, *c)
	}
	if *c, err = s.identify(r); err != nil {
		return err
	}
	if wait := s.rates.take(c.id, s.now()); wait > 0 {
		return trouble(http.StatusTooManyRequests, "rate", "These are too many requests in a short time.", "Slow down, or raise api.rate_per_second.").later(wait)
	}
	if err := authorize(*c, rt.scope); err != nil {
		return err
	}
	return rt.serve(w, r, *c)
}

// logRequest leaves a line: of failures and changes always, of the rest at debug
// level. Neither what was sent nor the way it was asked for is in it, as both may
// hold numbers and secrets.
func (s *Server) logRequest(r *http.Request, rt route, c client, status int, took time.Duration) {
	log := s.log.Debug
	switch {
	case status >= 500 && rt.name != "getReadiness":
		log = s.log.Warn
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusTooManyRequests:
		log = s.log.Info
	}
	log("request", zap.String("request", rt.name), zap.String("client", c.name), zap.String("peer", r.RemoteAddr),
		zap.Int("status", status), zap.Duration("took", took.Round(time.Microsecond)))
}

// recorder notes the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the first status that is not only for information.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write is an answer of 200 when nothing else was said.
func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController through.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// code is the status of the answer as it went out.
func (r *recorder) code() int {
	if r.status == 0 {
		return http.StatusOK
	}
	return r.status
}

// stdLog gives promhttp's errors to zap.
type stdLog struct{ log *zap.Logger }

// Println is what promhttp calls.
func (l stdLog) Println(v ...any) { l.log.Warn("metrics", zap.String("err", fmt.Sprint(v...))) }
