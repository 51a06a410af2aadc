package call

import (
	"errors"
	"mime"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"parley/agent"
	"parley/sip"
)

// dialogSide is the side of a Call that the SIP dialog asks; one goroutine of the
// dialog calls it, in the order of the requests.
type dialogSide Call

// Offer implements sip.DialogHandler: a re-INVITE or UPDATE with an offer.
func (d *dialogSide) Offer(text []byte) ([]byte, *sip.RejectError) {
	answer, c, refusal := d.nego.answer(text)
	if refusal != nil {
		d.log.Info("new offer refused, the session goes on", zap.Int("code", refusal.Code), zap.String("rule", refusal.Rule))
		return nil, refusal
	}
	d.put(c)
	return answer, nil
}

// MakeOffer implements sip.DialogHandler: a re-INVITE without an offer gets all
// that we can, whether the call is on hold or not (RFC 6337 section 5.3).
func (d *dialogSide) MakeOffer() []byte { return d.nego.propose() }

// Answer implements sip.DialogHandler: the ACK that answers an offer of ours.
func (d *dialogSide) Answer(text []byte) error {
	c, err := d.nego.accepted(text)
	if err != nil {
		return err
	}
	d.put(c)
	return nil
}

// put hands a change to the wheel.
func (d *dialogSide) put(c *change) {
	d.held.Store(c.held)
	d.pending.Store(c)
	d.log.Info("session changed", zap.String("codec", c.line.codec.Name), zap.Bool("held", c.held),
		zap.String("peer", c.flow.Peer.String()), zap.Duration("packet_time", c.flow.PacketTime))
}

// Info implements sip.DialogHandler: digits by INFO, as gateways without
// telephone-event send them.
func (d *dialogSide) Info(contentType string, body []byte) bool {
	digit, err := infoDigit(contentType, string(body))
	if err != nil {
		d.log.Debug("INFO not understood", zap.Error(err))
		return false
	}
	(*Call)(d).notice(agent.Notice{Kind: agent.Digit, At: time.Now(), Digit: digit})
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
