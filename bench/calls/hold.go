package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// held is what was seen while many calls stood.
type held struct {
	verdict
	perCall float64
	memory  []int // KB, every few seconds
	idle    int   // KB
}

// hold keeps many calls up for minutes: nothing may be lost, memory has to stay
// flat, and all must be as before when they are gone.
func (b *bench) hold() error {
	n, window := b.calls, time.Duration(b.minutes*float64(time.Minute))
	fmt.Printf("\nhold: %d calls for %v, an agent that hears and speaks all the time\n", n, window)
	u, err := b.parley("-max", itoa(n)).start()
	if err != nil {
		return err
	}
	defer u.stop()
	var h held
	err = b.backToIdle(u, "HOLD", func() (failed int, err error) {
		h, failed, err = b.stand(u, n, window)
		return failed, err
	})
	if err != nil {
		return err
	}
	fmt.Printf("  %d packets from the gateway, %.0f µs of CPU a call and second, load %.2f\n", h.Packets, h.perCall, loadavg())
	b.atMost("HOLD-lost", float64(h.Lost), 0, "")
	b.atMost("HOLD-skipped", float64(h.Skipped), 0, "")
	b.atMost("HOLD-rate", max(50-h.RateMin, h.RateMax-50), 0.1, "/s")
	fmt.Printf("  %.1f KB of memory a call\n", float64(slices.Max(h.memory)-h.idle)/float64(n))
	// The first fifth is for the heap to find its size.
	early, late := h.memory[len(h.memory)/5], h.memory[len(h.memory)-1]
	fmt.Printf("  memory: %.1f MB idle, %.1f after a fifth of the time, %.1f at the end\n", float64(h.idle)/1024, float64(early)/1024, float64(late)/1024)
	b.atMost("HOLD-growth", 100*float64(late-early)/float64(early), 3, "%")
	return nil
}

// stand sets the calls up, watches them, and waits until all have hung up.
func (b *bench) stand(u *sut, n int, window time.Duration) (h held, failed int, err error) {
	const base, rate, warm = 30000, 50, 3 * time.Second
	h.idle = u.rssKB()
	farm := exec.Command(filepath.Join(b.dir, "farm"), "-n", itoa(n), "-base", itoa(base), "-ip", farmIP,
		"-d", window.String(), "-warm", warm.String(), "-wait", "90s", "-count")
	farm.Stderr = os.Stderr
	pipe, err := farm.StdoutPipe()
	if err != nil {
		return h, 0, err
	}
	if err := farm.Start(); err != nil {
		return h, 0, err
	}
	defer func() { _ = farm.Process.Kill(); _ = farm.Wait() }()
	csv, err := ports(b.dir, n, base)
	if err != nil {
		return h, 0, err
	}
	up := time.Duration(n/rate) * time.Second
	sipp, err := startLoad(b.dir, loadOf{scenario: "uac-media.xml", csv: csv, addr: u.addr, calls: n, rate: rate, hold: up + warm + window + 15*time.Second, limit: n})
	if err != nil {
		return h, 0, err
	}
	defer sipp.stop()
	stop := make(chan struct{})
	var memory []int
	watched := make(chan struct{})
	var cpu time.Duration
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		switch line := lines.Text(); line {
		case "MEASURE-START":
			cpu = u.cpu()
			go func() {
				defer close(watched)
				for tick := time.NewTicker(window / 20); ; {
					memory = append(memory, u.rssKB())
					select {
					case <-tick.C:
					case <-stop:
						return
					}
				}
			}()
		case "MEASURE-END":
			h.perCall = float64((u.cpu()-cpu)/time.Microsecond) / window.Seconds() / float64(n)
			close(stop)
			<-watched
			h.memory = memory
		default:
			if err := json.Unmarshal([]byte(line), &h.verdict); err != nil {
				return h, 0, fmt.Errorf("farm said %q", line)
			}
		}
	}
	if h.Streams < n || len(h.memory) == 0 {
		return h, 0, fmt.Errorf("only %d of %d calls had media", h.Streams, n)
	}
	sipp.wait()
	o, err := sipp.outcome()
	return h, n - o.ok, err
}
