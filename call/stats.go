package call

import (
	"context"
	"errors"
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
	observer := c.server.parts.Observer
	if failures, ok := observer.(FailureObserver); ok && r.Answered.IsZero() {
		failures.CallFailed(r)
	} else if !r.Answered.IsZero() {
		observer.CallEnded(r)
	}
	c.tell(agent.Event{Type: agent.EventConnection, Reason: agent.ConnectionEnded, Code: r.Code, Q850: r.Q850, Text: r.Cause})
	c.server.keep(c, r)
	if c.server.journal != nil {
		c.server.journal.end(r)
	}
	s := r.Stats
	if r.Answered.IsZero() {
		c.log.Info("call not answered", zap.String("cause", r.Cause), zap.Int("code", r.Code), zap.String("reason", r.Reason), zap.Int("q850", r.Q850),
			zap.String("resource_id", identity.Mask(r.ResourceID)), zap.String("trunk", r.Trunk), zap.String("err", r.Error),
			zap.Duration("duration", r.Ended.Sub(r.Began).Round(time.Millisecond)), zap.Uint64("early", s.Early))
		return
	}
	c.log.Info("call ended", zap.String("direction", r.Direction), zap.String("cause", r.Cause), zap.String("err", r.Error),
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
	if cause == CauseCallerHungUp && c.direction == outbound {
		cause = CauseCalleeHungUp
	}
	c.mu.Lock()
	r := Record{
		CallID: c.id, SIPCallID: c.view.SIPCallID, SessionID: c.sessionID, ResourceID: c.caller.ResourceID,
		Direction: c.direction, Called: c.called, From: c.from, Peer: c.peer, Trunk: c.trunk.name(),
		Route: c.routed.Route, Agent: c.routed.Agent,
		Began: c.began, Answered: c.answered, Ended: time.Now(), Cause: cause,
		Code: c.view.Code, Reason: c.view.Reason, Q850: c.view.Q850, Attempts: c.view.Attempts,
	}
	c.mu.Unlock()
	var operator *hungUp
	switch {
	case cause == CauseFault, cause == CauseUnprotected:
		r.Error = why.Error()
	case errors.As(why, &operator):
		r.Error = operator.text
	}
	if c.ear == nil || c.mouth == nil { // not even begun
		return r
	}
	r.Codec = c.line.codec.Name
	if suite := c.suite.Load(); suite != nil {
		r.SRTP = *suite
	}
	sent, waited := c.rtp.Stats(), c.ear.jitter.Stats()
	told := sent.Reports
	r.Stats = Stats{
		Setup: max(0, c.answered.Sub(c.began)), Early: c.early.Load(),
		PacketsIn: sent.Received, PacketsOut: sent.Sent,
		Lost: waited.Lost, Late: waited.Late, Duplicate: sent.Duplicate + waited.Duplicate,
		ConcealedMS: uint64(c.ear.counts.concealed / time.Millisecond),
		Strange:     sent.Strange, Malformed: sent.Malformed, Forged: sent.Forged, Replayed: sent.Replayed,
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
	level, words := zap.DebugLevel, c.server.cfg.LogWords
	if words {
		level = zap.InfoLevel
	}
	line := c.log.Check(level, "conversation")
	if line == nil {
		return // nobody reads it: spare what it is made of
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
	line.Write(fields...)
}
