package sip

import (
	"net/netip"
	"sync"
	"time"
)

// clientTx is the client transaction of a request that is not INVITE (RFC 3261
// section 17.1.2).
type clientTx struct {
	s        *Server
	branch   string
	method   string
	flow     *flow
	to       netip.AddrPort
	request  []byte
	mu       sync.Mutex
	interval time.Duration
	again    *time.Timer // timer E
	give     *time.Timer // timer F
	ended    bool
	done     chan struct{}
	code     int // of the final response; 0 when none came
}

// clientTable holds the client transactions by branch.
type clientTable struct {
	mu       sync.Mutex
	byBranch map[string]*clientTx
}

// send starts a client transaction. Its timers run by themselves; done is closed
// at the final response or at 64*T1.
func (s *Server) send(f *flow, to netip.AddrPort, method, branch string, request []byte) *clientTx {
	tx := &clientTx{s: s, branch: branch, method: method, flow: f, to: to, request: request,
		interval: s.cfg.T1, done: make(chan struct{})}
	s.clients.mu.Lock()
	s.clients.byBranch[branch] = tx
	s.clients.mu.Unlock()

	tx.mu.Lock()
	tx.give = time.AfterFunc(64*s.cfg.T1, func() { tx.finish(0) })
	if !f.reliable() {
		tx.again = time.AfterFunc(tx.interval, tx.resend)
	}
	tx.mu.Unlock()
	if err := f.send(request, to); err != nil && f.reliable() {
		// Over UDP the next copy may do better; a connection that is gone is gone.
		tx.finish(0)
	}
	return tx
}

func (tx *clientTx) resend() {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.ended || tx.s.stopped() {
		return
	}
	tx.s.sendAgain(tx.flow, tx.request, tx.to)
	tx.interval = min(2*tx.interval, tx.s.cfg.T2)
	tx.again.Reset(tx.interval)
}

// response takes a response whose branch and method match.
func (tx *clientTx) response(code int) {
	if code >= 200 {
		tx.finish(code)
		return
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.interval = tx.s.cfg.T2 // RFC 3261 section 17.1.2.2, state Proceeding
}

// finish ends the transaction. Copies of the response that come later find no
// transaction and are dropped, which is all that timer K would do.
func (tx *clientTx) finish(code int) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.ended {
		return
	}
	tx.ended, tx.code = true, code
	tx.give.Stop()
	if tx.again != nil {
		tx.again.Stop()
	}
	tx.s.clients.mu.Lock()
	delete(tx.s.clients.byBranch, tx.branch)
	tx.s.clients.mu.Unlock()
	close(tx.done)
}

// receiveResponse gives a response to its transaction. Stray ones are dropped.
func (s *Server) receiveResponse(m *message) {
	v, err := parseVia(m.all("via"))
	if err != nil || m.fault != nil {
		s.count(func(st *Stats) { st.Malformed++ })
		return
	}
	s.clients.mu.Lock()
	tx := s.clients.byBranch[v.branch]
	s.clients.mu.Unlock()
	if tx == nil || !cseqIs(m.get("cseq"), tx.method) {
		s.count(func(st *Stats) { st.Dropped++ })
		return
	}
	tx.response(m.code)
}
