package main

import (
	"fmt"
	"time"

	"parley/agent/cascade"
	"parley/agent/llm"
	"parley/agent/turn"
	"parley/media/vad"
)

// defaults is the name of the settings as they come: speech_timeout 600 ms,
// spelling_timeout 1.5 s, backchannel_voice 800 ms, confirm_words 2.
const defaults = "defaults"

// settingTrials are settings that trade one thing for another, on a clean line and in
// babble.
func (b *bench) settingTrials(o options) *table {
	t := &table{}
	share := 1
	if o.quick {
		share = 6
	}
	detector := b.detectors()[len(b.detectors())-1]
	clean, noisy := line{codec: "PCMU"}, line{codec: "PCMU", noise: "babble", snr: 10}
	over := overSettings(detector)
	if o.quick {
		over = over[:3]
	}
	for _, s := range over {
		for i, l := range []line{clean, noisy} {
			t.add(l, s, plan(l, s, 13, o.seed+uint64(i), b.overItems(share)))
		}
	}
	for _, s := range roomSettings(detector) {
		for i, l := range []line{noisy, {codec: "PCMU", noise: "babble", snr: 5}, {codec: "PCMU", noise: "music", snr: 5}, {codec: "PCMU", noise: "street", snr: 5}} {
			for again := range 3 { // each in another stretch of the noise
				t.add(l, s, plan(l, s, 13, o.seed+uint64(10*i+1000*again), b.endItems(share)))
			}
		}
	}
	for _, s := range pauseSettings(detector) {
		t.add(clean, s, plan(clean, s, 12, o.seed, append(b.pauseItems(share), b.endItems(2*share)...)))
	}
	return t
}

// overSettings are what decides what an interruption is.
func overSettings(detector string) []*setting {
	tuned := func(name string, change func(*turn.Config)) *setting {
		return withTurn(name, detector, func(c *cascade.Config) { change(&c.Turn) })
	}
	heard := func(name string, change func(*vad.EnergyConfig)) *setting {
		return &setting{name: name, detector: detector, vad: change}
	}
	const ms = time.Millisecond
	return []*setting{
		withTurn(defaults, detector, nil),
		tuned("backchannel_voice 0s", func(c *turn.Config) { c.BackchannelVoice = 0 }),
		tuned("backchannel_voice 400ms", func(c *turn.Config) { c.BackchannelVoice = 400 * ms }),
		tuned("backchannel_voice 1.2s", func(c *turn.Config) { c.BackchannelVoice = 1200 * ms }),
		tuned("confirm 60ms", func(c *turn.Config) { c.Confirm = 60 * ms }),
		tuned("confirm 300ms", func(c *turn.Config) { c.Confirm = 300 * ms }),
		tuned("confirm_words 1", func(c *turn.Config) { c.ConfirmWords = 1 }),
		tuned("confirm_words 4", func(c *turn.Config) { c.ConfirmWords = 4 }),
		tuned("start min_words (3)", func(c *turn.Config) { c.Start = []turn.StartStrategy{turn.StartMinWords} }),
		tuned("false_timeout 1s", func(c *turn.Config) { c.FalseTimeout = time.Second }),
		heard("[vad] confirm 200ms", func(c *vad.EnergyConfig) { c.Confirm = 200 * ms }),
		heard("[vad] start 100ms", func(c *vad.EnergyConfig) { c.Start = 100 * ms }),
		heard("[vad] margin 6", func(c *vad.EnergyConfig) { c.Margin, c.Hold = 6, 4 }),
		heard("[vad] margin 14", func(c *vad.EnergyConfig) { c.Margin = 14 }),
	}
}

// roomSettings are what decides when a turn is over in a room with voices: the same callers
// in the same noise, with and without.
func roomSettings(detector string) []*setting {
	return []*setting{
		withTurn("word_lag 900ms", detector, nil),
		withTurn("word_lag 0s", detector, func(c *cascade.Config) { c.Turn.WordLag = 0 }),
	}
}

// pauseSettings are what decides when a turn is over.
func pauseSettings(detector string) []*setting {
	var out []*setting
	out = append(out, withTurn(defaults, detector, nil))
	const ms = time.Millisecond
	for _, speech := range []time.Duration{400 * ms, 600 * ms, 900 * ms} {
		for _, spelling := range []time.Duration{0, 1500 * ms, 2500 * ms} {
			if speech == 600*ms && spelling == 1500*ms {
				continue // the defaults
			}
			name := fmt.Sprintf("speech_timeout %v, spelling_timeout %v", speech, spelling)
			if spelling == 0 {
				name = fmt.Sprintf("speech_timeout %v, digits as other words", speech)
			}
			out = append(out, withTurn(name, detector, func(c *cascade.Config) {
				c.Turn.SpeechTimeout, c.Turn.SpellingTimeout = speech, spelling
			}))
		}
	}
	marks := withTurn("a recogniser that marks sentences", detector, func(*cascade.Config) {})
	marks.marks = true
	expected := withTurn("the agent expects digits", detector, func(*cascade.Config) {})
	expected.expect = &llm.Expect{MaxDigits: 32}
	return append(out, marks, expected)
}

// printSettings are the tables of the settings.
func (t *table) printSettings() {
	var over, rooms, ends [][]string
	for _, r := range t.rows {
		s := t.row(r)
		if s.early.all == 0 {
			missed := count{in(s.missed, sentence).of + in(s.missed, command).of, in(s.missed, sentence).all + in(s.missed, command).all}
			over = append(over, []string{
				r.setting.name, r.line.String(), in(s.stop, sentence).text(), in(s.stop, command).text(), missed.text(),
				in(s.stopped, backchannel).text(), in(s.gaps, backchannel).text(), in(s.stopped, burst).text(), in(s.gaps, burst).text(),
				perMinute(s.stops, s.waited), percent(s.quiet.Seconds() / max(1, s.waited.Seconds())),
			})
			continue
		}
		if r.line.noise != "" {
			rooms = append(rooms, []string{r.setting.name, r.line.String(), s.turn.text(), s.early.text(), s.wordless.text(), s.never.text()})
			continue
		}
		cells := []string{r.setting.name, s.turn.text(), s.given.text()}
		for _, k := range []kind{pausing, digits} {
			for _, p := range pauses {
				c := count{}
				if s.cut[k][p] != nil {
					c = *s.cut[k][p]
				}
				cells = append(cells, c.text())
			}
		}
		ends = append(ends, cells)
	}
	print("Settings, over the agent. Times p50 / p95.", []string{
		"setting", "line", "sentences stop it after", "commands after", "missed", "backchannels stop it", "silent for",
		"coughs, clicks, breaths stop it", "silent for", "alone: stops a minute", "silent",
	}, over)
	print("Settings, ends of turns in noise. Times p50 / p95.", []string{"setting", "line", "turn closed", "closed too early", "of those, for want of words", "not within 8 s"}, rooms)
	head := []string{"setting", "sentence closed", "digits closed"}
	for _, who := range []string{"sentence", "digits"} {
		for _, p := range pauses {
			head = append(head, fmt.Sprintf("%s, %v", who, p))
		}
	}
	print("Settings, ends of turns: how many are cut off who pause for so long, and how long after the last sound the others are closed. Times p50 / p95.", head, ends)
}

// settingBars are the bars of people who pause.
func (t *table) settingBars() {
	s := t.score(func(r row) bool { return r.setting.name == defaults })
	total := func(k kind) (c count) {
		for _, one := range s.cut[k] {
			c.of, c.all = c.of+one.of, c.all+one.all
		}
		return c
	}
	shareAtMost("clean: cut off while giving digits, pauses up to 1.2 s", total(digits), 0)
	short := count{}
	if c := s.cut[pausing][pauses[0]]; c != nil {
		short = *c
	}
	shareAtMost("clean: cut off in a pause of 500 ms", short, 0)
}
