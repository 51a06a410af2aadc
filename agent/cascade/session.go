package cascade

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/agent"
	"parley/agent/stt"
	"parley/agent/turn"
)

// Hear queues a copy of the frame for the recogniser. It never blocks: when the
// loop does not keep up, the oldest frame is dropped and counted.
func (s *session) Hear(pcm []int16) {
	var buf []int16
	select {
	case buf = <-s.free:
	default:
		s.lostFrames.Add(1)
		select {
		case buf = <-s.frames:
		default:
			return
		}
	}
	s.frames <- append(buf[:0], pcm...) // there is room for all buffers
}

// Notice queues the event. It never blocks; the queue is long enough unless the
// process stands still for seconds, and then the loss is counted.
func (s *session) Notice(n agent.Notice) { s.offer(notice(n)) }

// results takes the transcripts of one of the recogniser's streams.
func (s *session) results(id int) func(stt.Result) {
	return func(r stt.Result) {
		// An interim that is lost is replaced by the next one.
		if r.Err == nil && !r.Final && len(s.events) > eventQueue/2 {
			s.lostEvents.Add(1)
			return
		}
		s.offer(transcript{id, r})
	}
}

// offer queues an event, or counts it as lost when the queue is full.
func (s *session) offer(e event) {
	select {
	case s.events <- e:
	default:
		s.lostEvents.Add(1)
	}
}

// post queues an event of a worker, which may have to wait until there is room or
// nobody wants to know any more.
func (s *session) post(ctx context.Context, e event) {
	select {
	case s.events <- e:
	case <-ctx.Done():
	}
}

// Run holds the conversation.
func (s *session) Run(ctx context.Context) (err error) {
	s.workers.Add(2)
	go s.work(s.asks, s.think)
	go s.work(s.speech, s.speak)
	defer func() { s.shutdown(ctx, err) }()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.begin(time.Now())
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for !s.over {
		s.arm(timer)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case frame := <-s.frames:
			s.listen(frame)
		case e := <-s.events:
			s.drain() // the recogniser has the sound before it hears what it means
			e.happen(s)
		case <-s.wishes.token:
		case <-timer.C:
			s.due = time.Time{}
		}
		s.passTime()
	}
	return s.result
}

// finish ends Run with err.
func (s *session) finish(err error) {
	if !s.over {
		s.over, s.result = true, err
	}
}

// shutdown closes everything and waits for it.
func (s *session) shutdown(ctx context.Context, err error) {
	cause := "agent hung up"
	switch {
	case ctx.Err() != nil:
		cause = context.Cause(ctx).Error()
	case err != nil:
		cause = err.Error()
	case s.result == nil && !s.over: // Run panics
		cause = "fault"
	}
	s.end(errors.New("cascade: " + cause))
	s.endWait()
	at := s.call.Speaker.Stop()
	if r := s.reply; r != nil {
		s.reply = nil
		r.abandon(errInterrupted)
		r.tell(agent.ErrClosed)
		f := fateOf(r, r.spoken.Heard(at), true, at)
		s.agentStopped(f, r.started, at)
		s.tellLater(f)
	}
	s.drop()
	s.tellNow()
	if s.turns != nil && s.turns.Open() { // what was said is on record
		s.emit(agent.Event{Type: agent.EventUserStopped, Text: s.words.text, Reason: "call ended"})
	}
	if s.call.Over != nil && ctx.Err() == nil && cause != "fault" { // a panic is the call's to tell
		s.call.Over(err)
	}
	s.closeModel(cause)
	if s.stream != nil {
		_ = s.stream.Close()
	}
	s.workers.Wait()
	for {
		select {
		case e := <-s.events:
			switch e := e.(type) {
			case reopened:
				if e.stream != nil {
					_ = e.stream.Close()
				}
			case announcement:
				e.told <- agent.ErrClosed
			}
		default:
			for _, a := range s.announcements {
				a.told <- agent.ErrClosed
			}
			return
		}
	}
}

// arm sets the timer to when passTime has something to do.
func (s *session) arm(timer *time.Timer) {
	due := s.nextDue()
	if due.Equal(s.due) {
		return
	}
	s.due = due
	if due.IsZero() {
		timer.Stop()
		return
	}
	timer.Reset(time.Until(due))
}

// nextDue is when something is to be done though nothing happens; zero: never.
func (s *session) nextDue() time.Time {
	var due time.Time
	earlier := func(t time.Time) {
		if !t.IsZero() && (due.IsZero() || t.Before(due)) {
			due = t
		}
	}
	if s.screen != nil {
		at, _ := s.screen.Due()
		earlier(at)
	}
	if !s.closing && !s.screens() {
		at, _ := s.turns.Due()
		earlier(at)
	}
	if s.toolsRun > 0 {
		at, _ := s.tools.at(time.Now(), s.cfg.ToolTime)
		earlier(at)
	}
	earlier(s.wishesDue())
	if r := s.reply; r != nil {
		s.replyDue(r, earlier)
	}
	return due
}

// replyDue gives the times at which something is to be done about the reply.
func (s *session) replyDue(r *reply, earlier func(time.Time)) {
	if since, limit, thinks := r.silentSince(s.cfg.FirstToken, s.cfg.ToolTime); thinks {
		earlier(since.Add(limit))
		if r.lastPause != since {
			earlier(since.Add(pauseAfter))
		}
	}
	if _, sounds := r.sounded(); sounds || r.said || len(r.marks) > 0 {
		earlier(s.progress.next)
	}
}

// passTime does what the clock asks for, and what may have become due with it.
func (s *session) passTime() {
	now := time.Now()
	s.wished(now)
	s.screened(now)
	s.watchTools(now)
	s.decide(turn.Input{Kind: turn.Tick, At: now})
	if r := s.reply; r != nil {
		s.watchModel(r, now)
		s.settle(r, now)
	}
	s.grant(now)
	s.announceNext(now)
	s.fillWait()
	s.report(now)
}

// complain reports a failure.
func (s *session) complain(err error) {
	s.emit(agent.Event{Type: agent.EventError, Reason: err.Error()})
}

// complaintPause is the time between two reports of the same loss.
const complaintPause = 10 * time.Second

// report says what state the conversation is in, when that changed, and what was
// lost.
func (s *session) report(now time.Time) {
	state := "listening"
	switch {
	case s.over:
		state = "over"
	case s.turns.Open():
		state = "caller speaks"
	case s.reply != nil && s.reply.started:
		state = "agent speaks"
	case s.reply != nil:
		state = "thinking"
	}
	if state != s.state {
		s.state = state
		s.emit(agent.Event{Type: agent.EventState, Reason: state})
	}
	frames, events := s.lostFrames.Load(), s.lostEvents.Load()
	if frames+events > s.reported && now.Sub(s.complaint) >= complaintPause {
		s.reported, s.complaint = frames+events, now
		s.complain(fmt.Errorf("cascade: fell behind, %d frames and %d events lost so far", frames, events))
	}
}

// emit reports an event, without what callers keyed in where that is secret. Any
// goroutine may.
func (s *session) emit(e agent.Event) {
	e.At = time.Now()
	if s.cfg.SecretDigits {
		e.Text, e.Heard = s.secrets.hide(e.Text), s.secrets.hide(e.Heard)
	}
	s.call.Emit(e)
}
