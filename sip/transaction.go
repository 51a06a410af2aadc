package sip

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The states of a server transaction (RFC 3261 figures 7 and 8, RFC 6026 section
// 7.1).
//
//	   request
//	      v
//	txProceeding (copies get the last 1xx again)
//	      │
//	      ├── INVITE, 2xx ──> txAccepted ───────────────────L──> txTerminated
//	      ├── INVITE, 300-699 ──> txCompleted (G) ──────────H────────^
//	      │                            │ ACK                         │
//	      │                            v                             │
//	      │                       txConfirmed ──────────────I────────┤
//	      └── not INVITE ──> txCompleted (copies) ──────────J────────┘
type txState int

const (
	txProceeding txState = iota // no final response yet
	txAccepted                  // INVITE, 2xx sent: the dialog sends it again
	txCompleted                 // final response sent, kept for retransmissions
	txConfirmed                 // INVITE, the ACK for a non-2xx came
	txTerminated
)

// serverTx is a server transaction. Its methods may be called from any
// goroutine.
type serverTx struct {
	s      *Server
	key    string
	merge  string // same for copies of a request that took different paths
	invite bool
	flow   *flow
	to     netip.AddrPort

	mu       sync.Mutex
	state    txState
	last     []byte // the last response; nil once it must not be sent again
	interval time.Duration
	again    *time.Timer // timer G
	end      *time.Timer // timers H, I, J, L

	// For a CANCEL: what to do, and the To tag of its answer. Set before the
	// transaction is in the table.
	onCancel func()
	tag      string
}

// txKey identifies the server transaction of a request (RFC 3261 section
// 17.2.3). ACK and CANCEL find the INVITE's with method INVITE. Peers of RFC 2543
// have no branch that could be used.
func txKey(m *message, method string) string {
	if len(m.via.branch) > 7 && strings.EqualFold(m.via.branch[:7], "z9hG4bK") {
		return m.via.branch + "\x00" + m.via.host + ":" + strconv.Itoa(m.via.port) + "\x00" + method
	}
	return m.callID + "\x00" + m.from.Tag + "\x00" + strconv.Itoa(int(m.cseq)) + "\x00" + m.via.raw + "\x00" + method
}

// mergeKey is the same for the copies of one request that forking proxies sent on
// over several paths (RFC 3261 section 8.2.2.2).
func mergeKey(m *message) string {
	return m.callID + "\x00" + m.from.Tag + "\x00" + strconv.Itoa(int(m.cseq)) + "\x00" + m.method
}

// txTable holds the server transactions.
type txTable struct {
	mu    sync.Mutex
	byKey map[string]*serverTx
	merge map[string]*serverTx
	// The most that were in them.
	keys, merges tide
}

func (t *txTable) find(key string) *serverTx {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byKey[key]
}

func (t *txTable) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byKey)
}

// Why add refused a transaction.
var (
	errTxFull   = errors.New("sip: no room for another transaction")
	errTxMerged = errors.New("sip: the request came on another path already")
	errTxKnown  = errors.New("sip: the transaction exists")
)

// add puts a transaction in, unless the table holds limit ones, this one, or that
// of a copy which took another path.
func (t *txTable) add(tx *serverTx, limit int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.byKey[tx.key] != nil:
		return errTxKnown
	case tx.merge != "" && t.merge[tx.merge] != nil:
		return errTxMerged
	case len(t.byKey) >= limit:
		return errTxFull
	}
	t.byKey[tx.key] = tx
	if tx.merge != "" {
		t.merge[tx.merge] = tx
	}
	return nil
}

func (t *txTable) remove(tx *serverTx) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byKey[tx.key] == tx {
		t.byKey = ebb(t.byKey, tx.key, &t.keys)
	}
	if tx.merge != "" && t.merge[tx.merge] == tx {
		t.merge = ebb(t.merge, tx.merge, &t.merges)
	}
}

// newTx makes the transaction of a request. begin puts it into the table.
func (s *Server) newTx(m *message, tag string) *serverTx {
	tx := &serverTx{s: s, key: txKey(m, m.method), invite: m.method == "INVITE", flow: m.flow, to: m.reply, tag: tag}
	if tx.invite && m.to.Tag == "" {
		tx.merge = mergeKey(m)
	}
	return tx
}

// begin puts a transaction into the table. When it cannot, it answers m and
// returns false.
func (s *Server) begin(m *message, tx *serverTx, limit int) bool {
	switch err := s.txs.add(tx, limit); err {
	case nil:
	case errTxKnown: // a copy, racing the first on another socket
		return false
	case errTxMerged:
		s.refuseStateless(m, refuse(482, "merged", "This request came on another path already"))
		return false
	default:
		s.overloaded(m)
		return false
	}
	if !tx.invite {
		// Nobody waits longer for the answer (timer F of the client).
		tx.mu.Lock()
		tx.end = time.AfterFunc(64*s.cfg.T1, tx.terminate)
		tx.mu.Unlock()
	}
	return true
}

// respond sends a response and takes the transaction on. False: there has been a
// final response, and nothing was sent. The error is the transport's; a lost
// response is sent again by the timers all the same.
func (tx *serverTx) respond(code int, b []byte) (bool, error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.state != txProceeding {
		return false, nil
	}
	tx.last = b
	if code >= 200 {
		tx.finish(code)
	}
	return true, tx.flow.send(b, tx.to)
}

// finish starts the timers of a final response. tx.mu is held.
func (tx *serverTx) finish(code int) {
	cfg := &tx.s.cfg
	tx.onCancel = nil // it holds the whole request, and the transaction lives on for 32 s
	if tx.end != nil {
		tx.end.Stop()
	}
	switch {
	case tx.invite && code < 300:
		tx.state = txAccepted
		tx.end = time.AfterFunc(64*cfg.T1, tx.terminate) // timer L
	case tx.invite:
		tx.state = txCompleted
		tx.end = time.AfterFunc(64*cfg.T1, tx.terminate) // timer H
		if !tx.flow.reliable() {
			tx.interval = cfg.T1
			tx.again = time.AfterFunc(tx.interval, tx.resend) // timer G
		}
	case tx.flow.reliable():
		tx.state = txCompleted
		tx.end = time.AfterFunc(0, tx.terminate) // timer J
	default:
		tx.state = txCompleted
		tx.end = time.AfterFunc(64*cfg.T1, tx.terminate) // timer J
	}
}

// resend is timer G: a non-2xx response to an INVITE goes out until the ACK.
func (tx *serverTx) resend() {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.state != txCompleted || tx.s.stopped() {
		return
	}
	tx.s.sendAgain(tx.flow, tx.last, tx.to)
	tx.interval = min(2*tx.interval, tx.s.cfg.T2)
	tx.again.Reset(tx.interval)
}

// repeat answers a retransmitted request with the last response.
func (tx *serverTx) repeat() {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.last != nil && tx.state != txConfirmed && tx.state != txTerminated {
		tx.s.sendAgain(tx.flow, tx.last, tx.to)
	}
}

// ack takes the ACK of a non-2xx response. False: that is not what this
// transaction waits for.
func (tx *serverTx) ack() bool {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	switch tx.state {
	case txConfirmed:
		return true
	case txCompleted:
	default:
		return false
	}
	tx.state = txConfirmed
	tx.last = nil
	if tx.again != nil {
		tx.again.Stop()
	}
	tx.end.Stop()
	linger := tx.s.cfg.T4 // timer I
	if tx.flow.reliable() {
		linger = 0
	}
	tx.end = time.AfterFunc(linger, tx.terminate)
	return true
}

// acknowledged tells an accepted transaction that the ACK of the 2xx came: copies
// of the INVITE are from now on absorbed in silence.
func (tx *serverTx) acknowledged() {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.last = nil
}

// open says that there was no final response yet.
func (tx *serverTx) open() bool {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	return tx.state == txProceeding
}

// cancel does what a CANCEL asks for, while it can.
func (tx *serverTx) cancel() {
	tx.mu.Lock()
	f := tx.onCancel
	if tx.state != txProceeding {
		f = nil
	}
	tx.mu.Unlock()
	if f != nil {
		f()
	}
}

// commit makes a CANCEL come too late from now on. False: one came, or the
// request has had its answer for another reason.
func (tx *serverTx) commit() bool {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.onCancel = nil
	return tx.state == txProceeding
}

func (tx *serverTx) terminate() {
	tx.mu.Lock()
	tx.state, tx.last = txTerminated, nil
	for _, t := range []*time.Timer{tx.again, tx.end} {
		if t != nil {
			t.Stop()
		}
	}
	tx.mu.Unlock()
	tx.s.txs.remove(tx)
}
