package sip

import (
	"context"
	"crypto/x509"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"
)

// provisionalInterval is how often a call that is not answered yet is kept alive
// (RFC 3261 section 13.3.1.1).
const provisionalInterval = time.Minute

// Invite is one new INVITE. It has one final response: of Answer, Reject, the
// caller's CANCEL, or the server's stop, whichever is first. All methods may be
// called from any goroutine.
type Invite struct {
	s    *Server
	id   string
	m    *message
	tx   *serverTx
	d    *Dialog
	uri  URI
	reg  *Registration
	mu   sync.Mutex
	keep *time.Timer
	rang bool

	rseq        uint32      // of the last reliable provisional
	lastRAck    uint32      // what was confirmed last
	unconfirmed []*reliable // the first was sent, the others wait

	timer       session // granted, from the answer on
	timerFields []field
}

// receiveInvite starts a call.
func (s *Server) receiveInvite(m *message) {
	if s.draining.Load() {
		r := refuse(503, "draining", "The server is draining")
		r.RetryAfter = s.cfg.RetryAfter
		s.refuseStateless(m, r)
		return
	}
	i := &Invite{s: s, id: newID(), m: m}
	i.uri, _ = ParseURI(m.uri) // validate has read it
	timer, fields, rej := s.cfg.Timer.grant(m)
	if rej != nil {
		s.refuseStateless(m, rej)
		return
	}
	i.timer, i.timerFields = timer, fields
	tag := newID()
	i.d = s.newDialog(m, i.id, tag)
	i.d.invite, i.d.prack = i, i.prack
	reg, home := s.registrationOf(m, i.uri)
	if i.reg = reg; home {
		i.d.link, i.d.trunk = reg.link, m.flow.remote.Addr()
	}
	i.tx = s.newTx(m, tag)
	i.tx.onCancel = func() { i.finish(487, nil, ErrCancelled) }
	if !s.begin(m, i.tx, s.cfg.MaxTransactions) {
		return
	}
	s.mu.Lock()
	s.invites[i] = struct{}{}
	handler := s.handler
	s.mu.Unlock()
	s.dialogs.put(i.d)
	// At once: a caller that hears nothing for T1 sends the INVITE again.
	if _, err := i.tx.respond(100, s.response(m, 100, "", "", nil, nil)); err != nil {
		s.noise.warn("send", "sip: response lost", append(i.logFields(), zap.Error(err))...)
	}
	s.countResponse(100)
	i.mu.Lock()
	i.keep = time.AfterFunc(provisionalInterval, i.keepAlive)
	i.mu.Unlock()
	if !s.spawn(func() { i.handle(handler) }) {
		i.fail(&RejectError{Code: 503, Rule: "shutdown", Text: "The server is stopping"}, ErrShutdown)
	}
}

// handle runs the handler and makes sure that the caller gets an answer.
func (i *Invite) handle(h Handler) {
	defer i.s.recovered("invite", func() {
		i.fail(&RejectError{Code: 500, Rule: "panic", Text: "Internal fault"}, ErrRejected)
	}, i.logFields)
	h(i.d.ctx, i)
	if i.fail(&RejectError{Code: 500, Rule: "unanswered", Text: "Internal fault"}, ErrRejected) {
		i.s.log.Error("sip: the handler gave no final response", i.logFields()...)
	}
}

func (i *Invite) keepAlive() {
	if i.s.stopped() || !i.tx.open() {
		return
	}
	i.tx.repeat()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keep.Reset(provisionalInterval)
}

// settle moves the INVITE to its final response; whoever gets true sends it.
func (i *Invite) settle(cause error) bool {
	if !i.d.endEarly(cause) {
		return false
	}
	i.forget()
	return true
}

func (i *Invite) forget() {
	i.mu.Lock()
	if i.keep != nil {
		i.keep.Stop()
	}
	for _, r := range i.unconfirmed {
		r.stop()
	}
	i.mu.Unlock()
	i.s.mu.Lock()
	delete(i.s.invites, i)
	i.s.mu.Unlock()
}

// finish gives the INVITE a final response that is not 2xx. False: it has had
// one.
func (i *Invite) finish(code int, fields []field, cause error) bool {
	if !i.settle(cause) {
		return false
	}
	i.respond(code, "", fields)
	return true
}

// fail is finish with a RejectError.
func (i *Invite) fail(r *RejectError, cause error) bool {
	if !i.settle(cause) {
		return false
	}
	i.respond(r.Code, r.Reason, refusalFields(i.m.flow, r))
	i.s.noise.warn("reject "+r.Rule, "sip: call refused", append(i.logFields(),
		zap.Int("code", r.Code), zap.String("rule", r.Rule), zap.String("reason", clean(r.Text, 200)))...)
	return true
}

func (i *Invite) respond(code int, reason string, fields []field) {
	i.s.countResponse(code)
	if _, err := i.tx.respond(code, i.s.response(i.m, code, reason, i.d.key.local, fields, nil)); err != nil {
		i.s.noise.warn("send", "sip: response lost", append(i.logFields(), zap.Int("code", code), zap.Error(err))...)
	}
}

// ID is the gateway's own name of the call for logs: 16 hex digits.
func (i *Invite) ID() string { return i.id }

// CallID is the SIP Call-ID, cut and cleaned for logs. The caller chose it.
func (i *Invite) CallID() string { return clean(i.m.callID, 128) }

// From is the From header.
func (i *Invite) From() Address { return i.m.from }

// To is the To header. It has no tag: ours is added by the responses.
func (i *Invite) To() Address { return i.m.to }

// RequestURI is who is called.
func (i *Invite) RequestURI() URI { return i.uri }

// Header returns the values of a header, one for each line, in order. Names are
// compared without case and compact forms count. Values are unfolded, but not
// split at commas; see ParseAddresses.
func (i *Invite) Header(name string) []string { return i.m.all(longName(name)) }

// Source is where the INVITE came from.
func (i *Invite) Source() netip.AddrPort { return i.m.flow.remote }

// Transport is "udp", "tcp", "tls", "ws" or "wss".
func (i *Invite) Transport() string { return i.m.flow.lis.cfg.Network }

// Certificate is the one that the peer showed on its TLS connection and that the
// listener verified; nil when there is none.
func (i *Invite) Certificate() *x509.Certificate {
	if i.m.flow.conn == nil {
		return nil
	}
	return i.m.flow.conn.certificate()
}

// Local is the address of ours that the peer sent to. It is never unspecified.
func (i *Invite) Local() netip.AddrPort { return i.m.flow.local }

// Offer is the session description in the body; nil when the caller wants our
// offer. The slice must not be changed.
func (i *Invite) Offer() []byte { return i.m.sdp }

// Context is done when the INVITE has had a final response that is not 2xx, and,
// once it was answered, when the call is over. context.Cause says why:
// ErrCancelled, ErrPeerBye (a BYE before the answer), ErrNoPRACK, ErrRejected,
// ErrShutdown, or one of Dialog.Context.
func (i *Invite) Context() context.Context { return i.d.ctx }

// Ring sends 180, once; more calls do nothing. When the caller requires it (RFC
// 3262) it is sent until confirmed, and the call refused with 504 when it never
// is. The error is ErrAnswered or one of
// Context after the final response, else the transport's.
func (i *Invite) Ring() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.rang {
		return nil
	}
	i.rang = true
	return i.provisional(180, nil)
}

// Reject sends a final response that is not 2xx. It is sent again until the ACK
// comes. The error is ErrAnswered or one of Context when there was a final
// response before.
func (i *Invite) Reject(r *RejectError) error {
	if r.Code < 300 || r.Code > 699 {
		r = &RejectError{Code: 500, Rule: r.Rule, Text: r.Text}
	}
	if !i.fail(r, ErrRejected) {
		return i.gone()
	}
	return nil
}

// gone says why there can be no more responses.
func (i *Invite) gone() error {
	if cause := context.Cause(i.d.ctx); cause != nil {
		return cause
	}
	return ErrAnswered
}

// dialogFields are the headers of a response that makes a dialog (RFC 3261
// section 12.1.1).
func (i *Invite) dialogFields() []field {
	var fields []field
	for _, v := range i.m.all("record-route") {
		fields = append(fields, field{"Record-Route", v})
	}
	return append(fields, field{"Contact", contact(i.m)}, field{"Allow", methods})
}

func (i *Invite) logFields() []zap.Field {
	return append(i.m.logFields(), zap.String("call_id", i.id))
}

// contact is our Contact in a dialog that m belongs to: the user that was called,
// at the address that the peer reached or that is advertised, with the transport.
// It is a sips URI only when the peer used one (RFC 3261 section 12.1.1): many
// that speak TLS do not know sips.
func contact(m *message) string {
	u, err := ParseURI(m.uri)
	if err != nil {
		u = URI{}
	}
	return contactOf(m.flow, u.User, u.Scheme == "sips")
}

func contactOf(f *flow, user string, sips bool) string {
	if plainUser(user) {
		user += "@"
	} else {
		user = ""
	}
	if sips && f.lis.websocket() {
		return "<sips:" + user + f.sentBy() + ";transport=ws>"
	}
	if sips {
		return "<sips:" + user + f.sentBy() + ">"
	}
	return "<sip:" + user + f.sentBy() + ";transport=" + f.param() + ">"
}

// plainUser says that a user part needs no escapes and is no trouble for peers.
func plainUser(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '+', c == '-', c == '.', c == '_':
		default:
			return false
		}
	}
	return true
}
