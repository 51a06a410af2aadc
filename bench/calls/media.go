package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// highestLoad is the load average above which a run is discarded.
const highestLoad = 4

// sample is one system's figures at one number of calls.
type sample struct {
	verdict
	perCall float64 // µs of CPU a call and second
	kb      float64 // KB of resident set a call
	idleMB  float64
	load    float64
	heard   float64 // packets a second and call that the agent heard; parley only
}

// verdict is farm's line of JSON.
type verdict struct {
	Streams int     `json:"streams"`
	Packets int     `json:"packets"`
	Lost    int     `json:"lost"`
	Skipped int     `json:"skipped"`
	RateMin float64 `json:"rate_min"`
	RateMax float64 `json:"rate_max"`
	DevP50  float64 `json:"dev_p50_ms"`
	DevP99  float64 `json:"dev_p99_ms"`
	DevP999 float64 `json:"dev_p999_ms"`
	DevMax  float64 `json:"dev_max_ms"`
	GapMax  float64 `json:"gap_max_ms"`
	Burst   int     `json:"burst"`
	Recover float64 `json:"recover_ms"`
	FarmCPU float64 `json:"farm_cpu_s"`
}

// run measures s with n calls; during, when set, is called when the window has
// begun.
func (b *bench) run(s system, n int, window time.Duration, during func(*sut)) (out sample, err error) {
	const base, cps = 30000, 25
	warm := 3 * time.Second
	u, err := s.start()
	if err != nil {
		return out, err
	}
	defer u.stop()
	idle := u.rssKB()
	out.idleMB = float64(idle) / 1024

	farm := exec.Command(filepath.Join(b.dir, "farm"), "-n", strconv.Itoa(n), "-base", strconv.Itoa(base),
		"-ip", farmIP, "-d", window.String(), "-warm", warm.String(), "-wait", "60s")
	farm.Stderr = os.Stderr
	pipe, err := farm.StdoutPipe()
	if err != nil {
		return out, err
	}
	if err := farm.Start(); err != nil {
		return out, err
	}
	defer func() { _ = farm.Process.Kill(); _ = farm.Wait() }()
	csv, err := ports(b.dir, n, base)
	if err != nil {
		return out, err
	}
	hold := time.Duration(n/cps)*time.Second + warm + window + 30*time.Second
	sipp, err := startLoad(b.dir, loadOf{scenario: "uac-media.xml", csv: csv, addr: u.addr, calls: n, rate: cps, hold: hold, limit: n})
	if err != nil {
		return out, err
	}
	defer sipp.stop()

	var cpu time.Duration
	var heard uint64
	var began time.Time
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		switch line := lines.Text(); line {
		case "MEASURE-START":
			cpu, began, heard = u.cpu(), time.Now(), u.status().Heard
			if during != nil {
				go during(u)
			}
		case "MEASURE-END":
			took := time.Since(began).Seconds()
			out.perCall = float64((u.cpu()-cpu)/time.Microsecond) / took / float64(n)
			out.kb = float64(u.rssKB()-idle) / float64(n)
			out.heard = float64(u.status().Heard-heard) / took / float64(n)
			out.load = loadavg()
		default:
			if err := json.Unmarshal([]byte(line), &out.verdict); err != nil {
				return out, fmt.Errorf("farm said %q", line)
			}
		}
	}
	if out.Streams < n {
		return out, fmt.Errorf("%s: only %d of %d calls had media", s.name, out.Streams, n)
	}
	return out, nil
}

func (s sample) row(name string, n int) {
	fmt.Printf("%-14s %5d %8.0f %7.1f %8d %8d %6.2f-%-6.2f %6.2f %6.2f %7.2f %7.2f %6.2f\n", name, n, s.perCall, s.kb, s.Lost, s.Skipped,
		s.RateMin, s.RateMax, s.DevP50, s.DevP99, s.DevP999, s.DevMax, s.load)
}

func tableHead(title string) {
	fmt.Printf("\n%s\n%-14s %5s %8s %7s %8s %8s %13s %6s %6s %7s %7s %6s\n", title, "", "calls", "µs/call·s", "KB/call", "lost", "skipped",
		"packets/s", "p50ms", "p99ms", "p99.9ms", "maxms", "load")
}

// alternate runs the systems in turn and keeps each one's samples.
func (b *bench) alternate(n int, window time.Duration, systems ...system) (map[string][]sample, error) {
	all := map[string][]sample{}
	for range b.rounds {
		for _, s := range systems {
			out, err := b.run(s, n, window, nil)
			if err != nil {
				return nil, err
			}
			out.row(s.name, n)
			if out.load > highestLoad {
				fmt.Printf("  discarded: load average %.2f\n", out.load)
				continue
			}
			all[s.name] = append(all[s.name], out)
		}
	}
	for _, s := range systems {
		if len(all[s.name]) == 0 {
			return nil, fmt.Errorf("no run of %s under a load average of %d", s.name, highestLoad)
		}
	}
	return all, nil
}

func of(s []sample, f func(sample) float64) float64 {
	v := make([]float64, len(s))
	for i := range s {
		v[i] = f(s[i])
	}
	return median(v)
}

// media is P1, P2, P3 and P8.
func (b *bench) media() error {
	sizes, window := []int{200, 500}, 10*time.Second
	if b.quick {
		sizes, window = []int{50}, 4*time.Second
	}
	tableHead("media: G.711, jitter buffer and voice detection on, an agent that hears and speaks all the time")
	for _, n := range sizes {
		all, err := b.alternate(n, window, b.parley(), b.diago("-jitter"))
		if err != nil {
			return err
		}
		own, peer := all["parley"], all["diago"]
		cpu := func(s sample) float64 { return s.perCall }
		b.atMost(fmt.Sprintf("P1@%d", n), of(own, cpu)/of(peer, cpu), 0.35, "")
		b.atMost(fmt.Sprintf("P2@%d-lost", n), of(own, func(s sample) float64 { return float64(s.Lost) }), 0, "")
		b.atMost(fmt.Sprintf("P2@%d-rate", n), of(own, func(s sample) float64 { return max(50-s.RateMin, s.RateMax-50) }), 0.1, "/s")
		limit := 1.5
		if n >= 500 {
			limit = 2
		}
		b.atMost(fmt.Sprintf("P3@%d", n), of(own, func(s sample) float64 { return s.DevP99 }), limit, "ms")
		b.atMost(fmt.Sprintf("P3@%d-skipped", n), of(own, func(s sample) float64 { return float64(s.Skipped) }), 0, "")
		if n >= 500 { // of fewer calls, what all share is a larger part
			b.atMost(fmt.Sprintf("P8@%d", n), of(own, func(s sample) float64 { return s.kb }), 40, "KB")
		}
		b.atMost("P8-idle", of(own, func(s sample) float64 { return s.idleMB }), 20, "MB")
		fmt.Printf("  the agent heard %.2f packets/s a call\n", of(own, func(s sample) float64 { return s.heard }))
	}
	return nil
}

// garbage is the part of P3 under a working garbage collector.
func (b *bench) garbage() error {
	n, window := 200, 10*time.Second
	if b.quick {
		n, window = 50, 4*time.Second
	}
	tableHead("garbage: 200 MB live, 100 MB/s of garbage")
	out, err := b.run(b.parley("-garbage"), n, window, nil)
	if err != nil {
		return err
	}
	out.row("parley", n)
	b.atMost("P3-garbage", out.DevP99, 3, "ms")
	return nil
}

// stall is P4's sending half: the process stands still for 300 ms.
func (b *bench) stall() error {
	n, window := 100, 6*time.Second
	tableHead("stall: SIGSTOP for 300 ms in the middle of the window")
	out, err := b.run(b.parley(), n, window, func(u *sut) {
		time.Sleep(window / 2)
		_ = u.cmd.Process.Signal(syscall.SIGSTOP)
		time.Sleep(300 * time.Millisecond)
		_ = u.cmd.Process.Signal(syscall.SIGCONT)
	})
	if err != nil {
		return err
	}
	out.row("parley", n)
	fmt.Printf("  longest gap %.0f ms\n", out.GapMax)
	b.atMost("P4-recover", out.Recover, 200, "ms")
	b.atMost("P4-burst", float64(out.Burst), 3, "")
	return nil
}
