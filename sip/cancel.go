package sip

// receiveCancel answers a CANCEL (RFC 3261 section 9.2). Every copy gets the same
// 200, with the To tag of the INVITE it matches; only on one without a final
// response does it have an effect. The 200 goes out before the 487.
func (s *Server) receiveCancel(m *message) {
	tx := s.txs.find(txKey(m, "INVITE"))
	if tx == nil {
		s.refuseStateless(m, refuse(481, "cancel", "No such INVITE"))
		return
	}
	s.countResponse(200)
	s.deliver(m, s.response(m, 200, "", tx.tag, nil, nil))
	tx.cancel()
}

// endEarly ends a dialog that was not answered. False: it was, or is over.
func (d *Dialog) endEarly(cause error) bool {
	d.mu.Lock()
	early := d.state == dialogEarly
	if early {
		d.state, d.invite, d.leg = dialogOver, nil, nil
		d.release()
	}
	d.mu.Unlock()
	if early {
		d.cancel(cause)
		d.s.dialogs.remove(d)
	}
	return early
}
