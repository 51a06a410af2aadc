package sip

import (
	"net/netip"
	"time"

	"go.uber.org/zap"
)

// What is done with a message before it costs anything, by where it comes from.
// Config.Gate has the rules; without one everybody is heard.

// heeds says whether a message is looked at, before it is read. A source that
// sends far more than calls take is left alone; its name, its User-Agent and what
// it says do not matter.
func (s *Server) heeds(f *flow) bool {
	g := s.cfg.Gate
	if g == nil || g.messages.take(f.remote.Addr(), time.Now()) || !s.stranger(f) {
		return true
	}
	s.count(func(st *Stats) { st.Limited++ })
	s.noise.warn("rate_messages", "sip: messages dropped", zap.String("rule", "rate_per_source"),
		zap.String("peer", f.remote.String()), zap.String("transport", f.transport()))
	return false
}

// stranger says that a peer is no trunk and not let in by its address.
func (s *Server) stranger(f *flow) bool {
	return s.cfg.Gate != nil && s.cfg.Gate.stranger(f) && !s.isTrunk(f.remote.Addr())
}

// isTrunk says that a trunk of ours was last reached at an address.
func (s *Server) isTrunk(addr netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.links {
		if to, ok := l.settled(); ok && to.addr.Addr() == addr {
			return true
		}
	}
	return false
}

// tolerates says whether a malformed request is worth an answer: of a stranger it
// counts as much as a call.
func (s *Server) tolerates(m *message) bool {
	g := s.cfg.Gate
	if g == nil || !s.stranger(m.flow) || g.strangers.take(m.flow.remote.Addr(), time.Now()) {
		return true
	}
	s.count(func(st *Stats) { st.Limited++ })
	s.noise.warn("rate_malformed", "sip: malformed request dropped", append(m.logFields(), zap.String("rule", "rate_per_source"))...)
	return false
}

// ignored says that a request gets no answer: it is a stranger's and belongs to
// nothing that we know of.
func (s *Server) ignored(m *message) bool {
	g := s.cfg.Gate
	if g == nil || g.cfg.Unknown != UnknownDrop || m.known || !s.stranger(m.flow) {
		return false
	}
	s.count(func(st *Stats) { st.Ignored++ })
	s.noise.warn("unknown", "sip: request of a stranger ignored", append(m.logFields(), zap.String("rule", "unknown_source"))...)
	return true
}

// took says that a request came before, on another path. Its credentials are no
// replay then.
func (t *txTable) took(merge string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.merge[merge] != nil
}

// passes judges a new INVITE before there is any state for it, and answers the
// one that may not go on. Copies of it are judged again, as RFC 3261 section 8.2.7
// has it; what is let in gets a transaction, which absorbs them.
func (s *Server) passes(m *message) bool {
	g := s.cfg.Gate
	if g == nil || s.draining.Load() { // draining, everybody gets the same answer
		return true
	}
	uri, err := ParseURI(m.uri)
	if err != nil || s.txs.took(mergeKey(m)) {
		return true // validate has read the one; the other is for begin to refuse
	}
	reg, _ := s.registrationOf(m, uri)
	a, rej := g.judge(m, reg)
	if rej == nil {
		m.admitted, m.gate, m.known = &a, g, true
		return true
	}
	dropped := rej.Rule == "rate_per_source" && !m.flow.reliable()
	ignored := !dropped && rej.Code == 403 && s.ignored(m)
	if s.cfg.Refused != nil {
		code := rej.Code
		if dropped || ignored {
			code = 0
		}
		s.cfg.Refused(code, rej.Rule)
	}
	switch {
	case dropped:
		s.count(func(st *Stats) { st.Limited++ })
		s.noise.warn("rate_per_source", "sip: call dropped", append(m.logFields(), zap.String("rule", rej.Rule))...)
	case !ignored:
		m.known = true // it gets this answer, whoever it is
		s.refuseStateless(m, &refusal{RejectError: *rej})
	}
	return false
}
