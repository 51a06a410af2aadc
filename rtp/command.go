package rtp

import "slices"

// command is what the wheel is asked to do at its next tick. Whoever asks takes
// no lock that the wheel could wait for.
type command struct {
	session *Session
	join    Handler       // nil: one of the next; all nil: look at its flow
	bye     chan struct{} // closed when BYE was said
	left    chan struct{} // closed when it has left
	next    *command
}

// command asks the wheel to do c at its next tick.
func (w *Wheel) command(c *command) {
	for {
		c.next = w.commands.Load()
		if w.commands.CompareAndSwap(c.next, c) {
			break
		}
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// obey does what was asked since the last tick, in the order of asking.
func (w *Wheel) obey() {
	var first *command
	for c := w.commands.Swap(nil); c != nil; {
		next := c.next
		c.next, first = first, c
		c = next
	}
	for c := first; c != nil; c = c.next {
		if c.join != nil {
			w.join(c.session, c.join)
			continue
		}
		if c.bye != nil {
			c.session.goodbye()
			w.flush()
			close(c.bye)
			continue
		}
		if c.left == nil { // another flow
			if i := c.session.index; i >= 0 {
				w.dues[i] = 0
			}
			continue
		}
		w.leave(c.session)
		close(c.left)
	}
}

func (w *Wheel) join(s *Session, h Handler) {
	s.handler = h
	s.events, _ = h.(EventSender)
	s.index = len(w.sessions)
	s.phase = slices.Index(w.load, slices.Min(w.load))
	w.load[s.phase]++
	w.sessions = append(w.sessions, s)
	w.dues = append(w.dues, 0)
	w.turning.Store(int64(len(w.sessions)))
	s.dropStale()
	s.control.begin(h, w.Now())
}

func (w *Wheel) leave(s *Session) {
	if s.index < 0 { // after a fault
		return
	}
	last := len(w.sessions) - 1
	w.sessions[s.index] = w.sessions[last]
	w.sessions[s.index].index = s.index
	w.sessions[last] = nil
	w.sessions = w.sessions[:last]
	w.dues[s.index] = w.dues[last]
	w.dues = w.dues[:last]
	w.load[s.phase]--
	s.index = -1
	w.turning.Store(int64(last))
}
