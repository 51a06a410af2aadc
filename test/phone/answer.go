package phone

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
)

// Incoming is a call to the phone that has no final response yet. Its methods may be
// called from any goroutine; the first final response counts.
type Incoming struct {
	// Invite is the request.
	Invite *Message

	phone *Phone
	call  *Call
	send  func([]byte)
	offer answer

	mu       sync.Mutex
	decided  bool
	canceled chan struct{}
}

// Answer sets what is done with calls to the phone: f runs on a goroutine of its own
// for each. Without it they are answered 480.
func (p *Phone) Answer(f func(*Incoming)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.incoming = f
}

// AnswerAll answers every call at once and gives it to the channel.
func (p *Phone) AnswerAll() <-chan *Call {
	calls := make(chan *Call, 1000)
	p.Answer(func(i *Incoming) {
		if c, err := i.Accept(); err == nil {
			calls <- c
		}
	})
	return calls
}

// invited begins a call to the phone; nil when nobody is to answer it.
func (p *Phone) invited(m *Message, send func([]byte)) (reply *Message) {
	p.mu.Lock()
	f := p.incoming
	p.mu.Unlock()
	if f == nil {
		return m.reply(480, "Temporarily Unavailable", token())
	}
	c := &Call{
		phone: p, log: &Log{}, id: m.Get("Call-ID"), tag: token(),
		ringing: make(chan struct{}), decided: make(chan struct{}), ended: make(chan struct{}), canceled: make(chan struct{}),
		session: rand.Uint64() >> 2, version: 1, direction: "sendrecv",
		invite: &Message{URI: address(m.Get("From"))}, peerTag: parameter(m.Get("From"), "tag"), target: address(m.Get("Contact")),
		routes: m.All("Record-Route"),
	}
	c.times.Invited = p.clock.now()
	var err error
	i := &Incoming{Invite: m, phone: p, call: c, send: send, canceled: make(chan struct{})}
	if i.offer, err = parseOffer(m.Body); err != nil {
		return m.reply(488, "Not Acceptable Here", c.tag)
	}
	if c.stream, err = newStream(p.clock, c.log, p.config); err != nil {
		return m.reply(500, "Server Internal Error", c.tag)
	}
	p.mu.Lock()
	p.calls[c.id], p.invites[m.branch()] = c, i
	p.mu.Unlock()
	p.wait.Go(func() { f(i) })
	return m.reply(100, "Trying", "")
}

// parseOffer is parseAnswer for an offer: the first type that the phone speaks.
func parseOffer(body []byte) (answer, error) {
	a, err := parseAnswer(body)
	if err == nil || a.peer == (netip.AddrPort{}) {
		return a, err
	}
	for line := range strings.Lines(string(body)) {
		if rest, ok := strings.CutPrefix(line, "m=audio "); ok {
			for _, t := range strings.Fields(rest)[2:] {
				if a.choose(t) == nil {
					return a, nil
				}
			}
		}
	}
	return a, err
}

// respond sends a response and keeps it for repetitions.
func (i *Incoming) respond(r *Message) {
	data := r.Bytes()
	i.phone.mu.Lock()
	i.phone.replies[i.Invite.branch()+" INVITE"] = data
	i.phone.mu.Unlock()
	i.send(data)
}

func (i *Incoming) response(code int, phrase string) *Message {
	r := i.Invite.reply(code, phrase, i.call.tag)
	for _, route := range i.Invite.All("Record-Route") {
		r.Add("Record-Route", route)
	}
	r.Add("Contact", fmt.Sprintf("<sip:%s@%s>", i.phone.user(), i.phone.Local()))
	r.Add("Allow", "INVITE, ACK, BYE, CANCEL, OPTIONS, INFO, UPDATE, REFER, NOTIFY")
	return r
}

func (i *Incoming) describe(r *Message) {
	r.Add("Content-Type", "application/sdp")
	i.call.mu.Lock()
	defer i.call.mu.Unlock()
	r.Body = offer(i.call.stream.local(), []codec{i.offer.codec}, i.call.session, i.call.version, i.call.direction)
	if i.offer.event == 0 { // an answer holds what was offered
		r.Body = withoutEvents(r.Body)
	}
	r.Body = i.call.stream.guard.reply(r.Body, i.offer)
}

// withoutEvents takes telephone-event out of a description.
func withoutEvents(body []byte) []byte {
	var b strings.Builder
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "m=audio") {
			line = strings.TrimRight(line, "\r\n")
			line = strings.TrimSuffix(line, fmt.Sprintf(" %d", eventType)) + "\r\n"
		}
		if !strings.HasPrefix(line, fmt.Sprintf("a=rtpmap:%d ", eventType)) && !strings.HasPrefix(line, fmt.Sprintf("a=fmtp:%d ", eventType)) {
			b.WriteString(line)
		}
	}
	return []byte(b.String())
}

// Ring sends 180.
func (i *Incoming) Ring() { i.Progress(180, "Ringing", false) }

// Progress sends a provisional response. With early media it holds the answer, and
// the phone sends from then on what Say of the call is given.
func (i *Incoming) Progress(code int, phrase string, media bool) *Call {
	r := i.response(code, phrase)
	if media {
		i.describe(r)
		i.call.stream.agree(i.offer)
	}
	i.respond(r)
	return i.call
}

// NoEvents makes the phone one that knows no telephone-event; before Accept.
func (i *Incoming) NoEvents() { i.offer.event = 0 }

// decide says whether a final response may be sent.
func (i *Incoming) decide() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.decided {
		return false
	}
	i.decided = true
	i.phone.mu.Lock()
	delete(i.phone.invites, i.Invite.branch())
	i.phone.mu.Unlock()
	return true
}

// Accept answers the call.
func (i *Incoming) Accept() (*Call, error) {
	if !i.decide() {
		return nil, errors.New("phone: the call was taken back")
	}
	c := i.call
	r := i.response(200, "OK")
	i.describe(r)
	c.mu.Lock()
	c.times.Answered = i.phone.clock.now()
	c.mu.Unlock()
	c.stream.agree(i.offer)
	c.decide.Do(func() { close(c.decided) })
	i.respond(r)
	return c, nil
}

// Refuse gives a final response of 300 or more.
func (i *Incoming) Refuse(code int, phrase string, extra ...Header) {
	if !i.decide() {
		return
	}
	r := i.response(code, phrase)
	r.Headers = append(r.Headers, extra...)
	i.respond(r)
	i.call.refuse(&StatusError{Code: code, Phrase: phrase, Response: r})
}

// Canceled is closed when the caller has taken the call back.
func (i *Incoming) Canceled() <-chan struct{} { return i.canceled }

// cancel takes a CANCEL.
func (i *Incoming) cancel() {
	if !i.decide() {
		return
	}
	i.respond(i.response(487, "Request Terminated"))
	close(i.canceled)
	// refuse waits for the call's readers, and this is the phone's own reader.
	i.phone.wait.Go(func() { i.call.refuse(errors.New("phone: the caller took the call back")) })
}

// OnRefer sets what is done when the phone is asked to call somebody else: f runs on
// a goroutine of its own after the 202. Without it REFER is answered 603.
func (p *Phone) OnRefer(f func(c *Call, refer *Message)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refers = f
}

// Notify reports to who sent a REFER how it goes; from 200 on it is the end.
func (c *Call) Notify(ctx context.Context, code int, phrase string) error {
	state := "active;expires=60"
	if code >= 200 {
		state = "terminated;reason=noresource"
	}
	_, err := c.RequestWith(ctx, "NOTIFY", []Header{{"Event", "refer"}, {"Subscription-State", state}},
		"message/sipfrag;version=2.0", []byte(fmt.Sprintf("SIP/2.0 %d %s\r\n", code, phrase)))
	return err
}

// Refer asks the other side to call a URI, as it stands in Refer-To, and returns the
// final response to the request; what comes of it is in Notified.
func (c *Call) Refer(ctx context.Context, to string) (*Message, error) {
	return c.RequestWith(ctx, "REFER", []Header{{"Refer-To", to}}, "", nil)
}

// Notified are the bodies of the NOTIFYs so far: status lines.
func (c *Call) Notified() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.notified...)
}

// Replaces is the value of the header by which another phone takes the call over
// from this one at the other side (RFC 3891): the tags are as seen there.
func (c *Call) Replaces() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%s;to-tag=%s;from-tag=%s", c.id, c.peerTag, c.tag)
}
