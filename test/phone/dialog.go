package phone

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Log is the call's packet log, which goes on until the call is over.
func (c *Call) Log() *Log { return c.log }

// ID is the call's SIP Call-ID.
func (c *Call) ID() string { return c.id }

// Times are the moments of the set-up.
func (c *Call) Times() Times {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.times
}

// Done is closed when the call is over, whoever ended it.
func (c *Call) Done() <-chan struct{} { return c.ended }

// End says how the call ended; the zero End before it did.
func (c *Call) End() End {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end
}

// WaitEnd returns when the call is over.
func (c *Call) WaitEnd(ctx context.Context) (End, error) {
	select {
	case <-c.ended:
		return c.End(), nil
	case <-ctx.Done():
		return End{}, context.Cause(ctx)
	}
}

// Say queues speech, 8 kHz mono, behind what is already being said.
func (c *Call) Say(pcm []int16) *Utterance { return c.stream.say.speak(pcm) }

// Hush drops all that is queued to be said.
func (c *Call) Hush() { c.stream.say.hush() }

// Press queues a key, 0-9 * # A-D, held down for length (RFC 4733). It fails when
// telephone-event was not agreed.
func (c *Call) Press(digit byte, length time.Duration) (*Utterance, error) {
	if !strings.ContainsRune(eventDigits, rune(digit)) {
		return nil, fmt.Errorf("phone: no key %q", digit)
	}
	c.stream.mu.Lock()
	event := c.stream.answer.event
	c.stream.mu.Unlock()
	if event == 0 {
		return nil, errors.New("phone: telephone-event was not agreed")
	}
	return c.stream.say.press(digit, length), nil
}

// Hold puts the other side on hold (sendonly, RFC 3264 section 8.4).
func (c *Call) Hold(ctx context.Context) error { return c.Reinvite(ctx, "sendonly", false) }

// Resume ends a hold.
func (c *Call) Resume(ctx context.Context) error { return c.Reinvite(ctx, "sendrecv", false) }

// MovePort goes on with another RTP socket, as a phone that changed networks.
func (c *Call) MovePort(ctx context.Context) error {
	c.mu.Lock()
	direction := c.direction
	c.mu.Unlock()
	return c.Reinvite(ctx, direction, true)
}

// Reinvite changes the session: its direction, and the RTP port when move is set.
// A refusal is a *StatusError and leaves everything as it was.
func (c *Call) Reinvite(ctx context.Context, direction string, move bool) error {
	old := c.stream.socket()
	if move {
		if err := c.stream.open(c.phone.config.Local); err != nil {
			return err
		}
	}
	err := c.reinvite(ctx, direction)
	if move {
		c.stream.settle(old, err == nil)
	}
	return err
}

func (c *Call) reinvite(ctx context.Context, direction string) error {
	c.mu.Lock()
	c.sequence++
	c.version++
	sequence, version := c.sequence, c.version
	c.mu.Unlock()
	m, err := c.compose("INVITE", sequence)
	if err != nil {
		return err
	}
	m.Add("Content-Type", "application/sdp")
	m.Body = c.stream.guard.dress(offer(c.stream.local(), c.phone.codecs, c.session, version, direction))
	r, err := c.phone.ask(ctx, m)
	if err != nil {
		return err
	}
	if r.Code >= 300 {
		ack := &Message{Method: "ACK", URI: m.URI}
		for _, h := range m.Headers {
			switch canonical(h.Name) {
			case "via", "from", "call-id", "max-forwards", "route":
				ack.Headers = append(ack.Headers, h)
			}
		}
		ack.Add("To", r.Get("To"))
		ack.Add("CSeq", fmt.Sprintf("%d ACK", sequence))
		c.transmit(ack.Bytes())
		return &StatusError{Code: r.Code, Phrase: r.Phrase, Response: r}
	}
	if contact := address(r.Get("Contact")); contact != "" { // target refresh
		c.mu.Lock()
		c.target = contact
		c.mu.Unlock()
	}
	c.confirm(sequence)
	c.acknowledge()
	c.mu.Lock()
	c.direction = direction
	c.mu.Unlock()
	a, err := c.stream.parse(r.Body)
	if err != nil {
		return err
	}
	c.stream.agree(a)
	return nil
}

// Request sends any other request in the dialog and returns the final response;
// for INFO, UPDATE, OPTIONS and for what a server should refuse.
func (c *Call) Request(ctx context.Context, method, contentType string, body []byte) (*Message, error) {
	return c.RequestWith(ctx, method, nil, contentType, body)
}

// RequestWith is Request with more headers.
func (c *Call) RequestWith(ctx context.Context, method string, extra []Header, contentType string, body []byte) (*Message, error) {
	c.mu.Lock()
	c.sequence++
	sequence := c.sequence
	c.mu.Unlock()
	m, err := c.compose(method, sequence)
	if err != nil {
		return nil, err
	}
	m.Headers = append(m.Headers, extra...)
	if contentType != "" {
		m.Add("Content-Type", contentType)
		m.Body = body
	}
	return c.phone.ask(ctx, m)
}

// Hangup sends BYE and returns when it was answered. It is no error when the call
// is already over.
func (c *Call) Hangup(ctx context.Context) error {
	select {
	case <-c.ended:
		return nil
	default:
	}
	r, err := c.Request(ctx, "BYE", "", nil)
	c.over(End{Reason: "hung up"})
	if err != nil {
		return err
	}
	// 481: our BYE crossed the other side's.
	if r.Code >= 300 && r.Code != 481 {
		return &StatusError{Code: r.Code, Phrase: r.Phrase, Response: r}
	}
	return nil
}

// compose makes a request of the dialog (RFC 3261 section 12.2.1.1).
func (c *Call) compose(method string, sequence int) (*Message, error) {
	c.mu.Lock()
	target, tag, routes := c.target, c.peerTag, c.routes
	c.mu.Unlock()
	if target == "" {
		return nil, errors.New("phone: the call is not answered")
	}
	return c.phone.request(method, target, c.invite.URI, c.id, c.tag, tag, sequence, routes)
}

// owns tells whether a request belongs to this dialog by its tags.
func (c *Call) owns(m *Message) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return parameter(m.Get("To"), "tag") == c.tag && parameter(m.Get("From"), "tag") == c.peerTag
}

// serve answers a request that the other side sends in the dialog.
func (c *Call) serve(m *Message) *Message {
	switch m.Method {
	case "BYE":
		// over waits for the call's readers, and this is the phone's own reader.
		c.phone.wait.Go(func() { c.over(End{ByPeer: true, Reason: m.Get("Reason")}) })
		return m.reply(200, "OK", "")
	case "INVITE", "UPDATE":
		r := m.reply(200, "OK", "")
		r.Add("Contact", fmt.Sprintf("<sip:%s@%s>", c.phone.user(), c.phone.Local()))
		if m.Method == "INVITE" || len(m.Body) > 0 {
			r.Add("Content-Type", "application/sdp")
			r.Body = c.describe(m.Body)
		}
		return r
	case "NOTIFY":
		c.mu.Lock()
		c.notified = append(c.notified, strings.TrimSpace(string(m.Body)))
		c.mu.Unlock()
		return m.reply(200, "OK", "")
	case "REFER":
		c.phone.mu.Lock()
		f := c.phone.refers
		c.phone.mu.Unlock()
		if f == nil {
			return m.reply(603, "Decline", "")
		}
		c.phone.wait.Go(func() { f(c, m) })
		return m.reply(202, "Accepted", "")
	case "OPTIONS":
		return m.reply(200, "OK", "")
	case "INFO":
		c.mu.Lock()
		c.informed = append(c.informed, string(m.Body))
		c.mu.Unlock()
		return m.reply(200, "OK", "")
	}
	return m.reply(501, "Not Implemented", "")
}

// describe answers an offer of the other side's, or makes one when there is none. A
// hold is gone along with (RFC 3264 section 8.4).
func (c *Call) describe(theirs []byte) []byte {
	c.mu.Lock()
	c.version++
	version, direction := c.version, c.direction
	c.mu.Unlock()
	if a, err := parseOffer(theirs); err == nil && len(theirs) > 0 {
		switch a.direction {
		case "sendonly":
			direction = "recvonly"
		case "inactive":
			direction = "inactive"
		}
		c.stream.agree(a)
		c.mu.Lock()
		c.heldBy = a.direction
		c.mu.Unlock()
	}
	return offer(c.stream.local(), c.phone.codecs, c.session, version, direction)
}

// HeldBy is the direction of the other side's last offer in the call, such as
// "sendonly"; empty when it made none.
func (c *Call) HeldBy() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heldBy
}

// Informed are the bodies of the INFOs so far.
func (c *Call) Informed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.informed...)
}
