package sip

import (
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	"go.uber.org/zap"
)

// receive takes one message from a socket. It runs on the goroutine of that
// socket or connection, so messages of one peer are seen in the order in which
// they arrived; nothing here waits for a handler.
func (s *Server) receive(f *flow, raw []byte) {
	defer s.recovered("message", func() {}, nil)
	if !s.heeds(f) {
		return
	}
	m := parse(s.parser, raw)
	if m == nil {
		s.count(func(st *Stats) { st.Malformed++ })
		s.noise.warn("unreadable", "sip: not a SIP message", zap.String("peer", f.remote.String()),
			zap.String("transport", f.transport()), zap.Int("bytes", len(raw)))
		return
	}
	m.flow = f
	if !m.request {
		s.receiveResponse(m)
		return
	}
	s.countRequest(m.method)
	var err error
	if m.via, err = parseVia(m.all("via")); err != nil {
		// Without a Via there is no way back (RFC 3261 section 18.2.2).
		s.count(func(st *Stats) { st.Malformed++ })
		s.noise.warn("via", "sip: request without a usable Via", m.logFields()...)
		return
	}
	m.reply = m.via.replyAddr(f.remote)
	if r := m.validate(s.cfg.MaxMessage); r != nil {
		s.count(func(st *Stats) { st.Malformed++ })
		if s.tolerates(m) {
			s.refuseStateless(m, r)
		}
		return
	}
	s.dispatch(m)
}

// dispatch finds what a valid request belongs to: a transaction, a dialog, or
// nothing yet.
func (s *Server) dispatch(m *message) {
	switch m.method {
	case "ACK":
		s.receiveACK(m)
		return
	case "CANCEL":
		s.receiveCancel(m)
		return
	}
	if tx := s.txs.find(txKey(m, m.method)); tx != nil {
		tx.repeat()
		return
	}
	if m.to.Tag != "" {
		d := s.dialogs.find(m)
		if d == nil {
			s.refuseStateless(m, refuse(481, "dialog", "No such call"))
			return
		}
		m.known = true
		d.receive(m)
		return
	}
	switch m.method {
	case "INVITE":
		if s.passes(m) {
			s.receiveInvite(m)
		}
	case "OPTIONS":
		if !s.ignored(m) {
			s.receiveOptions(m)
		}
	default:
		s.receiveStray(m)
	}
}

// receiveACK gives an ACK to the transaction whose refusal it confirms, or to the
// dialog whose 2xx it confirms. A stray one is dropped: an ACK is never answered.
func (s *Server) receiveACK(m *message) {
	if tx := s.txs.find(txKey(m, "INVITE")); tx != nil && tx.ack() {
		return
	}
	if d := s.dialogs.find(m); d != nil && d.receiveACK(m) {
		return
	}
	s.count(func(st *Stats) { st.Dropped++ })
}

// overloaded is the answer when no transaction could be had.
func (s *Server) overloaded(m *message) {
	s.count(func(st *Stats) { st.Overloads++ })
	r := refuse(503, "max_transactions", "At the limit of transactions")
	r.RetryAfter = s.cfg.RetryAfter
	s.refuseStateless(m, r)
}

// recovered, deferred, keeps a panic from ending more than the request that
// caused it, and calls then. fields say whose it was; nil: not known. It must be deferred
// directly.
func (s *Server) recovered(where string, then func(), fields func() []zap.Field) {
	v := recover()
	if v == nil {
		return
	}
	s.count(func(st *Stats) { st.Panics++ })
	var about []zap.Field
	if fields != nil {
		about = fields()
	}
	s.log.Error("sip: panic", append(about, zap.String("where", where), zap.Any("panic", v), zap.ByteString("stack", debug.Stack()))...)
	then()
}

// retrySoon is the random Retry-After of RFC 3261 section 14.2.
func retrySoon() []field {
	return []field{{"Retry-After", seconds(time.Duration(rand.IntN(11)) * time.Second)}}
}

// cutBlank splits at the first run of blanks.
func cutBlank(s string) (before, after string, ok bool) {
	parts := strings.Fields(s)
	if len(parts) != 2 {
		return s, "", false
	}
	return parts[0], parts[1], true
}
