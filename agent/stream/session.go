package stream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"parley/agent"
)

// session is one call with an agent. Its goroutines are Run, which owns what is said to
// be its own below; one that speaks; one that writes to the agent and two of the link,
// which read and ping; and one that acts on the call, once the agent has asked for that.
type session struct {
	opener  *opener
	cfg     Config
	call    agent.Call
	dialect dialect
	rate    int
	opened  time.Time

	life    context.Context
	end     context.CancelFunc
	workers sync.WaitGroup

	heard   *heard
	scratch []byte // of Hear
	passes  bool   // payloads come by themselves
	payload agent.PayloadSpeaker
	speech  *speech

	notices   chan agent.Notice
	news      chan news // of the reader
	outbox    chan any  // messages of messages.go
	redialled chan redialled
	acts      chan actCommand
	acting    bool      // the reader's
	second    time.Time // the reader's: when messages were counted from
	messages  int       // the reader's: since then

	lost     atomic.Uint64 // notices for which there was no room
	unsent   atomic.Uint64 // messages for which there was no room
	warnings atomic.Uint64
	grumbled atomic.Int64 // when
	sends    atomic.Bool  // the agent wants the caller's sound
	paused   atomic.Bool  // it has paused its speech
	buffer   []byte       // of the writer

	// The rest is Run's alone.
	link       *link         // nil while there is none
	stopWriter chan struct{} // closed to end the writer of link
	writer     chan struct{} // closed when it has ended
	begun      bool          // the agent was told that the call is up
	broke      time.Time     // when the link broke, the first time in a row
	tries      int           // since then
	reconnects int
	leaving    bool // what is queued is said, then the call ends
	over       bool
	result     error // of Run, once over
	reply      reply
	voice      voice
	sounding   sounding
	held       bool
	told       int64         // frames that were dropped, as the operator was told
	droppedAt  time.Time     // when
	every      time.Duration // of statistics
	statistics time.Time     // the next ones
}

// Hear takes a frame. It never blocks: when the agent is too slow the oldest frame is
// dropped and counted.
func (s *session) Hear(pcm []int16) {
	s.scratch = s.dialect.hear(s.scratch[:0], pcm)
	s.heard.put(s.scratch)
}

// Notice queues the event. It never blocks; the queue is long enough unless the process
// stands still for seconds, and then the loss is counted.
func (s *session) Notice(n agent.Notice) {
	select {
	case s.notices <- n:
	default:
		s.lost.Add(1)
	}
}

// greet sends the first message on a connection.
func (s *session) greet(l *link, p *progress) error {
	s.buffer = s.dialect.connected(s.buffer[:0], p)
	return l.writeWithin(s.cfg.ConnectTimeout, websocket.MessageText, s.buffer)
}

// take makes l the session's link, and reads from it.
func (s *session) take(l *link) {
	s.link = l
	s.workers.Go(func() { l.run(func(kind websocket.MessageType, m []byte) error { return s.receive(l.life, kind, m) }) })
}

// Run holds the conversation.
func (s *session) Run(ctx context.Context) (err error) {
	defer func() { s.shutdown(ctx, err) }()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.workers.Go(s.speak)
	s.begin()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		due := s.passTime(time.Now())
		if s.over {
			return s.result
		}
		timer.Reset(due)
		var gone chan struct{}
		if s.link != nil {
			gone = s.link.done
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case n := <-s.notices:
			s.noticed(n)
		case n := <-s.news:
			n.happen(s)
		case r := <-s.redialled:
			s.connected(r)
		case <-gone:
			s.broken()
		case <-s.speech.moved:
		case <-timer.C:
		}
	}
}

// begin lets a new link live: the agent is told that the call is up, and hears it.
func (s *session) begin() {
	s.stopWriter, s.writer = make(chan struct{}), make(chan struct{})
	l, stop, done, again := s.link, s.stopWriter, s.writer, s.begun
	s.begun = true
	go func() {
		defer close(done)
		s.write(l, stop, again)
	}()
}

// unlink waits until nothing writes to the link or reads from it, which has ended.
func (s *session) unlink() {
	close(s.stopWriter)
	<-s.writer
	_ = s.link.conn.CloseNow()
	s.link = nil
}

// broken sees what is to be done when the link has ended.
func (s *session) broken() {
	l := s.link
	s.unlink()
	err := l.reason()
	switch how := meaning(err); {
	case s.leaving:
		return
	case how == left:
		s.leave(nil)
		return
	case how == refused, s.cfg.Reconnect == 0:
		s.lose(err)
		return
	}
	now := time.Now()
	if s.broke.IsZero() || now.Sub(l.since) > s.cfg.Reconnect {
		s.broke, s.tries = now, 0
	}
	if s.tries == 0 {
		s.complain("the connection to the agent broke: %v", err)
	}
	s.call.Emit(agent.Event{Type: agent.EventState, Reason: "reconnecting"})
	s.redial(err)
}

// leave ends the call when what is queued was heard; err is the result of Run then.
func (s *session) leave(err error) {
	if !s.leaving {
		s.leaving, s.result = true, err
		s.pause(false) // nobody is left to end it
		s.speech.end()
	}
}

// lose ends the call because the agent is gone, as the configuration has it.
func (s *session) lose(err error) {
	s.complain("the agent is gone: %v", err)
	if s.cfg.OnLost == LostHangup {
		err = nil
	} else {
		err = fmt.Errorf("stream: the agent is gone: %w", err)
	}
	s.leave(err)
}

// redialled is a new link, or none.
type redialled struct {
	link *link
	err  error
}

// The times between tries to reach the agent again.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
)

// redial calls the agent again, after a pause. The first time nearly at once.
func (s *session) redial(why error) {
	left := s.cfg.Reconnect - time.Since(s.broke)
	pause := min(firstPause<<min(s.tries, 10), lastPause)
	pause += rand.N(pause / 4) // calls that lost the same agent do not come back together
	if s.tries++; pause >= left {
		s.lose(why)
		return
	}
	p := s.progress()
	s.workers.Go(func() {
		r := redialled{}
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
			ctx, cancel := context.WithTimeout(s.life, left-pause)
			defer cancel()
			if r.link, r.err = s.opener.dial(ctx, s.call); r.err == nil {
				if r.err = s.greet(r.link, &p); r.err != nil {
					_ = r.link.conn.CloseNow()
				}
			}
		case <-s.life.Done():
			r.err = errEnded
		}
		s.redialled <- r // there is room for the one
	})
}

// connected goes on with a new link, or without.
func (s *session) connected(r redialled) {
	var status *statusError
	switch {
	case r.err == nil:
		s.reconnects++
		s.call.Emit(agent.Event{Type: agent.EventState, Reason: "reconnected"})
		if s.cfg.Dialect == Twilio { // a new stream, which knows nothing of the one before
			s.heard.forget()
			s.drop().happen(s)
			s.speech.forgetMarks()
		}
		s.take(r.link)
		s.begin()
	case errors.As(r.err, &status) && status.final():
		s.lose(r.err)
	default:
		s.redial(r.err)
	}
}

// progress is how far the conversation has come.
func (s *session) progress() progress {
	queued, marks := s.speech.waiting()
	if marks == nil {
		marks = []string{}
	}
	return progress{
		HeardMS: milliseconds(s.heard.samples.Load(), s.rate), PlayedMS: s.call.Speaker.Played().Milliseconds(),
		QueuedMS: milliseconds(queued, s.rate), Marks: marks,
	}
}

// shutdown says goodbye and waits for everything.
func (s *session) shutdown(ctx context.Context, err error) {
	cause := "agent hung up"
	switch {
	case ctx.Err() != nil:
		cause = context.Cause(ctx).Error()
	case err != nil:
		cause = "agent failed"
	case !s.over: // Run panics
		cause = "fault"
	}
	s.stopReply(time.Now(), s.call.Speaker.Played(), !s.over && s.reply.ended.IsZero())
	if s.call.Over != nil && ctx.Err() == nil && (err != nil || s.over) { // a panic is the call's to tell
		s.call.Over(err) // the caller does not wait for our goodbye to the agent
	}
	if l := s.link; l != nil {
		bound := time.AfterFunc(closeTimeout, func() { l.fail(errEnded) })
		if s.writer != nil {
			close(s.stopWriter)
			<-s.writer
			s.farewell(l, cause)
		}
		_ = l.conn.Close(websocket.StatusNormalClosure, "") // the agent may be gone
		s.end()                                             // the reader may wait for room
		l.fail(errEnded)
		<-l.done
		bound.Stop()
		_ = l.conn.CloseNow()
	}
	s.end()
	s.workers.Wait()
	select {
	case r := <-s.redialled:
		if r.link != nil {
			_ = r.link.conn.CloseNow()
		}
	default:
	}
}
