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
	// heldBack is how far it may stay short while more may come: the call keeps what is no
	// whole packet, and what its resampler delays.
	heldBack = 70 * time.Millisecond
	// lookAgain is when to look how far speech has come though no notice came.
	lookAgain = 200 * time.Millisecond
	// packetTime is what a packet holds at least as a rule.
	packetTime = 20 * time.Millisecond
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

// begin makes the reply that the model is at.
func (s *conversation) begin(now time.Time) *reply {
	r := &reply{rate: s.sound.says, since: s.since, pending: chat.NewSplitterFor(s.cfg.Session.Language), told: s.told}
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
	c := chunk{reply: r, item: it}
	if s.sound.coded() {
		c.coded = m.Audio
	} else {
		c.pcm = r.samples(m.Audio)
	}
	it.received += c.samples()
	r.received += c.samples()
	s.speech.add(c)
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
	r := s.ownSound(filler)
	r.told = told
	r.text.WriteString(text)
	if !filler {
		s.tellText([]string{text})
	}
	s.speech.add(chunk{reply: r, own: text})
	s.speech.add(chunk{reply: r, last: true})
}

// ownSound makes a reply of the gateway's own.
func (s *conversation) ownSound(filler bool) *reply {
	r := &reply{rate: s.sound.says, own: true, filler: filler, done: true, pending: chat.NewSplitter(), grew: time.Now()}
	s.replies = append(s.replies, r)
	s.progress = progress{next: time.Now()}
	return r
}

// speechStarted takes the notice that the first packet is on the wire.
func (s *conversation) speechStarted(n agent.Notice) {
	for _, r := range s.replies {
		if from, _, begun := s.speech.place(r); begun && !r.started && n.Position >= from {
			s.agentStarted(r, n.At.Add(-n.Lag), from)
		}
	}
}

// agentStarted tells of the first packet of r, at a time and a position.
func (s *conversation) agentStarted(r *reply, at time.Time, from time.Duration) {
	r.started = true
	if r.filler {
		return // it is no reply
	}
	e := agent.Event{Type: agent.EventAgentStarted, Position: from}
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
			// The notice was lost, is on its way, or there was sound before.
			s.agentStarted(r, now.Add(-max(0, played-from-packetTime)), from)
		}
		heard := !begun || played >= to-r.short()
		if heard && !r.done && r == s.incoming && s.speech.idle() && now.Sub(r.grew) >= settleAfter {
			s.replyComplete()
			if s.ends { // more of it was to come
				s.expect(time.Time{})
			}
		}
		if !r.said || !heard {
			s.watchSpeech(r, played, now)
			break
		}
		s.replies = s.replies[1:]
		s.progress = progress{next: now}
		if begun {
			played = to // the next reply may be playing already
		}
		s.replyOver(r, played, false)
		tell(r, nil)
	}
	if s.closing && len(s.replies) == 0 {
		s.leave()
	}
}

// short is how far the position may stay short of what was said of the reply, and all of
// it that can be was heard.
func (r *reply) short() time.Duration {
	if r.said {
		return slack
	}
	return heldBack
}

// watchSpeech gives up speech that does not move.
func (s *conversation) watchSpeech(r *reply, played time.Duration, now time.Time) {
	p := &s.progress
	p.next = now.Add(lookAgain)
	_, to, begun := s.speech.place(r)
	if begun && !r.started { // of speech that follows a Stop at once no notice comes
		p.next = now.Add(packetTime)
	}
	waits := begun && played < to-r.short() || !begun && !s.speech.idle()
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
	if !cut && begun { // words without a sound were not heard
		heard = text
	}
	if r.filler || text == "" && !r.started {
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
