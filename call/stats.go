package call

import (
	"context"
	"math"
	"time"

	"go.uber.org/zap"

	"parley/agent"
	"parley/identity"
)

// finish writes the one record of the call: to the observer, the journal and the
// log.
func (c *Call) finish() {
	r := c.record()
	c.server.parts.Observer.CallEnded(r)
	if c.server.journal != nil {
		c.server.journal.end(r)
	}
	s := r.Stats
	c.log.Info("call ended", zap.String("cause", r.Cause), zap.String("err", r.Error),
		zap.String("resource_id", identity.Mask(r.ResourceID)), zap.String("codec", r.Codec), zap.String("peer", r.Peer), zap.String("trunk", r.Trunk),
		zap.Duration("duration", r.Ended.Sub(r.Answered).Round(time.Millisecond)),
		zap.Uint64("in", s.PacketsIn), zap.Uint64("out", s.PacketsOut), zap.Uint64("lost", s.Lost),
		zap.Uint64("late", s.Late), zap.Uint64("concealed_ms", s.ConcealedMS), zap.Uint64("strange", s.Strange),
		zap.Duration("jitter", s.Jitter.Round(10*time.Microsecond)), zap.Duration("rtt", s.RTT.Round(10*time.Microsecond)),
		zap.Uint64("peer_lost", s.PeerLost), zap.Duration("peer_jitter", s.PeerJitter.Round(10*time.Microsecond)),
		zap.Float64("mos", round2(s.MOS)), zap.Float64("peer_mos", round2(s.PeerMOS)),
		zap.Uint64("rtcp_in", s.RTCPIn), zap.Uint64("rtcp_out", s.RTCPOut), zap.Uint64("skipped_slots", s.SkippedSlots),
		zap.Uint64("turns", s.Turns), zap.Uint64("barge_ins", s.BargeIns))
}

// record gathers the figures. The call has left the wheel: its counters are ours
// to read.
func (c *Call) record() Record {
	why := context.Cause(c.ctx)
	cause, _ := causeOf(why)
	r := Record{
		CallID: c.id, SIPCallID: c.inv.CallID(), SessionID: c.sessionID, ResourceID: c.caller.ResourceID,
		Direction: "inbound", Called: c.called, Peer: c.inv.Source().String(), Codec: c.line.codec.Name,
		Began: c.began, Answered: c.answered, Ended: time.Now(), Cause: cause,
	}
	if reg := c.inv.Registration(); reg != nil {
		r.Trunk = reg.Trunk().Name
	}
	if cause == CauseFault {
		r.Error = why.Error()
	}
	sent, waited := c.rtp.Stats(), c.ear.jitter.Stats()
	told := sent.Reports
	r.Stats = Stats{
		Setup:     c.answered.Sub(c.began),
		PacketsIn: sent.Received, PacketsOut: sent.Sent,
		Lost: waited.Lost, Late: waited.Late, Duplicate: waited.Duplicate,
		ConcealedMS: uint64(c.ear.counts.concealed / time.Millisecond),
		Strange:     sent.Strange, Malformed: sent.Malformed,
		Jitter: sent.Jitter, SkippedSlots: sent.SkippedSlots,
		RTT: told.RTT, PeerLost: told.PeerLost, PeerLossRate: told.PeerLossRate, PeerJitter: told.PeerJitter,
		RTCPIn: told.Received, RTCPOut: told.Sent, MOS: told.MOS, PeerMOS: told.PeerMOS,
		Speech: c.mouth.spoken(), Digits: c.digits.Load(),
		BargeIns: c.bargeIns.Load(), Turns: c.turns.Load(),
	}
	if told.Last > 0 {
		at := time.Now().Add(told.Last - c.server.parts.Wheel.Now())
		r.Stats.LastRTCP = &at
	}
	return r
}

// round2 is for log lines.
func round2(f float64) float64 { return math.Round(100*f) / 100 }

// logEvent writes an event of the conversation to the log: at info level with the
// words when the operator asked for that, at debug level without them otherwise.
func (c *Call) logEvent(e agent.Event) {
	if e.Type == agent.EventError {
		c.log.Warn("agent trouble", zap.String("err", e.Reason))
		return
	}
	log, words := c.log.Debug, c.server.cfg.LogWords
	if words {
		log = c.log.Info
	}
	fields := []zap.Field{zap.String("event", string(e.Type))}
	if words && e.Text != "" {
		fields = append(fields, zap.String("text", e.Text))
	}
	if words && e.Interrupted {
		fields = append(fields, zap.String("heard", e.Heard))
	}
	if e.Latency != 0 {
		fields = append(fields, zap.Duration("latency", e.Latency.Round(time.Millisecond)))
	}
	if e.Reason != "" {
		fields = append(fields, zap.String("reason", e.Reason))
	}
	log("conversation", fields...)
}
