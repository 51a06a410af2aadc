package sip

import (
	"context"
	"slices"
	"strconv"
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
	timer   sessionOffer // that it asks for
	contact string
	tx      *clientTx
	wake    chan struct{}

	mu       sync.Mutex
	heard    []*message         // not yet taken; nil stands for a failure
	dropped  bool               // nobody wants it any more
	taken    bool               // a 2xx was
	dialogs  map[string]*Dialog // by To tag, like the others
	answered map[string]bool    // by a 2xx
	acks     map[string]func()  // send the ACK once more
	sdp      map[string][]byte  // of provisionals
	rseq     map[string]uint32  // of the last reliable provisional
}

// send sends an INVITE.
func (c *dialling) send(ctx context.Context, f *flow) (*leg, error) {
	creds, err := c.login.fields("INVITE", c.uri)
	if err != nil {
		return nil, err
	}
	c.cseq++
	l := &leg{c: c, timer: c.timer, wake: make(chan struct{}, 1), dialogs: make(map[string]*Dialog), answered: make(map[string]bool),
		acks: make(map[string]func()), sdp: make(map[string][]byte), rseq: make(map[string]uint32)}
	l.contact = contactOf(f, c.link.t.User, false)
	if u, err := ParseURI(c.uri); err == nil && u.Scheme == "sips" {
		l.contact = contactOf(f, c.link.t.User, true)
	}
	fields := []field{{"Contact", l.contact}, {"Allow", methods}, {"Accept", "application/sdp"}}
	fields = append(fields, c.timer.fields("100rel", "replaces")...)
	fields = append(fields, c.extra...)
	for _, h := range c.o.Headers {
		fields = append(fields, field{h.Name, h.Value})
	}
	l.request = request{method: "INVITE", uri: c.uri, routes: c.link.way(), from: c.from, to: c.to, callID: c.callID, cseq: c.cseq,
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
		l.endEarly(ErrRejected)
	case m.code < 200:
		if !l.confirm(m) || len(l.heard) >= maxHeard {
			return
		}
	default:
		if again := l.acks[m.to.Tag]; again != nil {
			again() // our ACK was lost
			return
		}
		d := l.dialog(m)
		if d == nil || l.answered[m.to.Tag] {
			return // its ACK is being written
		}
		l.answered[m.to.Tag] = true
		d.takeUp(l, m) // at once: the peer's next request may follow closely
		if l.dropped || l.taken {
			l.surplus(d, m)
			return
		}
		l.taken = true
		time.AfterFunc(64*l.c.s.cfg.T1, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.endEarly(ErrElsewhere)
		})
	}
	l.heard = append(l.heard, m)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// endEarly ends the dialogs that were not answered, when none can be any more (RFC
// 3261 section 13.2.2.4). l.mu is held.
func (l *leg) endEarly(cause error) {
	for _, d := range l.dialogs {
		d.endEarly(cause)
	}
}

// dialog is the one that a response belongs to; nil when there are too many. l.mu
// is held.
func (l *leg) dialog(m *message) *Dialog {
	d := l.dialogs[m.to.Tag]
	if d == nil && len(l.dialogs) < maxHeard {
		d = l.c.s.newCall(l, m)
		l.dialogs[m.to.Tag] = d
		l.c.s.dialogs.put(d) // the peer may change an early dialog (RFC 3311)
	}
	return d
}

// confirm takes a provisional response into its early dialog, and sends a PRACK where
// it wants one (RFC 3262 section 4). False: it is a copy, or one before it is
// missing. l.mu is held.
func (l *leg) confirm(m *message) bool {
	if m.code == 100 || m.to.Tag == "" {
		return true
	}
	d := l.dialog(m)
	if d == nil {
		return true
	}
	reliable := slices.Contains(m.list("require"), "100rel")
	rseq, err := strconv.ParseUint(m.get("rseq"), 10, 32)
	last, known := l.rseq[m.to.Tag]
	if reliable && (err != nil || known && uint32(rseq) != last+1) {
		return false
	}
	d.mu.Lock()
	if m.sdp != nil && !d.agreed {
		l.sdp[m.to.Tag] = m.sdp
	}
	d.updates = d.updates || m.allows("UPDATE")
	if reliable {
		d.setRoute(m)
		if m.sdp != nil && !d.agreed && !l.dropped {
			d.agreed, d.offerOpen, d.local = true, false, l.request.body
		}
	}
	d.mu.Unlock()
	if !reliable {
		return true
	}
	l.rseq[m.to.Tag] = uint32(rseq)
	rack := field{"RAck", strconv.FormatUint(rseq, 10) + " " + strconv.FormatUint(uint64(m.cseq), 10) + " INVITE"}
	l.c.s.spawn(func() {
		if _, err := d.ask(d.ctx, request{method: "PRACK", fields: []field{rack}}); err != nil && d.ctx.Err() == nil {
			d.s.noise.warn("prack", "sip: PRACK not answered", append(d.logFields(), zap.Error(err))...)
		}
	})
	return true
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
func (l *leg) drop(why Reason) {
	l.mu.Lock()
	l.dropped = true
	for _, m := range l.heard {
		if m != nil && m.code/100 == 2 { // it came at the same moment
			l.surplus(l.dialogs[m.to.Tag], m)
		}
	}
	l.heard = nil
	for _, d := range l.dialogs {
		d.refuseOffers()
	}
	l.mu.Unlock()
	l.tx.cancel(why)
}

// refuseOffers lets no more offers into an early dialog: nobody would answer them.
func (d *Dialog) refuseOffers() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state == dialogEarly {
		d.agreed, d.offerOpen = false, true
	}
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

// newCall makes the dialog of a response to our INVITE (RFC 3261 section 12.1.2).
// It is early until it is taken up.
func (s *Server) newCall(l *leg, m *message) *Dialog {
	d := &Dialog{
		s:          s,
		id:         newID(),
		key:        dialogKey{callID: m.callID, local: l.c.tag, remote: m.to.Tag},
		from:       l.request.from,
		to:         m.get("to"),
		confirmed:  make(chan struct{}),
		handler:    l.c.dh,
		link:       l.c.link,
		trunk:      l.tx.to.Addr(),
		caller:     true,
		leg:        l,
		contact:    l.contact,
		flow:       m.flow,
		remoteCSeq: -1,
		localCSeq:  l.request.cseq,
		offerOpen:  true, // until the handler has the answer
	}
	d.ctx, d.cancel = context.WithCancelCause(context.Background())
	d.target, _ = ParseAddress("<" + l.request.uri + ">")
	d.setRoute(m)
	return d
}

// setRoute reads the route set and the target out of a response to our INVITE.
// Those of the 2xx replace the earlier ones (RFC 3261 section 13.2.2.4).
func (d *Dialog) setRoute(m *message) {
	d.routes = nil
	for _, v := range m.all("record-route") {
		d.routes = append(d.routes, splitComma(v)...)
	}
	slices.Reverse(d.routes)
	d.refreshTarget(m)
}

// takeUp makes the dialog of a 2xx live.
func (d *Dialog) takeUp(l *leg, m *message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state == dialogOver { // the server is stopping
		return
	}
	d.setRoute(m)
	d.state, d.flow, d.updates, d.leg = dialogUp, m.flow, m.allows("UPDATE"), nil
	d.s.dialogs.put(d)
	d.s.dialogs.up.Add(1)
	d.hold(d.flow, 1)
	d.startTimer(l.timer.accepted(m))
}

// settle is told that the offer we made was answered and taken.
func (d *Dialog) settle(offer []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.given { // else an offer may have followed
		d.local = offer
	}
	d.offerOpen, d.agreed, d.given = false, true, true
	d.release()
}
