package call

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"parley/rtp"
)

// leg is a call of ours to somebody, on a port of its own: to one of those who may
// answer an outbound call, or to the target of an attended transfer. Nobody talks in
// it: silence is sent, so that neither the other end nor a carrier takes the line for
// dead (BR-108), and what is heard is for nobody (BR-105). One leg of an outbound call
// becomes the call's own; from then on the wheel turns the call through it.
//
//	call ─┬─ leg ── INVITE, port ──> target      busy
//	      ├─ leg ── INVITE, port ──> target      answers: the call's side and port
//	      └─ leg ── INVITE, port ──> target      cancelled
type leg struct {
	call  *Call
	trunk *trunk
	to    target
	from  string // the number shown
	side  *side
	rtp   *rtp.Session // nil until listen
	offer []byte       // nil until describe
	done  func()       // gives its place back; nil: it has none of its own
	// early counts the packets that come; nil: nobody wants to know.
	early *atomic.Uint64

	pending atomic.Pointer[change]
	taken   atomic.Bool            // it is the call's own
	suite   atomic.Pointer[string] // as told, for when it is taken
	broken  atomic.Pointer[error]

	// The wheel's.
	line *line
	own  bool // taken, as the wheel knows
}

// newLeg makes one to somebody behind t.
func (c *Call) newLeg(t *trunk) *leg {
	return &leg{call: c, trunk: t, side: &side{call: c}}
}

// listen takes a port and begins the negotiation.
func (l *leg) listen(ctx context.Context) (err error) {
	s := l.call.server
	if l.rtp, err = s.parts.Wheel.Listen(); err != nil {
		return err
	}
	l.side.nego = l.call.negotiation(l.trunk, l.rtp, s.localFor(ctx, l.trunk))
	l.side.nego.guard.told = l.protected
	return nil
}

// describe makes the offer, and what to be ready with until it is answered. like is what
// another leg of the call is ready with, or nil: the coders are the same then, or take
// over from those.
func (l *leg) describe(like *change) (first *change, err error) {
	l.side.nego.now = like
	if l.offer, first, err = l.side.describe(nil); err != nil {
		return nil, err
	}
	l.line = first.line
	l.pending.Store(first)
	return first, nil
}

// take makes the leg the call's own; the side is in force, and what was agreed waits for
// the wheel.
func (l *leg) take() {
	l.taken.Store(true)
	if err := l.broken.Load(); err != nil {
		l.call.protected("", *err)
	} else if suite := l.suite.Load(); suite != nil {
		l.call.protected(*suite, nil)
	}
}

// protected takes note of how the sound of the leg is protected. That it cannot be is
// nobody's trouble as long as nobody talks in it.
func (l *leg) protected(suite string, err error) {
	if err != nil {
		l.broken.Store(&err)
		l.call.log.Info("media encryption failed before the answer", zap.Error(err))
	} else {
		l.suite.Store(&suite)
	}
	if l.taken.Load() {
		l.call.protected(suite, err)
	}
}

// close gives back what the leg has. It may be called more than once.
func (l *leg) close() {
	if l.rtp != nil {
		l.rtp.Close()
	}
	if l.done != nil {
		l.done()
	}
}

// bye ends the leg's dialog, unless the other party has taken it over, and the leg.
func (l *leg) bye() {
	l.rtp.Close()
	l.call.bye(l.side, errTransferred)
	l.close()
}

// Packet implements rtp.Handler.
func (l *leg) Packet(p *rtp.Packet) {
	switch {
	case l.own:
		(*turned)(l.call).Packet(p)
	case l.early != nil:
		l.early.Add(1)
	}
}

// Turn implements rtp.Handler.
func (l *leg) Turn(now time.Duration) {
	if !l.own && l.taken.Load() {
		l.own = true
	}
	if l.own {
		(*turned)(l.call).Turn(now)
		return
	}
	if l.pending.Load() != nil {
		c := l.pending.Swap(nil)
		l.line = c.line
		l.rtp.SetFlow(c.flow)
	}
}

// Slot implements rtp.Handler.
func (l *leg) Slot(now time.Duration, skipped int) ([]byte, bool) {
	if l.own {
		return (*turned)(l.call).Slot(now, skipped)
	}
	return l.line.idle, false
}

// Event implements rtp.EventSender.
func (l *leg) Event(now time.Duration) (payload []byte, payloadType uint8, first bool) {
	if l.own {
		return (*turned)(l.call).Event(now)
	}
	return nil, 0, false
}

// Playout implements rtp.Playout.
func (l *leg) Playout() (delay time.Duration, discarded uint64) {
	if l.own {
		return (*turned)(l.call).Playout()
	}
	return 0, 0
}
