package main

import (
	"fmt"
	"time"
)

// lineTrials are the default settings on all lines.
func (b *bench) lineTrials(o options) *table {
	t := &table{}
	share := 1
	if o.quick {
		share = 4
	}
	for _, detector := range b.detectors() {
		s := &setting{name: "defaults", detector: detector}
		for i, l := range lines(o.quick) {
			seed := o.seed + uint64(100*i)
			if l.codec == "opus" && !o.quick {
				t.add(l, s, plan(l, s, 13, seed, b.overItems(2)))
				t.add(l, s, plan(l, s, 13, seed, b.endItems(2)))
				continue
			}
			t.add(l, s, plan(l, s, 13, seed, b.overItems(share)))
			t.add(l, s, plan(l, s, 13, seed, b.endItems(share)))
		}
	}
	return t
}

// lines are those that are tried.
func lines(quick bool) (out []line) {
	if quick {
		return []line{{codec: "PCMU"}, {codec: "PCMU", noise: "babble", snr: 10}, {codec: "PCMU", echo: true}, {codec: "opus", echo: true}}
	}
	for _, echo := range []bool{false, true} {
		out = append(out, line{codec: "PCMU", echo: echo})
		for _, noise := range []string{"babble", "street", "music"} {
			for _, snr := range []float64{10, 5} {
				out = append(out, line{"PCMU", noise, snr, echo})
			}
		}
		out = append(out, line{codec: "opus", echo: echo}, line{"opus", "babble", 10, echo})
	}
	return out
}

// printOver is the table of what is said over the agent.
func (t *table) printOver() {
	for _, detector := range []string{"energy", "silero"} {
		var rows [][]string
		for _, r := range t.rows {
			if r.setting.detector != detector {
				continue
			}
			s := t.row(r)
			missed := count{in(s.missed, sentence).of + in(s.missed, command).of, in(s.missed, sentence).all + in(s.missed, command).all}
			rows = append(rows, []string{
				r.line.String(), in(s.stop, sentence).text(), in(s.stop, command).text(), missed.text(),
				in(s.stopped, backchannel).text(), in(s.gaps, backchannel).text(),
				in(s.stopped, burst).text(), in(s.paused, burst).text(), in(s.gaps, burst).text(),
				perMinute(s.stops, s.waited), perMinute(s.pauses, s.waited), percent(s.quiet.Seconds() / max(1, s.waited.Seconds())),
			})
		}
		if len(rows) == 0 {
			continue
		}
		print(fmt.Sprintf("Over the agent, detector %s. Times p50 / p95.", detector), []string{
			"line", "sentences stop it after", "commands after", "missed", "backchannels stop it", "silent for",
			"coughs, clicks, breaths stop it", "pause it", "silent for", "alone: stops a minute", "pauses a minute", "silent",
		}, rows)
	}
}

// printEnds is the table of ends of turns.
func (t *table) printEnds() {
	var rows [][]string
	for _, r := range t.rows {
		s := t.row(r)
		rows = append(rows, []string{r.setting.detector, r.line.String(), s.turn.text(), s.sound.text(), s.early.text(), s.never.text()})
	}
	print("The end of a turn, from the last sound of the caller. Times p50 / p95.", []string{"detector", "line", "turn closed", "first sound of the reply", "closed too early", "not within 8 s"}, rows)
}

// bars prints what is asked for, and whether it was so.
func (t *table) bars() {
	fmt.Println()
	for _, detector := range []string{"energy", "silero"} {
		on := func(which func(line) bool) *score {
			return t.score(func(r row) bool { return r.setting.detector == detector && which(r.line) })
		}
		clean := on(func(l line) bool { return l.noise == "" && !l.echo })
		if clean.early.all == 0 {
			continue
		}
		quiet := on(func(l line) bool { return l.noise == "" })
		echo := on(func(l line) bool { return l.noise == "" && l.echo })
		noisy := on(func(l line) bool { return l.snr == 10 })
		atMost(detector+", clean: sentences stop the agent, p95", in(clean.stop, sentence).at(0.95), 400*time.Millisecond)
		atMost(detector+", clean: commands stop the agent, p95", in(clean.stop, command).at(0.95), 400*time.Millisecond)
		shareAtMost(detector+", clean and echo: missed sentences", *in(quiet.missed, sentence), 0)
		shareAtMost(detector+", clean and echo: missed commands", *in(quiet.missed, command), 0)
		shareAtMost(detector+", clean and echo: backchannels that stop", *in(quiet.stopped, backchannel), 0.1)
		shareAtMost(detector+", clean and echo: coughs, clicks and breaths that stop", *in(quiet.stopped, burst), 0)
		bar(detector+", echo alone: stops", fmt.Sprint(echo.stops), "0", echo.stops == 0)
		bar(detector+", 10 dB alone: stops a minute", perMinute(noisy.stops, noisy.waited), "1.0", float64(noisy.stops) <= noisy.waited.Minutes())
		shareAtMost(detector+", 10 dB: missed sentences", *in(noisy.missed, sentence), 0.05)
		shareAtMost(detector+", 10 dB: backchannels that stop", *in(noisy.stopped, backchannel), 0.1)
		atMost(detector+", clean: a backchannel silences the agent, p95", in(clean.gaps, backchannel).at(0.95), 2*time.Second)
		atMost(detector+", clean: the turn closes, p95", clean.turn.at(0.95), 720*time.Millisecond)
		shareAtMost(detector+", clean and echo: turns closed too early", quiet.early, 0)
		shareAtMost(detector+", 10 dB: turns not closed within 8 s", noisy.never, 0.02)
	}
}

// bar prints one thing that is asked for.
func bar(name, value, limit string, met bool) {
	verdict := "met"
	if !met {
		verdict = "missed"
	}
	fmt.Printf("BAR %s %s <= %s %s\n", name, value, limit, verdict)
}

func atMost(name string, got, limit time.Duration) { bar(name, ms(got), ms(limit), got <= limit) }

func shareAtMost(name string, got count, limit float64) {
	bar(name, percent(got.share())+" ("+got.text()+")", percent(limit), got.share() <= limit)
}
