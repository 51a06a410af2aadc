package sip

import (
	"net/netip"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
)

// clientTx is the client transaction of a request (RFC 3261 section 17.1, RFC
// 6026 section 7.2). Its timers run by themselves: it needs no goroutine. Set the
// fields of the first block, then call Server.transact.
type clientTx struct {
	method, branch string
	flow           *flow
	to             netip.AddrPort
	request        []byte
	// heard, when set, is told of every response but copies of refusals: every
	// provisional, every 2xx of an INVITE, the refusal. It is called with nil once
	// when no final response comes; err says why. It runs on the goroutine of the
	// socket, in order, and must not wait.
	heard func(*message)
	// Of an INVITE: acknowledge writes the ACK of a refusal, and cancelText is its
	// CANCEL.
	acknowledge func(*message) []byte
	cancelText  func(Reason) []byte

	s        *Server
	done     chan struct{} // closed at the first final response or at the failure
	mu       sync.Mutex
	state    clientState
	interval time.Duration
	again    *time.Timer // timers A, E
	end      *time.Timer // timers B, F; D, M
	final    *message    // nil when none came
	err      error       // why none came
	ack      []byte      // of a refusal
	unwanted bool        // cancel was called
	why      Reason      // of that
	took     bool        // and the CANCEL was sent
}

// The states of a client transaction (RFC 3261 figures 5 and 6, RFC 6026 section 7.2).
// What is not INVITE ends at its final response: copies of that find nothing.
//
//	       request sent
//	            │    B or F fires, or the connection is gone
//	            v    ┌────────────────────────────────────────────┐
//	     clientCalling (A, E: sent again)                         │
//	       │    │ 1xx                                             │
//	final  │    v                                                 │
//	       │  clientProceeding (E every T2) ──────────────────────┤
//	       │    │ final                                           │
//	       ├────┘                                                 v
//	       ├── INVITE, 2xx ──> clientAccepted (more 2xx) ──M──> clientTerminated
//	       ├── INVITE, 300-699 ──> clientCompleted (ACK) ──D──────^
//	       └── not INVITE ────────────────────────────────────────┘
type clientState int

const (
	clientCalling    clientState = iota // nothing was heard
	clientProceeding                    // a provisional was
	clientAccepted                      // INVITE: a 2xx was, more may come
	clientCompleted                     // INVITE: refused; copies get the ACK again
	clientTerminated
)

// clientTable holds the client transactions. A CANCEL has the branch of its
// INVITE, so the method belongs to the key (RFC 3261 section 17.1.3).
type clientTable struct {
	mu    sync.Mutex
	byKey map[string]*clientTx
	most  tide
}

func clientKey(branch, method string) string { return branch + "\x00" + method }

func (t *clientTable) find(branch, method string) *clientTx {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byKey[clientKey(branch, method)]
}

func (t *clientTable) remove(tx *clientTx) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byKey = ebb(t.byKey, clientKey(tx.branch, tx.method), &t.most)
}

// on lists the transactions that wait for something on a connection.
func (t *clientTable) on(c *tcpConn) []*clientTx {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*clientTx
	for _, tx := range t.byKey {
		if tx.flow.conn == c {
			all = append(all, tx)
		}
	}
	return all
}

func newBranch() string { return "z9hG4bK" + newID() }

// transact sends a request and starts its transaction.
func (s *Server) transact(tx *clientTx) *clientTx {
	tx.s, tx.interval, tx.done = s, s.cfg.T1, make(chan struct{})
	s.clients.mu.Lock()
	s.clients.byKey[clientKey(tx.branch, tx.method)] = tx
	s.clients.mu.Unlock()

	tx.mu.Lock()
	tx.end = time.AfterFunc(64*s.cfg.T1, func() { tx.fail(ErrTimeout) }) // timers B and F
	if !tx.flow.reliable() {
		tx.again = time.AfterFunc(tx.interval, tx.resend) // timers A and E
	}
	tx.mu.Unlock()
	if err := tx.flow.send(tx.request, tx.to); err != nil && tx.flow.reliable() {
		// Over UDP the next copy may do better; a connection that is gone is gone.
		tx.fail(err)
	}
	return tx
}

func (tx *clientTx) invite() bool { return tx.method == "INVITE" }

func (tx *clientTx) resend() {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	waits := tx.state == clientCalling || tx.state == clientProceeding && !tx.invite()
	if !waits || tx.s.stopped() {
		return
	}
	tx.s.sendAgain(tx.flow, tx.request, tx.to)
	tx.interval *= 2
	if !tx.invite() {
		tx.interval = min(tx.interval, tx.s.cfg.T2)
	}
	tx.again.Reset(tx.interval)
}

// response takes a response that belongs to this transaction.
func (tx *clientTx) response(m *message) {
	if !tx.step(m) {
		return
	}
	tx.takeBack()
	if tx.heard != nil {
		tx.heard(m)
	}
}

// step takes the transaction on. False: nobody else needs the response.
func (tx *clientTx) step(m *message) bool {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	open := tx.state == clientCalling || tx.state == clientProceeding
	switch {
	case m.code < 200:
		if open {
			tx.proceed()
		}
		return open
	case tx.invite() && m.code < 300:
		if open {
			tx.settle(clientAccepted, m, nil)
			tx.linger(64 * tx.s.cfg.T1) // timer M
		}
		return tx.state == clientAccepted
	case tx.state == clientCompleted:
		tx.s.sendAgain(tx.flow, tx.ack, tx.to)
		return false
	case !open:
		return false
	case !tx.invite():
		// Copies that come later find no transaction and are dropped, which is all
		// that timer K would do.
		tx.settle(clientTerminated, m, nil)
		return true
	}
	tx.ack = tx.acknowledge(m)
	tx.settle(clientCompleted, m, nil)
	if err := tx.flow.send(tx.ack, tx.to); err != nil {
		tx.s.noise.warn("send", "sip: ACK lost", append(m.logFields(), zap.Error(err))...)
	}
	if tx.flow.reliable() {
		tx.terminate()
	} else {
		tx.linger(64 * tx.s.cfg.T1) // timer D
	}
	return true
}

// proceed is the effect of a provisional response: an INVITE waits from now on for
// as long as its user likes, other requests are repeated more seldom. tx.mu is
// held.
func (tx *clientTx) proceed() {
	tx.state = clientProceeding
	if !tx.invite() {
		tx.interval = tx.s.cfg.T2
		return
	}
	tx.end.Stop()
	if tx.again != nil {
		tx.again.Stop()
	}
}

// inviteTx prepares the transaction of an INVITE. r must not change any more.
func (s *Server) inviteTx(r *request, f *flow, to netip.AddrPort, heard func(*message)) *clientTx {
	branch := newBranch()
	cancel := request{method: "CANCEL", uri: r.uri, routes: r.routes, from: r.from, to: r.to, callID: r.callID, cseq: r.cseq}
	return &clientTx{
		method: "INVITE", branch: branch, flow: f, to: to, heard: heard,
		request: s.write(r, f, branch),
		cancelText: func(why Reason) []byte {
			c := cancel
			c.fields = why.fields()
			return s.write(&c, f, branch)
		},
		acknowledge: func(m *message) []byte {
			ack := cancel
			ack.method, ack.to = "ACK", m.get("to")
			return s.write(&ack, f, branch)
		},
	}
}

// cancel takes an INVITE back: at once when the peer was heard of, else when it is
// (RFC 3261 section 9.1). One that has had its final response stays as it is. A
// peer that answers the INVITE with nothing after that is given up. why goes with it (RFC
// 3326): telephones do not list as missed what was answered elsewhere.
func (tx *clientTx) cancel(why Reason) {
	tx.mu.Lock()
	if !tx.unwanted {
		tx.unwanted, tx.why = true, why
	}
	tx.mu.Unlock()
	tx.takeBack()
}

func (tx *clientTx) takeBack() {
	tx.mu.Lock()
	now := tx.unwanted && !tx.took && tx.state == clientProceeding
	tx.took = tx.took || now
	tx.mu.Unlock()
	if !now {
		return
	}
	time.AfterFunc(64*tx.s.cfg.T1, func() { tx.fail(ErrTimeout) })
	tx.s.transact(&clientTx{method: "CANCEL", branch: tx.branch, flow: tx.flow, to: tx.to, request: tx.cancelText(tx.why)})
}

// settle records the outcome. tx.mu is held.
func (tx *clientTx) settle(state clientState, m *message, err error) {
	tx.state, tx.final, tx.err = state, m, err
	tx.end.Stop()
	if tx.again != nil {
		tx.again.Stop()
	}
	if state == clientTerminated {
		tx.s.clients.remove(tx)
	}
	close(tx.done)
}

// linger keeps the transaction for late messages. tx.mu is held.
func (tx *clientTx) linger(d time.Duration) {
	tx.end = time.AfterFunc(d, func() {
		tx.mu.Lock()
		defer tx.mu.Unlock()
		tx.terminate()
	})
}

// terminate takes it out of the table. tx.mu is held.
func (tx *clientTx) terminate() {
	tx.state = clientTerminated
	tx.s.clients.remove(tx)
}

// fail ends a transaction that has no final response.
func (tx *clientTx) fail(err error) {
	tx.mu.Lock()
	if tx.state != clientCalling && tx.state != clientProceeding {
		tx.mu.Unlock()
		return
	}
	tx.settle(clientTerminated, nil, err)
	tx.mu.Unlock()
	if tx.heard != nil {
		tx.heard(nil)
	}
}

// lost fails what waits on a connection that is gone (RFC 3261 section 17.1.4).
func (s *Server) lost(c *tcpConn) {
	for _, tx := range s.clients.on(c) {
		tx.fail(ErrTransport)
	}
}

// receiveResponse gives a response to its transaction. Stray ones are dropped.
func (s *Server) receiveResponse(m *message) {
	if !m.readResponse() {
		s.count(func(st *Stats) { st.Malformed++ })
		return
	}
	_, method, _ := cutBlank(m.get("cseq"))
	tx := s.clients.find(m.via.branch, method)
	if tx == nil {
		s.count(func(st *Stats) { st.Dropped++ })
		return
	}
	tx.response(m)
}

// readResponse reads what a response is matched and understood by. False: it
// cannot be used.
func (m *message) readResponse() bool {
	var err error
	if m.checkSize() != nil {
		return false
	}
	if m.via, err = parseVia(m.all("via")); err != nil || m.fault != nil {
		return false
	}
	m.callID = m.get("call-id")
	number, _, ok := cutBlank(m.get("cseq"))
	n, err := strconv.ParseUint(number, 10, 32)
	if !ok || err != nil {
		return false
	}
	m.cseq = uint32(n)
	if m.from, err = ParseAddress(m.get("from")); err != nil {
		return false
	}
	if m.to, err = ParseAddress(m.get("to")); err != nil || len(m.to.Tag) > maxTag {
		return false
	}
	if len(m.body) > 0 {
		m.sdp, _ = findSDP(m.get("content-type"), m.body)
	}
	return true
}
