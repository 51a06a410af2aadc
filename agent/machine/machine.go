// Package machine tells who took an outbound call, a person or an answering machine,
// from how they speak, and hears the tone after which a machine records.
//
// People say a few words and wait for an answer. Machines go on: a greeting, an
// announcement of the network, music. SIP tells nothing of it: all of them answer 200.
//
// A Detector is a pure state machine: it is told what is heard, and time is an
// argument. One goroutine at a time may use it.
package machine

import (
	"errors"
	"fmt"
	"time"
)

// Config says how a Detector decides.
type Config struct {
	// Decide is how long it may take; then nobody knows who answered.
	Decide time.Duration
	// Greeting is how much a person says at most before the first Pause.
	Greeting time.Duration
	// Pause is the silence in which an answer is waited for.
	Pause time.Duration
	// BeepWait is how long a machine's tone is waited for.
	BeepWait time.Duration
	// Silence is how long a machine may be silent before it is taken to record
	// without having made a tone.
	Silence time.Duration
}

// DefaultConfig suits telephone networks: a person says 2.2 s at most and then waits for
// 0.8 s, which is known after 4 s.
func DefaultConfig() Config {
	return Config{
		Decide: 4 * time.Second, Greeting: 2200 * time.Millisecond, Pause: 800 * time.Millisecond,
		BeepWait: 40 * time.Second, Silence: 4 * time.Second,
	}
}

// Validate says all that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	for _, d := range []struct {
		name      string
		is        time.Duration
		low, high time.Duration
	}{
		{"decide", c.Decide, time.Second, time.Minute},
		{"greeting", c.Greeting, 500 * time.Millisecond, time.Minute},
		{"pause", c.Pause, 100 * time.Millisecond, 10 * time.Second},
		{"beep wait", c.BeepWait, time.Second, 10 * time.Minute},
		{"silence", c.Silence, time.Second, time.Minute},
	} {
		if d.is < d.low || d.is > d.high {
			errs = append(errs, fmt.Errorf("machine: %s %v is not between %v and %v", d.name, d.is, d.low, d.high))
		}
	}
	return errors.Join(errs...)
}

// Event is something a Detector has found out.
type Event uint8

// The events. The first of all is Human, Machine or Unknown.
const (
	// Human: a person, who waits for an answer.
	Human Event = iota + 1
	// Machine: it goes on speaking.
	Machine
	// Unknown: Config.Decide passed.
	Unknown
	// Beep: the machine's tone is over; it records now. Once at most. It follows
	// Machine, which is told late when the call was taken for a person's.
	Beep
	// NoBeep: no tone came in time; it may record all the same.
	NoBeep
)

// String is the event's name.
func (e Event) String() string {
	names := [...]string{"", "human", "machine", "unknown", "beep", "no beep"}
	if int(e) >= len(names) {
		return ""
	}
	return names[e]
}

const (
	// leastVoice is the shortest sound that counts as a word.
	leastVoice = 120 * time.Millisecond
	// lateBeep is how long after the answer a tone still shows that a short greeting
	// was a machine's.
	lateBeep = 12 * time.Second
)

// Detector listens to one call.
type Detector struct {
	cfg   Config
	tone  tone
	began time.Time

	verdict   Event
	machineAt time.Time
	beeped    bool // or given up
	heardBeep bool

	voice     bool
	since     time.Time     // the voice that is on
	lastSound time.Time     // of the one before
	spoken    time.Duration // without a pause between
}

// New starts a Detector of a call that was answered at a time. Rate is that of what Hear
// gets, in Hz, a multiple of 8000.
func New(cfg Config, rate int, answered time.Time) *Detector {
	return &Detector{cfg: cfg, tone: tone{step: max(1, rate/toneRate)}, began: answered, lastSound: answered}
}

// Voice says that a voice began, or ended, at a time.
func (d *Detector) Voice(on bool, at time.Time) {
	if at.Before(d.began) {
		at = d.began
	}
	switch {
	case on == d.voice:
	case on:
		if at.Sub(d.lastSound) >= d.cfg.Pause {
			d.spoken = 0
		}
		d.since = at
	case at.After(d.since):
		d.spoken += at.Sub(d.since)
		d.lastSound = at
	}
	d.voice = on
}

// Hear takes what came from the other side, in frames of about 20 ms.
func (d *Detector) Hear(pcm []int16) {
	if d.tone.hear(pcm) {
		d.heardBeep = true
	}
}

// Next says what is known by now; false: nothing new. Ask until it says so.
func (d *Detector) Next(now time.Time) (Event, bool) {
	if d.verdict == 0 || d.verdict == Human || d.verdict == Unknown {
		return d.judge(now)
	}
	if d.beeped {
		return 0, false
	}
	switch {
	case d.heardBeep:
		d.beeped = true
		return Beep, true
	case now.Sub(d.machineAt) >= d.cfg.BeepWait, !d.voice && now.Sub(d.lastSound) >= d.cfg.Silence:
		d.beeped = true
		return NoBeep, true
	}
	return 0, false
}

// judge finds out who it is.
func (d *Detector) judge(now time.Time) (Event, bool) {
	late := d.verdict != 0
	if late && (!d.heardBeep || now.Sub(d.began) > lateBeep) {
		return 0, false
	}
	spoken := d.spoken
	if d.voice {
		spoken += now.Sub(d.since)
	}
	switch {
	case d.heardBeep, spoken >= d.cfg.Greeting:
		d.verdict, d.machineAt = Machine, now
	case !d.voice && d.spoken >= leastVoice && now.Sub(d.lastSound) >= d.cfg.Pause:
		d.verdict = Human
	case now.Sub(d.began) >= d.cfg.Decide:
		d.verdict = Unknown
	default:
		return 0, false
	}
	return d.verdict, true
}

// Due is when to ask Next though nothing is heard; false: never.
func (d *Detector) Due() (time.Time, bool) {
	switch {
	case d.verdict == Machine && !d.beeped:
		due := d.machineAt.Add(d.cfg.BeepWait)
		if quiet := d.lastSound.Add(d.cfg.Silence); !d.voice && quiet.Before(due) {
			due = quiet
		}
		return due, true
	case d.verdict != 0:
		return time.Time{}, false
	}
	due := d.began.Add(d.cfg.Decide)
	sooner := func(t time.Time) {
		if t.Before(due) {
			due = t
		}
	}
	if d.voice {
		sooner(d.since.Add(d.cfg.Greeting - d.spoken))
	} else if d.spoken >= leastVoice {
		sooner(d.lastSound.Add(d.cfg.Pause))
	}
	return due, true
}

// Done says that Next has nothing more to say.
func (d *Detector) Done(now time.Time) bool {
	return d.beeped || d.verdict != 0 && d.verdict != Machine && now.Sub(d.began) > lateBeep
}
