package main

import (
	"time"

	"parley/agent"
	"parley/test/audio"
	"parley/test/phone"
)

// outcome is what became of one item. Times are those of the phone's packets.
type outcome struct {
	item

	// For what is said over the agent:
	silent  bool          // the agent was silent when it began
	stopped bool          // it cut the agent off
	wentOn  bool          // and the agent then went on where it was cut
	stop    time.Duration // from the first sound of the caller to the agent's last packet of speech
	gap     time.Duration // the longest silence that the agent fell into, when it was not cut off
	stops   int           // while nothing was said: how often the agent was cut off, paused,
	pauses  int
	quiet   time.Duration // and how long it was silent in all

	// For what is said to an agent that listens:
	ended  bool          // the turn was closed after the last sound
	turn   time.Duration // from there to the close
	sound  time.Duration // and to the first packet of the reply; 0: there was none
	cut    bool          // it was closed before
	cutGap int           // in which pause, from 0; -1: within the speech
}

// moment is an event of the gateway on the phone's clock.
type moment struct {
	agent.Event
	at time.Duration
}

// course is what was heard in a call, and what the gateway says about it.
type course struct {
	speech []time.Duration // when packets of the agent's speech arrived
	loud   []time.Duration // those of them with a sound that people hear
	events []moment
}

// timeline puts a call on the phone's clock.
func timeline(p *phone.Phone, c *phone.Call, events []agent.Event) course {
	var out course
	for _, m := range c.Log().Marks(phone.Heard) {
		if m.Level > speaks {
			out.speech = append(out.speech, m.At)
		}
		if m.Level >= audio.Loud {
			out.loud = append(out.loud, m.At)
		}
	}
	zero := p.Wall(0)
	for _, e := range events {
		out.events = append(out.events, moment{e, e.At.Sub(zero)})
	}
	return out
}

const (
	packet = 20 * time.Millisecond
	// slack is how much sooner or later than it was told an event may be seen in the
	// packets.
	slack = 60 * time.Millisecond
	// gapFrom is the shortest silence between two packets that counts as one.
	gapFrom = 50 * time.Millisecond
	// lookFor is how long after what was said its effects are looked for.
	lookFor = 4 * time.Second
)

// judge says what became of each item.
func judge(all []said, c course) []outcome {
	var out []outcome
	for i, s := range all {
		until := s.to + lookFor
		if i+1 < len(all) {
			until = min(until, all[i+1].from-packet)
		}
		switch {
		case s.kind == alone:
			out = append(out, c.waited(s))
		case s.kind.over():
			out = append(out, c.interrupted(s, until))
		default:
			out = append(out, c.answered(s, until+lookFor))
		}
	}
	return out
}

// interrupted judges what was said over the agent.
func (c course) interrupted(s said, until time.Duration) outcome {
	o := outcome{item: s.item}
	o.silent = c.last(s.from) < s.from-gapFrom
	barge, ok := c.first(agent.EventBargeIn, s.from-packet, until)
	if !ok {
		o.gap = c.gap(s.from-packet, min(until, s.to+lookFor/2))
		return o
	}
	o.stopped = true
	o.stop = max(0, c.last(min(until, barge.at+slack))-s.from)
	closed, ok := c.first(agent.EventUserStopped, barge.at, until)
	if ok && (closed.Reason == "noise" || closed.Reason == "backchannel") {
		if on, ok := c.first(agent.EventFalseBargeIn, closed.at, until); ok {
			o.wentOn = true
			o.gap = c.next(on.at-slack) - c.last(barge.at+slack)
		}
	}
	return o
}

// waited judges a time in which nothing was said.
func (c course) waited(s said) outcome {
	o := outcome{item: s.item}
	for _, e := range c.events {
		if e.Type == agent.EventBargeIn && e.at >= s.from && e.at < s.to {
			o.stops++
		}
	}
	before := s.from
	for _, at := range append(c.between(s.from, s.to), s.to) {
		if at-before >= gapFrom {
			o.pauses++
			o.quiet += at - before - packet
		}
		before = at
	}
	return o
}

// answered judges what was said to an agent that listens.
func (c course) answered(s said, until time.Duration) outcome {
	o := outcome{item: s.item, cutGap: -1}
	for _, e := range c.events {
		if e.Type != agent.EventUserStopped || e.at < s.from || e.at > until || e.Text == "" {
			continue
		}
		if e.at < s.to {
			if !o.cut {
				o.cut = true
				o.cutGap = s.says.gapAt(e.at - s.from)
			}
			continue
		}
		o.ended, o.turn = true, e.at-s.to
		if heard := c.next(e.at - packet); heard > 0 && heard <= until {
			o.sound = heard - s.to
		}
		break
	}
	return o
}

// gapAt is the pause in which a moment of an utterance lies, or which came last before
// it; -1 when there was none.
func (u utterance) gapAt(at time.Duration) int {
	found := -1
	for i, g := range u.gaps {
		if at >= g.from {
			found = i
		}
	}
	return found
}

// first is the first event of a type between two times.
func (c course) first(kind agent.EventType, from, to time.Duration) (moment, bool) {
	for _, e := range c.events {
		if e.Type == kind && e.at >= from && e.at < to {
			return e, true
		}
	}
	return moment{}, false
}

// last is when the last packet of speech up to a time came; 0 when none did.
func (c course) last(until time.Duration) (at time.Duration) {
	for _, s := range c.speech {
		if s > until {
			break
		}
		at = s
	}
	return at
}

// next is when the first packet of speech from a time on came; 0 when none did.
func (c course) next(from time.Duration) time.Duration {
	for _, s := range c.speech {
		if s >= from {
			return s
		}
	}
	return 0
}

func (c course) between(from, to time.Duration) (out []time.Duration) {
	for _, s := range c.speech {
		if s >= from && s < to {
			out = append(out, s)
		}
	}
	return out
}

// gap is the longest silence between two packets of speech that begins in a time.
func (c course) gap(from, to time.Duration) (longest time.Duration) {
	for i := 1; i < len(c.speech); i++ {
		if before := c.speech[i-1]; before >= from && before < to && c.speech[i]-before >= gapFrom {
			longest = max(longest, c.speech[i]-before-packet)
		}
	}
	return longest
}
