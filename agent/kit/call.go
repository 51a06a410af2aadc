package kit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/agent"
	"parley/agent/tool"
	"parley/agent/turn"
)

// Hear sends the frame to the model. It never blocks.
func (s *conversation) Hear(pcm []int16) {
	s.lastFrame.Store(time.Now().UnixNano())
	s.up.hear(pcm)
}

// Notice queues the event. It never blocks.
func (s *conversation) Notice(n agent.Notice) { s.offer(notice(n)) }

// offer queues an event, or counts it as lost when the queue is full.
func (s *conversation) offer(e event) {
	select {
	case s.events <- e:
	default:
		s.lostEvents.Add(1)
	}
}

// post queues an event and waits for room until the call is over.
func (s *conversation) post(e event) {
	select {
	case s.events <- e:
	case <-s.life.Done():
	}
}

// work runs a goroutine of the call's; a panic ends the call and no other.
func (s *conversation) work(do func()) {
	s.workers.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				s.post(fault{fmt.Errorf("kit: panic: %v", p)})
			}
		}()
		do()
	})
}

// Run holds the conversation.
func (s *conversation) Run(ctx context.Context) (err error) {
	defer func() { s.shutdown(ctx, err) }()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	now := time.Now()
	s.lastFrame.Store(now.UnixNano())
	s.turns = turn.NewController(s.turnConfig(), now)
	s.up.muted.Store(s.turns.Muted()) // from the first frame on
	s.work(s.speech.run)
	s.work(func() { s.up.run(s.life) })
	s.greet()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for !s.over {
		s.arm(timer)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e := <-s.events:
			e.happen(s)
		case <-timer.C:
			s.due = time.Time{}
		}
		s.passTime()
	}
	return s.result
}

// finish ends Run with err.
func (s *conversation) finish(err error) {
	if !s.over {
		s.over, s.result = true, err
	}
}

// shutdown ends everything and waits for it.
func (s *conversation) shutdown(ctx context.Context, err error) {
	cause := err
	if cause == nil {
		cause = errors.New("kit: agent hung up")
	}
	s.farewell.Close()
	// The context of all speech goes first: nothing is said after Stop.
	s.end(cause)
	at, _ := s.speech.cut()
	for _, r := range s.replies {
		s.replyOver(r, at, true)
		tell(r, agent.ErrClosed)
	}
	s.replies = nil
	s.userOver("call ended")
	if s.call.Over != nil && ctx.Err() == nil && (err != nil || s.over) { // a panic is the call's to tell
		s.call.Over(err)
	}
	s.session.Stop()
	s.workers.Wait()
	s.unanswered.Range(func(id, _ any) bool {
		s.toolAnswered(ToolResponse{ID: id.(string), Response: map[string]any{"error": "the call is over"}})
		return true
	})
	s.cfg.Gate.End(s.session.SessionID())
	for {
		select {
		case e := <-s.events:
			if a, ok := e.(announcement); ok {
				a.told <- agent.ErrClosed
			}
		default:
			for _, a := range s.announcements {
				a.told <- agent.ErrClosed
			}
			if s.told != nil {
				s.told <- agent.ErrClosed
			}
			return
		}
	}
}

// arm sets the timer to when passTime has something to do.
func (s *conversation) arm(timer *time.Timer) {
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
func (s *conversation) nextDue() time.Time {
	var due time.Time
	earlier := func(t time.Time) {
		if !t.IsZero() && (due.IsZero() || t.Before(due)) {
			due = t
		}
	}
	if !s.closing {
		if at, ok := s.turns.Due(); ok {
			earlier(at)
		}
		if s.cfg.NoAudio > 0 && s.turns.Speaking() {
			earlier(time.Unix(0, s.lastFrame.Load()).Add(s.cfg.NoAudio))
		}
		if s.awaits() {
			earlier(s.expected.Add(s.cfg.ReplyTimeout))
		}
		earlier(s.caller.until)
		earlier(s.fillDue())
	}
	if len(s.replies) > 0 {
		earlier(s.progress.next)
	}
	return due
}

// passTime does what the clock asks for, and what may have become due with it.
func (s *conversation) passTime() {
	now := time.Now()
	in := turn.Input{Kind: turn.Tick, At: now}
	silent := now.Sub(time.Unix(0, s.lastFrame.Load()))
	if s.cfg.NoAudio > 0 && silent >= s.cfg.NoAudio && s.turns.Speaking() {
		in.Kind, in.Lag = turn.VoiceOff, silent
	}
	s.decide(in)
	if !s.caller.until.IsZero() && !now.Before(s.caller.until) {
		s.userOver("")
	}
	s.settle(now)
	s.watchModel(now)
	s.fill(now)
	s.balance(now)
	s.announceNext(now)
	s.report(now)
}

// balance tells the turn taking and the farewell whether a reply is under way.
func (s *conversation) balance(now time.Time) {
	busy := len(s.replies) > 0 || s.awaits()
	switch {
	case busy && !s.replying && !s.turns.Open():
		s.replying = true
		s.decide(turn.Input{Kind: turn.ReplyBegan, At: now})
	case !busy && s.replying && !s.over:
		s.replying = false
		s.decide(turn.Input{Kind: turn.ReplyEnded, At: now})
	}
	s.farewell.Busy(busy || len(s.toolRuns) > 0)
	s.session.live.Playing(len(s.replies) > 0)
}

// awaits says whether the model owes a reply of which nothing has come.
func (s *conversation) awaits() bool { return !s.expected.IsZero() && !s.away && len(s.toolRuns) == 0 }

// expect notes that the model is to reply, to something that ended at since.
func (s *conversation) expect(since time.Time) {
	s.expected, s.since = time.Now(), since
}

// complain reports a failure.
func (s *conversation) complain(err error) {
	s.emit(agent.Event{Type: agent.EventError, Reason: tool.CleanText(err.Error(), 400)})
}

// complaintPause is the time between two reports of the same loss.
const complaintPause = 10 * time.Second

// report says what state the conversation is in, when that changed, and what was lost.
func (s *conversation) report(now time.Time) {
	state := "listening"
	switch {
	case s.over:
		state = "over"
	case s.turns.Open():
		state = "caller speaks"
	case len(s.replies) > 0 && s.replies[0].started:
		state = "agent speaks"
	case s.away:
		state = "recovering"
	case len(s.replies) > 0 || s.awaits() || len(s.toolRuns) > 0:
		state = "thinking"
	}
	if state != s.state {
		s.state = state
		s.emit(agent.Event{Type: agent.EventState, Reason: state})
	}
	frames, events := s.up.lost.Load(), s.lostEvents.Load()
	if frames+events > s.reported && now.Sub(s.complaint) >= complaintPause {
		s.reported, s.complaint = frames+events, now
		s.complain(fmt.Errorf("kit: fell behind, %d frames and %d events lost so far", frames, events))
	}
}

func (s *conversation) emit(e agent.Event) {
	e.At = time.Now()
	s.call.Emit(e)
}
