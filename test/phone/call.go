package phone

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// StatusError is a final response of 300 or more to an INVITE.
type StatusError struct {
	Code   int
	Phrase string
	// Response is the whole message, for its Warning, Reason and Retry-After.
	Response *Message
}

// Error names code and phrase.
func (e *StatusError) Error() string { return fmt.Sprintf("phone: refused: %d %s", e.Code, e.Phrase) }

// End says how a call ended.
type End struct {
	// ByPeer is set when the other side sent BYE.
	ByPeer bool
	// Reason is the Reason header of the BYE, or a word of the phone's own.
	Reason string
	// At is when, on the phone's clock.
	At time.Duration
}

// Times are the moments of a call's set-up on the phone's clock; 0 is never.
type Times struct {
	Invited, Ringing, Answered time.Duration
}

// Call is one call of the phone, from INVITE to its end.
type Call struct {
	phone  *Phone
	stream *stream
	log    *Log
	id     string
	tag    string
	invite *Message
	to     netip.AddrPort
	decide sync.Once // closes decided

	ringing  chan struct{} // closed at the first 180 or 183
	decided  chan struct{} // closed when answered or refused
	ended    chan struct{} // closed when the call is over
	canceled chan struct{} // closed by Cancel

	mu        sync.Mutex
	err       error // why it was never answered
	end       End
	times     Times
	target    string // the peer's Contact
	routes    []string
	peerTag   string
	sequence  int
	session   uint64
	version   int
	direction string
	isOver    bool
	ack       []byte
	notified  []string
	informed  []string
	heldBy    string
}

// Invite begins a call and returns while it is being set up. extra headers are
// added to the INVITE.
func (p *Phone) Invite(uri string, extra ...Header) (*Call, error) {
	c := &Call{
		phone: p, log: &Log{}, id: token() + "@" + p.Local().Addr().String(), tag: token(),
		ringing: make(chan struct{}), decided: make(chan struct{}), ended: make(chan struct{}), canceled: make(chan struct{}),
		sequence: 1, session: rand.Uint64() >> 2, version: 1, direction: "sendrecv",
	}
	m, err := p.request("INVITE", uri, uri, c.id, c.tag, "", 1, nil)
	if err != nil {
		return nil, err
	}
	if c.to, err = hostPort(uri); err != nil {
		return nil, err
	}
	if c.stream, err = newStream(p.clock, c.log, p.config); err != nil {
		return nil, err
	}
	m.Add("Allow", "INVITE, ACK, BYE, CANCEL, OPTIONS, INFO, UPDATE, REFER, NOTIFY")
	m.Headers = append(m.Headers, extra...)
	m.Add("Content-Type", "application/sdp")
	m.Body = c.stream.guard.dress(offer(c.stream.local(), p.codecs, c.session, c.version, c.direction))
	c.invite = m
	p.mu.Lock()
	p.calls[c.id] = c
	p.mu.Unlock()
	responses, forget := p.await(m, "INVITE")
	c.times.Invited = p.clock.now()
	if err := p.send(m.Bytes(), c.to); err != nil {
		forget()
		c.refuse(err)
		return nil, err
	}
	c.phone.wait.Go(func() {
		defer forget()
		c.setUp(responses)
	})
	return c, nil
}

// Dial calls uri and returns when it was answered. A refusal is a *StatusError.
// When ctx ends first the call is cancelled.
func (p *Phone) Dial(ctx context.Context, uri string, extra ...Header) (*Call, error) {
	c, err := p.Invite(uri, extra...)
	if err != nil {
		return nil, err
	}
	if err := c.WaitAnswer(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// WaitRinging returns at the first 180 or 183, or when the call was decided.
func (c *Call) WaitRinging(ctx context.Context) error {
	select {
	case <-c.ringing:
		return nil
	case <-c.decided:
		return c.failure()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// WaitAnswer returns when the call was answered, with a *StatusError when it was
// refused. When ctx ends first the call is cancelled, and the end is waited for.
func (c *Call) WaitAnswer(ctx context.Context) error {
	select {
	case <-c.decided:
		return c.failure()
	case <-ctx.Done():
		c.Cancel()
		select {
		case <-c.decided:
		case <-time.After(64 * c.phone.config.T1):
			c.refuse(ErrNoAnswer)
		}
		if c.failure() == nil { // it was answered before Cancel could say that nobody wants it
			c.phone.wait.Go(func() { _ = c.Hangup(context.Background()) })
		}
		return context.Cause(ctx)
	}
}

func (c *Call) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Cancel takes the INVITE back as soon as RFC 3261 section 9.1 allows it, which is
// after the first response. When the answer crosses it, the call is hung up.
func (c *Call) Cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.canceled:
	default:
		close(c.canceled)
	}
}

// setUp is the client INVITE transaction (RFC 3261 section 17.1.1) and, after an
// answer, the keeper of the ACK, which is repeated for every repeated 200.
func (c *Call) setUp(responses <-chan *Message) {
	p := c.phone
	again := newRepeat(p.config.T1, p.config.Transport == "udp")
	defer again.stop()
	canceled, provisional := c.canceled, false
	cancel := func() {
		canceled = nil
		m := &Message{Method: "CANCEL", URI: c.invite.URI}
		for _, h := range c.invite.Headers {
			switch canonical(h.Name) {
			case "via", "from", "to", "call-id", "max-forwards", "route":
				m.Headers = append(m.Headers, h)
			}
		}
		m.Add("CSeq", "1 CANCEL")
		c.phone.wait.Go(func() { _, _ = p.ask(context.Background(), m) })
	}
	for {
		timer := again.due()
		if provisional || c.isDecided() {
			timer = nil
		}
		ready := canceled
		if !provisional {
			ready = nil
		}
		select {
		case m := <-responses:
			if m.Code < 200 {
				provisional = true
				c.progress(m)
			} else {
				canceled = nil
				c.final(m)
			}
		case <-timer:
			if !again.next(64 * p.config.T1) {
				c.refuse(fmt.Errorf("%w to INVITE", ErrNoAnswer))
				return
			}
			if again.resend() {
				_ = p.send(c.invite.Bytes(), c.to)
			}
		case <-ready:
			cancel()
		case <-c.ended:
			return
		}
	}
}

func (c *Call) isDecided() bool {
	select {
	case <-c.decided:
		return true
	default:
		return false
	}
}

func (c *Call) progress(m *Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Code == 100 || c.times.Ringing != 0 {
		return
	}
	c.times.Ringing = c.phone.clock.now()
	close(c.ringing)
}

// final takes a final response to the first INVITE, which may be a repetition.
func (c *Call) final(m *Message) {
	if m.Code >= 300 {
		ack := &Message{Method: "ACK", URI: c.invite.URI}
		for _, h := range c.invite.Headers {
			switch canonical(h.Name) {
			case "via", "from", "call-id", "max-forwards", "route":
				ack.Headers = append(ack.Headers, h)
			}
		}
		ack.Add("To", m.Get("To"))
		ack.Add("CSeq", "1 ACK")
		_ = c.phone.send(ack.Bytes(), c.to)
		c.refuse(&StatusError{Code: m.Code, Phrase: m.Phrase, Response: m})
		return
	}
	first := !c.isDecided()
	if first {
		c.establish(m)
	}
	c.acknowledge()
	select {
	case <-c.canceled:
		if first { // our CANCEL crossed the answer
			c.phone.wait.Go(func() { _ = c.Hangup(context.Background()) })
		}
	default:
	}
}

// acknowledge sends the ACK of the latest 200, again if it was repeated.
func (c *Call) acknowledge() {
	c.mu.Lock()
	ack := c.ack
	c.mu.Unlock()
	if ack != nil {
		c.transmit(ack)
	}
}

// establish makes the dialog of a 200 (RFC 3261 section 12.1.2).
func (c *Call) establish(m *Message) {
	routes := m.All("Record-Route")
	slices.Reverse(routes)
	c.mu.Lock()
	c.peerTag, c.routes, c.target = parameter(m.Get("To"), "tag"), routes, address(m.Get("Contact"))
	c.times.Answered = c.phone.clock.now()
	if c.target == "" {
		c.target = c.invite.URI
	}
	c.mu.Unlock()
	c.confirm(1)
	a, err := c.stream.parse(m.Body)
	if err != nil {
		c.mu.Lock()
		c.err = err
		c.mu.Unlock()
		c.decide.Do(func() { close(c.decided) })
		c.phone.wait.Go(func() { _ = c.Hangup(context.Background()) })
		return
	}
	c.stream.agree(a)
	c.decide.Do(func() { close(c.decided) })
}

// confirm builds the ACK of a 200; its CSeq number is the INVITE's.
func (c *Call) confirm(sequence int) {
	m, err := c.compose("ACK", sequence)
	if err != nil {
		return
	}
	c.mu.Lock()
	c.ack = m.Bytes()
	c.mu.Unlock()
}

// transmit sends data to wherever the dialog's requests go.
func (c *Call) transmit(data []byte) {
	if m, err := ParseMessage(data); err == nil {
		if to, err := destination(m); err == nil {
			_ = c.phone.send(data, to)
		}
	}
}

// refuse ends a call that was never answered.
func (c *Call) refuse(err error) {
	c.mu.Lock()
	if c.isOver {
		c.mu.Unlock()
		return
	}
	c.err = err
	c.mu.Unlock()
	c.decide.Do(func() { close(c.decided) })
	c.over(End{Reason: "never answered"})
}

// over ends the call once: its sound stops and its goroutines end.
func (c *Call) over(end End) {
	c.mu.Lock()
	if c.isOver {
		c.mu.Unlock()
		return
	}
	c.isOver = true
	end.At = c.phone.clock.now()
	c.end = end
	if c.err == nil && c.times.Answered == 0 {
		c.err = net.ErrClosed
	}
	c.mu.Unlock()
	c.decide.Do(func() { close(c.decided) })
	close(c.ended)
	c.stream.close()
	c.phone.mu.Lock()
	delete(c.phone.calls, c.id)
	c.phone.mu.Unlock()
}
