package phone

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Step is one line of a script. The verbs:
//
//	say FILE                                     speak a sound file, wait until it is said
//	press KEYS                                   press keys one after the other
//	pause 2s                                     do nothing for so long
//	wait agent-speaking                          until the agent speaks
//	wait agent-silent 400ms                      until the agent was silent for so long
//	wait end                                     until the other side hangs up
//	listen 600ms                                 hear the agent out: speaking, then silent for so long
//	barge-in after 1.2s of agent speech with FILE   interrupt the agent
//	hold, resume, move-port                      re-INVITE
//	hangup                                       BYE
//
// Empty lines and lines that begin with # say nothing.
type Step struct {
	// Line is the step's line in the script, from 1.
	Line int
	// Text is the step as written.
	Text string
	// Verb is the first word, or for wait the first two.
	Verb string
	// File and Keys are what is said or pressed.
	File, Keys string
	// Duration is the time that the step names.
	Duration time.Duration
}

// ParseScript reads a script. Every mistake is reported, each with its line.
func ParseScript(text string) ([]Step, error) {
	var steps []Step
	var errs []error
	s := bufio.NewScanner(strings.NewReader(text))
	for line := 1; s.Scan(); line++ {
		written := strings.TrimSpace(s.Text())
		if written == "" || written[0] == '#' {
			continue
		}
		step := Step{Line: line, Text: written}
		if err := step.parse(strings.Fields(written)); err != nil {
			errs = append(errs, fmt.Errorf("script line %d: %w", line, err))
			continue
		}
		steps = append(steps, step)
	}
	if err := s.Err(); err != nil {
		errs = append(errs, err)
	}
	return steps, errors.Join(errs...)
}

func (s *Step) parse(words []string) error {
	s.Verb = words[0]
	if s.Verb == "wait" && len(words) > 1 {
		s.Verb = "wait " + words[1]
		words = words[1:]
	}
	usage := func(form string) error { return fmt.Errorf("%q should be %q", s.Text, form) }
	var err error
	switch s.Verb {
	case "say":
		if len(words) != 2 {
			return usage("say FILE")
		}
		s.File = words[1]
	case "press":
		if len(words) != 2 || strings.Trim(words[1], eventDigits) != "" {
			return usage("press KEYS")
		}
		s.Keys = words[1]
	case "pause", "listen", "wait agent-silent":
		if len(words) != 2 {
			return usage(s.Verb + " DURATION")
		}
		s.Duration, err = positive(words[1])
	case "barge-in":
		if len(words) != 8 || strings.Join([]string{words[1], words[3], words[4], words[5], words[6]}, " ") != "after of agent speech with" {
			return usage("barge-in after DURATION of agent speech with FILE")
		}
		s.File = words[7]
		s.Duration, err = positive(words[2])
	case "wait agent-speaking", "wait end", "hold", "resume", "move-port", "hangup":
		if len(words) != 1 {
			return usage(s.Verb)
		}
	default:
		return fmt.Errorf("%q: no such step", s.Text)
	}
	return err
}

func positive(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = fmt.Errorf("duration %q must be more than 0", text)
	}
	return d, err
}

// Actor plays scripts on a call.
type Actor struct {
	Call *Call
	// Load gives the sound of a file named in a script: 8 kHz mono.
	Load func(file string) ([]int16, error)
	// Patience is how long a step may wait for the agent; 20 s when 0.
	Patience time.Duration
	// Began, when set, is told each step as it begins to do something: a barge-in
	// when it begins to speak. Utterance is nil for steps without sound.
	Began func(Step, *Utterance)
}

// ErrPatience is returned when the agent did not do in time what a step waits for.
var ErrPatience = errors.New("phone: the agent let the caller wait too long")

// keyLength is how long a key is held, pauseBetweenKeys what lies between two.
const (
	keyLength        = 160 * time.Millisecond
	pauseBetweenKeys = 100 * time.Millisecond
)

// Play does the steps in order. It stops at the first that fails; the error names
// its line. A call that ends before the script is ErrEnded, except while a step
// waits for the end.
func (a *Actor) Play(ctx context.Context, steps []Step) error {
	for _, s := range steps {
		if err := a.play(ctx, s); err != nil {
			return fmt.Errorf("script line %d: %s: %w", s.Line, s.Text, err)
		}
	}
	return nil
}

func (a *Actor) play(ctx context.Context, s Step) error {
	patience := a.Patience
	if patience == 0 {
		patience = 20 * time.Second
	}
	if s.Verb == "pause" {
		patience = 0 // the step ends itself
	}
	if patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, patience, ErrPatience)
		defer cancel()
	}
	if s.Verb != "barge-in" && a.Began != nil && s.Verb != "say" {
		a.Began(s, nil)
	}
	switch s.Verb {
	case "say":
		return a.say(ctx, s)
	case "press":
		return a.press(ctx, s)
	case "pause":
		return a.Call.Pause(ctx, s.Duration)
	case "wait agent-speaking":
		return a.Call.WaitAgentSpeaking(ctx, 0)
	case "wait agent-silent":
		return a.Call.WaitAgentSilent(ctx, s.Duration)
	case "wait end":
		_, err := a.Call.WaitEnd(ctx)
		return err
	case "listen":
		if err := a.Call.WaitAgentSpeaking(ctx, 0); err != nil {
			return err
		}
		return a.Call.WaitAgentSilent(ctx, s.Duration)
	case "barge-in":
		if err := a.Call.WaitAgentSpeaking(ctx, s.Duration); err != nil {
			return err
		}
		return a.say(ctx, s)
	case "hold":
		return a.Call.Hold(ctx)
	case "resume":
		return a.Call.Resume(ctx)
	case "move-port":
		return a.Call.MovePort(ctx)
	case "hangup":
		return a.Call.Hangup(ctx)
	}
	return fmt.Errorf("phone: no step %q", s.Verb)
}

func (a *Actor) say(ctx context.Context, s Step) error {
	pcm, err := a.Load(s.File)
	if err != nil {
		return err
	}
	u := a.Call.Say(pcm)
	if a.Began != nil {
		a.Began(s, u)
	}
	return u.Wait(ctx)
}

func (a *Actor) press(ctx context.Context, s Step) error {
	for i := range len(s.Keys) {
		if i > 0 {
			if err := a.Call.Pause(ctx, pauseBetweenKeys); err != nil {
				return err
			}
		}
		u, err := a.Call.Press(s.Keys[i], keyLength)
		if err != nil {
			return err
		}
		if err := u.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}
