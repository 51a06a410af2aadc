package stream

import (
	"strings"
	"time"

	"parley/agent"
	"parley/media"
)

// This is what Run knows of the conversation: who speaks, and what it tells of that.

// restTime is how long speech may pause within one reply.
const restTime = 400 * time.Millisecond

// reply is what the agent says until it rests or is cut off.
type reply struct {
	on          bool
	ended       time.Time // when its last sound was sent; zero: it sounds
	at          time.Duration
	text, heard []string
}

// sounding is what is known of the call's, which tells nothing when new sound follows upon
// a clear at once.
type sounding struct {
	on    bool
	after bool          // a clear came while it was on
	at    time.Duration // where that cut
}

// voice is what is known of the caller's.
type voice struct {
	since time.Time // its first sound, while it is on
	off   time.Time // its last one
	digit time.Time // the last key
}

// noticed takes an event of the call.
func (s *session) noticed(n agent.Notice) {
	if n.At.IsZero() {
		n.At = time.Now()
	}
	at := n.At.Add(-n.Lag)
	switch n.Kind {
	case agent.VoiceOn:
		s.voice.since = at
		s.tell(voiceEdge{"voice", "on", s.heardAt(at)})
	case agent.VoiceConfirmed:
		s.tell(voiceEdge{"voice", "confirmed", s.heardAt(at)})
	case agent.VoiceOff:
		s.voice.since, s.voice.off = time.Time{}, at
		s.tell(voiceEdge{"voice", "off", s.heardAt(at)})
	case agent.Digit:
		s.voice.digit = n.At
		e := agent.Event{Type: agent.EventDigit, Text: string(n.Digit)}
		if s.cfg.SecretDigits {
			e.Text = ""
		}
		s.call.Emit(e)
		s.tell(digitPressed{"digit", string(n.Digit), s.heardAt(at)})
	case agent.Held, agent.Resumed:
		s.held = n.Kind == agent.Held
		s.tell(heldEdge{"hold", s.held})
	case agent.SpeechStarted:
		s.sounding = sounding{on: true}
		s.startReply(n)
		s.tell(speechEdge{"speech", "started", n.Position.Milliseconds()})
	case agent.SpeechEnded:
		s.sounding = sounding{}
		s.reply.ended, s.reply.at = n.At, n.Position
		s.tell(speechEdge{"speech", "ended", n.Position.Milliseconds()})
	}
}

// heardAt is how much of the caller was heard by a moment, in ms.
func (s *session) heardAt(at time.Time) int64 {
	return max(0, milliseconds(s.heard.samples.Load(), s.rate)-time.Since(at).Milliseconds())
}

// startReply notes that the agent speaks.
func (s *session) startReply(n agent.Notice) {
	s.reply.ended = time.Time{}
	if s.reply.on {
		return
	}
	s.reply.on = true
	e := agent.Event{Type: agent.EventAgentStarted, At: n.At, Position: n.Position}
	if !s.voice.off.IsZero() {
		e.Latency = n.At.Sub(s.voice.off)
		s.voice.off = time.Time{}
	}
	s.call.Emit(e)
}

// stopReply notes that the agent speaks no more.
func (s *session) stopReply(at time.Time, position time.Duration, interrupted bool) {
	r := s.reply
	s.reply = reply{}
	if !r.on {
		return
	}
	if !r.ended.IsZero() && !interrupted {
		at, position = r.ended, r.at
	}
	s.call.Emit(agent.Event{
		Type: agent.EventAgentStopped, At: at, Position: position, Interrupted: interrupted,
		Text: strings.Join(r.text, " "), Heard: strings.Join(r.heard, " "),
	})
}

// pass takes a mark that speech has come to, or that was cut away.
func (s *session) pass(m mark) {
	if m.end {
		s.finish(s.result)
		return
	}
	if m.text == "" {
		return
	}
	s.reply.text = append(s.reply.text, m.text)
	if !m.cleared {
		s.reply.heard = append(s.reply.heard, m.text)
	}
}

// recent is how long ago a key may have been pressed that an interruption is put down to.
const recent = 2 * time.Second

func (d dropped) happen(s *session) {
	for _, m := range d.marks {
		s.pass(m)
	}
	if s.sounding.on {
		s.sounding.after, s.sounding.at = true, d.at
	}
	if d.cut.dropped == 0 || !s.reply.on {
		return
	}
	e := agent.Event{Type: agent.EventBargeIn, At: d.when, Position: d.at, Reason: "voice"}
	switch {
	case !s.voice.since.IsZero():
		e.Latency = d.when.Sub(s.voice.since)
	case !s.voice.digit.IsZero() && d.when.Sub(s.voice.digit) < recent:
		e.Reason, e.Latency = "digit", d.when.Sub(s.voice.digit)
	}
	s.call.Emit(e)
	s.stopReply(d.when, d.at, true)
}

// finish ends Run with err.
func (s *session) finish(err error) {
	if !s.over {
		s.over, s.result = true, err
	}
}

// How close Run looks for marks, and how seldom it looks at all.
const (
	markGrain = 5 * time.Millisecond
	idleGrain = 100 * time.Millisecond
	longest   = time.Minute
	packet    = 20 * time.Millisecond // of speech: the position moves by so much
)

// passTime does what has become due, and says when to look again.
func (s *session) passTime(now time.Time) time.Duration {
	wait := longest
	played := samples(s.call.Speaker.Played(), s.rate)
	reached, next, more := s.speech.reach(played)
	for _, m := range reached {
		s.pass(m)
	}
	if more {
		due := max(media.Duration(int(next-played), s.rate)-packet, markGrain)
		if s.held || s.paused.Load() {
			due = max(due, idleGrain)
		}
		wait = min(wait, due)
	}
	if s.sounding.after {
		if s.call.Speaker.Played() > s.sounding.at {
			s.sounding.after = false
			s.startReply(agent.Notice{At: now, Position: s.sounding.at})
		}
		wait = min(wait, packet)
	}
	if s.reply.on && !s.reply.ended.IsZero() {
		rest := restTime - now.Sub(s.reply.ended)
		if rest <= 0 {
			s.stopReply(now, s.reply.at, false)
		} else {
			wait = min(wait, rest)
		}
	}
	if s.every > 0 {
		if !now.Before(s.statistics) {
			s.statistics = now.Add(s.every)
			s.tell(s.figures())
		}
		wait = min(wait, s.statistics.Sub(now))
	}
	return min(wait, s.drops(now))
}

// dropEvery is how often it is told at the most that sound was dropped.
const dropEvery = 5 * time.Second

// drops tells the operator of sound that the agent did not take.
func (s *session) drops(now time.Time) time.Duration {
	if n := s.heard.dropped.Load(); n != s.told && s.link != nil && now.Sub(s.droppedAt) >= dropEvery {
		s.complain("the agent is too slow: %v of the caller's sound was dropped", time.Duration(n-s.told)*frameTime)
		s.told, s.droppedAt = n, now
	}
	return dropEvery
}

// figures are the statistics so far.
func (s *session) figures() statistics {
	p := s.progress()
	return statistics{
		Type: "statistics", HeardMS: p.HeardMS, PlayedMS: p.PlayedMS, QueuedMS: p.QueuedMS, Marks: len(p.Marks),
		DroppedMS: s.heard.dropped.Load() * frameTime.Milliseconds(),
		Warnings:  s.warnings.Load(), Reconnects: s.reconnects,
	}
}
