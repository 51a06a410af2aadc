package kit

import (
	"errors"
	"strings"
	"time"

	"parley/agent"
	"parley/agent/chat"
	"parley/agent/live"
	"parley/agent/turn"
)

const (
	// slack is how far the position may stay short of what was said, by rounding.
	slack = 2 * time.Millisecond
	// lookAgain is when to look how far speech has come though no notice came.
	lookAgain = 200 * time.Millisecond
	// stuckAfter is how long speech may not move, unless paused or on hold, before the
	// reply is given up (BR-134).
	stuckAfter = 5 * time.Second
	// settleAfter is how long nothing may come of a reply that is not said to be done,
	// once all of it was heard, before it is taken to be.
	settleAfter = 900 * time.Millisecond
	// unwantedFor is how long after a backchannel the service's answer to it is none that
	// is wanted.
	unwantedFor = 3 * time.Second
)

var errStuck = errors.New("kit: speech does not leave the gateway: the agent speaks and no packet is sent")

// progress is how the speech moves.
type progress struct {
	next  time.Time     // when to look again
	at    time.Duration // where it was
	since time.Time     // how long it has been there
}

// cutOff is what the open turn has cut off, in case it was for nothing.
type cutOff struct {
	reply    *reply
	rest     []chunk // what was not heard
	heard    string
	complete bool // all of it had come
	waited   bool // there was no reply yet, but one was to come
	since    time.Time
}

// begin makes the reply that the model is at.
func (s *conversation) begin(now time.Time) *reply {
	r := &reply{since: s.since, pending: chat.NewSplitterFor(s.cfg.Session.Language), told: s.told}
	s.told, s.since, s.expected, s.stalled = nil, time.Time{}, time.Time{}, 0
	if s.suspects > 0 && s.turns.Open() {
		s.suspects--
		r.suspect = true
	}
	s.incoming = r
	s.replies = append(s.replies, r)
	s.progress = progress{next: now}
	return r
}

// replyGrows takes words and audio of the model's.
func (s *conversation) replyGrows(m live.Message, now time.Time) {
	r := s.incoming
	if r == nil {
		if m.Agent.Delta == "" && len(m.Audio) == 0 {
			return // the end of words that were told already
		}
		r = s.begin(now)
		if now.Before(s.unwanted) {
			s.unwanted = time.Time{}
			s.dropReply(r, m.ItemID)
			return
		}
		s.answers(r)
	}
	r.grew = now
	if d := m.Agent.Delta; d != "" && r.text.Len()+len(d) <= turn.MaxText {
		r.text.WriteString(d)
		if m.Agent.Until > 0 {
			r.marks = append(r.marks, spokenMark{r.text.Len(), m.Agent.Until})
		}
		s.tellText(r.pending.Write(d))
	}
	if t := strings.TrimSpace(m.Agent.Text); m.Agent.Done && t != "" && r.text.Len() == 0 {
		r.text.WriteString(t) // a service that tells no pieces
		s.tellText(r.pending.Write(t))
	}
	if len(m.Audio) == 0 {
		return
	}
	it := r.itemOf(m.ItemID)
	pcm := r.samples(m.Audio)
	it.received += len(pcm)
	r.received += len(pcm)
	s.speech.add(chunk{reply: r, item: it, pcm: pcm})
}

// tellText reports sentences.
func (s *conversation) tellText(sentences []string) {
	for _, text := range sentences {
		if text = strings.TrimSpace(text); text != "" {
			s.emit(agent.Event{Type: agent.EventAgentText, Text: text})
		}
	}
}

// answers notes that the service has answered: the caller's turn is over, as soon as
// his voice is. It is no answer to that turn when one to an earlier is due.
func (s *conversation) answers(r *reply) {
	if r != nil && r.suspect || r == nil && s.suspects > 0 {
		return
	}
	s.evident = s.turns.Open()
	s.closeTurn()
}

// closeTurn closes the turn that the service has answered. The words of it may still
// come.
func (s *conversation) closeTurn() {
	if s.evident && s.turns.Open() && !s.turns.Speaking() {
		s.evident = false
		s.decide(turn.Input{Kind: turn.Final, At: time.Now(), Text: "…"})
	}
}

// replyComplete notes that nothing more comes of the reply that the model is at.
func (s *conversation) replyComplete() {
	r := s.incoming
	if r == nil {
		return
	}
	s.incoming = nil
	r.done = true
	s.tellText(r.pending.Flush())
	s.speech.add(chunk{reply: r, last: true})
}

// ownReply speaks words of the gateway's own.
func (s *conversation) ownReply(text string, filler bool, told chan error) {
	r := &reply{own: true, filler: filler, done: true, told: told, pending: chat.NewSplitter(), grew: time.Now()}
	r.text.WriteString(text)
	s.replies = append(s.replies, r)
	s.progress = progress{next: time.Now()}
	if !filler {
		s.tellText([]string{text})
	}
	s.speech.add(chunk{reply: r, own: text})
	s.speech.add(chunk{reply: r, last: true})
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
		length := lengthOf(it.received)
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
			now = &reply{own: old.own, filler: old.filler, done: true, again: true, pending: chat.NewSplitter(), grew: time.Now()}
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
			part.item.received += len(part.pcm)
		}
		now.received += len(part.pcm)
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

// speechStarted takes the notice that the first packet is on the wire.
func (s *conversation) speechStarted(n agent.Notice) {
	for _, r := range s.replies {
		if from, _, begun := s.speech.place(r); begun && !r.started && n.Position >= from {
			s.agentStarted(r, n.At.Add(-n.Lag))
		}
	}
}

func (s *conversation) agentStarted(r *reply, at time.Time) {
	r.started = true
	e := agent.Event{Type: agent.EventAgentStarted}
	if !r.since.IsZero() {
		e.Latency = at.Sub(r.since)
	}
	s.emit(e)
	s.decide(turn.Input{Kind: turn.ReplyHeard, At: time.Now()})
}

// settle ends the replies that were heard to their end, and gives up what does not
// move.
func (s *conversation) settle(now time.Time) {
	s.closeTurn()
	for len(s.replies) > 0 {
		r := s.replies[0]
		played := s.call.Speaker.Played()
		from, to, begun := s.speech.place(r)
		if begun && !r.started && played > from {
			s.agentStarted(r, now) // the notice was lost, or is on its way
		}
		heard := !begun || played >= to-slack
		if heard && !r.done && r == s.incoming && s.speech.idle() && now.Sub(r.grew) >= settleAfter {
			s.replyComplete()
		}
		if !r.said || !heard {
			s.watchSpeech(r, played, now)
			break
		}
		s.replies = s.replies[1:]
		s.progress = progress{next: now}
		s.replyOver(r, max(played, to), false)
		tell(r, nil)
	}
	if s.closing && len(s.replies) == 0 {
		s.leave()
	}
}

// watchSpeech gives up speech that does not move.
func (s *conversation) watchSpeech(r *reply, played time.Duration, now time.Time) {
	p := &s.progress
	p.next = now.Add(lookAgain)
	_, to, begun := s.speech.place(r)
	waits := begun && played < to-slack || !begun && !s.speech.idle()
	if !waits || p.since.IsZero() || played != p.at || s.turns.Still() || s.turns.Open() {
		p.at, p.since = played, now
		return
	}
	if now.Sub(p.since) < stuckAfter {
		return
	}
	s.complain(errStuck)
	s.cut(turn.Decision{Since: now, Silent: now})
	s.cutOff = cutOff{}
}

// replyOver reports the end of a reply, unless it had no words and no sound, and what
// was heard of it.
func (s *conversation) replyOver(r *reply, at time.Duration, cut bool) {
	from, to, begun := s.speech.place(r)
	text, heard := r.whole(), r.heard(begun, from, to, at)
	if !cut {
		heard = text
	}
	if r.filler {
		text, heard = "", ""
	}
	if text == "" && !r.started {
		return
	}
	s.emit(agent.Event{Type: agent.EventAgentStopped, Text: text, Heard: heard, Interrupted: cut, Position: at})
	if r.own {
		return
	}
	if fresh := strings.TrimSpace(strings.TrimPrefix(heard, r.held)); fresh != "" {
		s.session.live.Heard(fresh)
	}
	if !cut {
		s.cfg.Gate.Asked(s.session.SessionID(), heard)
	}
}

// tell says how an announcement ended; once.
func tell(r *reply, err error) {
	if r.told != nil {
		r.told <- err // there is room for one
		r.told = nil
	}
}
