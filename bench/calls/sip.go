package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"time"
)

// step is one rate of the ramp.
type step struct {
	outcome
	offered  int     // calls a second
	achieved float64 // calls a second
	perCall  float64 // µs of CPU
	load     float64
}

// clean says that the system kept up: every call there, nothing said twice, the
// generator not held up.
func (s step) clean(n int) bool {
	return s.ok == n && s.failed == 0 && s.retransmitted == 0 && s.achieved >= 0.9*float64(s.offered)
}

func (s step) row(name string) {
	fmt.Printf("%-18s %7d %9.0f %8d %8d %8d %8.1f %9.0f %6.2f\n", name, s.offered, s.achieved, s.ok, s.failed, s.retransmitted, s.setupP95, s.perCall, s.load)
}

// place has u take n calls of no length at rate a second.
func (b *bench) place(u *sut, n, rate int) (st step, err error) {
	csv, err := ports(b.dir, 1000, 30000)
	if err != nil {
		return st, err
	}
	before, began := u.cpu(), time.Now()
	l, err := startLoad(b.dir, loadOf{scenario: "uac-media.xml", csv: csv, addr: u.addr, calls: n, rate: rate, limit: n})
	if err != nil {
		return st, err
	}
	l.wait()
	took := time.Since(began)
	st.offered, st.load = rate, loadavg()
	st.perCall = float64((u.cpu()-before)/time.Microsecond) / float64(n)
	st.achieved = float64(n) / took.Seconds()
	st.outcome, err = l.outcome()
	return st, err
}

func (b *bench) sipgo() system {
	return system{name: "sipgo", bin: filepath.Join(b.dir, "sipgosrv"), port: 5076}
}

func (b *bench) signalling() system {
	s := b.parley("-signalling")
	s.name = "parley, sip room"
	return s
}

func (b *bench) whole() system {
	s := b.parley("-silent", "-max", "50000")
	s.name = "parley, gateway"
	return s
}

// sip is the load of the signalling alone: the highest rate, its cost beside sipgo's
// low layer, and what is left after many calls.
func (b *bench) sip() error {
	rates, seconds := []int{100, 200, 400, 600, 800, 1000, 1200, 1500, 2000, 2500, 3000}, 5
	if b.quick {
		rates, seconds = []int{50, 100}, 2
	}
	fmt.Printf("\nsip: INVITE, 180, 200, ACK, BYE; a ramp until calls fail or are late\n%-18s %7s %9s %8s %8s %8s %8s %9s %6s\n", "",
		"calls/s", "achieved", "ok", "failed", "retrans", "p95ms", "µs/call", "load")
	sink, err := sinks(1000, 30000)
	if err != nil {
		return err
	}
	defer sink()
	highest := map[string]int{}
	for _, s := range []system{b.signalling(), b.sipgo(), b.whole()} {
		top, err := b.ramp(s, rates, seconds)
		if err != nil {
			return err
		}
		highest[s.name] = top
		fmt.Printf("  %s: up to %d calls a second\n", s.name, top)
	}
	// Both at a rate that neither has trouble with.
	rate := max(50, min(highest["sipgo"], highest["parley, sip room"], highest["parley, gateway"])/2)
	if err := b.compare(rate, seconds); err != nil {
		return err
	}
	return b.remains(rate)
}

// ramp finds the highest rate of s.
func (b *bench) ramp(s system, rates []int, seconds int) (top int, err error) {
	u, err := s.start()
	if err != nil {
		return 0, err
	}
	defer u.stop()
	for _, rate := range rates {
		st, err := b.place(u, rate*seconds, rate)
		if err != nil {
			return top, err
		}
		st.row(s.name)
		if !st.clean(rate * seconds) {
			break
		}
		top = rate
	}
	return top, nil
}

// compare sets the costs at one rate beside each other.
func (b *bench) compare(rate, seconds int) error {
	fmt.Printf("  beside each other at %d calls a second\n", rate)
	cost, failed, p95 := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	n := 2 * rate * seconds
	systems := []system{b.signalling(), b.sipgo(), b.whole()}
	for range b.rounds {
		for _, s := range systems {
			u, err := s.start()
			if err != nil {
				return err
			}
			st, err := b.place(u, n, rate)
			u.stop()
			if err != nil {
				return err
			}
			st.row(s.name)
			if st.load > highestLoad {
				fmt.Printf("  discarded: load average %.2f\n", st.load)
				continue
			}
			cost[s.name] = append(cost[s.name], st.perCall)
			failed[s.name] = append(failed[s.name], float64(n-st.ok))
			p95[s.name] = append(p95[s.name], st.setupP95)
		}
	}
	for _, s := range systems {
		if len(cost[s.name]) == 0 {
			return fmt.Errorf("no run of %s under a load average of %d", s.name, highestLoad)
		}
	}
	peer := median(cost["sipgo"])
	b.atMost("T1-cpu", median(cost["parley, sip room"])/peer, 1.5, "")
	b.atMost("T1-failed", median(failed["parley, sip room"]), 0, "")
	fmt.Printf("  the whole gateway, media ports and an agent with every call: %.2f of sipgo's CPU\n", median(cost["parley, gateway"])/peer)
	b.atMost("T1-gateway-failed", median(failed["parley, gateway"]), 0, "")
	fmt.Printf("  INVITE to 200, p95: sip room %.1f ms, sipgo %.1f ms, gateway %.1f ms\n",
		median(p95["parley, sip room"]), median(p95["sipgo"]), median(p95["parley, gateway"]))
	return nil
}

// remains is what the whole gateway holds after 50,000 calls.
func (b *bench) remains(rate int) error {
	n := 50_000
	rate = min(rate, 500)
	if b.quick {
		n = 500
	}
	fmt.Printf("  %d calls to the whole gateway at %d a second, then rest\n", n, rate)
	u, err := b.whole().start()
	if err != nil {
		return err
	}
	defer u.stop()
	return b.backToIdle(u, "T1", func() (int, error) {
		st, err := b.place(u, n, rate)
		if err != nil {
			return 0, err
		}
		st.row("parley, gateway")
		return n - st.ok, nil
	})
}

// longestRest is what the timers of SIP may take after the last call when the machine
// was too slow for it: 32 s for an ACK that does not come, 32 s for the answer to the BYE
// that follows (RFC 3261 section 17), and what a library and the collector need.
const longestRest = 100 * time.Second

// heapSlack is how many MB may be left after many calls.
const heapSlack = 5

// backToIdle compares what u holds before and after calls, which says how many
// failed.
func (b *bench) backToIdle(u *sut, bar string, calls func() (failed int, err error)) error {
	time.Sleep(1500 * time.Millisecond) // for the first status line
	before, fds := u.status(), u.fds()
	failed, err := calls()
	if err != nil {
		return err
	}
	began, after := time.Now(), u.status()
	for after.Goroutines > before.Goroutines || u.fds() > fds || after.HeapMB > before.HeapMB+heapSlack {
		if time.Since(began) > longestRest {
			break
		}
		time.Sleep(time.Second)
		after = u.status()
	}
	fmt.Printf("  goroutines %d -> %d, descriptors %d -> %d, heap %.1f -> %.1f MB, calls %d; after %.0f s of rest\n",
		before.Goroutines, after.Goroutines, fds, u.fds(), before.HeapMB, after.HeapMB, after.Calls, time.Since(began).Seconds())
	b.atMost(bar+"-idle-failed", float64(failed), 0, "")
	b.atMost(bar+"-idle-goroutines", float64(after.Goroutines-before.Goroutines), 0, "")
	b.atMost(bar+"-idle-descriptors", float64(u.fds()-fds), 0, "")
	b.atMost(bar+"-idle-heap", after.HeapMB-before.HeapMB, heapSlack, "MB")
	return nil
}

// itoa is for arguments of commands.
func itoa(n int) string { return strconv.Itoa(n) }
