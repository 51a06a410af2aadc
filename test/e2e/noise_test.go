package e2e

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"parley/test/phone"
)

// probe measures what the machine takes from this process: a goroutine that wants
// to run every 2 ms and notes how much later it did. What a test measures can be
// late for two reasons, the gateway or the machine; this tells them apart.
type probe struct {
	began time.Time
	stop  chan struct{}
	done  chan struct{}

	mu   sync.Mutex
	late []lateness
}

type lateness struct {
	due  time.Time
	late time.Duration
}

const (
	probeEvery = 2 * time.Millisecond
	// probeSlack is what a timer may be late on a quiet machine.
	probeSlack = 1500 * time.Microsecond
)

func newProbe(t *testing.T) *probe {
	p := &probe{began: time.Now(), stop: make(chan struct{}), done: make(chan struct{})}
	go p.run()
	t.Cleanup(func() {
		close(p.stop)
		<-p.done
	})
	return p
}

func (p *probe) run() {
	defer close(p.done)
	timer := time.NewTimer(probeEvery)
	for due := time.Now().Add(probeEvery); ; {
		select {
		case <-p.stop:
			return
		case <-timer.C:
		}
		now := time.Now()
		if late := now.Sub(due); late > probeSlack {
			p.mu.Lock()
			p.late = append(p.late, lateness{due, late})
			p.mu.Unlock()
		}
		for due = due.Add(probeEvery); due.Before(now); due = due.Add(probeEvery) {
		}
		timer.Reset(time.Until(due))
	}
}

// taken is how much of the time between two instants the machine gave to others.
func (p *probe) taken(from, to time.Time) (sum time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.late {
		begin, end := l.due, l.due.Add(l.late)
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		sum += max(0, end.Sub(begin))
	}
	return sum
}

// measure notes the time between two packets of a phone's capture.
func measure(f *figures, p *probe, on *phone.Phone, from, to time.Duration) {
	f.add(to-from, p.taken(on.Wall(from), on.Wall(to).Add(packet)))
}

// figures are measurements of one thing, and what of each the machine took.
type figures struct {
	mu    sync.Mutex
	raw   []time.Duration
	clean []time.Duration
}

func (f *figures) add(measured, taken time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.raw = append(f.raw, measured)
	f.clean = append(f.clean, measured-taken)
}

// quantile is the smallest figure that a share q of all does not exceed.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// bar is what figures are held against: at one quantile as they are, which is
// what callers notice, and in the middle without what the machine took, which is
// what a change of the code would move.
type bar struct {
	// p50 and high are the most that the figures may be; high is for the quantile q.
	p50, high time.Duration
	q         float64
	// usual is the most that the middle is when nothing has become worse.
	usual time.Duration
}

// slower says whether the middle of the figures shows that the code has become slower.
func (b bar) slower(clean []time.Duration) bool { return quantile(clean, 0.5) > b.usual }

// hold prints the figures and fails the test when they miss the bar. So that the
// bar is worth something, it also fails when 60 ms more would not have missed it, on a
// machine that is quiet enough to tell.
func (f *figures) hold(t *testing.T, name string, b bar) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Printf("%s, n %d: p50 %v, p90 %v, p95 %v, p99 %v, max %v; without what the machine took: p50 %v, p99 %v, max %v\n",
		name, len(f.raw), ms(quantile(f.raw, 0.5)), ms(quantile(f.raw, 0.9)), ms(quantile(f.raw, 0.95)), ms(quantile(f.raw, 0.99)), ms(quantile(f.raw, 1)),
		ms(quantile(f.clean, 0.5)), ms(quantile(f.clean, 0.99)), ms(quantile(f.clean, 1)))
	line := func(q float64, most time.Duration) {
		got, verdict := quantile(f.raw, q), "met"
		if got > most {
			verdict = "missed"
		}
		fmt.Printf("BAR %s p%.0f %v <= %v %s\n", name, 100*q, ms(got), most, verdict)
		// Only what the machine did not take counts against the gateway.
		if got := quantile(f.clean, q); got > most && !raced {
			t.Errorf("%s: p%.0f is %v, want at most %v", name, 100*q, ms(got), most)
		}
	}
	line(0.5, b.p50)
	line(b.q, b.high)
	if raced {
		return // the race detector slows everything: only what is right counts
	}
	if b.slower(f.clean) {
		t.Errorf("%s: p50 is %v without what the machine took, usually at most %v: something became slower", name, ms(quantile(f.clean, 0.5)), b.usual)
	}
	if quantile(f.raw, 0.5)-quantile(f.clean, 0.5) > blurred {
		fmt.Printf("%s: the machine took too much to tell 60 ms from it\n", name)
		return
	}
	worse := slices.Clone(f.clean)
	for i := range worse {
		worse[i] += 60 * time.Millisecond
	}
	if !b.slower(worse) {
		t.Errorf("%s: 60 ms more would not have been noticed", name)
	}
}

// blurred is how much a machine may take of the middle of the figures until what is left of
// them says little.
const blurred = 20 * time.Millisecond

// ms is d for reading.
func ms(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
