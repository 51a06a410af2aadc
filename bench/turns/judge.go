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
	by     string        // the strategy that closed it, the first time
}

// moment is an event of the gateway on the phone's clock.
type moment struct {
	agent.Event
	at time.Duration
}

// course is what was heard in a call, and what the gateway says about it.
type course struct {
	speech []time.Duration // when packets of the agent's speech arrived
	before []int           // how many packets of silence came before each of them
	events []moment
}

// timeline puts a call on the phone's clock.
func timeline(p *phone.Phone, c *phone.Call, events []agent.Event) course {
	out := courseOf(c.Log().Marks(phone.Heard))
	zero := p.Wall(0)
	for _, e := range events {
		out.events = append(out.events, moment{e, e.At.Sub(zero)})
	}
	return out
}

// courseOf is what packets of these levels hold.
func courseOf(marks []audio.Mark) (out course) {
	silent := 0
	for _, m := range marks {
		if m.Level <= speaks {
			silent++
			continue
		}
		out.speech, out.before = append(out.speech, m.At), append(out.before, silent)
		silent = 0
	}
	return out
}

const (
	packet = 20 * time.Millisecond
	// slack is how much sooner or later than it was told an event may be seen in the
	// packets.
	slack = 60 * time.Millisecond
	// gapFrom is how many packets of silence between two of speech are a pause. That none
	// come for a while is the machine's doing, not the agent's.
	gapFrom = 2
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
	o.silent = c.last(s.from) < s.from-slack
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
	for i, at := range c.speech {
		if n := c.before[i]; i > 0 && at >= s.from && c.speech[i-1] < s.to && n >= gapFrom {
			o.pauses++
			// What of it lies in this time.
			o.quiet += min(time.Duration(n)*packet, min(at, s.to)-max(c.speech[i-1], s.from))
		}
	}
	if rest := s.to - c.last(s.to); rest > slack && c.next(s.to) == 0 {
		o.quiet += rest
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
		if o.by == "" {
			o.by = e.Strategy
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

// gap is the longest silence between two packets of speech that begins in a time.
func (c course) gap(from, to time.Duration) (longest time.Duration) {
	for i := 1; i < len(c.speech); i++ {
		if last := c.speech[i-1]; last >= from && last < to && c.before[i] >= gapFrom {
			longest = max(longest, time.Duration(c.before[i])*packet)
		}
	}
	return longest
}
