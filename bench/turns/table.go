package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/agent/turn"
)

// figures are measurements of one thing.
type figures []time.Duration

// at is the smallest figure that a share q of all does not exceed; 0 of none.
func (f figures) at(q float64) time.Duration {
	if len(f) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(f))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// text is the figures at 50 and 95 %.
func (f figures) text() string {
	if len(f) == 0 {
		return "–"
	}
	return ms(f.at(0.5)) + " / " + ms(f.at(0.95))
}

func ms(d time.Duration) string {
	return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
}

// count is how many of how many.
type count struct{ of, all int }

func (c *count) add(is bool) {
	c.all++
	if is {
		c.of++
	}
}

func (c count) share() float64 {
	if c.all == 0 {
		return 0
	}
	return float64(c.of) / float64(c.all)
}

func (c count) text() string {
	if c.all == 0 {
		return "–"
	}
	return fmt.Sprintf("%d of %d", c.of, c.all)
}

// score is what is counted of the trials of one row.
type score struct {
	stop    map[kind]*figures // of those that stopped an agent that spoke
	missed  map[kind]*count
	hushed  map[kind]*count // the agent was silent already
	stopped map[kind]*count // by what is no interruption
	paused  map[kind]*count // and not stopped
	gaps    map[kind]*figures

	stops, pauses int // while nothing was said
	waited, quiet time.Duration

	turn, sound figures
	given       figures // the same as turn, of digits
	never       count   // turns that nothing closed
	early       count
	wordless    count                             // of those, closed because no words came
	cut         map[kind]map[time.Duration]*count // by the length of the pause
}

func newScore() *score {
	return &score{
		stop: map[kind]*figures{}, missed: map[kind]*count{}, hushed: map[kind]*count{}, stopped: map[kind]*count{},
		paused: map[kind]*count{}, gaps: map[kind]*figures{}, cut: map[kind]map[time.Duration]*count{},
	}
}

// in is the value of a map that is made when it is not there.
func in[K comparable, V any](m map[K]*V, key K) *V {
	if m[key] == nil {
		m[key] = new(V)
	}
	return m[key]
}

func (s *score) add(o outcome) {
	switch o.kind {
	case sentence, command:
		in(s.missed, o.kind).add(!o.stopped || o.wentOn)
		in(s.hushed, o.kind).add(o.silent)
		if o.stopped && !o.silent {
			f := in(s.stop, o.kind)
			*f = append(*f, o.stop)
		}
	case backchannel, burst:
		in(s.stopped, o.kind).add(o.stopped && !o.wentOn)
		in(s.paused, o.kind).add(!o.stopped && o.gap > 0 || o.wentOn)
		if o.gap > 0 && (!o.stopped || o.wentOn) {
			f := in(s.gaps, o.kind)
			*f = append(*f, o.gap)
		}
	case alone:
		s.stops += o.stops
		s.pauses += o.pauses
		s.waited += aloneFor
		s.quiet += o.quiet
	case ending:
		s.early.add(o.cut)
		if o.cut {
			s.wordless.add(o.by == turn.ByNoWords)
		}
		s.never.add(!o.ended)
		if o.ended {
			s.turn = append(s.turn, o.turn)
		}
		if o.sound > 0 {
			s.sound = append(s.sound, o.sound)
		}
	default:
		if s.cut[o.kind] == nil {
			s.cut[o.kind] = map[time.Duration]*count{}
		}
		in(s.cut[o.kind], o.pause).add(o.cut)
		if o.ended && !o.cut && o.kind == digits {
			s.given = append(s.given, o.turn)
		}
	}
}

// table is trials and the rows that they are of.
type table struct {
	trials []*trial
	rows   []row
}

type row struct {
	line    line
	setting *setting
}

func (t *table) add(l line, s *setting, trials []*trial) {
	t.trials = append(t.trials, trials...)
	r := row{l, s}
	if !slices.Contains(t.rows, r) {
		t.rows = append(t.rows, r)
	}
}

// keep drops all rows but those that which says yes to, and their trials.
func (t *table) keep(which func(row) bool) {
	t.rows = slices.DeleteFunc(t.rows, func(r row) bool { return !which(r) })
	t.trials = slices.DeleteFunc(t.trials, func(one *trial) bool { return !which(row{one.line, one.setting}) })
}

// score counts the trials of the rows that which says yes to.
func (t *table) score(which func(row) bool) *score {
	s := newScore()
	for _, one := range t.trials {
		if !which(row{one.line, one.setting}) {
			continue
		}
		for _, o := range one.outcomes {
			s.add(o)
		}
	}
	return s
}

func (t *table) row(r row) *score { return t.score(func(other row) bool { return r == other }) }

// print prints a table in Markdown, unless it is empty.
func print(title string, head []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	fmt.Printf("\n%s\n", title)
	fmt.Printf("\n| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	for _, r := range rows {
		fmt.Printf("| %s |\n", strings.Join(r, " | "))
	}
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

// perMinute is how often something came in a minute.
func perMinute(n int, d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f", float64(n)/d.Minutes())
}

// list prints what became of each item.
func (t *trial) list() {
	for _, o := range t.outcomes {
		fmt.Printf("%s; %s, %s: %s %q", t.setting.detector, t.setting.name, t.line, o.kind, o.says.text)
		if o.says.recorded {
			fmt.Print(" (recorded)")
		}
		switch {
		case o.kind == alone:
			fmt.Printf(": %d stops, %d pauses, %s silent", o.stops, o.pauses, ms(o.quiet))
		case o.kind.over():
			fmt.Printf(": silent %v, stopped %v after %s, went on %v, gap %s", o.silent, o.stopped, ms(o.stop), o.wentOn, ms(o.gap))
		default:
			fmt.Printf(": ended %v, turn %s, sound %s, cut %v in pause %d, by %s", o.ended, ms(o.turn), ms(o.sound), o.cut, o.cutGap, o.by)
		}
		fmt.Println()
	}
}
