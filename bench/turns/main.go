// Command turns is the scorecard of turn taking. People and synthetic voices call a whole
// gateway over SIP and RTP on loopback: they interrupt the agent, say that they listen,
// cough, are silent in a noisy room, pause within a sentence, give numbers. What the
// callers' telephones heard, and when, is counted and printed as tables, with one line
// for each bar at the end. docs/turn-taking.md says how to read them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
)

type options struct {
	quick  bool
	atOnce int
	seed   uint64
	only   string
	list   bool
}

func main() {
	var o options
	flag.BoolVar(&o.quick, "quick", false, "a few of all, in two minutes")
	flag.IntVar(&o.atOnce, "calls", 48, "calls at once")
	flag.Uint64Var(&o.seed, "seed", 1, "luck of the callers and the noises")
	flag.StringVar(&o.only, "only", "", "parts to run: lines, settings, rooms or confirm (of the settings), commands; empty: all")
	flag.BoolVar(&o.list, "list", false, "print what became of each thing that was said")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "turns:", err)
		os.Exit(1)
	}
}

func (o options) wants(part string) bool { return o.only == "" || strings.Contains(o.only, part) }

// keeps says whether a row of the settings is of a part that is wanted.
func (o options) keeps(r row) bool {
	return o.wants("rooms") && strings.HasPrefix(r.setting.name, "word_lag") ||
		o.wants("confirm") && (r.setting.name == defaults || strings.HasPrefix(r.setting.name, "confirm "))
}

func run(ctx context.Context, o options) (err error) {
	b, err := newBench(o.seed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	var all []*trial
	var lines, settings, commands *table
	if o.wants("lines") {
		lines = b.lineTrials(o)
		all = append(all, lines.trials...)
	}
	if o.wants("settings") || o.wants("rooms") || o.wants("confirm") {
		settings = b.settingTrials(o)
		if !o.wants("settings") {
			settings.keep(o.keeps)
		}
		all = append(all, settings.trials...)
	}
	if o.wants("commands") {
		commands = b.commandTrials(o)
		all = append(all, commands.trials...)
	}
	machine := watch()
	began := time.Now()
	if err := b.run(ctx, all, o.atOnce); err != nil {
		return err
	}
	fmt.Printf("%s, %d processors, load %s, %d calls in %v, %d at once\n", runtime.Version(), runtime.NumCPU(), busy(),
		len(all), time.Since(began).Round(time.Second), o.atOnce)
	fmt.Printf("callers: %s; detectors: %s\n", strings.Join(b.callers.sources, ", "), strings.Join(b.detectors(), ", "))
	fmt.Printf("a goroutine that wanted to run every 2 ms was late by %s\n", machine.stop())
	if o.list {
		for _, t := range all {
			t.list()
		}
	}
	if lines != nil {
		lines.printOver()
		lines.printEnds()
	}
	if settings != nil {
		settings.printSettings()
	}
	if commands != nil {
		commands.printCommands()
	}
	if lines != nil {
		lines.bars()
	}
	if settings != nil && o.wants("settings") {
		settings.settingBars()
	}
	return nil
}

// busy is what the system says that it has to do.
func busy() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(b))[:3], " ")
}

// watcher measures what the machine takes from this process.
type watcher struct {
	quit chan struct{}
	done chan struct{}
	late figures
}

func watch() *watcher {
	w := &watcher{quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		const every = 2 * time.Millisecond
		for due := time.Now().Add(every); ; due = due.Add(every) {
			select {
			case <-w.quit:
				return
			case <-time.After(time.Until(due)):
			}
			late := time.Since(due)
			w.late = append(w.late, max(0, late))
			if late > every {
				due = time.Now()
			}
		}
	}()
	return w
}

// stop ends it and says how late it was.
func (w *watcher) stop() string {
	close(w.quit)
	<-w.done
	return fmt.Sprintf("p50 %s, p95 %s, p99 %s", ms(w.late.at(0.5)), ms(w.late.at(0.95)), ms(w.late.at(0.99)))
}
