package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/agent"
	"parley/call"
	"parley/test/audio"
)

// The bounds that the demo's conversation is held to. They are far from what is
// measured on a quiet machine, because the demo must not fail on a busy one.
const (
	longestAnswer  = 5 * time.Second
	longestReply   = 4 * time.Second
	longestBargeIn = 600 * time.Millisecond
)

const demoFirstScript = `# A stranger calls and does not hear the machine out: asks, asks something
# else over the answer, keys in an order number, says goodbye.
barge-in after 5s of agent speech with hours
barge-in after 1500ms of agent speech with location
wait agent-speaking
pause 4500ms
press 3
listen 900ms
press 4711#
listen 900ms
press 1
wait agent-speaking
pause 7s
say goodbye
wait end
`

const demoSecondScript = `# The same number calls again.
wait agent-speaking
pause 6s
say goodbye
wait end
`

func (r *demoResult) record() *call.Record {
	for _, e := range r.journal {
		if e.Record != nil {
			return e.Record
		}
	}
	return nil
}

// checkCall are the errors that no call may have.
func checkCall(r *demoResult) []error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	c := &r.caller
	if c.Failure != "" {
		bad("the caller gave up: %s", c.Failure)
	}
	if d := c.Answered - c.Invited; d > longestAnswer {
		bad("answered after %v, longer than %v", d.Round(time.Millisecond), longestAnswer)
	}
	if !c.End.ByPeer {
		bad("the agent did not hang up after the goodbye")
	}
	if record := r.record(); record != nil && record.Cause != call.CauseAgentHungUp {
		bad("the gateway says that the call ended because: %s", record.Cause)
	}
	turns := audio.Replies(c.Asked, c.Answers)
	for _, s := range c.Said {
		what := "“" + s.Text + "”"
		if s.Key != "" {
			what = "the keys " + s.Key
		}
		if s.Key != "" && r.spokeDuring(s.First) {
			continue // its reply cannot be told from the speech before
		}
		if t, ok := replyTo(turns, s); !ok {
			bad("no reply to %s", what)
		} else if t.Latency > longestReply {
			bad("the reply to %s came after %v, longer than %v", what, t.Latency.Round(time.Millisecond), longestReply)
		}
	}
	return errs
}

// spokeDuring tells whether the agent was heard then.
func (r *demoResult) spokeDuring(at time.Duration) bool {
	return slices.ContainsFunc(r.caller.Answers, func(a audio.Span) bool { return a.Start < at && at < a.End })
}

// replyTo finds the turn that something said belongs to.
func replyTo(turns []audio.Turn, s callerSaid) (audio.Turn, bool) {
	for _, t := range turns {
		if t.Asked.Start <= s.Last && s.First <= t.Asked.End {
			return t, true
		}
	}
	return audio.Turn{}, false
}

// checkFirst: words were understood, the barge-in stopped the agent, the key came.
func checkFirst(r *demoResult) []error {
	errs := checkCall(r)
	bargeIns := audio.Interruptions(r.caller.Asked, r.caller.Answers)
	if len(bargeIns) == 0 {
		errs = append(errs, errors.New("the caller did not get to interrupt the agent"))
	}
	for _, b := range bargeIns {
		if b.Stop > longestBargeIn {
			errs = append(errs, fmt.Errorf("the agent fell silent %v after a barge-in, later than %v", b.Stop.Round(time.Millisecond), longestBargeIn))
		}
	}
	cut, digits, understood := false, "", map[string]bool{}
	for _, e := range r.journal {
		switch v := e.Event; v.Type {
		case agent.EventAgentStopped:
			cut = cut || v.Interrupted
		case agent.EventDigit:
			digits += v.Text
		case agent.EventUserStopped:
			understood[strings.ToLower(v.Text)] = true
		}
	}
	if !cut {
		errs = append(errs, errors.New("the gateway reports no interrupted reply"))
	}
	if digits != r.caller.Digits {
		errs = append(errs, fmt.Errorf("the gateway reports the keys %q, pressed were %q", digits, r.caller.Digits))
	}
	for _, s := range r.caller.Said {
		if s.Text != "" && !understood[s.Text] {
			errs = append(errs, fmt.Errorf("“%s” was not understood", s.Text))
		}
	}
	return errs
}

// checkSecond: the caller is known by now.
func checkSecond(r *demoResult) []error {
	errs := checkCall(r)
	greeting := ""
	for _, e := range r.journal {
		if e.Event.Type == agent.EventAgentText && greeting == "" {
			greeting = e.Event.Text
		}
	}
	if !strings.Contains(strings.ToLower(greeting), "welcome back") {
		errs = append(errs, fmt.Errorf("the number was not remembered: the greeting was %q", greeting))
	}
	return errs
}
