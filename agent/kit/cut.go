package kit

import (
	"strings"
	"time"

	"parley/agent"
	"parley/agent/chat"
	"parley/agent/live"
	"parley/agent/turn"
)

// cutOff is what the open turn has cut off, in case it was for nothing.
type cutOff struct {
	reply    *reply
	rest     []chunk // what was not heard
	heard    string
	complete bool // all of it had come
	waited   bool // there was no reply yet, but one was to come
	since    time.Time
}

// dropped says whether a message is of a reply that was cut off: it was on its way
// already, or the provider cannot be told.
func (s *conversation) dropped(m live.Message) bool {
	if len(m.Audio) > 0 || m.Agent != (live.Transcript{}) {
		switch {
		case m.ItemID != "" && s.cutItems[m.ItemID]:
			return !m.TurnDone && len(m.ToolCalls) == 0
		case m.ItemID != "" && len(s.cutItems) > 0:
			s.dropping = false // another reply
		}
	}
	if !s.dropping {
		return false
	}
	if m.TurnDone {
		s.dropping = false
		return true
	}
	return len(m.ToolCalls) == 0
}

// cut cuts off what the agent says: one critical section. The context of all speech
// goes first, then the Speaker is stopped, which tells what was heard, then the model
// is told of that.
func (s *conversation) cut(d turn.Decision) {
	at, rest := s.speech.cut()
	s.replying = false
	if len(s.replies) == 0 {
		if !s.expected.IsZero() { // its reply comes, and is not for the caller any more
			s.suspects++
			s.cutOff = cutOff{waited: true, since: s.since}
			s.expected = time.Time{}
		}
		return
	}
	first, last := s.replies[0], s.replies[len(s.replies)-1]
	from, to, begun := s.speech.place(first)
	s.cutOff = cutOff{reply: first, rest: rest, heard: first.heard(begun, from, to, at), complete: last.done, since: first.since}
	if first.started {
		reason := "voice"
		if d.Reason == turn.ByDigit {
			reason = "digit"
		}
		s.emit(agent.Event{Type: agent.EventBargeIn, Reason: reason, Latency: d.Silent.Sub(d.Since), Position: at})
	}
	s.dropping = s.incoming != nil
	for _, r := range s.replies {
		s.truncate(r, at)
		s.replyOver(r, at, true)
		tell(r, errCut)
	}
	s.replies, s.incoming = nil, nil
}

// truncate tells the model how much of each item was heard: nothing of what was not
// begun, and nothing is told of what was heard to its end.
func (s *conversation) truncate(r *reply, at time.Duration) {
	for _, it := range r.items {
		s.speech.mu.Lock()
		begun, from := it.begun, it.from
		s.speech.mu.Unlock()
		length := s.sound.says.length(it.received)
		played := time.Duration(0)
		if begun {
			played = min(max(at-from, 0), length)
		}
		if it.id == "" || begun && r.done && at >= from+length-slack {
			continue
		}
		id := it.id
		if len(s.cutItems) >= 64 {
			clear(s.cutItems)
		}
		s.cutItems[id] = true
		s.up.put(job{do: func() error { return s.session.live.Truncate(id, played) }})
	}
}

// dropReply drops a reply of which nothing was heard.
func (s *conversation) dropReply(r *reply, item string) {
	if item != "" {
		r.itemOf(item)
	}
	if s.incoming == r {
		s.dropping = true
		s.incoming = nil
	}
	s.truncate(r, 0)
	s.speech.drop(r)
	for i, other := range s.replies {
		if other == r {
			s.replies = append(s.replies[:i:i], s.replies[i+1:]...)
			break
		}
	}
	s.replyOver(r, 0, true)
	tell(r, errCut)
}

// outOfDate drops what comes of a reply to a turn that is out of date, and has the model
// forget it. Calls of tools are answered all the same.
func (s *conversation) outOfDate(m live.Message) bool {
	if id := m.ItemID; id != "" && !s.cutItems[id] {
		s.cutItems[id] = true
		s.up.put(job{do: func() error { return s.session.live.Truncate(id, 0) }})
	}
	s.stale = !m.TurnDone
	return len(m.ToolCalls) == 0
}

// dropSuspects drops the replies to a turn that is out of date.
func (s *conversation) dropSuspects() {
	for _, r := range append([]*reply(nil), s.replies...) {
		if r.suspect {
			s.dropReply(r, "")
		}
	}
}

// goOn takes up what a noise, or a mere "mm-hm", cut off. When all of it has come the
// rest is spoken, else the model is asked to go on.
func (s *conversation) goOn(d turn.Decision) {
	c := s.cutOff
	s.cutOff = cutOff{}
	s.replying = true
	s.speech.hold(false)
	if d.Reason == turn.ByBackchannel {
		s.unwanted = time.Now().Add(unwantedFor)
	}
	if c.waited || c.reply == nil {
		s.cutOff = c
		s.stillWanted()
		return
	}
	s.emit(agent.Event{Type: agent.EventFalseBargeIn})
	if c.complete && len(c.rest) > 0 || c.reply.own {
		s.sayRest(c)
		return
	}
	if s.cfg.GoOn == "" {
		return
	}
	s.emit(agent.Event{Type: agent.EventInference, Reason: agent.InferenceAgain})
	s.instruct(s.cfg.GoOn+quoted(c.heard), c.since)
}

// stillWanted has the reply that was to come when a noise began be heard all the same.
func (s *conversation) stillWanted() {
	c := s.cutOff
	s.cutOff = cutOff{}
	for _, r := range s.replies {
		r.suspect = false
	}
	if s.suspects > 0 { // it has not come yet
		s.suspects = 0
		s.expect(c.since)
	}
}

// quoted marks what was heard as such.
func quoted(heard string) string {
	if heard == "" {
		return "nothing"
	}
	return `"` + heard + `"`
}

// sayRest speaks what was not heard of a reply.
func (s *conversation) sayRest(c cutOff) {
	var now, old *reply
	for _, part := range c.rest {
		if part.last {
			continue // one comes behind each
		}
		if part.reply != old {
			s.endRest(now)
			old = part.reply
			now = &reply{rate: s.sound.says, own: old.own, filler: old.filler, done: true, again: true, pending: chat.NewSplitter(), grew: time.Now()}
			text := old.whole()
			if old == c.reply {
				now.held = c.heard
				text = strings.TrimPrefix(text, c.heard)
				if c.heard == "" {
					now.since = old.since
				}
			}
			now.text.WriteString(text)
			s.replies = append(s.replies, now)
		}
		part.reply = now
		if part.item != nil {
			part.item = now.itemOf("") // the service has forgotten the rest of it
			part.item.received += part.samples()
		}
		now.received += part.samples()
		s.speech.add(part)
	}
	s.endRest(now)
	s.progress = progress{next: time.Now()}
}

// endRest says that a reply which goes on has no more.
func (s *conversation) endRest(r *reply) {
	if r != nil {
		s.speech.add(chunk{reply: r, last: true})
	}
}
