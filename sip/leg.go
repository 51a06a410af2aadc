package sip

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
)

// maxHeard bounds the provisional responses that wait to be passed on.
const maxHeard = 32

// largestUDP is the size from which a request should not go over UDP (RFC 3261
// section 18.1.1).
const largestUDP = 1300

// leg is one INVITE of a call being made, until nothing more can come of it. It
// lives by the callbacks of its transaction: who made it may be long gone when a
// late 2xx comes, which is acknowledged and ended then (RFC 3261 section
// 13.2.2.4). Forking makes several 2xx, one dialog each.
type leg struct {
	c       *dialling
	request request
	contact string
	tx      *clientTx
	wake    chan struct{}

	mu      sync.Mutex
	heard   []*message         // not yet taken; nil stands for a failure
	dropped bool               // nobody wants it any more
	taken   bool               // a 2xx was
	dialogs map[string]*Dialog // by To tag
	acks    map[string]func()  // send the ACK once more
	sdp     map[string][]byte  // of provisionals, by To tag
}

// send sends an INVITE.
func (c *dialling) send(ctx context.Context, f *flow) (*leg, error) {
	creds, err := c.login.fields("INVITE", c.uri)
	if err != nil {
		return nil, err
	}
	c.cseq++
	l := &leg{c: c, wake: make(chan struct{}, 1), dialogs: make(map[string]*Dialog), acks: make(map[string]func()), sdp: make(map[string][]byte)}
	l.contact = contactOf(f, c.link.t.User, false)
	if u, err := ParseURI(c.uri); err == nil && u.Scheme == "sips" {
		l.contact = contactOf(f, c.link.t.User, true)
	}
	fields := []field{{"Contact", l.contact}, {"Allow", methods}, {"Accept", "application/sdp"}}
	fields = append(fields, c.timer.fields()...)
	for _, h := range c.o.Headers {
		fields = append(fields, field{h.Name, h.Value})
	}
	c.link.mu.Lock()
	routes := c.link.routes
	c.link.mu.Unlock()
	l.request = request{method: "INVITE", uri: c.uri, routes: routes, from: c.from, to: c.to, callID: c.callID, cseq: c.cseq,
		fields: append(fields, creds...), body: c.o.Offer}
	l.tx = c.s.inviteTx(&l.request, f, f.remote, l.hear)
	if len(l.tx.request) > largestUDP && !f.reliable() {
		if other := c.s.overTCP(ctx, f); other != nil {
			l.tx = c.s.inviteTx(&l.request, other, other.remote, l.hear)
		}
	}
	c.s.transact(l.tx)
	return l, nil
}

// overTCP is a connection to where a flow of UDP leads, or nil: peers that take
// no TCP get fragments, which mostly arrive.
func (s *Server) overTCP(ctx context.Context, f *flow) *flow {
	ctx, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	other, err := s.connect(ctx, "tcp", f.remote, s.cfg.TLS, nil)
	if err != nil {
		return nil
	}
	return other
}

// hear takes what the transaction hears, on the goroutine of the socket.
func (l *leg) hear(m *message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case m == nil || m.code >= 300:
	case m.code < 200:
		if m.sdp != nil && len(l.sdp) < maxHeard {
			l.sdp[m.to.Tag] = m.sdp
		}
		if len(l.heard) >= maxHeard {
			return
		}
	default:
		if again := l.acks[m.to.Tag]; again != nil {
			again() // our ACK was lost
			return
		}
		if l.dialogs[m.to.Tag] != nil || len(l.dialogs) >= maxHeard {
			return // its ACK is being written
		}
		// The dialog is there at once: the peer's next request may follow closely.
		l.dialogs[m.to.Tag] = l.c.s.newCall(l, m)
		if l.dropped || l.taken {
			l.surplus(l.dialogs[m.to.Tag], m)
			return
		}
		l.taken = true
	}
	l.heard = append(l.heard, m)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// take returns what was heard.
func (l *leg) take() []*message {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.heard
	l.heard = nil
	return all
}

func (l *leg) accepted(m *message) *Dialog {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dialogs[m.to.Tag]
}

// early is the description of a provisional of the same dialog.
func (l *leg) early(tag string) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sdp[tag]
}

// drop gives the call up: it is cancelled as soon as the peer was heard of, and an
// answer that comes all the same is ended.
func (l *leg) drop() {
	l.mu.Lock()
	l.dropped = true
	for _, m := range l.heard {
		if m != nil && m.code/100 == 2 { // it came at the same moment
			l.surplus(l.dialogs[m.to.Tag], m)
		}
	}
	l.heard = nil
	l.mu.Unlock()
	l.tx.cancel()
}

// surplus acknowledges and ends a call that nobody waits for.
func (l *leg) surplus(d *Dialog, m *message) {
	l.c.s.spawn(func() {
		l.acknowledge(d, m)
		d.hangUp(ErrLocalBye, Reason{Protocol: "SIP", Cause: 487, Text: "The call was answered elsewhere or given up"})
	})
}

// acknowledge sends the ACK of a 2xx, by the dialog's route, and keeps it for
// copies of the 2xx. It carries the credentials of the INVITE (RFC 3261 section
// 22.1).
func (l *leg) acknowledge(d *Dialog, m *message) {
	again := d.acknowledge(m, credentialsOf(l.request.fields))
	l.mu.Lock()
	l.acks[m.to.Tag] = again
	l.mu.Unlock()
}

func credentialsOf(fields []field) []field {
	var all []field
	for _, f := range fields {
		if f.name == "Authorization" || f.name == "Proxy-Authorization" {
			all = append(all, f)
		}
	}
	return all
}

// acknowledge sends the ACK of a 2xx of the peer's and returns what sends it again.
func (d *Dialog) acknowledge(m *message, creds []field) (again func()) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	hop, err := d.nextHop(ctx)
	if err != nil {
		d.s.noise.warn("ack", "sip: no way to send ACK", append(d.logFields(), zap.Error(err))...)
		hop.flow, hop.to = m.flow, m.flow.remote // where the 2xx came from
	}
	ack := request{method: "ACK", uri: hop.uri, routes: hop.routes, from: d.from, to: d.to, callID: d.key.callID, cseq: m.cseq, fields: creds}
	text := d.s.write(&ack, hop.flow, newBranch())
	if err := hop.flow.send(text, hop.to); err != nil {
		d.s.noise.warn("ack", "sip: ACK lost", append(d.logFields(), zap.Error(err))...)
	}
	d.mu.Lock()
	if !d.acked {
		d.acked = true
		close(d.confirmed)
	}
	d.mu.Unlock()
	return func() { d.s.sendAgain(hop.flow, text, hop.to) }
}

// newCall makes the dialog of a 2xx to our INVITE (RFC 3261 section 12.1.2).
func (s *Server) newCall(l *leg, m *message) *Dialog {
	d := &Dialog{
		s:          s,
		id:         newID(),
		key:        dialogKey{callID: m.callID, local: l.c.tag, remote: m.to.Tag},
		from:       l.request.from,
		to:         m.get("to"),
		confirmed:  make(chan struct{}),
		state:      dialogUp,
		handler:    l.c.dh,
		link:       l.c.link,
		caller:     true,
		contact:    l.contact,
		updates:    m.allows("UPDATE"),
		flow:       m.flow,
		remoteCSeq: -1,
		localCSeq:  l.request.cseq,
		offerOpen:  true, // until the handler has the answer
	}
	d.ctx, d.cancel = context.WithCancelCause(context.Background())
	for _, v := range m.all("record-route") {
		d.routes = append(splitReversed(v), d.routes...)
	}
	d.target, _ = ParseAddress("<" + l.request.uri + ">")
	if a, err := ParseAddress(m.get("contact")); err == nil {
		d.target, d.reachable = a, true
	}
	s.dialogs.put(d)
	s.dialogs.up.Add(1)
	d.hold(d.flow, 1)
	d.mu.Lock()
	d.startTimer(l.c.timer.accepted(m))
	d.mu.Unlock()
	return d
}

func splitReversed(v string) []string {
	var all []string
	for _, part := range splitComma(v) {
		all = append([]string{part}, all...)
	}
	return all
}

// settle is told that the offer we made was answered and taken.
func (d *Dialog) settle(offer []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.offerOpen, d.local = false, offer
}
