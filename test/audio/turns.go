package audio

import "time"

// Mark is the level of one packet, or of one stretch of samples, at its time.
type Mark struct {
	// At is when it was sent or arrived, on the clock of the caller's phone.
	At time.Duration
	// Level is its loudness in dBFS.
	Level float64
}

// Utterances joins the loud ones of marks, which are in order of time, to
// utterances. Start and End are the times of the first and last loud mark.
func Utterances(marks []Mark, rule Rule) []Span {
	var out []Span
	open := false
	var span Span
	finish := func() {
		if open && span.Length() >= rule.Shortest {
			out = append(out, span)
		}
		open = false
	}
	for _, m := range marks {
		if m.Level < rule.Threshold {
			continue
		}
		if open && m.At-span.End > rule.Hang {
			finish()
		}
		if !open {
			open, span = true, Span{Start: m.At}
		}
		span.End = m.At
	}
	finish()
	return out
}

// Turn is one wait of the caller for a reply.
type Turn struct {
	// Asked is the caller's utterance, Answered the agent's that followed.
	Asked, Answered Span
	// Latency is the time from the last loud packet the caller sent to the first
	// loud packet that reached the caller: what the caller waited.
	Latency time.Duration
}

// Turns pairs the caller's utterances with the replies that followed them; see
// Replies.
func Turns(sent, heard []Mark, rule Rule) []Turn {
	return Replies(Utterances(sent, rule), Utterances(heard, rule))
}

// Replies pairs what the caller said or pressed, in order of time, with the agent's
// utterance that followed. What the caller spoke on after, or ended while the agent
// was speaking, has no reply of its own and is left out. A key is a span without
// length, where it went down.
func Replies(asked, answers []Span) []Turn {
	var out []Turn
	for i, a := range asked {
		for _, r := range answers {
			if r.Start <= a.End {
				if r.End > a.End {
					break // the agent was speaking when the caller ended
				}
				continue
			}
			if i+1 < len(asked) && asked[i+1].Start < r.Start {
				break
			}
			out = append(out, Turn{Asked: a, Answered: r, Latency: r.Start - a.End})
			break
		}
	}
	return out
}

// BargeIn is one interruption of the agent by the caller.
type BargeIn struct {
	// Caller is the utterance that interrupted, Agent the one that was cut.
	Caller, Agent Span
	// Stop is the time from the first loud packet the caller sent to the last loud
	// packet that reached the caller.
	Stop time.Duration
}

// BargeIns finds where the caller began to speak over the agent; see Interruptions.
func BargeIns(sent, heard []Mark, rule Rule) []BargeIn {
	return Interruptions(Utterances(sent, rule), Utterances(heard, rule))
}

// Interruptions finds what the caller said, in order of time, that began while the
// agent was speaking. Whether the agent stopped because of it is for the reader to
// judge by Stop. Keys are left out: the reply to a key comes so soon after the stop
// that no pause between the two would be seen.
func Interruptions(asked, answers []Span) []BargeIn {
	var out []BargeIn
	for _, c := range asked {
		for _, a := range answers {
			if c.Length() > 0 && a.Start < c.Start && c.Start < a.End {
				out = append(out, BargeIn{Caller: c, Agent: a, Stop: a.End - c.Start})
				break
			}
		}
	}
	return out
}
