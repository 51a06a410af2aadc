// Command calls measures Parley beside diago and prints the bars.
//
//	calls [-only media,garbage,stall,rate,leak,overload,delays,allocs] [-rounds 3] [-quick]
//	calls -only sip
//	calls -only hold [-calls 1000] [-minutes 10]
//
// Run it in the bench folder; it builds what it needs. SIPp must be installed.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// bench is one run of the whole.
type bench struct {
	dir    string
	rounds int
	quick  bool
	missed int

	calls   int // for hold
	minutes float64
}

func main() {
	only := flag.String("only", "media,garbage,stall,rate,leak,overload,delays,allocs", "parts to run, comma separated")
	rounds := flag.Int("rounds", 3, "pairs of runs whose medians are compared")
	quick := flag.Bool("quick", false, "shorter windows and fewer calls: to see that it works, not for figures")
	calls := flag.Int("calls", 1000, "calls to hold")
	minutes := flag.Float64("minutes", 10, "how long to hold them")
	flag.Parse()
	b := &bench{rounds: *rounds, quick: *quick, calls: *calls, minutes: *minutes}
	if err := b.prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	defer os.RemoveAll(b.dir)
	parts := map[string]func() error{
		"media": b.media, "garbage": b.garbage, "stall": b.stall, "rate": b.rate, "leak": b.leak, "allocs": b.allocs,
		"overload": b.overload, "delays": b.delays, "sip": b.sip, "hold": b.hold,
		"idle": func() error { return b.remains(500) },
	}
	for _, name := range strings.Split(*only, ",") {
		part := parts[name]
		if part == nil {
			fmt.Fprintf(os.Stderr, "bench: no part %q\n", name)
			os.Exit(2)
		}
		if err := part(); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", name, err)
			b.missed++
		}
	}
	fmt.Printf("%d bars missed\n", b.missed)
}

// prepare builds the programs and raises the limit of open files.
func (b *bench) prepare() (err error) {
	if b.dir, err = os.MkdirTemp("", "parley-bench-"); err != nil {
		return err
	}
	lim := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err == nil {
		lim.Cur = lim.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lim)
	}
	for _, p := range []string{"farm", "parleysrv", "diagosrv", "sipgosrv"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(b.dir, p), "./"+p)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("build %s: %w", p, err)
		}
	}
	b.machine()
	return nil
}

// machine prints what the figures were taken on.
func (b *bench) machine() {
	model := "unknown CPU"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(v)
				break
			}
		}
	}
	fmt.Printf("machine: %s, %d cores, %s %s, load %.2f; diago v0.42.1, sipgo v1.7.3\n", model, runtime.NumCPU(), runtime.Version(), runtime.GOOS, loadavg())
}

func (b *bench) parley(args ...string) system {
	return system{name: "parley", bin: filepath.Join(b.dir, "parleysrv"), port: 5078, args: args}
}

func (b *bench) diago(args ...string) system {
	return system{name: "diago", bin: filepath.Join(b.dir, "diagosrv"), port: 5077, args: args}
}

// atMost prints the line of a bar whose value must not be above limit.
func (b *bench) atMost(name string, value, limit float64, unit string) {
	verdict := "met"
	if value > limit {
		verdict = "missed"
		b.missed++
	}
	fmt.Printf("BAR %s %.4g%s <= %.4g%s %s\n", name, value, unit, limit, unit, verdict)
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}
