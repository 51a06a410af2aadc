package sip

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// rest waits until it is time to register again, and keeps the flow open. A lost
// flow ends the wait. False: the registration is to end.
func (r *Registration) rest(d time.Duration) bool {
	due := time.NewTimer(d)
	defer due.Stop()
	r.mu.Lock()
	f := r.flow
	r.mu.Unlock()
	var ping <-chan time.Time
	var over chan struct{}
	if f != nil && r.State().Registered {
		if k := r.link.t.KeepAlive; k > 0 {
			t := time.NewTicker(k)
			defer t.Stop()
			ping = t.C
		}
		if f.conn != nil {
			over = f.conn.over
			f.conn.calls.Add(1) // calls may come: it is not idle
			defer f.conn.calls.Add(-1)
		}
	}
	for {
		select {
		case <-due.C:
			return true
		case <-ping:
			if !r.keepAlive(f) {
				return r.lostFlow("the registrar does not answer")
			}
		case <-over:
			return r.lostFlow("the connection was closed")
		case <-r.rounds.Done():
			return false
		}
	}
}

// lostFlow makes the next round begin at once: nobody can call us until then. Only
// of a flow that is lost each time it is made the next one has to wait.
func (r *Registration) lostFlow(why string) bool {
	r.mu.Lock()
	held := time.Since(r.state.taken)
	r.state.Registered = false
	r.state.Err = fmt.Errorf("%w: %s", ErrTransport, why)
	r.mu.Unlock()
	r.s.log.Warn("sip: registration lost", zap.String("trunk", r.link.t.Name), zap.String("reason", why))
	if wait := r.link.t.Backoff - held; wait > 0 {
		return r.rest(wait)
	}
	return true
}

// keepAlive sends what keeps the flow open. False: the other end is gone.
func (r *Registration) keepAlive(f *flow) bool {
	if !r.link.t.Probe {
		return f.send([]byte("\r\n\r\n"), f.remote) == nil || f.conn == nil
	}
	t := r.link.t
	q := request{method: "OPTIONS", uri: "sip:" + t.domain(), routes: t.proxies(), from: "<" + t.aor(t.User) + ">;tag=" + newID(), to: "<sip:" + t.domain() + ">",
		callID: newID(), fields: []field{{"Contact", r.contact(f)}}}
	n := uint32(0)
	_, err := r.s.ask(r.rounds, q, f, f.remote, nil, func() uint32 { n++; return n }, 0)
	return err == nil || errors.Is(err, ErrUnauthorized) || r.rounds.Err() != nil
}
