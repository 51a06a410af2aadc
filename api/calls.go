package api

import (
	"context"
	"net/http"
	"time"

	"go.uber.org/zap"

	"parley/agent"
	"parley/call"
)

// Calls are the calls of the gateway; *call.Server is one. Its methods may be
// called from any goroutine.
type Calls interface {
	Calls() []call.Status
	Call(id string) (call.Status, bool)
	Dial(ctx context.Context, o call.Outgoing) (id string, err error)
	HangUp(id, cause string) error
	Transfer(ctx context.Context, id string, t agent.Transfer) error
	SendDigits(ctx context.Context, id, digits string) error
	Hold(ctx context.Context, id string) error
	Resume(ctx context.Context, id string) error
	Say(ctx context.Context, id, text string) error
	Record(id string, on bool) error
	Events(id string) (past []agent.Event, live <-chan agent.Event, stop func(), err error)
}

var _ Calls = (*call.Server)(nil)

// getCall is GET /calls/{id}.
func (s *Server) getCall(w http.ResponseWriter, r *http.Request, _ client) error {
	id, err := callID(r)
	if err != nil {
		return err
	}
	c, ok := s.parts.Calls.Call(id)
	if !ok {
		return noCall()
	}
	give(w, http.StatusOK, c)
	return nil
}

// endCall is DELETE /calls/{id}.
func (s *Server) endCall(w http.ResponseWriter, r *http.Request, c client) error {
	id, err := callID(r)
	if err != nil {
		return err
	}
	if err := s.parts.Calls.HangUp(id, "over HTTP by "+c.name); err != nil {
		return err
	}
	s.acted(r, id, c)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// acted leaves a line in the log about what a client did to a call.
func (s *Server) acted(r *http.Request, id string, c client) {
	s.log.Info("call changed by API", zap.String("call_id", id), zap.String("client", c.name), zap.String("request", r.Pattern))
}

// How long the gateway works on one request.
const (
	dialTimeout   = 15 * time.Second
	actionTimeout = 3 * time.Minute
)

// work is the context for what a request has begun: it ends with the server or
// after so long, not with the client's connection, because half a transfer is worse
// than one whose client left. It lets the answer be written as late.
func (s *Server) work(r *http.Request, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), limit)
	stop := context.AfterFunc(s.life, cancel)
	return ctx, func() { stop(); cancel() }
}
