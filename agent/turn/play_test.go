package turn

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// play gives a Controller a script and returns what it decided. A script line is a
// time in seconds, an event, and its arguments; the clock also stops whenever the
// Controller is due, until the last line's time.
//
//	1.00 on 40          voice on, noticed 40 ms after its first sound
//	2.00 off 200        voice off
//	2.50 interim …      2.60 final …      3.00 digit 1
//	0.00 reply   4.00 end   5.00 hold   6.00 unhold   7.00 expect 4   9.00 tick
//	and those of parse
func play(t *testing.T, cfg Config, script string) string { return perform(t, cfg, script, false) }

// reasons is play with the reason of every decision about a turn or the agent's speech.
func reasons(t *testing.T, cfg Config, script string) string { return perform(t, cfg, script, true) }

func perform(t *testing.T, cfg Config, script string, all bool) string {
	t.Helper()
	start := time.Unix(1000, 0)
	c := NewController(cfg, start)
	var trace []string
	note := func(at time.Time, ds []Decision) {
		for _, d := range ds {
			trace = append(trace, fmt.Sprintf("%.2f %s", at.Sub(start).Seconds(), describe(d, all)))
		}
	}
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		in, err := parse(start, line)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		for {
			due, ok := c.Due()
			if !ok || !due.Before(in.At) {
				break
			}
			note(due, c.Step(Input{At: due}))
		}
		note(in.At, c.Step(in))
	}
	return strings.Join(trace, "\n")
}

func parse(start time.Time, line string) (Input, error) {
	at, rest, _ := strings.Cut(line, " ")
	event, arg, _ := strings.Cut(rest, " ")
	seconds, err := strconv.ParseFloat(at, 64)
	if err != nil {
		return Input{}, err
	}
	in := Input{At: start.Add(time.Duration(seconds*1e6) * time.Microsecond)}
	number, _ := strconv.Atoi(arg)
	lag := time.Duration(number) * time.Millisecond
	switch event {
	case "on":
		in.Kind, in.Lag = VoiceOn, lag
	case "sure":
		in.Kind = VoiceConfirmed
	case "off":
		in.Kind, in.Lag = VoiceOff, lag
	case "interim":
		in.Kind, in.Text = Interim, arg
	case "answering": // an interim after a question
		in.Kind, in.Text, in.Asked = Interim, arg, true
	case "answer": // a final after a question
		in.Kind, in.Text, in.Confidence, in.Asked = Final, arg, 0.5, true
	case "unsure": // a final of little confidence
		in.Kind, in.Text, in.Confidence = Final, arg, 0.1
	case "heard":
		in.Kind = ReplyHeard
	case "says":
		in.Kind, in.Text = ReplyWords, arg
	case "sound":
		in.Kind = Sound
	case "tool":
		in.Kind = ToolsBegan
	case "result":
		in.Kind = ToolsEnded
	case "start":
		in.Kind = ExternalStart
	case "stop":
		in.Kind = ExternalStop
	case "eager":
		in.Kind = ExternalEager
	case "verdict": // the question, and the probability in percent
		question, percent, _ := strings.Cut(arg, " ")
		in.Kind = Verdict
		in.Question, _ = strconv.Atoi(question)
		p, _ := strconv.Atoi(percent)
		in.Probability = float64(p) / 100
	case "complete":
		in.Kind = Complete
	case "incomplete":
		in.Kind, in.Wait = Incomplete, time.Duration(number)*time.Second
	case "final":
		in.Kind, in.Text, in.Confidence = Final, arg, 0.5
	case "digit":
		in.Kind, in.Digit = Digit, arg[0]
	case "expect":
		in.Kind, in.MaxDigits = Expect, number
	case "reply":
		in.Kind = ReplyBegan
	case "end":
		in.Kind = ReplyEnded
	case "hold":
		in.Kind = Hold
	case "unhold":
		in.Kind = Unhold
	case "tick":
	default:
		return in, fmt.Errorf("unknown event %q", event)
	}
	return in, nil
}

func describe(d Decision, all bool) string {
	s := d.Kind.String()
	switch d.Kind {
	case Open, Stop:
		s += " by " + d.Reason
	case Resume, GoOn, Discard, Close, Goodbye, Infer:
		if all {
			s += " by " + d.Reason
		}
	}
	if d.Digits {
		s += " keyed"
	}
	if d.Garbled {
		s += " garbled"
	}
	if d.Text != "" {
		s += fmt.Sprintf(" %q", d.Text)
	}
	if n := d.Attempt + d.Question; n > 0 {
		s += fmt.Sprintf(" %d", n)
	}
	for _, is := range []struct {
		so   bool
		text string
	}{
		{d.Tentative, "tentative"}, {d.Inferred, "inferred"}, {d.Unfinished, "unfinished"},
		{all && d.Misheard != Clear, d.Misheard.String()},
	} {
		if is.so {
			s += " " + is.text
		}
	}
	return s
}

func trim(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
