package stream

import (
	"context"

	"github.com/coder/websocket"
)

// write tells the agent what it is to know until stop is closed or the link fails.
func (s *session) write(l *link, stop <-chan struct{}, again bool) {
	if s.buffer = s.dialect.begin(s.buffer[:0], again); len(s.buffer) > 0 {
		if err := l.write(websocket.MessageText, s.buffer); err != nil {
			l.unwritable(err)
			return
		}
	}
	signal(s.speech.told) // some may wait from before
	for {
		var err error
		select {
		case <-stop:
			return
		case f := <-s.heard.full:
			err = s.sound(l, f)
			s.heard.back(f)
		case m := <-s.outbox:
			err = s.message(l, m)
		case <-s.speech.told:
			err = s.marks(l)
		}
		if err != nil {
			l.unwritable(err)
			return
		}
	}
}

// sound sends a frame of the caller's.
func (s *session) sound(l *link, f *frame) error {
	if !s.sends.Load() {
		return nil
	}
	if s.buffer = s.dialect.gap(s.buffer[:0], f); len(s.buffer) > 0 {
		if err := l.write(websocket.MessageText, s.buffer); err != nil {
			return err
		}
	}
	var kind websocket.MessageType
	kind, s.buffer = s.dialect.sound(s.buffer[:0], f)
	return l.write(kind, s.buffer)
}

// message sends one of messages.go, if the dialect has it.
func (s *session) message(l *link, m any) error {
	if s.buffer = s.dialect.tell(s.buffer[:0], m); len(s.buffer) == 0 {
		return nil
	}
	return l.write(websocket.MessageText, s.buffer)
}

// marks sends those that are reached.
func (s *session) marks(l *link) error {
	all := s.speech.take()
	for i, m := range all {
		played := milliseconds(m.at, s.rate)
		if m.cleared {
			played = s.call.Speaker.Played().Milliseconds()
		}
		if err := s.message(l, markReached{"mark", m.name, played, m.cleared}); err != nil {
			s.speech.untake(all[i:])
			return err
		}
	}
	return nil
}

// farewell sends what is left to be told, and why the call is over. Nothing else writes.
func (s *session) farewell(l *link, cause string) {
	err := s.marks(l)
	for more := true; more && err == nil; {
		select {
		case m := <-s.outbox:
			err = s.message(l, m)
		default:
			more = false
		}
	}
	if err == nil {
		p := s.progress()
		err = s.message(l, stopped{"stop", cause, p.HeardMS, p.PlayedMS})
	}
	if err != nil {
		l.fail(err)
	}
}

// tell queues a message for the agent, from Run, which does not wait for it.
func (s *session) tell(m any) {
	select {
	case s.outbox <- m:
	default:
		s.unsent.Add(1)
	}
}

// post queues an answer to a message of the agent's. An agent that does not take its
// answers is not read from either.
func (s *session) post(ctx context.Context, m any) error {
	select {
	case s.outbox <- m:
		return nil
	case <-ctx.Done():
		return errEnded
	}
}
