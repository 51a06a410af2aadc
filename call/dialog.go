package call

import (
	"errors"
	"mime"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"parley/agent"
	"parley/sip"
)

// side is a call's side of one dialog. Mostly a call has one all its life; a dialog
// that takes the call over brings another (see takeover.go). It is what the dialog
// asks: one goroutine of the dialog calls its methods, in the order of the requests.
type side struct {
	call   *Call
	dialog *sip.Dialog // set before the side is in force
	// takes is given what was agreed; nil: the call, once the side is in force.
	takes func(*change)

	mu   sync.Mutex // held from an offer of ours to its answer
	nego *negotiation
	// first is what was agreed before the side was in force.
	first *change
}

// busyRefusal answers an offer that crosses one of ours (RFC 3261 section 14.1).
func busyRefusal() *sip.RejectError {
	return &sip.RejectError{Code: 491, Rule: "glare", Text: "an offer of ours is under way"}
}

// Offer implements sip.DialogHandler: a re-INVITE or UPDATE with an offer.
func (d *side) Offer(text []byte) ([]byte, *sip.RejectError) {
	if !d.mu.TryLock() {
		return nil, busyRefusal()
	}
	defer d.mu.Unlock()
	answer, c, refusal := d.nego.answer(text)
	if refusal != nil {
		d.call.log.Info("new offer refused, the session goes on", zap.Int("code", refusal.Code), zap.String("rule", refusal.Rule))
		return nil, refusal
	}
	d.put(c)
	return answer, nil
}

// MakeOffer implements sip.DialogHandler: a re-INVITE without an offer gets all
// that we can, whether the peer has us on hold or not (RFC 6337 section 5.3).
func (d *side) MakeOffer() []byte {
	if !d.mu.TryLock() {
		return nil
	}
	defer d.mu.Unlock()
	return d.nego.propose()
}

// Answer implements sip.DialogHandler: the ACK that answers an offer of ours, or the
// 2xx that answers that of a call we placed.
func (d *side) Answer(text []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.nego.accepted(text)
	if err != nil {
		return err
	}
	d.put(c)
	return nil
}

// put hands a change to the wheel, or keeps it until the side is in force.
func (d *side) put(c *change) {
	c.held = c.held || d.nego.local.Hold
	switch {
	case d.takes != nil:
		d.takes(c)
	case d.call.side.Load() == d:
		d.call.apply(c)
	default:
		d.first = c
	}
}

// apply hands a change to the wheel.
func (c *Call) apply(ch *change) {
	was := c.held.Swap(ch.held)
	c.pending.Store(ch)
	c.show(func(s *Status) { s.Codec = ch.line.codec.Name })
	c.log.Info("session changed", zap.String("codec", ch.line.codec.Name), zap.Bool("held", ch.held),
		zap.String("peer", ch.flow.Peer.String()), zap.Duration("packet_time", ch.flow.PacketTime))
	if was != ch.held {
		reason := agent.ConnectionResumed
		if ch.held {
			reason = agent.ConnectionHeld
		}
		c.tell(agent.Event{Type: agent.EventConnection, Reason: reason})
	}
}

// Info implements sip.DialogHandler: digits by INFO, as gateways without
// telephone-event send them.
func (d *side) Info(contentType string, body []byte) bool {
	digit, err := infoDigit(contentType, string(body))
	if err != nil {
		d.call.log.Debug("INFO not understood", zap.Error(err))
		return false
	}
	if d.call.side.Load() == d { // neither before the answer nor from a party that is only asked
		d.call.notice(agent.Notice{Kind: agent.Digit, At: time.Now(), Digit: digit})
	}
	return true
}

var errNotDTMF = errors.New("call: INFO holds no digit")

// infoDigit reads the body of an INFO: "Signal=5" lines of
// application/dtmf-relay, or the bare digit of application/dtmf. Signals 10 and 11
// are star and pound.
func infoDigit(contentType, body string) (byte, error) {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return 0, errNotDTMF
	}
	signal := ""
	switch kind {
	case "application/dtmf-relay", "application/dtmf", "audio/telephone-event":
		for line := range strings.Lines(body) {
			name, value, found := strings.Cut(line, "=")
			name = strings.ToLower(strings.TrimSpace(name))
			switch {
			case !found && signal == "":
				signal = strings.TrimSpace(line)
			case name == "signal" || name == "d":
				signal = strings.TrimSpace(value)
			}
		}
	default:
		return 0, errNotDTMF
	}
	if n, err := strconv.Atoi(signal); err == nil && n >= 10 && n <= 15 {
		return "*#ABCD"[n-10], nil
	}
	if len(signal) == 1 {
		if s := strings.ToUpper(signal); strings.Contains("0123456789*#ABCD", s) {
			return s[0], nil
		}
	}
	return 0, errNotDTMF
}
