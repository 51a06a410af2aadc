package sip

// capabilities are the headers of an answer to OPTIONS (RFC 3261 section 11.2).
func capabilities() []field {
	return []field{{"Allow", methods}, {"Supported", "timer, 100rel, replaces, norefersub"}, {"Accept", "application/sdp"}, {"Accept-Encoding", "identity"}, {"Accept-Language", "en"}}
}

// receiveOptions answers OPTIONS outside of a call, without state. Peers probe a
// trunk with it: while draining the answer is that of an INVITE.
func (s *Server) receiveOptions(m *message) {
	if s.draining.Load() {
		r := refuse(503, "draining", "The server is draining")
		r.RetryAfter = s.cfg.RetryAfter
		s.refuseStateless(m, r)
		return
	}
	s.countResponse(200)
	fields := append(capabilities(), field{"Contact", contact(m)})
	s.deliver(m, s.response(m, 200, "", s.statelessTag(m), fields, nil))
}
