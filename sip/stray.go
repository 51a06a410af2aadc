package sip

// receiveStray refuses what only makes sense in a call (RFC 3261 section 12.2.2) and
// what is not done for strangers: a REFER would have us call whom they like.
func (s *Server) receiveStray(m *message) {
	switch m.method {
	case "REFER":
		s.refuseStateless(m, refuse(403, "refer_outside_call", "REFER outside of a call is not taken"))
	case "SUBSCRIBE":
		s.refuseStateless(m, badEvent())
	default:
		s.refuseStateless(m, refuse(481, "dialog", "%s outside of a call", m.method))
	}
}

// badEvent refuses a subscription that is not of a REFER (RFC 6665 section 4.2.1.1).
func badEvent() *refusal {
	r := refuse(489, "event", "Only the events of a REFER are known here")
	r.fields = []field{{"Allow-Events", "refer"}}
	return r
}
