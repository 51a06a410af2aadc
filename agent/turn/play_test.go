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
func play(t *testing.T, cfg Config, script string) string {
	t.Helper()
	start := time.Unix(1000, 0)
	c := NewController(cfg, start)
	var trace []string
	note := func(at time.Time, ds []Decision) {
		for _, d := range ds {
			trace = append(trace, fmt.Sprintf("%.2f %s", at.Sub(start).Seconds(), describe(d)))
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

func describe(d Decision) string {
	s := d.Kind.String()
	if d.Reason != "" {
		s += " by " + d.Reason
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
	if d.Attempt > 0 {
		s += fmt.Sprintf(" %d", d.Attempt)
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
