//go:build unix

package rtp

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"
)

// BenchmarkPacing measures how far packets leave from their schedule while the
// wheel turns as many calls in real time, both ways: -benchtime 500x is 10 s.
func BenchmarkPacing(b *testing.B) {
	for _, driver := range drivers() {
		for _, n := range []int{200, 500} {
			b.Run(fmt.Sprint(driver, "/", n), func(b *testing.B) { pace(b, driver, n, false) })
		}
	}
	b.Run("rtcp/500", func(b *testing.B) { pace(b, DriverAuto, 500, true) })
	b.Run("garbage/200", func(b *testing.B) {
		stop := litter()
		defer stop()
		pace(b, DriverAuto, 200, false)
	})
}

// litter keeps 200 MB alive and makes 100 MB of garbage a second until stop.
func litter() (stop func()) {
	live := make([][]*[64]byte, 200)
	for i := range live {
		live[i] = make([]*[64]byte, 1<<20/72)
		for j := range live[i] {
			live[i][j] = new([64]byte)
		}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-quit:
				return
			case <-tick.C:
				live[i%len(live)][0] = new([64]byte)
				for range 100 {
					garbage = make([]byte, 1000)
				}
			}
		}
	}()
	return func() { close(quit); <-done }
}

// garbage keeps the compiler from leaving the allocations out.
var garbage []byte

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func pace(b *testing.B, driver string, n int, reports bool) {
	w, err := NewWheel(local(driver))
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	all := loopback(b, w, n, b.N)
	if reports {
		agreeOnRTCP(b, all, false)
	}
	for _, q := range all {
		q.s.Join(q)
	}
	cpu := cpuTime()
	time.Sleep(time.Duration(b.N)*20*time.Millisecond + 40*time.Millisecond)
	cpu = cpuTime() - cpu
	for _, q := range all {
		q.s.Close()
	}
	var late []time.Duration
	for _, q := range all {
		late = append(late, q.late...)
	}
	slices.Sort(late)
	st := w.Stats()
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	b.ReportMetric(ms(late[len(late)/2]), "p50-ms")
	b.ReportMetric(ms(late[len(late)*99/100]), "p99-ms")
	b.ReportMetric(ms(late[len(late)-1]), "max-ms")
	b.ReportMetric(ms(st.LongestTurn), "longest-turn-ms")
	b.ReportMetric(float64(cpu.Microseconds())/float64(n)/(float64(b.N)*0.02), "µs/call-s")
	b.ReportMetric(float64(st.SkippedSlots), "skipped")
}
