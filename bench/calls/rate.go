package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"
)

// rate is P9: calls set up with an RTP socket each, at 200 a second, whose agent
// speaks at once. The ports that it speaks to are bound here, or every packet would
// cost an ICMP error.
func (b *bench) rate() error {
	cps, seconds := 200, 10
	if b.quick {
		cps, seconds = 100, 3
	}
	n := cps * seconds
	fmt.Printf("\nrate: %d calls at %d a second, each up for 500 ms\n%-14s %9s %8s %8s %8s %8s\n", n, cps, "", "µs/call", "ok", "failed", "retrans", "p95ms")
	sink, err := sinks(1000, 30000)
	if err != nil {
		return err
	}
	defer sink()
	cpu := map[string][]float64{}
	var failed, again, p95 []float64
	for range b.rounds {
		for _, s := range []system{b.parley(), b.diago("-jitter")} {
			u, err := s.start()
			if err != nil {
				return err
			}
			csv, err := ports(b.dir, 1000, 30000)
			if err != nil {
				u.stop()
				return err
			}
			before := u.cpu()
			l, err := startLoad(b.dir, loadOf{scenario: "uac-media.xml", csv: csv, addr: u.addr, calls: n, rate: cps, hold: 500 * time.Millisecond, limit: n})
			if err != nil {
				u.stop()
				return err
			}
			l.wait()
			per := float64((u.cpu()-before)/time.Microsecond) / float64(n)
			u.stop()
			o, err := l.outcome()
			if err != nil {
				return err
			}
			fmt.Printf("%-14s %9.0f %8d %8d %8d %8.1f\n", s.name, per, o.ok, o.failed, o.retransmitted, o.setupP95)
			cpu[s.name] = append(cpu[s.name], per)
			if s.name == "parley" {
				failed, again, p95 = append(failed, float64(n-o.ok)), append(again, float64(o.retransmitted)), append(p95, o.setupP95)
			}
		}
	}
	b.atMost("P9-failed", median(failed), 0, "")
	b.atMost("P9-retransmitted", median(again), 0, "")
	b.atMost("P9-cpu", median(cpu["parley"])/median(cpu["diago"]), 0.8, "")
	b.atMost("P9-setup-p95", median(p95), 2, "ms")
	return nil
}

// sinks binds UDP ports whose packets nobody reads.
func sinks(n, base int) (closeAll func(), err error) {
	conns := make([]net.PacketConn, 0, n)
	closeAll = func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}
	for i := range n {
		c, err := net.ListenPacket("udp4", fmt.Sprintf("%s:%d", farmIP, base+2*i))
		if err != nil {
			closeAll()
			return nil, err
		}
		conns = append(conns, c)
	}
	return closeAll, nil
}

// leak is P11: what the process holds after many calls is what it held before.
func (b *bench) leak() error {
	n, cps, rest := 10000, 100, 40*time.Second
	if b.quick {
		n, rest = 500, 36*time.Second
	}
	fmt.Printf("\nleak: %d calls at %d a second, then %v of rest\n", n, cps, rest)
	u, err := b.parley("-silent").start()
	if err != nil {
		return err
	}
	defer u.stop()
	time.Sleep(1500 * time.Millisecond) // for the first status line
	before, fds := u.status(), u.fds()
	csv, err := ports(b.dir, 1000, 30000)
	if err != nil {
		return err
	}
	l, err := startLoad(b.dir, loadOf{scenario: "uac-media.xml", csv: csv, addr: u.addr, calls: n, rate: cps, hold: 200 * time.Millisecond, limit: 2000})
	if err != nil {
		return err
	}
	l.wait()
	o, err := l.outcome()
	if err != nil {
		return err
	}
	time.Sleep(rest)
	after := u.status()
	fmt.Printf("  ok %d, failed %d; goroutines %d -> %d, descriptors %d -> %d, heap %.1f -> %.1f MB, calls %d\n", o.ok, o.failed,
		before.Goroutines, after.Goroutines, fds, u.fds(), before.HeapMB, after.HeapMB, after.Calls)
	b.atMost("P11-failed", float64(n-o.ok), 0, "")
	b.atMost("P11-goroutines", float64(after.Goroutines-before.Goroutines), 0, "")
	b.atMost("P11-descriptors", float64(u.fds()-fds), 0, "")
	b.atMost("P11-heap", after.HeapMB-before.HeapMB, 5, "MB")
	return nil
}

// allocs is P12 and P13: the tests that count allocations a packet, and what is
// encoded while an agent says nothing.
func (b *bench) allocs() error {
	fmt.Println("\nallocs: the tests that count allocations of a packet in and out")
	if err := b.tests("P12", "Alloc", "./rtp/...", "./media/...", "./call/..."); err != nil {
		return err
	}
	return b.tests("P13", "^TestSilenceIsNotEncoded$", "./call")
}

// tests runs tests of Parley whose passing is a bar.
func (b *bench) tests(bar, names string, packages ...string) error {
	cmd := exec.Command("go", append([]string{"test", "-count=1", "-timeout=5m", "-v", "-run", names}, packages...)...)
	cmd.Dir = ".."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	for line := range bytes.Lines(out) {
		if s := string(line); strings.HasPrefix(s, "--- ") {
			fmt.Print("  ", s)
		}
	}
	failed := 0.0
	if err != nil || !bytes.Contains(out, []byte("--- PASS")) {
		failed = 1
	}
	b.atMost(bar, failed, 0, " failing")
	return nil
}
