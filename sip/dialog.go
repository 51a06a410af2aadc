package sip

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// DialogHandler is told what the peer asks for inside a dialog. Its methods are
// called one at a time and in the order of the requests, on goroutines of the
// server. They should be quick: the peer waits, and so does the next request. A
// panic is answered 500 and the call goes on.
type DialogHandler interface {
	// Offer takes the offer of a re-INVITE or UPDATE and returns the answer. With
	// a refusal the session goes on as it was (RFC 3261 section 14.2).
	Offer(sdp []byte) (answer []byte, rej *RejectError)
	// MakeOffer returns our offer for a re-INVITE without one: all that we can,
	// sendrecv (RFC 6337 section 5.3), never the state of a hold. nil refuses.
	MakeOffer() []byte
	// Answer takes the peer's answer to an offer of ours: that of an INVITE
	// without offer, of MakeOffer, or of Server.Dial. An error ends the call. It is
	// not called when there is none; the call is ended then too.
	Answer(sdp []byte) error
	// Info takes the body of an INFO (RFC 2976), as for DTMF. false is answered
	// 415.
	Info(contentType string, body []byte) (handled bool)
}

type dialogState int

const (
	dialogEarly dialogState = iota // the INVITE has no final response
	dialogUp                       // 2xx was sent
	dialogOver
)

// dialogKey identifies a dialog (RFC 3261 section 12). The Request-URI is no part
// of it: many peers keep the one they dialled.
type dialogKey struct{ callID, local, remote string }

// Dialog is a call that was answered, by us or by whom we called. All methods may be
// called from any goroutine. It is one dialog with up to three kinds of use (RFC
// 5057): the call itself, whose end is the end of Context, and the subscriptions
// that REFERs make, ours and the peer's, which may outlive it.
type Dialog struct {
	s   *Server
	id  string
	key dialogKey

	from, to  string     // of requests of ours, with tags
	contact   string     // of ours
	link      *link      // the trunk that the call goes through, nil without
	trunk     netip.Addr // of it: only there challenges are answered
	caller    bool       // the Call-ID is ours
	routes    []string   // the route set, each in brackets
	ctx       context.Context
	cancel    context.CancelCauseFunc
	confirmed chan struct{}

	mu         sync.Mutex
	state      dialogState
	handler    DialogHandler
	invite     *Invite // while early, of a call that came in
	leg        *leg    // while early, of a call of ours
	prack      func(rack string) bool
	agreed     bool    // the first offer has its answer: UPDATE may change it (RFC 3311)
	changed    bool    // an UPDATE did, before the call was answered
	given      bool    // the handler has the answer to our INVITE
	flow       *flow   // of the INVITE, or of the last target refresh
	target     Address // the peer's Contact
	reachable  bool    // there was one
	remoteCSeq int64   // -1: the peer has sent no request
	localCSeq  uint32
	acked      bool
	pending    []*accepted   // 2xx responses that wait for an ACK
	offerOpen  bool          // an offer of ours waits for its answer
	busy       bool          // a re-INVITE or UPDATE is being answered
	free       chan struct{} // closed when neither is so; nil when nobody waits
	local      []byte        // the description of ours that is in force
	updates    bool          // the peer takes UPDATE
	session    session
	clock      *time.Timer // of session
	queue      []job
	running    bool
	referred   bool            // a REFER of ours was sent
	subs       []*subscription // of our REFERs
	referrals  []*Referral     // of the peer's, while they are told of
	referTaken bool            // the peer has sent a REFER
	byeDone    chan struct{}   // not nil once Bye was called
	byeErr     error
}

// dialogTable holds the dialogs, also those that ended not long ago.
type dialogTable struct {
	mu    sync.Mutex
	byKey map[dialogKey]*Dialog
	most  tide
	up    atomic.Int64
}

func (t *dialogTable) find(m *message) *Dialog {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byKey[dialogKey{m.callID, m.to.Tag, m.from.Tag}]
}

func (t *dialogTable) put(d *Dialog) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byKey[d.key] = d
}

func (t *dialogTable) remove(d *Dialog) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byKey = ebb(t.byKey, d.key, &t.most)
}

func (t *dialogTable) all() []*Dialog {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*Dialog
	for _, d := range t.byKey {
		all = append(all, d)
	}
	return all
}

func (t *dialogTable) live() int { return int(t.up.Load()) }

// newDialog makes the early dialog of an INVITE.
func (s *Server) newDialog(m *message, id, tag string) *Dialog {
	d := &Dialog{
		s:          s,
		id:         id,
		key:        dialogKey{callID: m.callID, local: tag, remote: m.from.Tag},
		from:       m.get("to") + ";tag=" + tag,
		to:         m.get("from"),
		confirmed:  make(chan struct{}),
		flow:       m.flow,
		remoteCSeq: int64(m.cseq),
		contact:    contact(m),
		updates:    m.allows("UPDATE"),
	}
	d.ctx, d.cancel = context.WithCancelCause(context.Background())
	for _, v := range m.all("record-route") {
		d.routes = append(d.routes, splitComma(v)...)
	}
	// validate has read it. Where there is none, From is what can be written into
	// a Request-URI; it says nothing about where to send that.
	d.target = m.from
	if v := m.get("contact"); v != "" {
		d.target, _ = ParseAddress(v)
		d.reachable = true
	}
	return d
}

// ID is 16 hex digits for logs: that of the Invite, if there is one.
func (d *Dialog) ID() string { return d.id }

// Context is done when the call is over. context.Cause says why: ErrPeerBye,
// ErrLocalBye, ErrNoACK, ErrNoAnswer, ErrGone, ErrExpired or ErrShutdown.
func (d *Dialog) Context() context.Context { return d.ctx }

// Confirmed is closed when the ACK of the 200 came, or was sent.
func (d *Dialog) Confirmed() <-chan struct{} { return d.confirmed }

// CallID is the Call-ID of the call, as it stands in the messages. In a call that
// came in the peer chose it.
func (d *Dialog) CallID() string { return d.key.callID }

// Tags are those of the dialog, ours and the peer's (RFC 3261 section 12).
func (d *Dialog) Tags() (local, remote string) { return d.key.local, d.key.remote }

// end makes the dialog over. False: it was over before.
func (d *Dialog) end(cause error) bool {
	d.mu.Lock()
	before := d.state
	if before == dialogOver {
		d.mu.Unlock()
		return false
	}
	d.state = dialogOver
	for _, a := range d.pending {
		a.stop()
	}
	d.pending, d.invite, d.leg = nil, nil, nil
	d.release()
	if d.clock != nil {
		d.clock.Stop()
	}
	if before == dialogUp {
		d.s.dialogs.up.Add(-1)
		d.hold(d.flow, -1)
	}
	d.mu.Unlock()
	d.cancel(cause)
	if before == dialogEarly {
		d.s.dialogs.remove(d)
		return true
	}
	time.AfterFunc(64*d.s.cfg.T1, d.forget)
	return true
}

// forget takes a dialog that is over out of the table. Until then a BYE of the peer
// that crosses ours, and copies of the last requests, find it for as long as they
// can be under way, and so does what belongs to subscriptions that are not over (RFC
// 5057 section 4.1); they all end in time.
func (d *Dialog) forget() {
	d.mu.Lock()
	used := len(d.subs) > 0 || len(d.referrals) > 0
	d.mu.Unlock()
	if used && !d.s.stopped() {
		time.AfterFunc(64*d.s.cfg.T1, d.forget)
		return
	}
	d.s.dialogs.remove(d)
}

// outlives says whether a request is of use after the end of the call. d.mu is held.
func (d *Dialog) outlives(method string) bool {
	switch method {
	case "BYE":
		return true
	case "NOTIFY":
		return d.referred
	case "SUBSCRIBE":
		return len(d.referrals) > 0
	}
	return false
}

// hold counts a call on a connection, which is kept open as long as it has any.
func (d *Dialog) hold(f *flow, n int32) {
	if f.conn != nil {
		f.conn.calls.Add(n)
	}
}

// receive takes a request inside the dialog, on the goroutine of its socket. What
// needs no handler is done at once, the rest is queued; either way the peer gets
// an answer.
func (d *Dialog) receive(m *message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state == dialogOver && !d.outlives(m.method) {
		d.s.refuseStateless(m, refuse(481, "dialog", "The call is over"))
		return
	}
	if int64(m.cseq) < d.remoteCSeq {
		// RFC 3261 section 12.2.2.
		d.s.refuseStateless(m, refuse(500, "cseq", "CSeq is lower than one before"))
		return
	}
	if int64(m.cseq) == d.remoteCSeq {
		d.s.refuseStateless(m, refuse(482, "merged", "CSeq was used for another request"))
		return
	}
	tx := d.s.newTx(m, d.key.local)
	if m.method == "INVITE" {
		tx.onCancel = func() { d.finish(m, tx, 487, nil, nil) }
	}
	if !d.s.begin(m, tx, 2*d.s.cfg.MaxTransactions) {
		return
	}
	d.remoteCSeq = int64(m.cseq)
	switch m.method {
	case "BYE":
		d.receiveBye(m, tx)
	case "OPTIONS":
		d.finish(m, tx, 200, append(capabilities(), field{"Contact", contact(m)}), nil)
	case "INVITE":
		d.receiveReinvite(m, tx)
	case "UPDATE":
		d.receiveUpdate(m, tx)
	case "INFO":
		d.receiveInfo(m, tx)
	case "PRACK":
		d.receivePRACK(m, tx)
	case "REFER":
		d.receiveRefer(m, tx)
	case "NOTIFY":
		d.receiveNotify(m, tx)
	case "SUBSCRIBE":
		d.receiveSubscribe(m, tx)
	}
}

// finish sends the final response of a request inside the dialog. False: it has
// had one.
func (d *Dialog) finish(m *message, tx *serverTx, code int, fields []field, body []byte) bool {
	if len(body) > 0 {
		fields = append(fields, field{"Content-Type", "application/sdp"})
	}
	sent, err := tx.respond(code, d.s.response(m, code, "", d.key.local, fields, body))
	if sent {
		d.s.countResponse(code)
	}
	if err != nil {
		d.s.noise.warn("send", "sip: response lost", append(d.logFields(), zap.Int("code", code), zap.Error(err))...)
	}
	return sent
}

// refuse is finish with a RejectError.
func (d *Dialog) refuse(m *message, tx *serverTx, r *RejectError) {
	d.refuseWith(m, tx, &refusal{RejectError: *r})
}

// refuseWith is refuse with more headers.
func (d *Dialog) refuseWith(m *message, tx *serverTx, r *refusal) {
	fields := append(refusalFields(m.flow, &r.RejectError), r.fields...)
	sent, err := tx.respond(r.Code, d.s.response(m, r.Code, r.Reason, d.key.local, fields, nil))
	if sent {
		d.s.countResponse(r.Code)
	}
	d.s.noise.warn("dialog refuse "+r.Rule, "sip: request in a call refused", append(d.logFields(),
		zap.String("method", m.method), zap.Int("code", r.Code), zap.String("rule", r.Rule), zap.String("reason", clean(r.Text, 200)), zap.Error(err))...)
}

// refresh takes over the peer's Contact and the way it reached us (RFC 3261
// section 12.2.2). d.mu is held.
func (d *Dialog) refresh(m *message) {
	if a, err := ParseAddress(m.get("contact")); err == nil {
		d.target, d.reachable = a, true
	}
	if d.state == dialogUp {
		d.hold(m.flow, 1)
		d.hold(d.flow, -1)
	}
	d.flow = m.flow
}

func (d *Dialog) logFields() []zap.Field {
	return []zap.Field{zap.String("call_id", d.id), zap.String("sip_call_id", clean(d.key.callID, 128))}
}
