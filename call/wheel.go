package call

import (
	"time"

	"go.uber.org/zap"

	"parley/agent"
	"parley/media/vad"
	"parley/rtp"
)

// turned is the side of a Call that the wheel turns: all its methods run on the
// wheel's goroutine, never block and do not allocate.
type turned Call

// Packet implements rtp.Handler.
func (t *turned) Packet(p *rtp.Packet) { t.ear.packet(p) }

// Turn implements rtp.Handler.
func (t *turned) Turn(now time.Duration) {
	if t.pending.Load() != nil { // a load costs less than a swap, and nearly always suffices
		t.adopt(t.pending.Swap(nil))
	}
	t.ear.tape = t.taping.tape.Load()
	if t.ear.tape != nil {
		t.ear.tape.turn(now, t.line)
	}
	t.ear.turn(now, t.heldWas)
}

// Slot implements rtp.Handler.
func (t *turned) Slot(now time.Duration, skipped int) ([]byte, bool) {
	if t.silenced() {
		return nil, false
	}
	payload, level := t.line.idle, int8(vad.Quiet)
	if t.heldWas { // by us: what the peer holds takes no packets
		t.mouth.idles.Add(1)
	} else {
		payload = t.mouth.next(t.line, skipped)
		level = t.mouth.play.level
	}
	if t.ear.echo != nil {
		t.ear.echo.Sent(float64(level), time.Duration(1+skipped)*t.line.packetTime)
	}
	if t.ear.tape != nil {
		t.ear.tape.sent(now, t.line, payload, skipped)
	}
	return payload, false
}

// silenced says that the dialog in force is over: not a packet more goes to what may
// be another call's port by now (BR-152).
func (t *turned) silenced() bool {
	d := t.side.Load()
	return d != nil && d.dialog.Context().Err() != nil
}

// adopt puts what offer and answer settled into force, between two packets.
func (t *turned) adopt(c *change) {
	if err := t.ear.use(c.line, c.accept, c.jitter, c.digits); err != nil {
		t.log.Error("codec change refused", zap.Error(err))
		return
	}
	t.line = c.line
	t.mouth.line.Store(c.line)
	t.rtp.SetFlow(c.flow)
	if c.held != t.heldWas {
		t.heldWas = c.held
		kind := agent.Resumed
		if c.held {
			kind = agent.Held
		}
		t.session.Notice(agent.Notice{Kind: kind, At: time.Now()})
	}
}
