package call

import (
	"context"
	"errors"
	"sync"
	"time"

	"parley/rtp"
	"parley/sip"
)

// checkEvery is how often the media watchdog looks.
const checkEvery = time.Second

// watch starts the watchdogs of a call and returns what stops them. They are
// timers, not goroutines: most calls never need one.
func (c *Call) watch() (stop func()) {
	var timers []*time.Timer
	if d := c.server.cfg.MaxDuration; d > 0 {
		timers = append(timers, time.AfterFunc(d, func() { c.end(errMaxDuration) }))
	}
	w := &mediaWatch{call: c, last: time.Now()}
	if c.server.cfg.MediaTimeout > 0 || c.server.cfg.InitialMediaTimeout > 0 {
		w.mu.Lock()
		w.timer = time.AfterFunc(checkEvery, w.look)
		w.mu.Unlock()
	}
	return func() {
		for _, t := range timers {
			t.Stop()
		}
		w.stop()
	}
}

// mediaWatch ends a call whose caller sends nothing any more, neither sound nor
// reports: a muted phone may send only those (BR-088). They alone keep a call up to
// its maximum duration. It counts packets, so that the packets themselves cost nothing.
type mediaWatch struct {
	call *Call

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
	packets uint64
	reports uint64    // RTCP
	last    time.Time // when one of the two last grew, or the call was on hold
}

func (w *mediaWatch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	if err := w.call.rtp.Err(); err != nil {
		w.call.end(err) // the wheel has dropped the session: see rtp.FaultError
		return
	}
	now, stats := time.Now(), w.call.rtp.Stats()
	packets, reports := stats.Received, stats.Reports.Received
	if packets != w.packets || reports != w.reports || w.call.held.Load() {
		w.packets, w.reports, w.last = packets, reports, now
	}
	limit := w.call.server.cfg.MediaTimeout
	if packets == 0 {
		limit = w.call.server.cfg.InitialMediaTimeout
	}
	if limit > 0 && now.Sub(w.last) >= limit {
		w.call.end(errMediaTimeout)
		return
	}
	w.timer.Reset(checkEvery)
}

func (w *mediaWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

// agentError is the error with which an agent ended its call. Whatever it wraps,
// such as a context of the agent's own, it is the agent's fault.
type agentError struct{ err error }

func (e *agentError) Error() string { return "call: agent: " + e.err.Error() }
func (e *agentError) Unwrap() error { return e.err }

// causes is the one table from why a call's context ended to the record's cause
// and the Reason of our BYE (RFC 3326; the causes are those of Q.850).
var causes = []struct {
	err   error
	cause string
	q850  int
}{
	{errAgentDone, CauseAgentHungUp, 16},
	{errTransferred, CauseTransferred, 16},
	{errMediaTimeout, CauseMediaTimeout, 102},
	{errUnprotected, CauseUnprotected, 88},
	{errMaxDuration, CauseMaxDuration, 102},
	{errShutdown, CauseShutdown, 41},
	{sip.ErrShutdown, CauseShutdown, 41},
	{context.Canceled, CauseShutdown, 41},
	{sip.ErrPeerBye, CauseCallerHungUp, 16},
	{sip.ErrNoACK, CauseNoACK, 102},
	{sip.ErrNoPRACK, CauseNoPRACK, 102},
	{sip.ErrGone, CauseLost, 41},
	{sip.ErrExpired, CauseExpired, 102},
	{ErrLimit, CauseUnreachable, 34},
	{rtp.ErrNoPort, CauseUnreachable, 34},
}

// hungUp is the end that Server.HangUp makes; text is the operator's.
type hungUp struct{ text string }

func (e *hungUp) Error() string { return CauseOperator }

// causeOf is the record's cause for a context's, and the Q.850 cause for a BYE.
func causeOf(err error) (cause string, q850 int) {
	var fault *agentError
	if errors.As(err, &fault) {
		return CauseFault, 41
	}
	var operator *hungUp
	if errors.As(err, &operator) {
		return CauseOperator, 16
	}
	var dial *sip.DialError
	if errors.As(err, &dial) {
		return unansweredCause(dial), 16
	}
	for _, c := range causes {
		if errors.Is(err, c.err) {
			return c.cause, c.q850
		}
	}
	return CauseFault, 41
}

// unansweredCause is the record's cause of a call that was not answered; the record
// has the code as well (RFC 3261 section 21).
func unansweredCause(e *sip.DialError) string {
	switch e.Code {
	case 0:
		if errors.Is(e.Err, sip.ErrRingTimeout) {
			return CauseNoAnswer
		}
	case 408, 480, 487:
		return CauseNoAnswer
	case 486, 600:
		return CauseBusy
	case 403, 603, 607, 608:
		return CauseDeclined
	case 404, 410, 484, 604:
		return CauseNoSuchNumber
	}
	return CauseUnreachable
}

func byeReason(err error) sip.Reason {
	text, q850 := causeOf(err)
	return sip.Reason{Protocol: "Q.850", Cause: q850, Text: text}
}
