package sip

// receiveInfo queues an INFO for the handler. One without a body says only that
// the call is there (RFC 2976 section 2.2). d.mu is held.
func (d *Dialog) receiveInfo(m *message, tx *serverTx) {
	if len(m.body) == 0 {
		d.finish(m, tx, 200, nil, nil)
		return
	}
	if d.state == dialogEarly {
		d.finish(m, tx, 500, retrySoon(), nil)
		return
	}
	d.enqueue(m, tx, false, func() {
		if d.ended(m, tx) {
			return
		}
		if !d.handler.Info(m.get("content-type"), m.body) {
			d.finish(m, tx, 415, []field{{"Accept", "application/sdp, application/dtmf-relay, application/dtmf"}}, nil)
			return
		}
		d.finish(m, tx, 200, nil, nil)
	})
}
