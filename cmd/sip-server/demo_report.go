package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/agent"
	"parley/test/audio"
)

// timeline turns what is known about a call into the page's view of it: seconds
// since the INVITE.
type timeline struct {
	*demoResult
	turns    []audio.Turn
	bargeIns []audio.BargeIn
}

// page is the call as the page shows it.
func (r *demoResult) page() pageCall {
	c := &r.caller
	t := &timeline{demoResult: r, turns: audio.Replies(c.Asked, c.Answers), bargeIns: audio.Interruptions(c.Asked, c.Answers)}
	p := pageCall{
		Name: r.call.name, Sound: c.Sound, Length: t.at(c.End.At) + 0.3, Offset: t.at(c.Origin),
		Marks:   []pageMark{{t.at(c.Answered), "answered"}, {t.at(c.End.At), "hung up"}},
		Lost:    pageTimes{Caller: t.times(c.LostSent), Agent: t.times(c.LostHeard)},
		Voice:   pageSpans{Caller: t.voice(c.Sent), Agent: t.voice(c.Heard)},
		Turns:   append(t.callerTurns(), t.agentTurns()...),
		Waits:   t.waits(),
		Figures: t.figures(),
		Events:  t.events(),
	}
	slices.SortStableFunc(p.Turns, func(a, b pageTurn) int { return cmp.Compare(a.From, b.From) })
	return p
}

// at is a time of the phone's clock, onWall one of the gateway's log.
func (t *timeline) at(d time.Duration) float64 { return (d - t.caller.Invited).Seconds() }
func (t *timeline) onWall(at time.Time) float64 {
	return at.Sub(t.caller.wall(t.caller.Invited)).Seconds()
}

func (t *timeline) times(in []time.Duration) []float64 {
	out := make([]float64, 0, len(in))
	for _, d := range in {
		out = append(out, t.at(d))
	}
	return out
}

// voice shows shorter pauses than the rule of the measures, which joins sentences.
func (t *timeline) voice(marks []audio.Mark) [][2]float64 {
	rule := audio.DefaultRule()
	rule.Hang = 120 * time.Millisecond
	out := [][2]float64{}
	for _, s := range audio.Utterances(marks, rule) {
		out = append(out, [2]float64{t.at(s.Start), t.at(s.End) + 0.02})
	}
	return out
}

// callerTurns are the caller's words and keys, with what the agent made of them.
func (t *timeline) callerTurns() []pageTurn {
	var out []pageTurn
	for i, s := range t.caller.Said {
		p := pageTurn{Who: "caller", From: t.at(s.First), To: t.at(s.Last) + 0.02, Text: s.Text, Key: s.Key}
		until := t.caller.End.At
		if i+1 < len(t.caller.Said) {
			until = max(s.Last, t.caller.Said[i+1].First)
		}
		if s.Key == "" {
			if understood := t.understood(s.First, until); !strings.EqualFold(understood, s.Text) {
				p.Note = "understood: " + cmp.Or(understood, "nothing")
			}
		}
		for _, b := range t.bargeIns {
			if b.Caller.Start <= s.Last && s.First <= b.Caller.End {
				p.Tag, p.Alarm = "interrupts", true
			}
		}
		if t.interrupted(s.First) {
			p.Tag, p.Alarm = "interrupts", true
		}
		out = append(out, p)
	}
	return out
}

// interrupted tells whether the gateway reports a barge-in soon after that time.
// The caller's phone sees none where the agent was just between two words.
func (t *timeline) interrupted(at time.Duration) bool {
	return slices.ContainsFunc(t.journal, func(e journalEntry) bool {
		after := t.onWall(e.Event.At) - t.at(at)
		return e.Event.Type == agent.EventBargeIn && after >= 0 && after < 0.6
	})
}

// understood is the text of the turns that the gateway closed in that time.
func (t *timeline) understood(from, to time.Duration) string {
	var texts []string
	for _, e := range t.journal {
		if e.Event.Type == agent.EventUserStopped && e.Event.Text != "" {
			if at := t.onWall(e.Event.At); at > t.at(from) && at < t.at(to) {
				texts = append(texts, e.Event.Text)
			}
		}
	}
	return strings.Join(texts, " / ")
}

// agentTurns are the replies: from the first to the last sound that the caller
// heard, as far as those lie where the gateway says.
func (t *timeline) agentTurns() []pageTurn {
	var out []pageTurn
	var open *pageTurn
	for _, e := range t.journal {
		switch v := e.Event; v.Type {
		case agent.EventAgentStarted:
			open = &pageTurn{Who: "agent", From: t.onWall(v.At)}
		case agent.EventAgentStopped:
			if open == nil {
				continue
			}
			open.To, open.Text, open.Cut = t.onWall(v.At), v.Text, v.Interrupted
			if v.Interrupted {
				heard := v.Heard
				open.Heard = &heard
			}
			out = append(out, *open)
			open = nil
		}
	}
	for i := range out {
		until := out[i].To + 0.25 // sound is on its way when the gateway has sent it all
		if i+1 < len(out) {
			until = min(until, out[i+1].From)
		}
		t.asHeard(&out[i], until)
	}
	return out
}

// asHeard narrows a reply to the sounds heard within it and tags it with what was
// measured.
func (t *timeline) asHeard(p *pageTurn, until float64) {
	from, to, began := p.To, p.From, p.From
	for _, m := range t.caller.Heard {
		if at := t.at(m.At); m.Level >= audio.Loud && at > began-0.02 && at < until {
			from, to = min(from, at), max(to, at+0.02)
		}
	}
	if to > from {
		p.From, p.To = from, to
	}
	for _, turn := range t.turns {
		if at := t.at(turn.Answered.Start); at >= p.From-0.02 && at <= p.From+0.02 {
			p.Tag = "after " + inMS(turn.Latency)
		}
	}
	if p.Cut {
		p.Tag = strings.TrimPrefix(p.Tag+", interrupted", ", ")
	}
	for _, b := range t.bargeIns {
		if end := t.at(b.Agent.End); p.Cut && end >= p.From && end <= p.To {
			p.Tag, p.Alarm = "silent after "+inMS(b.Stop), true
		}
	}
}

func (t *timeline) waits() []pageWait {
	var out []pageWait
	if len(t.caller.Answers) > 0 {
		first := t.caller.Answers[0].Start
		out = append(out, pageWait{"answer", t.at(t.caller.Answered), t.at(first), "greeting " + inMS(first-t.caller.Answered)})
	}
	for _, turn := range t.turns {
		out = append(out, pageWait{"reply", t.at(turn.Asked.End), t.at(turn.Answered.Start), "reply " + inMS(turn.Latency)})
	}
	for _, b := range t.bargeIns {
		out = append(out, pageWait{"barge-in", t.at(b.Caller.Start), t.at(b.Agent.End), "silent after " + inMS(b.Stop)})
	}
	slices.SortStableFunc(out, func(a, b pageWait) int { return cmp.Compare(a.From, b.From) })
	return out
}

func (t *timeline) figures() []pageFigure {
	c := &t.caller
	share := func(lost, all int) string { return fmt.Sprintf("%.1f %%", 100*float64(lost)/float64(max(1, all))) }
	out := []pageFigure{{"Answered after", strings.TrimSuffix(inMS(c.Answered-c.Invited), " ms"), "ms"}}
	if n := len(t.turns); n > 0 {
		var all []time.Duration
		for _, turn := range t.turns {
			all = append(all, turn.Latency)
		}
		slices.Sort(all)
		unit := "ms"
		if n > 1 {
			unit = fmt.Sprintf("ms, median of %d", n)
		}
		out = append(out, pageFigure{"Reply after", fmt.Sprint(all[n/2].Milliseconds()), unit})
	}
	if len(t.bargeIns) > 0 {
		out = append(out, pageFigure{"Silent after barge-in", fmt.Sprint(t.bargeIns[0].Stop.Milliseconds()), "ms"})
	}
	length := int((c.End.At - c.Answered).Round(time.Second).Seconds())
	return append(out,
		pageFigure{"Lost on the way", share(len(c.LostSent), c.SentPackets), "up, " + share(len(c.LostHeard), c.HeardPackets) + " down"},
		pageFigure{"Length", fmt.Sprintf("%d:%02d", length/60, length%60), c.Codec})
}

// events lists the journal for the reader who wants all of it.
func (t *timeline) events() []pageEvent {
	out := []pageEvent{}
	for _, e := range t.journal {
		if e.Record != nil {
			out = append(out, pageEvent{t.onWall(e.Record.Ended), "call_ended", fmt.Sprintf("%s; %+v", e.Record.Cause, e.Record.Stats)})
			continue
		}
		v := e.Event
		var words []string
		add := func(name, value string) {
			if value != "" {
				words = append(words, strings.TrimSpace(name+" "+value))
			}
		}
		add("", v.Text)
		add("", v.Reason)
		if v.Interrupted {
			add("interrupted, heard:", "“"+v.Heard+"”")
		}
		if v.Type == agent.EventTranscript && v.Final {
			add("", fmt.Sprintf("final, confidence %.2f", v.Confidence))
		}
		if v.Latency != 0 {
			add("latency", inMS(v.Latency))
		}
		if v.Position != 0 {
			add("position", v.Position.Round(time.Millisecond).String())
		}
		out = append(out, pageEvent{t.onWall(v.At), string(v.Type), strings.Join(words, " · ")})
	}
	return out
}

// inMS writes milliseconds, with a decimal when there are few.
func inMS(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}
